//! Startup: the initial search for the bandwidth, how it ends, and the draining of its queue.

use super::Bbr;
use super::state::State;
use crate::{ByteCount, Instant};

/// Round trips after which Drain ends in any case.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    /// The pipe is far from full: so much is missing that doubling finds it sooner than steps of a quarter.
    pub(super) fn begin_startup(&mut self) {
        self.full_pipe.restart(self.bandwidth.get());
        self.full_pipe.set_reached(false);
        self.usage.forget_least_rate();
        self.cycle.forget_probe();
        self.state = State::Startup;
    }

    /// `CheckStartupDone`
    pub(super) fn leave_startup(&mut self) {
        if self.state != State::Startup {
            return;
        }
        if self.signals.ended_in_great_excess() {
            self.full_pipe.set_reached(true);
            self.bounds.flight = self.product(100).max(self.signals.flight);
            self.undo.on_left_startup();
        }
        if self.full_pipe.is_reached() {
            // A rate that occurred only once was a burst from a shaper's bucket.
            let was_policed = self.lost_much();
            let was_burst = was_policed || self.full_pipe.last() < self.bandwidth.get().scaled(1, 2);
            if self.full_pipe.is_reached_now() && was_burst {
                self.bandwidth.lower(self.full_pipe.last());
                if let Some(policer) = self.policer.as_mut().filter(|_| was_policed) {
                    policer.begin_trial();
                }
            }
            self.state = State::Drain { since_round: self.rounds.count() };
        }
    }

    /// `CheckDrainDone`
    pub(super) fn leave_drain(&mut self, now: Instant, in_flight: ByteCount) {
        let State::Drain { since_round } = self.state else { return };
        if in_flight <= self.flight_for(self.rate()) || self.rounds.count() > since_round + DRAIN_ROUNDS {
            self.begin_down(now);
        }
    }
}
