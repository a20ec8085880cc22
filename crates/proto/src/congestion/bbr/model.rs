//! The bandwidth of the path, and the rounds in which its age is counted.

use super::AckSample;
use crate::{ByteCount, Rate};

/// The rate of a path varies if a round of this or the last cycle delivered less than this part of the bandwidth.
const WANDERS: (u64, u64) = (3, 4);
/// The first rounds of the phase cruise still measure how the queue was drained before.
const DRAINED: u8 = 2;

/// Round trips counted by deliveries (`BBR.round_count`): a round ends when a packet arrives that was sent after its
/// start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    count: u64,
    /// Bytes delivered when this round began: a later packet carries at least this count.
    end: ByteCount,
    delivered: ByteCount,
    has_begun: bool,
    /// Number of consecutive rounds in the phase cruise.
    cruise_rounds: u8,
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

    /// Starts a round now (`StartRound`).
    pub(super) fn begin(&mut self) {
        self.end = self.delivered;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Whether a round started with the last acknowledgement (`BBR.round_start`).
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Counts the rounds in the phase cruise.
    pub(super) fn note_cruise(&mut self, is_cruise: bool) {
        if !is_cruise {
            self.cruise_rounds = 0;
        } else if self.has_begun {
            self.cruise_rounds = self.cruise_rounds.saturating_add(1);
        }
    }

    /// Whether the whole round that ended was in the phase cruise.
    pub(super) fn was_cruise(&self) -> bool {
        self.cruise_rounds > 1
    }

    /// Whether its packets were sent in that phase too, and not while a queue was drained before.
    pub(super) fn was_drained(&self) -> bool {
        self.cruise_rounds > DRAINED
    }

    /// Bytes delivered when this round began.
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

/// The largest delivery rate of the present and the previous probing cycle (`BBR.max_bw`).
///
/// Once the pipe is full, the rate of a round is the mean of its samples. On a path with jitter, the largest of some
/// hundred samples in a cycle is well above the bandwidth, and the queue would grow until the window is full.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
    round: RoundRate,
    /// The largest sample of a bandwidth probe in progress, which takes effect at once.
    found: Rate,
    /// The smallest rate of a round in this cycle and in the last one; the largest rate if there is none.
    least: [Rate; 2],
}

/// The purpose of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The pipe was never full: any sample may be the first to show the bandwidth.
    Startup,
    /// To find more bandwidth.
    Search,
    /// To measure the known bandwidth.
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

    /// Ends a round, and returns its mean rate; zero if it had no samples. `is_steady` if the path alone determined
    /// the deliveries.
    pub(super) fn end_round(&mut self, is_steady: bool) -> Rate {
        let RoundRate { mean, .. } = std::mem::take(&mut self.round);
        self.current = self.current.max(mean);
        if mean > Rate::ZERO && is_steady {
            let [least, _] = &mut self.least;
            *least = mean.min(*least);
        }
        mean
    }

    /// An application-limited sample is only a lower bound of the bandwidth.
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

    /// Whether the rate of the path changes between rounds by more than bandwidth probes do.
    pub(super) fn wanders(&self) -> bool {
        let [this, last] = self.least;
        this.min(last) < self.get().scaled(WANDERS.0, WANDERS.1)
    }

    /// The bandwidth of the path has fallen.
    pub(super) fn lower(&mut self, rate: Rate) {
        *self = Self { current: rate, ..Self::default() };
    }

    /// The path became slower by itself, so its rate varies.
    pub(super) fn note_fall(&mut self) {
        self.least = [Rate::ZERO, Rate::MAX];
    }

    /// The next cycle begins; a cycle without a sample does not count.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            let [least, _] = self.least;
            *self = Self { previous: self.current, current: Rate::ZERO, least: [Rate::MAX, least], ..*self };
        }
    }
}
