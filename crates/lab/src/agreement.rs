//! Compares virtual time with reality: the same scenarios and the same contender, on real sockets and in the simulator.

use std::fmt::Write as _;

use manyway_chart::{Align, Table};
use serde::Serialize;

use crate::campaign::Results;
use crate::measures::{Measures, Spread, megabits};
use crate::report::describe_cross;

/// Largest difference of the medians of the goodput, as a share of that on real sockets.
pub const TOLERANCE: f64 = 0.05;

/// The same where others use the links, too: of what they get, and of what is left.
pub const CROSS_TOLERANCE: f64 = 0.1;

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
    /// The contender, or the entry of the traffic of others.
    pub who: String,
    /// Goodput on real sockets in Mbit/s.
    pub real: Spread,
    /// Goodput in virtual time in Mbit/s.
    pub simulated: Spread,
    /// The excess of virtual time over real sockets, as a share of the latter: of the medians.
    pub difference: f64,
    /// The largest that is accepted.
    pub tolerance: f64,
}

impl Agreement {
    /// Whether the difference is below the tolerance.
    pub fn holds(&self) -> bool {
        self.difference.abs() < self.tolerance
    }
}

/// Compares the first contender of each case in two campaigns with the same cases, and the traffic of others beside it.
/// The second list names cases that ran in only one of them.
pub fn compare(real: &Results, simulated: &Results) -> (Vec<Agreement>, Vec<String>) {
    let (mut compared, mut missing) = (Vec::new(), Vec::new());
    for (place, case) in real.plan.cases.iter().enumerate() {
        let scenario = &case.scenario;
        let tolerance = if scenario.cross_traffic.is_empty() { TOLERANCE } else { CROSS_TOLERANCE };
        let contender = case.contenders.first().map(ToString::to_string).unwrap_or_default();
        let mut compare = |who: String, figure: &dyn Fn(&Measures) -> Option<f64>| {
            let both = real.spread(place, 0, figure).zip(simulated.spread(place, 0, figure));
            let (real, simulated) = both?;
            let difference = simulated.median / real.median - 1.0;
            compared.push(Agreement { case: case.label(), who, real, simulated, difference, tolerance });
            Some(())
        };
        if compare(contender, &|measures| Some(measures.megabits())).is_none() {
            missing.push(case.label());
            continue;
        }
        for (entry, traffic) in scenario.cross_traffic.iter().enumerate() {
            let figure = |measures: &Measures| Some(megabits(measures.cross.get(entry)?.goodput));
            compare(describe_cross(scenario, traffic), &figure);
        }
    }
    (compared, missing)
}

/// The comparison for people.
pub fn text(compared: &[Agreement], missing: &[String]) -> String {
    let mut table = Table::new([
        ("scenario", Align::Left),
        ("who", Align::Left),
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
    let percent = |tolerance| format!("{:.0} %", tolerance * 100.0);
    let least = if compared.iter().any(|agreement| agreement.tolerance > TOLERANCE) {
        format!("{}, or {} beside traffic of others", percent(TOLERANCE), percent(CROSS_TOLERANCE))
    } else {
        percent(TOLERANCE)
    };
    let _ = writeln!(text, "{holding} of {all} differ by less than {least}");
    text
}

fn row(agreement: &Agreement) -> [String; 8] {
    let range = |spread: &Spread| {
        if spread.count > 1 { format!("{:.2}–{:.2}", spread.least, spread.most) } else { String::new() }
    };
    [
        agreement.case.clone(),
        agreement.who.clone(),
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
        Agreement {
            case: "two-50".into(),
            who: "manyway".into(),
            real: spread(real),
            simulated: spread(simulated),
            difference,
            tolerance: TOLERANCE,
        }
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
