//! ProbeRTT: drains the queue to measure the round trip without it.

use std::time::Duration;

use super::state::{DRAINED_GAIN, Dwell, Phase, State, VARYING_DRAINED_GAIN};
use super::{AckSample, Activity, Bbr, Subflow};
use crate::{ByteCount, Instant};

/// `BBR.ProbeRTTDuration`
const DURATION: Duration = Duration::from_millis(200);
/// The controller of a path waits at most this long for those of other paths.
const PATIENCE: Duration = Duration::from_secs(1);

impl Bbr {
    /// `CheckProbeRTT`
    pub(super) fn update_probe_rtt(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        let is_on = matches!(self.state, State::ProbeRtt(_));
        if !is_on && self.is_time_to_drain(sample.now, subflows) {
            self.kept_window = self.window;
            self.state = State::ProbeRtt(Dwell::default());
            self.cycle.stop();
            self.rounds.begin();
        }
        self.usage.end_restart();
        let State::ProbeRtt(mut dwell) = self.state else { return };
        if dwell.until.is_none() && sample.in_flight <= self.drained_window() {
            dwell = Dwell { until: Some(sample.now + DURATION), has_seen_round: false };
            self.rounds.begin();
        } else if dwell.until.is_some() && self.rounds.has_begun() {
            dwell.has_seen_round = true;
        }
        // The smallest round trip was measured again: no other flow keeps a queue that all would have to drain together.
        if dwell.until.is_some() && self.round_trip.due_since().is_none() {
            dwell = Dwell { until: Some(sample.now), has_seen_round: true };
        }
        self.state = State::ProbeRtt(dwell);
        if dwell.has_seen_round {
            self.leave_probe_rtt(sample.now);
        }
    }

    /// Two paths of a connection are not drained at the same time: the other one carries the data meanwhile.
    fn is_time_to_drain(&self, now: Instant, subflows: &[Subflow]) -> bool {
        let Some(due) = self.round_trip.due_since().filter(|_| !self.usage.is_restart()) else {
            return false;
        };
        let is_turn = !subflows.iter().any(|subflow| subflow.activity == Activity::Draining);
        is_turn || now > due + PATIENCE
    }

    /// `CheckProbeRTTDone`
    pub(super) fn leave_probe_rtt(&mut self, now: Instant) {
        let State::ProbeRtt(Dwell { until: Some(until), .. }) = self.state else { return };
        if now < until {
            return;
        }
        self.round_trip.on_drained(now);
        self.window = self.window.max(self.kept_window);
        self.bounds.forget_recent();
        if self.full_pipe.is_reached() {
            self.begin_down(now);
            // Few bytes are in flight already.
            self.state = State::ProbeBw(Phase::Cruise);
        } else {
            self.state = State::Startup;
        }
    }

    /// The window of ProbeRTT (`ProbeRTTCwnd`). A path that varies drains whenever its rate rises, and is drained more
    /// often, because its round trips differ: so less is given up for it.
    pub(super) fn drained_window(&self) -> ByteCount {
        let gain = if self.variation.is_on() { VARYING_DRAINED_GAIN } else { DRAINED_GAIN };
        self.product(gain).max(self.least_window())
    }
}
