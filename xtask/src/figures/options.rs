//! The command line of `figures`.

use std::time::Duration;

/// What to measure, and how.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Runs of each measurement; default 5.
    pub(super) runs: u32,
    /// How long a run over links lasts; default 10 s.
    pub(super) time: Duration,
    /// JSON instead of a table.
    pub(super) json: bool,
    names: Vec<String>,
}

impl Options {
    /// Parses arguments; the error lists the valid ones.
    pub(super) fn parse(mut arguments: impl Iterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let mut options = Self { runs: 5, time: Duration::from_secs(10), json: false, names: Vec::new() };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--runs" => options.runs = number(arguments.next(), "--runs")?,
                "--seconds" => {
                    options.time = Duration::from_secs(number(arguments.next(), "--seconds")?.into());
                }
                name if known.contains(&name) => options.names.push(argument),
                other => {
                    return Err(format!(
                        "{other}: not known; usage: figures [--runs N] [--seconds N] [--json] [NAME…]\nNAME is one of {}",
                        known.join(", ")
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Whether a figure was requested; without names all are.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

fn number(argument: Option<String>, option: &str) -> Result<u32, String> {
    let number = argument.and_then(|text| text.parse().ok()).filter(|number| (1..=3600).contains(number));
    number.ok_or_else(|| format!("{option} wants a whole number from 1 to 3600"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_figures_and_options_are_checked() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(str::to_owned), &["a", "b"]);
        assert!(parse("").unwrap().wants("a"));
        let options = parse("--runs 3 b --seconds 2 --json").unwrap();
        assert!(options.wants("b") && !options.wants("a") && options.json);
        assert_eq!((options.runs, options.time), (3, Duration::from_secs(2)));
        for wrong in ["c", "--runs", "--runs 0", "--seconds x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
