//! Figures as a table for people and as JSON for programs.

use std::io::{self, Write as _};

use manyway_chart::{Align, Table};
use serde_json::{Value, json};

/// A goal, and its unit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal {
    /// At least this much.
    AtLeast(f64, &'static str),
    /// At most this much.
    AtMost(f64, &'static str),
}

impl Goal {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least, _) => value >= least,
            Self::AtMost(most, _) => value <= most,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::AtLeast(_, unit) | Self::AtMost(_, unit) => unit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least, unit) => format!("≥ {} {unit}", number(least)),
            Self::AtMost(most, unit) => format!("≤ {} {unit}", number(most)),
        }
    }
}

/// The results of the runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Measured {
    /// The median, the least and the greatest value.
    Values { median: f64, least: f64, greatest: f64 },
    /// It cannot be measured here.
    Impossible(String),
}

impl Measured {
    /// Sums the values of the runs up.
    pub(super) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(least), Some(greatest)) = (values.first(), values.last()) else {
            return Self::Impossible("no run gave a value".to_owned());
        };
        let upper = values.get(values.len() / 2).unwrap_or(greatest);
        let lower = values.get((values.len() - 1) / 2).unwrap_or(least);
        Self::Values { median: f64::midpoint(*upper, *lower), least: *least, greatest: *greatest }
    }
}

/// All figures of a call.
#[derive(Default)]
pub(super) struct Report {
    lines: Vec<Line>,
}

/// A figure with its results.
pub(super) struct Line {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Its description, for people.
    pub(super) what: &'static str,
    pub(super) goal: Goal,
    /// The command or scenario that measures it.
    pub(super) how: String,
    pub(super) measured: Measured,
}

impl Report {
    /// Adds a figure.
    pub(super) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Whether every figure was measured and reaches its goal.
    pub(super) fn is_good(&self) -> bool {
        self.lines.iter().all(|line| line.verdict() == Verdict::Reached)
    }

    /// A table, and below it how each figure is measured.
    pub(super) fn print_table(&self) -> io::Result<()> {
        let mut table = Table::new([
            ("figure", Align::Left),
            ("goal", Align::Left),
            ("median", Align::Right),
            ("least to greatest", Align::Right),
            ("", Align::Left),
            ("what", Align::Left),
        ]);
        for line in &self.lines {
            let (median, spread) = line.numbers();
            let verdict = line.verdict().word().to_owned();
            table.row([
                line.name.to_owned(),
                line.goal.text(),
                median,
                spread,
                verdict,
                line.what.to_owned(),
            ]);
        }
        let mut out = io::stdout().lock();
        write!(out, "{table}")?;
        for line in &self.lines {
            writeln!(out, "\n{}: {}", line.name, line.how)?;
            if let Measured::Impossible(reason) = &line.measured {
                writeln!(out, "  not measured: {reason}")?;
            }
        }
        out.flush()
    }

    /// One JSON document.
    pub(super) fn print_json(&self) -> io::Result<()> {
        let figures: Vec<_> = self.lines.iter().map(Line::to_json).collect();
        let mut out = io::stdout().lock();
        writeln!(out, "{}", json!({ "figures": figures, "good": self.is_good() }))?;
        out.flush()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    Missed,
    NotMeasured,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Line {
    fn verdict(&self) -> Verdict {
        match &self.measured {
            Measured::Values { median, .. } if self.goal.is_reached(*median) => Verdict::Reached,
            Measured::Values { .. } => Verdict::Missed,
            Measured::Impossible(_) => Verdict::NotMeasured,
        }
    }

    fn numbers(&self) -> (String, String) {
        match &self.measured {
            Measured::Values { median, least, greatest } => (
                format!("{} {}", number(*median), self.goal.unit()).trim_end().to_owned(),
                format!("{} to {}", number(*least), number(*greatest)),
            ),
            Measured::Impossible(_) => ("-".to_owned(), "-".to_owned()),
        }
    }

    fn to_json(&self) -> Value {
        let mut value = json!({
            "name": self.name, "what": self.what, "how": self.how, "unit": self.goal.unit(),
            "goal": self.goal.text().trim_end(), "verdict": self.verdict().word(),
        });
        let facts = match &self.measured {
            Measured::Values { median, least, greatest } => {
                json!({ "median": median, "least": least, "greatest": greatest })
            }
            Measured::Impossible(reason) => json!({ "reason": reason }),
        };
        if let (Some(value), Value::Object(facts)) = (value.as_object_mut(), facts) {
            value.extend(facts);
        }
        value
    }
}

/// Three significant digits.
fn number(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        let values = |values: &[f64]| match Measured::new(values.to_vec()) {
            Measured::Values { median, least, greatest } => [median, least, greatest],
            Measured::Impossible(reason) => panic!("{reason}"),
        };
        assert_eq!(values(&[3.0, 1.0, 2.0]).map(number), ["2.000", "1.000", "3.000"]);
        assert_eq!(values(&[4.0, 1.0, 2.0, 300.0]).map(number), ["3.000", "1.000", "300"]);
        assert!(matches!(Measured::new(Vec::new()), Measured::Impossible(_)));
    }

    #[test]
    fn a_goal_includes_its_limit() {
        assert!(Goal::AtLeast(0.9, "").is_reached(0.9) && !Goal::AtLeast(0.9, "").is_reached(0.89));
        assert!(Goal::AtMost(3.0, "s").is_reached(3.0) && !Goal::AtMost(3.0, "s").is_reached(3.1));
    }
}
