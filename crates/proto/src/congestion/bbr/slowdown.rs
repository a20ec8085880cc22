//! Detects that a path has become much slower, before two cycles have passed.
//!
//! In a long queue a slow path loses nothing, and each round trip lasts as long as the queue. The draft forgets the
//! old bandwidth after two cycles. These take so many such round trips that ProbeRTT may interrupt each of them, and
//! then they never complete. So a second of full windows with a rate far below the bandwidth suffices.

use std::time::Duration;

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

/// The sender and its path at the end of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundState {
    pub(super) now: Instant,
    /// Number of the round.
    pub(super) round: u64,
    pub(super) bandwidth: Rate,
    /// Whether the sender filled its window and the path, without a bound from losses.
    pub(super) is_full: bool,
}

impl Slowdown {
    pub(super) fn on_ack(&mut self, delivery_rate: Option<Rate>) {
        self.best = self.best.max(delivery_rate.unwrap_or_default());
    }

    /// When the bandwidth was last lowered.
    pub(super) fn lowered(&self) -> Instant {
        self.lowered
    }

    /// Ends a round. Returns the delivery rate if it has been far below the bandwidth for long, unless the last
    /// lowering did not help.
    pub(super) fn end_round(&mut self, state: &RoundState, has_helped: bool) -> Option<Rate> {
        let RoundState { now, round, bandwidth, is_full } = *state;
        let best = std::mem::take(&mut self.best);
        if !is_full || best >= bandwidth.scaled(MUCH.0, MUCH.1) {
            self.low = None;
            return None;
        }
        let Some(low) = &mut self.low else {
            // The rates of the first round may still be in transition.
            self.low = Some(Low { since: now, round, best: Rate::ZERO });
            return None;
        };
        low.best = low.best.max(best);
        let Low { since, round: first, best } = *low;
        if now - since < TIME || round - first < ROUNDS || !has_helped {
            return None;
        }
        *self = Self { lowered: now, ..Self::default() };
        Some(best)
    }
}
