//! Counts received bytes by interval; told the time by its caller.

use std::time::Duration;

use crate::frame::{BenchSummary, Interval};

/// Bytes of one stream over time. Time starts with the first byte; arguments are times since any fixed moment.
#[derive(Debug)]
pub(crate) struct Meter {
    interval: Duration,
    progress: Option<Running>,
}

#[derive(Debug)]
struct Running {
    first: Duration,
    last: Duration,
    worst_silence: Duration,
    bytes: u64,
    index: u32,
    in_interval: u64,
    pending: Option<(Duration, u64)>,
}

impl Meter {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, progress: None }
    }

    /// When an interval ends, if one has begun.
    pub(crate) fn next_report(&self) -> Option<Duration> {
        self.progress.as_ref().map(|r| r.first.saturating_add(r.end(self.interval)))
    }

    /// Takes note of bytes. Intervals that ended before `now` must be polled afterwards.
    pub(crate) fn on_bytes(&mut self, now: Duration, bytes: u64) {
        let Some(running) = &mut self.progress else {
            self.progress = Some(Running {
                first: now,
                last: now,
                worst_silence: Duration::ZERO,
                bytes,
                index: 0,
                in_interval: bytes,
                pending: None,
            });
            return;
        };
        running.worst_silence = running.worst_silence.max(now.saturating_sub(running.last));
        running.last = now;
        running.bytes = running.bytes.saturating_add(bytes);
        if now.saturating_sub(running.first) < running.end(self.interval) {
            running.in_interval = running.in_interval.saturating_add(bytes);
        } else {
            running.pending = Some((now, bytes));
        }
    }

    /// The next interval that has ended.
    pub(crate) fn poll_interval(&mut self, now: Duration) -> Option<Interval> {
        let running = self.progress.as_mut()?;
        let end = running.end(self.interval);
        if now.saturating_sub(running.first) < end {
            return None;
        }
        let closed = running.close(self.interval, end);
        let (first, next_end) = (running.first, running.end(self.interval));
        if let Some((_, bytes)) = running.pending.take_if(|(at, _)| at.saturating_sub(first) < next_end) {
            running.in_interval = bytes;
        }
        Some(closed)
    }

    /// The last, shorter interval, if anything came in it.
    pub(crate) fn finish(&mut self) -> Option<Interval> {
        let running = self.progress.as_mut()?;
        let end = running.last.saturating_sub(running.first);
        (running.in_interval > 0).then(|| running.close(self.interval, end))
    }

    pub(crate) fn summary(&self) -> BenchSummary {
        self.progress.as_ref().map_or_else(BenchSummary::default, |r| BenchSummary {
            bytes: r.bytes,
            elapsed: r.last.saturating_sub(r.first),
            worst_silence: r.worst_silence,
        })
    }
}

impl Running {
    fn end(&self, interval: Duration) -> Duration {
        interval.saturating_mul(self.index.saturating_add(1))
    }

    fn close(&mut self, interval: Duration, end: Duration) -> Interval {
        let start = interval.saturating_mul(self.index);
        let closed = Interval { index: self.index, start, end, bytes: self.in_interval };
        self.index = self.index.saturating_add(1);
        self.in_interval = 0;
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_silence_makes_empty_intervals() {
        let mut meter = Meter::new(Duration::from_millis(100));
        meter.on_bytes(Duration::from_millis(1000), 5);
        meter.on_bytes(Duration::from_millis(1350), 7);
        let now = Duration::from_millis(1350);
        let closed: Vec<_> = std::iter::from_fn(|| meter.poll_interval(now)).map(|i| i.bytes).collect();
        assert_eq!(closed, [5, 0, 0]);
        assert_eq!(meter.finish().map(|i| i.bytes), Some(7));
        assert_eq!(meter.summary().worst_silence, Duration::from_millis(350));
        assert_eq!(meter.summary().elapsed, Duration::from_millis(350));
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_or_counted_twice(steps in prop::collection::vec((0_u64..400, 0_u64..1000), 1..60)) {
            let mut meter = Meter::new(Duration::from_millis(100));
            let (mut now, mut sum, mut reported) = (Duration::ZERO, 0, 0);
            for (wait, bytes) in steps {
                now += Duration::from_millis(wait);
                meter.on_bytes(now, bytes);
                sum += bytes;
                reported += std::iter::from_fn(|| meter.poll_interval(now)).map(|i| i.bytes).sum::<u64>();
            }
            reported += meter.finish().map_or(0, |i| i.bytes);
            prop_assert_eq!(reported, sum);
            prop_assert_eq!(meter.summary().bytes, sum);
        }
    }
}
