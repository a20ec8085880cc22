//! Compares virtual time with reality: the same scenarios and the same contender, on real sockets and in the simulator.

use std::fmt::Write as _;

use manyway_chart::{Align, Table};
use serde::Serialize;

use crate::campaign::Results;
use crate::measures::{Measures, Spread};

/// Largest difference of the medians of the goodput, as a share of that on real sockets.
pub const TOLERANCE: f64 = 0.05;

/// The default scenarios: rates, delays, losses, jitter, queues and a failure, each alone.
pub const SCENARIOS: [&str; 10] = [
    "three-1",
    "two-50",
    "80-10",
    "rtt-10-100",
    "one-lossy",
    "wifi-lte",
    "long-queue",
    "black-hole",
    "jit-20",
    "flows-30-10",
];

/// A scenario on real sockets and in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The label of the case.
    pub case: String,
    /// Goodput on real sockets in Mbit/s.
    pub real: Spread,
    /// Goodput in virtual time in Mbit/s.
    pub simulated: Spread,
    /// The excess of virtual time over real sockets, as a share of the latter: of the medians.
    pub difference: f64,
}

impl Agreement {
    /// Whether the difference is below [`TOLERANCE`].
    pub fn holds(&self) -> bool {
        self.difference.abs() < TOLERANCE
    }
}

/// Compares the first contender of each case in two campaigns with the same cases. The second list names cases that ran
/// in only one of them.
pub fn compare(real: &Results, simulated: &Results) -> (Vec<Agreement>, Vec<String>) {
    let (mut compared, mut missing) = (Vec::new(), Vec::new());
    let goodput =
        |results: &Results, case| results.spread(case, 0, |measures: &Measures| Some(measures.megabits()));
    for (place, case) in real.plan.cases.iter().enumerate() {
        match (goodput(real, place), goodput(simulated, place)) {
            (Some(real), Some(simulated)) => {
                let difference = simulated.median / real.median - 1.0;
                compared.push(Agreement { case: case.label(), real, simulated, difference });
            }
            (Some(_), None) | (None, _) => missing.push(case.label()),
        }
    }
    (compared, missing)
}

/// The comparison for people.
pub fn text(compared: &[Agreement], missing: &[String]) -> String {
    let mut table = Table::new([
        ("scenario", Align::Left),
        ("sockets Mbit/s", Align::Right),
        ("least–most", Align::Right),
        ("virtual Mbit/s", Align::Right),
        ("least–most", Align::Right),
        ("difference", Align::Right),
        ("", Align::Left),
    ]);
    for agreement in compared {
        table.row(row(agreement));
    }
    let mut text = table.to_string();
    for case in missing {
        let _ = writeln!(text, "{case} did not run in both worlds");
    }
    let holding = compared.iter().filter(|agreement| agreement.holds()).count();
    let all = compared.len() + missing.len();
    let _ = writeln!(text, "{holding} of {all} differ by less than {:.0} %", TOLERANCE * 100.0);
    text
}

fn row(agreement: &Agreement) -> [String; 7] {
    let range = |spread: &Spread| {
        if spread.count > 1 { format!("{:.2}–{:.2}", spread.least, spread.most) } else { String::new() }
    };
    [
        agreement.case.clone(),
        format!("{:.2}", agreement.real.median),
        range(&agreement.real),
        format!("{:.2}", agreement.simulated.median),
        range(&agreement.simulated),
        format!("{:+.1} %", agreement.difference * 100.0),
        if agreement.holds() { String::new() } else { "too much".to_owned() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(real: f64, simulated: f64) -> Agreement {
        let spread = |value: f64| Spread::of([value]).unwrap();
        let difference = simulated / real - 1.0;
        Agreement { case: "two-50".into(), real: spread(real), simulated: spread(simulated), difference }
    }

    #[test]
    fn a_difference_of_five_per_cent_is_too_much_either_way() {
        assert!(agreement(100.0, 104.9).holds() && agreement(100.0, 95.1).holds());
        assert!(!agreement(100.0, 105.1).holds() && !agreement(100.0, 94.9).holds());
        // A connection that delivered nothing agrees with nothing.
        assert!(!agreement(0.0, 90.0).holds() && !agreement(0.0, 0.0).holds());
    }

    #[test]
    fn the_text_names_differences_and_missing_runs() {
        let text = text(&[agreement(90.0, 91.0), agreement(90.0, 70.0)], &["wifi-lte".to_owned()]);
        assert!(text.contains("+1.1 %") && text.contains("-22.2 %  too much"), "{text}");
        assert!(text.contains("wifi-lte did not run in both worlds"), "{text}");
        assert!(text.ends_with("1 of 3 differ by less than 5 %\n"), "{text}");
    }
}
