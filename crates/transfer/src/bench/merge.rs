//! Adds up the intervals of parallel streams.

use std::collections::BTreeMap;

use crate::frame::Interval;

use super::request::BenchDirection;

/// What one stream of a bench run received in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInterval {
    /// The direction of the bytes.
    pub direction: BenchDirection,
    /// The stream, counted from 0 in each direction.
    pub stream: u16,
    /// Its figures.
    pub interval: Interval,
}

/// Adds up the intervals of all streams of a direction: one is complete when every stream has reported it.
///
/// All streams of a run share the receiver's clock, so that intervals of the same number cover the same time.
#[derive(Debug)]
pub struct IntervalMerger {
    streams: u16,
    open: BTreeMap<u32, (u16, Interval)>,
}

impl IntervalMerger {
    /// For so many streams.
    pub fn new(streams: u16) -> Self {
        Self { streams, open: BTreeMap::new() }
    }

    /// Adds the figures of one stream; returns the sum if this was the last one missing.
    pub fn push(&mut self, report: StreamInterval) -> Option<Interval> {
        let index = report.interval.index;
        let (count, sum) = self.open.entry(index).or_insert((0, Interval { bytes: 0, ..report.interval }));
        *count += 1;
        sum.bytes = sum.bytes.saturating_add(report.interval.bytes);
        sum.end = sum.end.max(report.interval.end);
        if *count < self.streams {
            return None;
        }
        self.open.remove(&index).map(|(_, sum)| sum)
    }

    /// What is left at the end: intervals that not every stream reached.
    pub fn finish(self) -> impl Iterator<Item = Interval> {
        self.open.into_values().map(|(_, sum)| sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_interval_is_complete_when_every_stream_has_reported() {
        let report = |stream, index, bytes| StreamInterval {
            direction: BenchDirection::Upload,
            stream,
            interval: Interval {
                index,
                omitted: false,
                start: Duration::ZERO,
                end: Duration::from_secs(1),
                bytes,
            },
        };
        let mut merger = IntervalMerger::new(2);
        assert_eq!(merger.push(report(0, 0, 5)), None);
        assert_eq!(merger.push(report(0, 1, 6)), None);
        assert_eq!(merger.push(report(1, 0, 7)).map(|i| i.bytes), Some(12));
        assert_eq!(merger.finish().map(|i| i.bytes).collect::<Vec<_>>(), [6]);
    }
}
