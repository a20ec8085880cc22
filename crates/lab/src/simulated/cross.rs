//! What arrives of the traffic of others.

use std::time::Duration;

use super::stage::Stage;
use crate::outcome::Arrivals;
use crate::scenario::Scenario;

/// The record of all flows.
#[derive(Debug)]
pub(super) struct CrossRecord {
    /// For each entry of the scenario.
    arrivals: Vec<Arrivals>,
    /// For each flow its entry, its number in it, and the bytes that were recorded.
    flows: Vec<(usize, usize, u64)>,
}

impl CrossRecord {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let entries = || scenario.cross_traffic.iter().enumerate();
        let flows = entries().flat_map(|(entry, traffic)| {
            let numbers = 0..usize::try_from(traffic.count).unwrap_or(0);
            numbers.map(move |number| (entry, number, 0))
        });
        Self { arrivals: entries().map(|_| Arrivals::default()).collect(), flows: flows.collect() }
    }

    /// Records what has arrived since the last call.
    pub(super) fn note(&mut self, at: Duration, stage: &Stage) {
        for (flow, (entry, number, recorded)) in self.flows.iter_mut().enumerate() {
            let received = stage.cross_received(flow);
            if received > *recorded
                && let Some(arrivals) = self.arrivals.get_mut(*entry)
            {
                arrivals.record_on(*number, at, received - *recorded);
                *recorded = received;
            }
        }
    }

    pub(super) fn into_arrivals(self) -> Vec<Arrivals> {
        self.arrivals
    }
}
