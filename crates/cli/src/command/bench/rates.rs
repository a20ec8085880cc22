//! The paths of a run, including closed ones, and their rates in each interval.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway::{ByteCount, ConnectionInfo, PathId, PathInfo, PathState, Rate};
use manyway_transfer::BenchDirection;
use tokio::time::Instant;

use crate::output::names::distinct;
use crate::output::path::PathLabel;

/// The newest figures of every path, and its bytes over time.
#[derive(Debug, Default)]
pub(super) struct Paths {
    seen: BTreeMap<PathId, PathInfo>,
    /// Since the last interval that was asked for.
    samples: VecDeque<Sample>,
    asked: BTreeMap<BenchDirection, Instant>,
}

/// The bytes of every path at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    bytes: BTreeMap<PathId, [u64; 2]>,
}

/// A path and its rate in one interval; bytes on the wire, headers and retransmissions included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathRate {
    pub(super) label: PathLabel,
    /// Its name, beside the others of the interval.
    pub(super) name: String,
    pub(super) rate: Rate,
}

impl Paths {
    /// Records the current figures. Traffic of a path that closes is lost after the last call.
    pub(super) fn note(&mut self, info: &ConnectionInfo) {
        for path in self.seen.values_mut() {
            path.statistics.state = PathState::Closed;
        }
        self.seen.extend(info.paths.iter().map(|path| (path.statistics.id, path.clone())));
        let bytes = self.seen.iter().map(|(id, path)| {
            let figures = &path.statistics;
            (*id, [figures.bytes_sent.get(), figures.bytes_received.get()])
        });
        self.samples.push_back(Sample { at: info.at.into(), bytes: bytes.collect() });
    }

    /// Every path ever seen, with its newest figures; closed ones are in that state.
    pub(super) fn all(&self) -> impl Iterator<Item = &PathInfo> {
        self.seen.values()
    }

    /// The rates in that direction of the paths that are open or have carried data between two moments, as if that had
    /// taken `span`. Between two looks at a path its rate counts as constant.
    pub(super) fn take(
        &mut self,
        direction: BenchDirection,
        (from, to): (Instant, Instant),
        span: Duration,
    ) -> Vec<PathRate> {
        let moved = |id| self.bytes_at(direction, id, to).saturating_sub(self.bytes_at(direction, id, from));
        let rate = |bytes: u64| if span.is_zero() { Rate::ZERO } else { ByteCount(bytes).per(span) };
        let shown = self.seen.values().filter_map(|path| {
            let moved = moved(path.statistics.id);
            let is_shown = path.statistics.state != PathState::Closed || moved > 0;
            is_shown.then(|| (PathLabel::of(path), rate(moved)))
        });
        let shown: Vec<_> = shown.collect();
        self.forget_before(direction, to);
        let names = distinct(&shown.iter().map(|(label, _)| label.traits()).collect::<Vec<_>>());
        shown.into_iter().zip(names).map(|((label, rate), name)| PathRate { label, name, rate }).collect()
    }

    /// The bytes of a path at a moment. A path that is new counts from zero.
    fn bytes_at(&self, direction: BenchDirection, id: PathId, at: Instant) -> u64 {
        let bytes = |sample: &Sample| sample.bytes.get(&id).map_or(0, |both| bytes_of(direction, *both));
        let after = self.samples.partition_point(|sample| sample.at <= at);
        let (before, after) =
            (after.checked_sub(1).and_then(|at| self.samples.get(at)), self.samples.get(after));
        match (before, after) {
            (Some(before), Some(after)) => {
                let part = at.saturating_duration_since(before.at).as_micros();
                let whole = after.at.saturating_duration_since(before.at).as_micros().max(1);
                let grown = u128::from(bytes(after).saturating_sub(bytes(before)));
                bytes(before) + u64::try_from(grown * part / whole).unwrap_or(u64::MAX)
            }
            (Some(only), None) | (None, Some(only)) => bytes(only),
            (None, None) => 0,
        }
    }

    /// Forgets what no direction will ask for any more, but the last sample before it.
    fn forget_before(&mut self, direction: BenchDirection, to: Instant) {
        self.asked.insert(direction, to);
        let Some(oldest) = self.asked.values().min().copied() else { return };
        while self.samples.get(1).is_some_and(|next| next.at <= oldest) {
            self.samples.pop_front();
        }
    }
}

fn bytes_of(direction: BenchDirection, [sent, received]: [u64; 2]) -> u64 {
    match direction {
        BenchDirection::Upload => sent,
        BenchDirection::Download => received,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::RowClock;
    use super::*;
    use manyway_transfer::{BenchLimit, BenchPlan, Interval, StreamInterval};

    /// A steady run at 1000 B/ms of payload in 1030 B/ms, which begins 30 ms late.
    #[test]
    fn the_paths_of_a_row_carry_no_less_than_its_payload() {
        let (mut paths, began, millis) = (Paths::default(), Instant::now(), Duration::from_millis);
        for tick in 0..40_u64 {
            let sent = 1030 * (100 * tick).saturating_sub(30);
            let bytes = BTreeMap::from([(PathId(0), [sent, 0])]);
            paths.samples.push_back(Sample { at: began + millis(100 * tick), bytes });
        }
        let mut plan = BenchPlan::default();
        plan.limit = BenchLimit::Duration(millis(3000));
        let mut clock = RowClock::new(BenchDirection::Upload, &plan);
        for (index, late) in (0..).zip([10_u64, 60, 10]) {
            let (start, end) = (millis(1000 * u64::from(index)), millis(1000 * u64::from(index + 1)));
            let interval = Interval { index, omitted: false, start, end, bytes: 1_000_000 };
            let report = StreamInterval { direction: BenchDirection::Upload, stream: 0, interval };
            let row = clock.push(report, end + millis(30 + late)).unwrap();
            let (from, to) = row.window(Duration::ZERO);
            let at = |time| paths.bytes_at(BenchDirection::Upload, PathId(0), began + time);
            let counted = at(to) - at(from);
            assert!((1_029_000..=1_041_000).contains(&counted), "row {index}: {counted}");
        }
    }

    #[test]
    fn the_bytes_at_a_moment_lie_between_those_of_the_looks_around_it() {
        let (began, second) = (Instant::now(), Duration::from_secs(1));
        let mut paths = Paths::default();
        for (seconds, sent) in [(0, 0), (1, 1000), (2, 3000), (3, 3000)] {
            let bytes = BTreeMap::from([(PathId(0), [sent, sent / 10])]);
            paths.samples.push_back(Sample { at: began + seconds * second, bytes });
        }
        let at = |half_seconds: u32| {
            paths.bytes_at(BenchDirection::Upload, PathId(0), began + half_seconds * second / 2)
        };
        assert_eq!([at(0), at(1), at(3), at(5), at(9)], [0, 500, 2000, 3000, 3000]);
        assert_eq!(paths.bytes_at(BenchDirection::Download, PathId(0), began + second * 3 / 2), 200);
        paths.asked.insert(BenchDirection::Download, began + second);
        paths.forget_before(BenchDirection::Upload, began + 2 * second);
        assert_eq!(paths.samples.len(), 3, "what the other direction needs stays");
    }
}
