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
    /// How much later than here the run began at the receiver, as far as its figures show.
    pub(super) lag: Duration,
    /// `None`: the receiver's figures are late, so the interval is unknown.
    pub(super) bytes: Option<u64>,
}

impl Row {
    pub(super) fn span(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// When its interval began and ended here, relative to the run: what was counted here in this time belongs to the
    /// bytes that the receiver counted.
    pub(super) fn window(&self, omit: Duration) -> (Duration, Duration) {
        let base = if self.omitted { Duration::ZERO } else { omit };
        let at = |time: Duration| time.saturating_add(base).saturating_add(self.lag);
        // What is sent before the receiver begins belongs to its first interval.
        let is_first = base.saturating_add(self.start).is_zero();
        (if is_first { Duration::ZERO } else { at(self.start) }, at(self.end))
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
    /// The shortest time from the end of an interval, by the receiver's clock, to its figures here: how much later its
    /// run began, and the way of the figures.
    lag: Option<Duration>,
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
            lag: None,
        }
    }

    pub(super) fn direction(&self) -> BenchDirection {
        self.direction
    }

    /// Adds the figures of a stream, received now, relative to the run; returns the row that they complete.
    pub(super) fn push(&mut self, report: StreamInterval, now: Duration) -> Option<Row> {
        let interval = self.merger.push(report)?;
        let base = if interval.omitted { Duration::ZERO } else { self.omit };
        let lag = now.saturating_sub(base.saturating_add(interval.end));
        let lag = *self.lag.insert(self.lag.map_or(lag, |least| least.min(lag)));
        if interval.index < self.index {
            self.owed = self.owed.saturating_add(if interval.omitted { 0 } else { interval.bytes });
            return None;
        }
        self.index = interval.index.saturating_add(1);
        self.start = base.saturating_add(interval.end);
        let owed = if interval.omitted { 0 } else { std::mem::take(&mut self.owed) };
        Some(Row {
            direction: self.direction,
            omitted: interval.omitted,
            start: interval.start,
            end: interval.end,
            lag,
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
        let lag = self.lag.unwrap_or_default();
        Some(Row { direction: self.direction, omitted, start, end, lag, bytes: None })
    }

    /// Bytes reported too late for any row, or not by every stream.
    pub(super) fn finish(self) -> Vec<Row> {
        let (direction, first, mut owed) = (self.direction, self.index, self.owed);
        let lag = self.lag.unwrap_or_default();
        let mut rows = Vec::new();
        for interval in self.merger.finish().filter(|interval| interval.bytes > 0 && !interval.omitted) {
            if interval.index < first {
                owed = owed.saturating_add(interval.bytes);
                continue;
            }
            let bytes = interval.bytes.saturating_add(std::mem::take(&mut owed));
            let (start, end) = (interval.start, interval.end);
            rows.push(Row { direction, omitted: false, start, end, lag, bytes: Some(bytes) });
        }
        if owed > 0 {
            let at = self.start.saturating_sub(self.omit);
            rows.push(Row { direction, omitted: false, start: at, end: at, lag, bytes: Some(owed) });
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
        assert_eq!(clock.push(report(0, 0, 5), 4 * SECOND), None);
        let row = clock.push(report(1, 0, 7), 4 * SECOND).unwrap();
        assert_eq!((row.bytes, row.start, row.end), (Some(12), Duration::ZERO, SECOND));
        assert_eq!(clock.due(), Some(3 * SECOND));
    }

    #[test]
    fn without_figures_there_are_empty_rows_and_late_figures_are_not_lost() {
        let mut clock = clock(1, Duration::ZERO);
        clock.push(report(0, 0, 5), 4 * SECOND).unwrap();
        assert_eq!(clock.overdue(SECOND * 29 / 10), None);
        let rows: Vec<_> = std::iter::from_fn(|| clock.overdue(4 * SECOND)).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.bytes.is_none() && row.span() == SECOND));
        assert_eq!(clock.push(report(0, 1, 100), 4 * SECOND), None);
        assert_eq!(clock.push(report(0, 2, 10), 4 * SECOND), None);
        let row = clock.push(report(0, 3, 1), 4 * SECOND).unwrap();
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
    fn the_window_of_a_row_is_that_in_which_its_bytes_were_counted() {
        let (mut clock, millis) = (clock(1, SECOND / 2), Duration::from_millis);
        let mut window = |index, end, now| {
            let (start, end) = (millis(end - 1000), millis(end));
            let interval = Interval { index, omitted: false, start, end, bytes: 7 };
            let report = StreamInterval { direction: BenchDirection::Upload, stream: 0, interval };
            clock.push(report, millis(now)).unwrap().window(SECOND / 2)
        };
        // The run began 30 ms later there; figures need 10 ms, and once 25 ms more.
        assert_eq!(window(1, 1000, 1540), (millis(540), millis(1540)));
        assert_eq!(window(2, 2000, 2565), (millis(1540), millis(2540)));
        assert_eq!(window(3, 3000, 3538), (millis(2538), millis(3538)));
    }

    #[test]
    fn a_shorter_tail_is_a_row_of_its_own() {
        let mut clock = clock(2, Duration::ZERO);
        clock.push(report(0, 0, 5), 4 * SECOND);
        clock.push(report(1, 0, 5), 4 * SECOND).unwrap();
        clock.push(report(0, 1, 3), 4 * SECOND);
        let rest = clock.finish();
        assert_eq!((rest.len(), rest[0].bytes), (1, Some(3)));
    }
}
