//! The result of a campaign as a sentence, and the meaning of the words of its table.

use super::table::{self, Grid};
use crate::campaign::Results;

/// The result: for one case with the figures, for several with the range of the shares. `None` without Manyway.
pub(super) fn sentence(results: &Results) -> Option<String> {
    let cases = || 0..results.plan.cases.len();
    let median = |case: usize, name: &str| results.goodput(case, name).map(|spread| spread.median);
    let ran: Vec<usize> = cases().filter(|case| median(*case, MANYWAY).is_some()).collect();
    let against = |others: &dyn Fn(&str) -> bool| {
        let names = results.contenders();
        let best = |case: usize| {
            let figures = names.iter().filter(|name| others(name)).filter_map(|name| median(case, name));
            figures.max_by(f64::total_cmp)
        };
        let share =
            |case: &usize| Some(100.0 * median(*case, MANYWAY)? / best(*case).filter(|best| *best > 0.0)?);
        range(ran.iter().filter_map(share))
    };
    let what = match ran.as_slice() {
        [] => return None,
        [case] => format!("{:.1} Mbit/s", median(*case, MANYWAY)?),
        [..] => format!("data in {} cases", ran.len()),
    };
    let parts: Vec<String> = [
        against(&|name| name == POSSIBLE).map(|share| format!("{share} of what the links can carry")),
        against(&|name| name.starts_with("mptcp-")).map(|share| format!("{share} of the best multipath TCP")),
        against(&|name| name == BEST).map(|share| format!("{share} of its best single path")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    Some(format!("Manyway carried {what}{parts}."))
}

/// Explains the contenders and columns of the table, and no others.
pub(super) fn meanings(results: &Results, grid: &Grid) -> Vec<&'static str> {
    let rows = table::rows(results);
    let contenders = CONTENDERS.iter().filter(|(name, _)| rows.iter().any(|row| row.name == *name));
    let columns = COLUMNS.iter().filter(|(name, _)| grid.columns.iter().any(|(there, _)| there == name));
    contenders.chain(columns).map(|(_, meaning)| *meaning).collect()
}

fn range(shares: impl Iterator<Item = f64>) -> Option<String> {
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for share in shares {
        (least, most) = (least.min(share), most.max(share));
    }
    let [low, high] = [least, most].map(|share| format!("{share:.0}"));
    if !least.is_finite() {
        return None;
    }
    Some(if low == high { format!("{low} %") } else { format!("{low} to {high} %") })
}

const MANYWAY: &str = "manyway";
const POSSIBLE: &str = "possible";
const BEST: &str = "manyway-best";

const CONTENDERS: [(&str, &str); 2] = [
    (BEST, "manyway-best is Manyway over each route alone, one after the other; the fastest counts."),
    (
        POSSIBLE,
        "possible is a connection of the kernel's TCP on each route at once, added up: what the links can carry.",
    ),
];

const COLUMNS: [(&str, &str); 6] = [
    (
        "Mbit/s",
        "Mbit/s is what the receiving application got from the first to the last byte, the median of all repetitions.",
    ),
    ("stall", "Stall is the longest time without a byte."),
    ("used again", "Used again is how long a route that returned took until it carried a tenth of its rate."),
    (
        "recovery",
        "Recovery is how long it took after a loss or return until 85 % of what the working routes carry was reached.",
    ),
    ("CPU s/GB", "CPU s/GB is the processor time of both programs for each 10⁹ bytes that arrived."),
    ("message p50", "Lost messages count as infinite latency."),
];
