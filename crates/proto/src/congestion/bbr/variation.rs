//! Detects that the rate of a path varies by itself, as that of a radio link does.
//!
//! On such a path the known bandwidth is that of the best recent round: often more than the path now delivers, and
//! often less. The first fills the queue up to the window. In the second the phase cruise sends less than the path
//! could deliver, and no queue shows it: only a bandwidth probe would, up to two seconds later. So while the rate
//! varies, cruise probes whenever no queue stands. Where the rate is fixed, that would only build a queue.
//!
//! Only a queue that stood for two whole rounds makes the mean rate of the second one that of the path. If it is then
//! clearly below the known bandwidth, or clearly above it in a probe, the path has changed. Rounds of few packets are
//! too short for a mean: on a slow path a quarter of them is one packet.

use std::time::Duration;

use crate::{ByteCount, Instant, Rate};

/// A round in cruise fell if it delivered less than this part of the bandwidth.
const FALL: (u64, u64) = (22, 25);
/// A round of a probe rose if it delivered more than this part of the bandwidth before the probe.
const RISE: (u64, u64) = (28, 25);
/// Fewest datagrams of a round that tells.
const DATAGRAMS: u64 = 24;
/// The rate counts as varying for this time after a fall or a rise.
const MEMORY: Duration = Duration::from_secs(10);

/// Whether the rate of the path varies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Variation {
    /// Bytes acknowledged in this round; more than fit are as good as these.
    bytes: u32,
    /// Whether the path was not the limit at some time in this round: no queue stood, the application had no data, or
    /// the sender was not in ProbeBW.
    has_slack: bool,
    /// Whether a queue stood throughout the last round.
    was_queued: bool,
    /// Exists while the rate varies.
    until: Option<Instant>,
}

/// What the bandwidth known so far says of the rate of a round.
#[derive(Debug, Clone, Copy)]
pub(super) enum Known {
    /// The round was wholly in cruise: it delivers this rate.
    Cruise(Rate),
    /// A probe began at this rate.
    Probe(Rate),
    /// Nothing.
    Unclear,
}

impl Known {
    fn differs(self, mean: Rate) -> bool {
        match self {
            Self::Cruise(rate) => mean < rate.scaled(FALL.0, FALL.1),
            Self::Probe(rate) => mean > rate.scaled(RISE.0, RISE.1),
            Self::Unclear => false,
        }
    }
}

impl Variation {
    /// Ends a round with its mean rate.
    pub(super) fn end_round(&mut self, now: Instant, mean: Rate, known: Known, datagram: ByteCount) {
        let Self { bytes, has_slack, was_queued, mut until } = *self;
        let is_queued = !has_slack && mean > Rate::ZERO;
        until.take_if(|until| now > *until);
        if is_queued && was_queued && u64::from(bytes) >= datagram.get() * DATAGRAMS && known.differs(mean) {
            until = Some(now + MEMORY);
        }
        *self = Self { was_queued: is_queued, until, ..Self::default() };
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
