//! The command line of `shape`.

pub(super) const USAGE: &str = "usage: cargo run -p xtask -- shape [--json] [--against REVISION]";

/// The output to print.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// JSON instead of tables.
    pub(super) json: bool,
    /// A revision whose figures are printed beside those of the working tree.
    pub(super) against: Option<String>,
}

impl Options {
    /// Parses arguments; the error lists the valid ones.
    pub(super) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--json" => options.json = true,
                "--against" => {
                    // An argument that begins with a dash would be an option of git.
                    let revision = arguments.next().filter(|revision| !revision.starts_with('-'));
                    options.against = Some(revision.ok_or("--against wants a revision")?);
                }
                other => return Err(format!("{other}: not known; {USAGE}")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_checked() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(str::to_owned));
        assert_eq!(parse(""), Ok(Options::default()));
        let both = Options { json: true, against: Some("HEAD~1".to_owned()) };
        assert_eq!(parse("--against HEAD~1 --json"), Ok(both));
        for wrong in ["now", "--against", "--against --json"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
