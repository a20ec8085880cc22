//! The flows of a run whose goodput counts.

use crate::outcome::{Flow, Outcome};
use crate::scenario::{Direction, Ending, Scenario, Traffic};

/// A flow whose goodput counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted<'a> {
    pub(crate) flow: &'a Flow,
    /// Whether it is bulk traffic that lasts as long as the run.
    pub(super) lasts: bool,
}

/// The flows whose goodput counts: bulk traffic, or messages if there is nothing else.
pub(crate) fn counted<'a>(scenario: &Scenario, outcome: &'a Outcome) -> Vec<Counted<'a>> {
    let traffic = scenario.traffic.iter().flat_map(|traffic| {
        std::iter::repeat_n(traffic, if traffic.direction() == Direction::Both { 2 } else { 1 })
    });
    let flows = outcome.flows.iter().zip(traffic).map(|(flow, traffic)| {
        let lasts = match traffic {
            Traffic::Bulk { size: None, .. } => true,
            // What has not arrived by the end goes on until then.
            Traffic::Bulk { size: Some(size), .. } => {
                scenario.ending == Ending::OnTime && flow.arrivals.total() < *size
            }
            Traffic::Messages { .. } => false,
        };
        Counted { flow, lasts }
    });
    let (bulk, messages): (Vec<_>, Vec<_>) = flows.partition(|one| one.flow.latencies.is_none());
    if bulk.is_empty() { messages } else { bulk }
}
