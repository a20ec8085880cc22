//! The flows of a run whose goodput counts.

use std::time::Duration;

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

/// The flows of an entry of the traffic, by its index.
pub(crate) fn of_entry<'a>(
    scenario: &Scenario,
    outcome: &'a Outcome,
    entry: usize,
) -> impl Iterator<Item = &'a Flow> + use<'a> {
    let flows = |traffic: &Traffic| if traffic.direction() == Direction::Both { 2 } else { 1 };
    let before: usize = scenario.traffic.iter().take(entry).map(flows).sum();
    outcome.flows.iter().skip(before).take(scenario.traffic.get(entry).map_or(0, flows))
}

/// The longest silence of a flow that overlaps a time; until the end of the run for a flow that went silent before it.
pub(crate) fn silence_of(flow: &Flow, (from, to): (Duration, Duration), end: Duration) -> Duration {
    let last = flow.arrivals.span().map_or(Duration::ZERO, |(_, last)| last);
    let has_stalled = last < to && last.saturating_add(STALLED) < end;
    let tail = if has_stalled { end.saturating_sub(last) } else { Duration::ZERO };
    let touching = flow.arrivals.silences().iter();
    let overlapping = touching.filter(|silence| silence.from < to && silence.from + silence.length > from);
    overlapping.map(|silence| silence.length).max().unwrap_or_default().max(tail)
}

/// A flow that ends this long before the run has stalled.
pub(super) const STALLED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Arrivals;
    use crate::scenario::Side;

    fn flow(millis: impl IntoIterator<Item = u64>) -> Flow {
        let mut arrivals = Arrivals::default();
        millis.into_iter().for_each(|at| arrivals.record(Duration::from_millis(at), 100));
        Flow { receiver: Side::Client, arrivals, latencies: Some(Vec::new()), missing: 0, overtaken: 0 }
    }

    #[test]
    fn a_silence_belongs_to_every_time_that_it_overlaps() {
        let flow = flow([0, 100, 150, 950, 1_000, 1_020]);
        let within = |from, to| {
            let at = Duration::from_millis;
            silence_of(&flow, (at(from), at(to)), at(1_100)).as_millis()
        };
        assert_eq!(
            [within(0, 140), within(0, 160), within(400, 500), within(960, 1_100)],
            [100, 800, 800, 50]
        );
    }

    #[test]
    fn a_flow_that_never_speaks_again_is_silent_until_the_end() {
        let silence =
            |flow: &Flow| silence_of(flow, (Duration::ZERO, Duration::from_secs(5)), Duration::from_secs(6));
        assert_eq!(silence(&flow([0, 1_000])), Duration::from_secs(5));
        assert_eq!(silence(&flow([])), Duration::from_secs(6));
        assert_eq!(silence(&flow((0..6_000).step_by(20))), Duration::from_millis(20));
    }
}
