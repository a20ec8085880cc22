//! The bandwidth of the path, and the round trips in which its age is counted.

use super::AckSample;
use crate::{ByteCount, Rate};

/// The rate of a path varies if a round of this or the last cycle delivered less than this part of the bandwidth.
const WANDERS: (u64, u64) = (3, 4);
/// The first rounds of the phase cruise still measure how a queue was drained before.
const DRAINED: u8 = 2;

/// Round trips counted by what was delivered (`BBR.round_count`): one ends when a packet arrives that left after it
/// began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    count: u64,
    /// What had been delivered when this one began: a packet that left later knows of as much.
    end: ByteCount,
    delivered: ByteCount,
    has_begun: bool,
    /// How many in a row ended in the phase cruise.
    calm: u8,
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

    /// Counts the rounds that are spent in the phase cruise.
    pub(super) fn note_cruise(&mut self, is_cruise: bool) {
        if !is_cruise {
            self.calm = 0;
        } else if self.has_begun {
            self.calm = self.calm.saturating_add(1);
        }
    }

    /// Whether the round that ended lay in the phase cruise from its beginning.
    pub(super) fn was_calm(&self) -> bool {
        self.calm > 1
    }

    /// Whether what it measured was sent then, too, and not while a queue was drained before.
    pub(super) fn was_drained(&self) -> bool {
        self.calm > DRAINED
    }

    /// What had been delivered when this one began.
    pub(super) fn delivered_before(&self) -> ByteCount {
        self.end
    }

    pub(super) fn delivered(&self) -> ByteCount {
        self.delivered
    }

    pub(super) fn set_delivered(&mut self, delivered: ByteCount) {
        self.delivered = delivered;
    }
}

/// The largest delivery rate of the present and the previous cycle of probing (`BBR.max_bw`).
///
/// Once the pipe is full, that of a round is the mean of its samples. Of some hundred samples in a cycle the largest one is
/// well above what the path carries where round trips vary by chance, and the queue would grow until the window is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
    round: RoundRate,
    /// The largest sample of a search for more that is on: what it finds, it goes on from at once.
    found: Rate,
    /// The smallest rate of a round in this cycle and in the last one; the largest there is without one.
    least: [Rate; 2],
}

/// What samples are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The pipe was never full: each may be the first to show it.
    Startup,
    /// To look for more.
    Search,
    /// To know what the path carries.
    Steady,
}

/// The samples of a round.
#[derive(Debug, Clone, Copy, Default)]
struct RoundRate {
    mean: Rate,
    samples: u32,
}

impl RoundRate {
    fn add(&mut self, rate: Rate) {
        self.samples = self.samples.saturating_add(1);
        let (mean, samples) = (self.mean.bytes_per_second(), u64::from(self.samples));
        let mean = if rate >= self.mean {
            mean + (rate.bytes_per_second() - mean) / samples
        } else {
            mean - (mean - rate.bytes_per_second()) / samples
        };
        self.mean = Rate::from_bytes_per_second(mean);
    }
}

impl Default for MaxBandwidth {
    fn default() -> Self {
        Self {
            previous: Rate::ZERO,
            current: Rate::ZERO,
            round: RoundRate::default(),
            found: Rate::ZERO,
            least: [Rate::MAX; 2],
        }
    }
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> Rate {
        self.previous.max(self.current).max(self.found)
    }

    /// Ends a round, and returns its mean rate; zero if nothing was measured in it. `is_steady` if the path alone decided
    /// what arrived.
    pub(super) fn end_round(&mut self, is_steady: bool) -> Rate {
        let RoundRate { mean, .. } = std::mem::take(&mut self.round);
        self.current = self.current.max(mean);
        if mean > Rate::ZERO && is_steady {
            let [least, _] = &mut self.least;
            *least = mean.min(*least);
        }
        mean
    }

    /// A sample that the application limited says only that the path carries at least so much.
    pub(super) fn on_ack(&mut self, sample: &AckSample, purpose: Purpose) {
        let Some(rate) = sample.delivery_rate else { return };
        if sample.app_limited && rate < self.get() {
            return;
        }
        match purpose {
            Purpose::Startup => self.current = self.current.max(rate),
            Purpose::Search => {
                self.found = self.found.max(rate);
                self.round.add(rate);
            }
            Purpose::Steady => {
                self.found = Rate::ZERO;
                self.round.add(rate);
            }
        }
    }

    /// Whether the rate of the path changes from one round to another by more than its searches do.
    pub(super) fn wanders(&self) -> bool {
        let [this, last] = self.least;
        this.min(last) < self.get().scaled(WANDERS.0, WANDERS.1)
    }

    /// The path carries less than it did.
    pub(super) fn lower(&mut self, rate: Rate) {
        *self = Self { current: rate, ..Self::default() };
    }

    /// The path became slower by itself, so its rate varies.
    pub(super) fn note_fall(&mut self) {
        self.least = [Rate::ZERO, Rate::MAX];
    }

    /// The next cycle begins; one without a measurement does not count.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            let [least, _] = self.least;
            *self = Self { previous: self.current, current: Rate::ZERO, least: [Rate::MAX, least], ..*self };
        }
    }
}
