//! The goals of the project for rates over veth: shares of what another subject brings in the same run.

use serde::Serialize;

use super::{CpuReport, Subject};

/// Whose rate, of whose rate, at least.
const GOALS: [(Subject, Subject, f64); 4] = [
    (Subject::ManywayTcp, Subject::Manyway, 0.8),
    (Subject::Run, Subject::Manyway, 0.7),
    (Subject::Tunnel, Subject::Manyway, 0.6),
    (Subject::Manyway, Subject::Quinn, 2.0),
];

/// Whether the medians of a report reach a goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuVerdict {
    /// Whose rate is judged.
    pub subject: Subject,
    /// By whose rate it is divided.
    pub of: Subject,
    /// The least quotient that reaches the goal.
    pub least: f64,
    /// The quotient of the medians.
    pub share: f64,
    /// Whether it reaches the goal.
    pub holds: bool,
}

impl CpuReport {
    /// Judges the goals whose subjects were measured.
    pub fn verdicts(&self) -> Vec<CpuVerdict> {
        let rate = |wanted| self.rows.iter().find(|row| row.subject == wanted).map(|row| row.gigabits.median);
        let verdict = |(subject, of, least)| {
            let share = rate(subject)? / rate(of).filter(|rate| *rate > 0.0)?;
            Some(CpuVerdict { subject, of, least, share, holds: share >= least })
        };
        GOALS.into_iter().filter_map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cpu::CpuRow;
    use crate::measures::Spread;

    #[test]
    fn goals_are_judged_by_the_medians_of_what_was_measured() {
        let spread = |median| Spread::of(vec![median]).unwrap();
        let row = |(subject, rate)| CpuRow {
            subject,
            gigabits: spread(rate),
            sender: spread(1.0),
            receiver: spread(1.0),
            machine: spread(2.0),
            lost: 0.0,
        };
        let report = |rates: &[(Subject, f64)]| CpuReport {
            mtu: 1500,
            duration: Duration::from_secs(1),
            rows: rates.iter().copied().map(row).collect(),
            remarks: Vec::new(),
        };
        let all = report(&[
            (Subject::Manyway, 8.0),
            (Subject::Run, 5.7),
            (Subject::Tunnel, 4.7),
            (Subject::Quinn, 4.0),
            (Subject::Tcp, 40.0),
        ]);
        let holds: Vec<_> =
            all.verdicts().into_iter().map(|verdict| (verdict.subject, verdict.holds)).collect();
        assert_eq!(holds, [(Subject::Run, true), (Subject::Tunnel, false), (Subject::Manyway, true)]);
        assert!(report(&[(Subject::Run, 5.7), (Subject::Quinn, 4.0)]).verdicts().is_empty());
    }
}
