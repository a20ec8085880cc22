//! Detects that a path has become much slower, before two cycles have passed.
//!
//! In a long queue a slow path loses nothing, and each round trip lasts as long as the queue. The draft forgets the
//! old bandwidth after two cycles. These take so many such round trips that ProbeRTT may interrupt each of them, and
//! then they never complete. So a second of full windows with a rate far below the bandwidth suffices.

use std::time::Duration;

use super::{AckSample, Bbr, State};
use crate::{Instant, Rate};

/// Less than this part of the bandwidth is far below it.
const MUCH: (u64, u64) = (3, 4);
/// Least duration: a radio link often pauses for less.
const TIME: Duration = Duration::from_secs(1);
/// Least number of round trips.
const ROUNDS: u64 = 4;

/// How long the delivery rate has been far below the bandwidth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slowdown {
    /// The largest rate of this round trip.
    best: Rate,
    low: Option<Low>,
    /// When the bandwidth was last lowered. If that did not shorten the round trip, the route is long and not the
    /// queue.
    lowered: Instant,
}

impl Default for Slowdown {
    fn default() -> Self {
        Self { best: Rate::ZERO, low: None, lowered: Instant::from_nanos(0) }
    }
}

#[derive(Debug, Clone, Copy)]
struct Low {
    since: Instant,
    round: u64,
    /// The largest rate since the round after its start.
    best: Rate,
}

impl Bbr {
    /// Lowers the bandwidth to the delivery rate, if that has been far below it for long.
    pub(super) fn notice_slowdown(&mut self, sample: &AckSample) {
        self.slowdown.best = self.slowdown.best.max(sample.delivery_rate.unwrap_or_default());
        if !self.rounds.has_begun() {
            return;
        }
        let round = self.rounds.count();
        let best = std::mem::take(&mut self.slowdown.best);
        let is_low = best < self.bandwidth.get().scaled(MUCH.0, MUCH.1);
        let is_steady = matches!(self.state, State::ProbeBw(_)) && self.bounds.rate == Rate::MAX;
        let is_full = self.usage.is_window_full(round) && self.window >= self.product(100);
        if !is_low || !is_steady || !is_full || sample.app_limited {
            self.slowdown.low = None;
            return;
        }
        let Some(low) = &mut self.slowdown.low else {
            // The rates of the first round may still be in transition.
            self.slowdown.low = Some(Low { since: sample.now, round, best: Rate::ZERO });
            return;
        };
        low.best = low.best.max(best);
        let Low { since, round: first, best } = *low;
        let helped = self.round_trip.was_near_since(self.slowdown.lowered);
        if sample.now - since >= TIME && round - first >= ROUNDS && helped {
            self.bandwidth.lower(best);
            self.bandwidth.note_fall();
            self.slowdown = Slowdown { lowered: sample.now, ..Slowdown::default() };
        }
    }
}
