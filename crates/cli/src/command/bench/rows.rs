//! One row for each interval, on time: even without data.

use std::time::Duration;

use manyway_transfer::{BenchDirection, BenchLimit, BenchPlan, IntervalMerger, StreamInterval};

/// The bytes received in one direction in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) direction: BenchDirection,
    /// Whether it lies in the omitted beginning.
    pub(super) omitted: bool,
    /// Its position, relative to the measurement or, if it is omitted, to the run.
    pub(super) start: Duration,
    pub(super) end: Duration,
    /// `None`: the receiver's figures are late, so the interval is unknown.
    pub(super) bytes: Option<u64>,
}

impl Row {
    pub(super) fn span(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

/// Makes the rows of one direction from the figures of its streams.
///
/// The other side's figures travel over the same paths as the data. If they are late, the row is made without them;
/// late figures are added to the next row, so that the sum is right.
#[derive(Debug)]
pub(super) struct RowClock {
    direction: BenchDirection,
    interval: Duration,
    omit: Duration,
    end: Option<Duration>,
    merger: IntervalMerger,
    /// The next row: its number, and its start relative to the run.
    index: u32,
    start: Duration,
    /// Bytes reported too late for their row.
    owed: u64,
}

impl RowClock {
    pub(super) fn new(direction: BenchDirection, plan: &BenchPlan) -> Self {
        let end = match plan.limit {
            BenchLimit::Duration(time) => Some(plan.omit.saturating_add(time)),
            BenchLimit::Bytes(_) => None,
        };
        Self {
            direction,
            interval: plan.interval,
            omit: plan.omit,
            end,
            merger: IntervalMerger::new(plan.streams),
            index: 0,
            start: Duration::ZERO,
            owed: 0,
        }
    }

    pub(super) fn direction(&self) -> BenchDirection {
        self.direction
    }

    /// Adds the figures of a stream; returns the row that they complete.
    pub(super) fn push(&mut self, report: StreamInterval) -> Option<Row> {
        let interval = self.merger.push(report)?;
        if interval.index < self.index {
            self.owed = self.owed.saturating_add(if interval.omitted { 0 } else { interval.bytes });
            return None;
        }
        self.index = interval.index.saturating_add(1);
        let base = if interval.omitted { Duration::ZERO } else { self.omit };
        self.start = base.saturating_add(interval.end);
        let owed = if interval.omitted { 0 } else { std::mem::take(&mut self.owed) };
        Some(Row {
            direction: self.direction,
            omitted: interval.omitted,
            start: interval.start,
            end: interval.end,
            bytes: Some(interval.bytes.saturating_add(owed)),
        })
    }

    /// When the next row is overdue, relative to the run; `None` after the last.
    pub(super) fn due(&self) -> Option<Duration> {
        if self.end.is_some_and(|end| self.start >= end) {
            return None;
        }
        Some(self.next_end().saturating_add(GRACE))
    }

    /// The row that is overdue.
    pub(super) fn overdue(&mut self, now: Duration) -> Option<Row> {
        self.due().filter(|due| *due <= now)?;
        let omitted = self.start < self.omit;
        let base = if omitted { Duration::ZERO } else { self.omit };
        let (start, end) = (self.start, self.next_end());
        self.index = self.index.saturating_add(1);
        self.start = end;
        let (start, end) = (start.saturating_sub(base), end.saturating_sub(base));
        Some(Row { direction: self.direction, omitted, start, end, bytes: None })
    }

    /// Bytes reported too late for any row, or not by every stream.
    pub(super) fn finish(self) -> Vec<Row> {
        let (direction, first, mut owed) = (self.direction, self.index, self.owed);
        let mut rows = Vec::new();
        for interval in self.merger.finish().filter(|interval| interval.bytes > 0 && !interval.omitted) {
            if interval.index < first {
                owed = owed.saturating_add(interval.bytes);
                continue;
            }
            let bytes = interval.bytes.saturating_add(std::mem::take(&mut owed));
            let (start, end) = (interval.start, interval.end);
            rows.push(Row { direction, omitted: false, start, end, bytes: Some(bytes) });
        }
        if owed > 0 {
            let at = self.start.saturating_sub(self.omit);
            rows.push(Row { direction, omitted: false, start: at, end: at, bytes: Some(owed) });
        }
        rows
    }

    fn next_end(&self) -> Duration {
        let whole = self.start.saturating_add(self.interval);
        let whole = if self.start < self.omit { whole.min(self.omit) } else { whole };
        self.end.map_or(whole, |end| whole.min(end))
    }
}

/// Longest delay of the figures of an interval: more than any round trip.
const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_transfer::Interval;

    const SECOND: Duration = Duration::from_secs(1);

    fn clock(streams: u16, omit: Duration) -> RowClock {
        let mut plan = BenchPlan::default();
        plan.limit = BenchLimit::Duration(4 * SECOND);
        plan.streams = streams;
        plan.omit = omit;
        RowClock::new(BenchDirection::Upload, &plan)
    }

    fn report(stream: u16, index: u32, bytes: u64) -> StreamInterval {
        let (start, end) = (index * SECOND, (index + 1) * SECOND);
        let interval = Interval { index, omitted: false, start, end, bytes };
        StreamInterval { direction: BenchDirection::Upload, stream, interval }
    }

    #[test]
    fn a_row_is_complete_with_the_figures_of_every_stream() {
        let mut clock = clock(2, Duration::ZERO);
        assert_eq!(clock.push(report(0, 0, 5)), None);
        let row = clock.push(report(1, 0, 7)).unwrap();
        assert_eq!((row.bytes, row.start, row.end), (Some(12), Duration::ZERO, SECOND));
        assert_eq!(clock.due(), Some(3 * SECOND));
    }

    #[test]
    fn without_figures_there_are_empty_rows_and_late_figures_are_not_lost() {
        let mut clock = clock(1, Duration::ZERO);
        clock.push(report(0, 0, 5)).unwrap();
        assert_eq!(clock.overdue(SECOND * 29 / 10), None);
        let rows: Vec<_> = std::iter::from_fn(|| clock.overdue(4 * SECOND)).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.bytes.is_none() && row.span() == SECOND));
        assert_eq!(clock.push(report(0, 1, 100)), None);
        assert_eq!(clock.push(report(0, 2, 10)), None);
        let row = clock.push(report(0, 3, 1)).unwrap();
        assert_eq!((row.bytes, row.start), (Some(111), 3 * SECOND));
        assert_eq!(clock.due(), None);
        assert!(clock.finish().is_empty());
    }

    #[test]
    fn no_row_follows_the_end_and_the_omitted_beginning_has_its_own() {
        let mut clock = clock(1, SECOND * 3 / 2);
        let rows: Vec<_> = std::iter::from_fn(|| clock.overdue(60 * SECOND)).collect();
        let spans: Vec<_> =
            rows.iter().map(|row| (row.omitted, row.start.as_millis(), row.end.as_millis())).collect();
        let omitted = [(true, 0, 1000), (true, 1000, 1500)];
        assert_eq!(spans[..2], omitted);
        assert_eq!(spans.len(), 6);
        assert_eq!(spans.last(), Some(&(false, 3000, 4000)));
    }

    #[test]
    fn a_shorter_tail_is_a_row_of_its_own() {
        let mut clock = clock(2, Duration::ZERO);
        clock.push(report(0, 0, 5));
        clock.push(report(1, 0, 5)).unwrap();
        clock.push(report(0, 1, 3));
        let rest = clock.finish();
        assert_eq!((rest.len(), rest[0].bytes), (1, Some(3)));
    }
}
