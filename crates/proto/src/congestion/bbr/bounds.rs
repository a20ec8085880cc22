//! Bounds from congestion: the long-term bound from bandwidth probes, and the short-term ones from losses in between.

use super::losses::Signals;
use crate::{ByteCount, Rate};

/// `BBR.Beta` = 0.7: no round trip of losses reduces a bound further.
const BETA: (u64, u64) = (7, 10);
/// `BBR.Headroom` = 0.15: this part is left to other flows.
const HEADROOM: (u64, u64) = (15, 100);

/// The upper bounds of the model; the largest value means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bounds {
    /// `BBR.inflight_longterm`: the bytes in flight at which a bandwidth probe lost too much.
    pub(super) flight: ByteCount,
    /// `BBR.inflight_shortterm`
    pub(super) recent_flight: ByteCount,
    /// `BBR.bw_shortterm`
    pub(super) rate: Rate,
}

impl Bounds {
    pub(super) const UNLIMITED: Self =
        Self { flight: ByteCount::MAX, recent_flight: ByteCount::MAX, rate: Rate::MAX };

    /// Reduces the short-term bounds after a round trip with excessive loss, towards what was delivered in it.
    pub(super) fn shrink(&mut self, latest: &Signals, bandwidth: Rate, window: ByteCount) {
        let rate = self.rate.min(bandwidth).scaled(BETA.0, BETA.1);
        let flight = scaled(self.recent_flight.min(window), BETA);
        self.rate = latest.rate.max(rate);
        self.recent_flight = latest.flight.max(flight);
    }

    /// Forgets the events since the last bandwidth probe (`ResetShortTermModel`).
    pub(super) fn forget_recent(&mut self) {
        *self = Self { flight: self.flight, ..Self::UNLIMITED };
    }

    /// Whether losses since the last bandwidth probe bound the model.
    pub(super) fn has_recent(&self) -> bool {
        self.rate < Rate::MAX || self.recent_flight < ByteCount::MAX
    }

    /// A flight lost too much; at least β of `target`, the intended bytes in flight, remains.
    pub(super) fn limit_flight(&mut self, flight: ByteCount, target: ByteCount) {
        self.flight = flight.max(scaled(target, BETA));
    }

    /// The long-term bound less headroom for other flows (`InflightWithHeadroom`).
    pub(super) fn with_headroom(&self, datagram: ByteCount, least: ByteCount) -> ByteCount {
        if self.flight == ByteCount::MAX {
            return ByteCount::MAX;
        }
        (self.flight - scaled(self.flight, HEADROOM).max(datagram)).max(least)
    }

    /// Raises each bound to at least its earlier value.
    pub(super) fn restore(&mut self, before: Self) {
        self.flight = self.flight.max(before.flight);
        self.recent_flight = self.recent_flight.max(before.recent_flight);
        self.rate = self.rate.max(before.rate);
    }
}

fn scaled(bytes: ByteCount, (numerator, denominator): (u64, u64)) -> ByteCount {
    bytes / denominator * numerator + (bytes - bytes / denominator * denominator) * numerator / denominator
}
