//! Recent delays of one path, interval by interval (RFC 8382, section 3.2).

use std::collections::VecDeque;
use std::time::Duration;

use crate::{ByteCount, Instant};

/// `T`: length of an interval.
const INTERVAL: Duration = Duration::from_millis(350);
/// `N`: number of intervals remembered.
pub(super) const REMEMBERED: u32 = 50;
/// `M`: number of intervals for most statistics.
pub(super) const LATELY: u32 = 30;

/// The interval that contains an instant; all paths share the same intervals.
pub(crate) fn interval_of(at: Instant) -> u32 {
    u32::try_from(u128::from(at.as_nanos()) / INTERVAL.as_nanos()).unwrap_or(u32::MAX)
}

/// One interval. Delays are in µs above the first one of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) number: u32,
    pub(super) mean: i32,
    /// Number of samples.
    pub(super) samples: u16,
    /// `skew_base`: samples below the mean of the intervals before, less those above.
    pub(super) skew: i16,
    /// `var_base`: sum of the differences of samples to the mean of the interval before.
    pub(super) deviation: u32,
    /// Bytes that arrived.
    pub(super) arrived: u32,
    /// Bytes that were lost.
    pub(super) lost: u32,
}

/// The unfinished interval.
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

/// Delays and losses of a path: at most 50 intervals of 24 bytes, and almost no memory while the path is idle.
#[derive(Debug, Clone, Default)]
pub(crate) struct DelayHistory(Option<Box<Record>>);

#[derive(Debug, Clone)]
struct Record {
    /// The first delay, between two unsynchronised clocks, in µs modulo 2³².
    first: u32,
    current: Current,
    /// Mean of the recent intervals, and of the previous one.
    means: Option<[i32; 2]>,
    intervals: VecDeque<Interval>,
}

impl DelayHistory {
    /// Adds a packet that left at `sent` and arrived when the receiver's clock showed `received` µs, modulo 2³²; it
    /// was acknowledged at `now`.
    pub(crate) fn on_sample(&mut self, now: Instant, sent: Instant, received: u32) {
        let delay = received.wrapping_sub(micros(sent));
        let record = self.0.get_or_insert_with(|| Box::new(Record::new(delay)));
        // Half way through the round trip: about the time at the bottleneck, wherever that is.
        record.turn_to(interval_of(sent + (now - sent) / 2));
        record.count(delay.wrapping_sub(record.first).cast_signed());
    }

    /// Adds the bytes that arrived and the bytes that were lost.
    pub(crate) fn on_outcome(&mut self, arrived: ByteCount, lost: ByteCount) {
        let Some(Record { current, .. }) = self.0.as_deref_mut() else { return };
        let bytes = |count: ByteCount| u32::try_from(count.get()).unwrap_or(u32::MAX);
        current.arrived = current.arrived.saturating_add(bytes(arrived));
        current.lost = current.lost.saturating_add(bytes(lost));
    }

    /// Forgets everything: the path is idle, or leads elsewhere now.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// The intervals with samples among the last `count` before interval `now`, oldest first.
    pub(super) fn last(&self, now: u32, count: u32) -> impl Iterator<Item = &Interval> {
        self.0.iter().flat_map(move |record| record.last(now, count))
    }
}

impl Record {
    fn new(first: u32) -> Self {
        Self { first, current: Current::default(), means: None, intervals: VecDeque::new() }
    }

    fn count(&mut self, delay: i32) {
        let current = &mut self.current;
        current.sum += i64::from(delay);
        current.samples = current.samples.saturating_add(1);
        let Some([lately, before]) = self.means else { return };
        let side = i16::from(delay < lately) - i16::from(delay > lately);
        current.skew = current.skew.saturating_add(side);
        current.deviation = current.deviation.saturating_add(delay.abs_diff(before));
    }

    fn last(&self, now: u32, count: u32) -> impl Iterator<Item = &Interval> {
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
