//! What the delays of one path were lately, interval by interval (RFC 8382, section 3.2).

use std::collections::VecDeque;
use std::time::Duration;

use crate::{ByteCount, Instant};

/// `T`: length of an interval.
const INTERVAL: Duration = Duration::from_millis(350);
/// `N`: intervals that are remembered.
pub(super) const REMEMBERED: u32 = 50;
/// `M`: intervals that most figures are taken from.
pub(super) const LATELY: u32 = 30;

/// Which interval a moment lies in; all paths have the same ones.
pub(crate) fn interval_of(at: Instant) -> u32 {
    u32::try_from(u128::from(at.as_nanos()) / INTERVAL.as_nanos()).unwrap_or(u32::MAX)
}

/// One interval. Delays are in µs above the first one of the path, times 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) number: u32,
    pub(super) mean: i32,
    /// Samples.
    pub(super) samples: u16,
    /// `skew_base`: samples below the mean of the intervals before, less those above.
    pub(super) skew: i16,
    /// `var_base`: sum of what the samples differ by from the mean of the interval before.
    pub(super) deviation: u32,
    /// Bytes.
    pub(super) arrived: u32,
    /// Bytes.
    pub(super) lost: u32,
}

/// An interval that is not over.
#[derive(Debug, Clone, Copy, Default)]
struct Current {
    number: u32,
    sum: i64,
    samples: u16,
    skew: i16,
    deviation: u32,
    arrived: u32,
    lost: u32,
}

/// Delays and losses of a path. At most 50 intervals of 24 bytes, nothing before the first one is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct DelayHistory {
    /// The first delay, by clocks that nobody compares, in µs modulo 2³².
    first: Option<u32>,
    current: Current,
    /// Mean of the intervals lately, and of the one before.
    means: Option<[i32; 2]>,
    intervals: VecDeque<Interval>,
}

impl DelayHistory {
    /// A packet that left at `sent` arrived when the receiver's clock showed `received` µs, modulo 2³²; that became known
    /// `now`.
    pub(crate) fn on_sample(&mut self, now: Instant, sent: Instant, received: u32) {
        let delay = received.wrapping_sub(micros(sent));
        let delay = delay.wrapping_sub(*self.first.get_or_insert(delay)).cast_signed();
        // Half way: about when it was at the bottleneck, wherever that is.
        self.turn_to(interval_of(sent + (now - sent) / 2));
        let current = &mut self.current;
        current.sum += i64::from(delay);
        current.samples = current.samples.saturating_add(1);
        let Some([lately, before]) = self.means else { return };
        let side = i16::from(delay < lately) - i16::from(delay > lately);
        current.skew = current.skew.saturating_add(side);
        current.deviation = current.deviation.saturating_add(delay.abs_diff(before));
    }

    /// So many bytes arrived and so many got lost.
    pub(crate) fn on_outcome(&mut self, arrived: ByteCount, lost: ByteCount) {
        let bytes = |count: ByteCount| u32::try_from(count.get()).unwrap_or(u32::MAX);
        self.current.arrived = self.current.arrived.saturating_add(bytes(arrived));
        self.current.lost = self.current.lost.saturating_add(bytes(lost));
    }

    /// Forgets everything: the path rests, or leads elsewhere now.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The intervals with samples among the last `count` before interval `now`, oldest first.
    pub(super) fn last(&self, now: u32, count: u32) -> impl Iterator<Item = &Interval> {
        let from = now.saturating_sub(count);
        self.intervals.iter().filter(move |interval| (from..now).contains(&interval.number))
    }

    fn turn_to(&mut self, number: u32) {
        if number <= self.current.number {
            return;
        }
        self.close();
        self.current = Current { number, ..Current::default() };
        self.intervals.retain(|interval| interval.number + REMEMBERED > number);
        let (mut sum, mut count) = (0, 0);
        for interval in self.last(number, LATELY) {
            sum += i64::from(interval.mean);
            count += 1;
        }
        let before = self.intervals.back().map(|interval| interval.mean);
        let lately = i32::try_from(sum / i64::from(count.max(1))).unwrap_or_default();
        self.means = before.map(|before| [lately, before]);
    }

    fn close(&mut self) {
        let Current { number, sum, samples, skew, deviation, arrived, lost } = self.current;
        if samples == 0 {
            return;
        }
        let mean = i32::try_from(sum / i64::from(samples)).unwrap_or_default();
        self.intervals.push_back(Interval { number, mean, samples, skew, deviation, arrived, lost });
    }
}

fn micros(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1000 % (1 << 32)).unwrap_or_default()
}
