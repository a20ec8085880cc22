//! What congestion says the path bears: in the long term, from looking for more; in the short term, from losses in between.

use super::losses::Signals;
use crate::{ByteCount, Rate};

/// `BBR.Beta` = 0.7: no round trip of losses takes more away.
const BETA: (u64, u64) = (7, 10);
/// `BBR.Headroom` = 0.15: this part is left to others.
const HEADROOM: (u64, u64) = (15, 100);

/// The upper bounds of the model; the largest value is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    /// `BBR.inflight_longterm`: the flight that lost too much when more bandwidth was looked for.
    pub(super) flight: ByteCount,
    /// `BBR.inflight_shortterm`
    pub(super) recent_flight: ByteCount,
    /// `BBR.bw_shortterm`
    pub(super) rate: Rate,
}

impl Bounds {
    pub(super) const UNLIMITED: Self =
        Self { flight: ByteCount::MAX, recent_flight: ByteCount::MAX, rate: Rate::MAX };

    /// After a round trip that lost too much: towards what was delivered in it.
    pub(super) fn shrink(&mut self, latest: &Signals, bandwidth: Rate, window: ByteCount) {
        let rate = self.rate.min(bandwidth).scaled(BETA.0, BETA.1);
        let flight = scaled(self.recent_flight.min(window), BETA);
        self.rate = latest.rate.max(rate);
        self.recent_flight = latest.flight.max(flight);
    }

    /// What happened since the last search for bandwidth does not count any more (`ResetShortTermModel`).
    pub(super) fn forget_recent(&mut self) {
        *self = Self { flight: self.flight, ..Self::UNLIMITED };
    }

    /// A flight lost too much; of `target`, what was meant to be in flight, at least β stays.
    pub(super) fn limit_flight(&mut self, flight: ByteCount, target: ByteCount) {
        self.flight = flight.max(scaled(target, BETA));
    }

    /// The long-term bound with room left for others (`InflightWithHeadroom`).
    pub(super) fn with_headroom(&self, datagram: ByteCount, least: ByteCount) -> ByteCount {
        if self.flight == ByteCount::MAX {
            return ByteCount::MAX;
        }
        (self.flight - scaled(self.flight, HEADROOM).max(datagram)).max(least)
    }

    /// Each bound is at least what it was.
    pub(super) fn restore(&mut self, before: Self) {
        self.flight = self.flight.max(before.flight);
        self.recent_flight = self.recent_flight.max(before.recent_flight);
        self.rate = self.rate.max(before.rate);
    }
}

fn scaled(bytes: ByteCount, (numerator, denominator): (u64, u64)) -> ByteCount {
    bytes / denominator * numerator + (bytes - bytes / denominator * denominator) * numerator / denominator
}
