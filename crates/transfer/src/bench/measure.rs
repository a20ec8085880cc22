//! Counts received bytes by interval; the caller supplies the time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::frame::{BenchSummary, Interval};

use super::request::{BenchLimit, BenchRequest};

/// Bytes of one stream over time. Times are since its request was accepted.
// transfer 6.11
#[derive(Debug)]
pub(crate) struct Meter {
    interval: Duration,
    omit: Duration,
    /// When counting ends; `None` if bytes are the limit.
    end: Option<Duration>,
    index: u32,
    /// Start of the current interval.
    start: Duration,
    in_interval: u64,
    bytes: u64,
    last: Option<Duration>,
    longest_stall: Duration,
    closed: VecDeque<Interval>,
}

impl Meter {
    pub(crate) fn new(request: &BenchRequest) -> Self {
        let end = match request.limit {
            BenchLimit::Duration(time) => Some(request.omit.saturating_add(time)),
            BenchLimit::Bytes(_) => None,
        };
        Self {
            interval: request.interval,
            omit: request.omit,
            end,
            index: 0,
            start: Duration::ZERO,
            in_interval: 0,
            bytes: 0,
            last: None,
            longest_stall: Duration::ZERO,
            closed: VecDeque::new(),
        }
    }

    /// When [`Self::advance`] is due: an interval or the whole measurement ends.
    pub(crate) fn deadline(&self) -> Duration {
        let whole = self.start.saturating_add(self.interval);
        let whole = if self.start < self.omit { whole.min(self.omit) } else { whole };
        self.end.map_or(whole, |end| whole.min(end))
    }

    /// Whether the time is up.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// Whether bytes that arrive now count.
    pub(crate) fn counts(&self, now: Duration) -> bool {
        now >= self.omit && !self.is_over(now)
    }

    /// Closes the intervals that have ended.
    pub(crate) fn advance(&mut self, now: Duration) {
        while self.deadline() <= now && self.end.is_none_or(|end| self.start < end) {
            self.close(self.deadline());
        }
    }

    /// Counts bytes, after [`Self::advance`] to the same instant.
    pub(crate) fn on_bytes(&mut self, now: Duration, bytes: u64) {
        if self.is_over(now) {
            return;
        }
        self.in_interval = self.in_interval.saturating_add(bytes);
        if now >= self.omit {
            let silent = now.saturating_sub(self.last.unwrap_or(self.omit));
            self.longest_stall = self.longest_stall.max(silent);
            self.last = Some(now);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Takes the next completed interval.
    pub(crate) fn poll_interval(&mut self) -> Option<Interval> {
        self.closed.pop_front()
    }

    /// Ends the measurement: closes the last, shorter interval if anything arrived in it.
    pub(crate) fn finish(&mut self, now: Duration) -> BenchSummary {
        self.advance(now);
        if self.in_interval > 0 {
            let end = self.last.unwrap_or(now).max(self.start);
            self.close(end);
        }
        let until = match self.end {
            Some(end) => end.min(now),
            None => self.last.unwrap_or(self.omit),
        };
        let silent = until.saturating_sub(self.last.unwrap_or(self.omit));
        BenchSummary {
            bytes: self.bytes,
            elapsed: until.saturating_sub(self.omit),
            longest_stall: self.longest_stall.max(silent),
        }
    }

    fn close(&mut self, end: Duration) {
        let omitted = self.start < self.omit;
        let base = if omitted { Duration::ZERO } else { self.omit };
        self.closed.push_back(Interval {
            index: self.index,
            omitted,
            start: self.start.saturating_sub(base),
            end: end.saturating_sub(base),
            bytes: self.in_interval,
        });
        self.index = self.index.saturating_add(1);
        self.start = end;
        self.in_interval = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BenchDirection;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn meter(limit: BenchLimit, omit: Duration) -> Meter {
        let direction = BenchDirection::Upload;
        Meter::new(&BenchRequest { direction, limit, interval: 100 * MS, omit, rate: None, length: 1 })
    }

    fn closed(meter: &mut Meter) -> Vec<(bool, u128, u128, u64)> {
        std::iter::from_fn(|| meter.poll_interval())
            .map(|i| (i.omitted, i.start.as_millis(), i.end.as_millis(), i.bytes))
            .collect()
    }

    #[test]
    fn a_silence_makes_empty_intervals_and_the_time_is_exactly_as_requested() {
        let mut meter = meter(BenchLimit::Duration(400 * MS), Duration::ZERO);
        meter.on_bytes(10 * MS, 5);
        meter.advance(350 * MS);
        meter.on_bytes(350 * MS, 7);
        assert!(!meter.is_over(399 * MS) && meter.is_over(400 * MS));
        meter.advance(405 * MS);
        meter.on_bytes(405 * MS, 1000);
        let summary = meter.finish(405 * MS);
        let expected = [(false, 0, 100, 5), (false, 100, 200, 0), (false, 200, 300, 0), (false, 300, 400, 7)];
        assert_eq!(closed(&mut meter), expected);
        assert_eq!((summary.bytes, summary.elapsed, summary.longest_stall), (12, 400 * MS, 340 * MS));
    }

    #[test]
    fn omitted_bytes_are_marked_and_not_counted() {
        let mut meter = meter(BenchLimit::Duration(200 * MS), 150 * MS);
        for at in [20, 120, 170, 260] {
            meter.advance(at * MS);
            meter.on_bytes(at * MS, 1);
        }
        let summary = meter.finish(350 * MS);
        let expected = [(true, 0, 100, 1), (true, 100, 150, 1), (false, 0, 100, 1), (false, 100, 200, 1)];
        assert_eq!(closed(&mut meter), expected);
        assert_eq!((summary.bytes, summary.elapsed), (2, 200 * MS));
        assert_eq!(summary.longest_stall, 90 * MS);
    }

    #[test]
    fn a_stream_without_any_byte_was_silent_all_the_time() {
        let mut meter = meter(BenchLimit::Duration(250 * MS), Duration::ZERO);
        let summary = meter.finish(300 * MS);
        assert_eq!(closed(&mut meter).len(), 3);
        assert_eq!((summary.bytes, summary.longest_stall), (0, 250 * MS));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(
            omit in 0_u64..300,
            steps in prop::collection::vec((0_u64..400, 1_u64..1000), 1..60),
        ) {
            let mut meter = meter(BenchLimit::Bytes(1), Duration::from_millis(omit));
            let (mut now, mut sum, mut counted) = (Duration::ZERO, 0, 0);
            for (wait, bytes) in steps {
                now += Duration::from_millis(wait);
                meter.advance(now);
                meter.on_bytes(now, bytes);
                sum += bytes;
                counted += if now >= Duration::from_millis(omit) { bytes } else { 0 };
            }
            let summary = meter.finish(now);
            let all: Vec<_> = std::iter::from_fn(|| meter.poll_interval()).collect();
            prop_assert_eq!(all.iter().map(|i| i.bytes).sum::<u64>(), sum);
            let measured: u64 = all.iter().filter(|i| !i.omitted).map(|i| i.bytes).sum();
            prop_assert_eq!((measured, summary.bytes), (counted, counted));
            prop_assert!(all.windows(2).all(|pair| pair[0].index + 1 == pair[1].index));
        }
    }
}
