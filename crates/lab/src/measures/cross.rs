//! The figures of the traffic of others.

use std::time::Duration;

use manyway_proto::{ByteCount, Rate};

use super::flows::counted;
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// What an entry of the traffic of others got of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossFigures {
    /// Payload of all its flows that arrived over the time in which they ran, together.
    pub goodput: Rate,
    /// The same for the flow that got least.
    pub slowest: Rate,
    /// The same for the flow that got most.
    pub fastest: Rate,
    /// Goodput of the measured traffic over the same time.
    pub beside: Rate,
}

/// The figures of each entry, in the order of the scenario.
pub(super) fn figures(scenario: &Scenario, outcome: &Outcome) -> Vec<CrossFigures> {
    let measured = counted(scenario, outcome);
    let last = measured.iter().filter_map(|one| one.flow.arrivals.span()).map(|(_, last)| last).max();
    // Traffic with a size may end the run earlier.
    let over =
        if scenario.limit() == scenario.duration { scenario.duration } else { last.unwrap_or_default() };
    let entries = scenario.cross_traffic.iter().zip(&outcome.cross);
    let figures = entries.map(|(traffic, arrivals)| {
        let (from, until) = (traffic.at, traffic.end(scenario.limit()).min(over));
        let time = until.saturating_sub(from).max(Duration::from_millis(1));
        let flows: Vec<ByteCount> = arrivals.of_lanes().collect();
        let all_ran = flows.len() == usize::try_from(traffic.count).unwrap_or(usize::MAX);
        let least = flows.iter().min().filter(|_| all_ran).copied().unwrap_or_default();
        CrossFigures {
            goodput: arrivals.total().per(time),
            slowest: least.per(time),
            fastest: flows.iter().max().copied().unwrap_or_default().per(time),
            beside: measured.iter().map(|one| one.flow.arrivals.rate(from, until)).sum(),
        }
    });
    figures.collect()
}
