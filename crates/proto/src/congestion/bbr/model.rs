//! The bandwidth of the path, and the round trips in which its age is counted.

use super::AckSample;
use crate::{ByteCount, Rate};

/// Round trips counted by what was delivered (`BBR.round_count`): one ends when a packet arrives that left after it
/// began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    count: u64,
    /// What had been delivered when this one began: a packet that left later knows of as much.
    end: ByteCount,
    delivered: ByteCount,
    has_begun: bool,
}

impl Rounds {
    pub(super) fn on_ack(&mut self, sample: &AckSample) {
        self.delivered = sample.delivered;
        self.has_begun = sample.delivered_at_sent >= self.end;
        if self.has_begun {
            self.count += 1;
            self.begin();
        }
    }

    /// Begins one now (`StartRound`).
    pub(super) fn begin(&mut self) {
        self.end = self.delivered;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether one began with the last acknowledgement (`BBR.round_start`).
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(super) fn delivered(&self) -> ByteCount {
        self.delivered
    }

    pub(super) fn set_delivered(&mut self, delivered: ByteCount) {
        self.delivered = delivered;
    }
}

/// The largest delivery rate of the present and the previous cycle of probing (`BBR.max_bw`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> Rate {
        self.previous.max(self.current)
    }

    /// A sample that the application limited says only that the path carries at least so much.
    pub(super) fn on_ack(&mut self, sample: &AckSample) {
        let Some(rate) = sample.delivery_rate else { return };
        if !sample.app_limited || rate >= self.get() {
            self.current = self.current.max(rate);
        }
    }

    /// The path carries less than it did.
    pub(super) fn lower(&mut self, rate: Rate) {
        *self = Self { previous: Rate::ZERO, current: rate };
    }

    /// The next cycle begins; one without a measurement does not count.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            *self = Self { previous: self.current, current: Rate::ZERO };
        }
    }
}
