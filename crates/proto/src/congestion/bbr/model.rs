//! The bandwidth of the path, and the round trips in which its age is counted.

use super::AckSample;
use crate::{ByteCount, Rate};

/// A round that brings less than this part of the bandwidth, in two cycles, makes it a rate that wanders.
const WANDERS: (u64, u64) = (3, 4);
/// The first rounds of the phase cruise still measure how a queue was drained before.
const DRAINED: u32 = 2;

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
///
/// Once the pipe is full, that of a round is the mean of its samples. Of some hundred samples in a cycle the largest one is
/// well above what the path carries where round trips vary by chance, and the queue would grow until the window is full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxBandwidth {
    previous: Rate,
    current: Rate,
    round: RoundRate,
    /// The mean of the last round.
    last: Rate,
    /// The largest sample of a search for more that is on: what it finds, it goes on from at once.
    found: Rate,
    /// The smallest rate of a round in this cycle and in the last one; no rate, none.
    least: [Option<Rate>; 2],
    /// Rounds in a row that ended in the phase cruise.
    calm: u32,
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
    /// The same, while less is sent than it carries.
    Draining,
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

impl MaxBandwidth {
    pub(super) fn get(&self) -> Rate {
        self.previous.max(self.current).max(self.found)
    }

    /// A sample that the application limited says only that the path carries at least so much.
    pub(super) fn on_ack(&mut self, sample: &AckSample, round_begins: bool, purpose: Purpose) {
        if round_begins {
            let round = std::mem::take(&mut self.round);
            self.current = self.current.max(round.mean);
            self.last = round.mean;
            self.calm = if purpose == Purpose::Steady { self.calm.saturating_add(1) } else { 0 };
            if round.mean > Rate::ZERO && self.calm > DRAINED && !sample.app_limited {
                let [least, _] = &mut self.least;
                *least = Some(least.map_or(round.mean, |least| least.min(round.mean)));
            }
        }
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
            Purpose::Steady | Purpose::Draining => {
                self.found = Rate::ZERO;
                self.round.add(rate);
            }
        }
    }

    /// The mean rate of the last round.
    pub(super) fn of_last_round(&self) -> Rate {
        self.last
    }

    /// Whether the rate of the path changes from one round to another by more than its searches do.
    pub(super) fn wanders(&self) -> bool {
        let least = self.least.into_iter().flatten().min();
        least.is_some_and(|least| least < self.get().scaled(WANDERS.0, WANDERS.1))
    }

    /// The path carries less than it did.
    pub(super) fn lower(&mut self, rate: Rate) {
        *self = Self { current: rate, ..Self::default() };
    }

    /// The rate fell by itself.
    pub(super) fn note_fall(&mut self) {
        self.least = [Some(Rate::ZERO), None];
    }

    /// The next cycle begins; one without a measurement does not count.
    pub(super) fn advance(&mut self) {
        if self.current > Rate::ZERO {
            let [least, _] = self.least;
            *self = Self { previous: self.current, current: Rate::ZERO, least: [None, least], ..*self };
        }
    }
}
