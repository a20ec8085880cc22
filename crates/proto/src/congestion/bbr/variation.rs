//! Detects that the rate of a path varies by itself, as that of a radio link does.
//!
//! On such a path the known bandwidth is that of the best recent round: often more than the path now delivers, and
//! often less. The first fills the queue up to the window. In the second the phase cruise sends less than the path
//! could deliver, and no queue shows it: only a bandwidth probe would, up to two seconds later. So while the rate
//! varies, cruise probes whenever no queue stands. Where the rate is fixed, that would only build a queue.
//!
//! Only a queue that stood for two whole rounds makes the mean rate of the second one that of the path, whatever was
//! sent. If that clearly differs from the rate of the path in the round before, it varies. Rounds of few packets are
//! too short for a mean: on a slow path a quarter of them is one packet.

use std::time::Duration;

use crate::{ByteCount, Instant, Rate};

/// A rate below this part of another one is clearly lower, ...
const LOWER: (u64, u64) = (22, 25);
/// and one above this part clearly higher.
const HIGHER: (u64, u64) = (28, 25);
/// Fewest datagrams of a round that tells.
const DATAGRAMS: u64 = 24;
/// The rate counts as varying for this time after such a change.
const MEMORY: Duration = Duration::from_secs(10);

/// Whether the rate of the path varies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Variation {
    /// Bytes acknowledged in this round; more than fit are as good as these.
    bytes: u32,
    /// Whether the path was not the limit at some time in this round: no queue stood, or the application had no data.
    has_slack: bool,
    /// Whether a queue stood throughout the last round.
    was_queued: bool,
    /// The rate of the path in the last round; zero if that round does not tell.
    last: Rate,
    /// Exists while the rate varies.
    until: Option<Instant>,
}

impl Variation {
    /// Ends a round with its mean rate.
    pub(super) fn end_round(&mut self, now: Instant, mean: Rate, datagram: ByteCount) {
        let Self { bytes, has_slack, was_queued, last, mut until } = *self;
        let is_queued = !has_slack && mean > Rate::ZERO;
        let is_long = u64::from(bytes) >= datagram.get() * DATAGRAMS;
        let rate = if is_queued && was_queued && is_long { mean } else { Rate::ZERO };
        let differs = rate < last.scaled(LOWER.0, LOWER.1) || rate > last.scaled(HIGHER.0, HIGHER.1);
        until.take_if(|until| now > *until);
        if rate > Rate::ZERO && last > Rate::ZERO && differs {
            until = Some(now + MEMORY);
        }
        *self = Self { was_queued: is_queued, last: rate, until, ..Self::default() };
    }

    /// Adds an acknowledgement to the present round.
    pub(super) fn on_ack(&mut self, bytes: ByteCount, has_slack: bool) {
        self.bytes = self.bytes.saturating_add(u32::try_from(bytes.get()).unwrap_or(u32::MAX));
        self.has_slack |= has_slack;
    }

    /// Whether the rate of the path varies.
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }
}
