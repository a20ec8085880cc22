//! How contenders that run at the same time share their links.

use std::fmt::Write as _;
use std::time::Duration;

use manyway_chart::{Align, Table};
use serde::Serialize;

use crate::measures::{Spread, megabits};
use crate::outcome::Outcome;
use crate::{Contender, Scenario};

/// This first part of a run is left out: flows that begin together need a while to find their shares.
const SETTLING: u32 = 4;

/// The share of one of several contenders.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Name of the contender.
    pub contender: String,
    /// Goodput of the last three quarters of each run, in Mbit/s.
    pub goodput: Spread,
    /// The same over that of the last contender in the same run.
    pub of_last: Spread,
    /// Goodput of each second from the beginning, in Mbit/s: medians of the runs.
    pub over_time: Vec<f64>,
}

/// Summarises runs in which the contenders, in this order, ran at the same time. Runs with a failure do not count;
/// `None` if none is left.
pub fn shares(scenario: &Scenario, contenders: &[Contender], runs: &[Vec<Outcome>]) -> Option<Vec<Share>> {
    let sound = || runs.iter().filter(|run| run.iter().all(|outcome| outcome.failure.is_none()));
    let share = |(place, contender): (usize, &Contender)| {
        let got =
            |run: &Vec<Outcome>| run.get(place).map_or(0.0, |outcome| goodput(scenario.duration, outcome));
        let of_last = |run: &Vec<Outcome>| {
            let last = run.last().map_or(0.0, |last| goodput(scenario.duration, last));
            if last > 0.0 { got(run) / last } else { f64::INFINITY }
        };
        Some(Share {
            contender: contender.to_string(),
            goodput: Spread::of(sound().map(got))?,
            of_last: Spread::of(sound().map(of_last))?,
            over_time: over_time(scenario.duration, || sound().filter_map(|run| run.get(place))),
        })
    };
    contenders.iter().enumerate().map(share).collect()
}

fn goodput(duration: Duration, outcome: &Outcome) -> f64 {
    between(outcome, duration / SETTLING, duration)
}

/// Mbit/s of all flows together from one moment to another.
fn between(outcome: &Outcome, from: Duration, until: Duration) -> f64 {
    outcome.flows.iter().map(|flow| megabits(flow.arrivals.rate(from, until))).sum()
}

fn over_time<'a, I: Iterator<Item = &'a Outcome>>(duration: Duration, runs: impl Fn() -> I) -> Vec<f64> {
    let of_second = |second| {
        let from = Duration::from_secs(second);
        Spread::of(runs().map(|run| between(run, from, from + Duration::from_secs(1))))
    };
    (0..duration.as_secs()).filter_map(of_second).map(|spread| spread.median).collect()
}

/// The shares for people.
pub fn text(shares: &[Share]) -> String {
    let mut table = Table::new([
        ("who, all at once", Align::Left),
        ("Mbit/s", Align::Right),
        ("least–most", Align::Right),
        ("of the last", Align::Right),
        ("least–most", Align::Right),
    ]);
    let range = |spread: &Spread| {
        if spread.count > 1 { format!("{:.2}–{:.2}", spread.least, spread.most) } else { String::new() }
    };
    for Share { contender, goodput, of_last, .. } in shares {
        table.row([
            contender.clone(),
            format!("{:.2}", goodput.median),
            range(goodput),
            format!("{:.2}", of_last.median),
            range(of_last),
        ]);
    }
    let sum: f64 = shares.iter().map(|share| share.goodput.median).sum();
    let mut text = table.to_string();
    let _ = writeln!(text, "{sum:.2} Mbit/s together");
    text
}

#[cfg(test)]
mod tests {
    use manyway_sim::pair::Side;

    use super::*;
    use std::collections::BTreeMap;

    use crate::outcome::{Arrivals, Flow};
    use crate::scenario::Library;

    fn outcome(bytes_in_ten_millis: u64, failure: Option<&str>) -> Outcome {
        let mut arrivals = Arrivals::default();
        for place in 0..400 {
            // Data of the first quarter does not count.
            let bytes = if place < 100 { 77 } else { bytes_in_ten_millis };
            arrivals.record(Duration::from_millis(10 * place), bytes);
        }
        Outcome {
            flows: vec![Flow { receiver: Side::Server, arrivals, latencies: None, missing: 0, overtaken: 0 }],
            routes: Vec::new(),
            delivery: None,
            control: Vec::new(),
            set_up: None,
            cpu: None,
            cross: Vec::new(),
            ended: Vec::new(),
            told: BTreeMap::new(),
            failure: failure.map(str::to_owned),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn each_is_compared_with_the_last_contender_of_the_same_run() {
        let scenario = Library::builtin().unwrap().find("two-50").unwrap().remove(0);
        let scenario = scenario.with_duration(Duration::from_secs(4));
        let contenders: Vec<Contender> =
            ["manyway", "tcp-cubic"].iter().map(|name| name.parse().unwrap()).collect();
        let runs = vec![
            vec![outcome(2_500, None), outcome(1_250, None)],
            vec![outcome(1_250, None), outcome(2_500, None)],
            vec![outcome(1_250, None), outcome(1_250, None)],
            vec![outcome(9_999, None), outcome(1, Some("it broke down"))],
        ];
        let shares = shares(&scenario, &contenders, &runs).unwrap();
        assert_eq!(
            (shares[0].of_last.least, shares[0].of_last.median, shares[0].of_last.most),
            (0.5, 1.0, 2.0)
        );
        assert_eq!((shares[0].goodput.count, shares[0].goodput.median), (3, 1.0));
        assert_eq!((shares[0].over_time.len(), shares[0].over_time[3]), (4, 1.0));
        assert!(shares[0].over_time[0] < 0.1);
        assert_eq!((shares[1].of_last.least, shares[1].of_last.most), (1.0, 1.0));
        assert!(text(&shares).ends_with("2.00 Mbit/s together\n"), "{}", text(&shares));
        assert_eq!(super::shares(&scenario, &contenders, &runs[3..]), None);
    }
}
