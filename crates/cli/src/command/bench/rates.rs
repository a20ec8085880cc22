//! The paths of a run, including closed ones, and their rates since the last call.

use std::collections::BTreeMap;

use manyway::{ByteCount, ConnectionInfo, PathId, PathInfo, PathState, PathStatistics, Rate};
use manyway_transfer::BenchDirection;
use tokio::time::Instant;

use crate::output::names::distinct;
use crate::output::path::PathLabel;

/// The newest figures of every path, and the last query in each direction.
#[derive(Debug, Default)]
pub(super) struct Paths {
    seen: BTreeMap<PathId, PathInfo>,
    asked: BTreeMap<BenchDirection, Asked>,
}

#[derive(Debug)]
struct Asked {
    at: Instant,
    bytes: BTreeMap<PathId, u64>,
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
    }

    /// Every path ever seen, with its newest figures; closed ones are in that state.
    pub(super) fn all(&self) -> impl Iterator<Item = &PathInfo> {
        self.seen.values()
    }

    /// The rates since the last call for that direction, of the paths that are open or have carried data since then. A
    /// path that is new since then counts from zero.
    pub(super) fn take(&mut self, now: Instant, direction: BenchDirection) -> Vec<PathRate> {
        let bytes = self.seen.iter().map(|(id, path)| (*id, bytes_of(direction, &path.statistics)));
        let bytes: BTreeMap<_, _> = bytes.collect();
        let last = self.asked.insert(direction, Asked { at: now, bytes });
        let moved = |path: &PathInfo| {
            let before = last.as_ref().and_then(|last| last.bytes.get(&path.statistics.id)).copied();
            bytes_of(direction, &path.statistics).saturating_sub(before.unwrap_or(0))
        };
        let span = last.as_ref().map(|last| now.saturating_duration_since(last.at)).unwrap_or_default();
        let rate = |bytes: u64| if span.is_zero() { Rate::ZERO } else { ByteCount(bytes).per(span) };
        let shown =
            self.seen.values().filter(|path| path.statistics.state != PathState::Closed || moved(path) > 0);
        let shown: Vec<_> = shown.map(|path| (PathLabel::of(path), rate(moved(path)))).collect();
        let names = distinct(&shown.iter().map(|(label, _)| label.traits()).collect::<Vec<_>>());
        shown.into_iter().zip(names).map(|((label, rate), name)| PathRate { label, name, rate }).collect()
    }
}

fn bytes_of(direction: BenchDirection, figures: &PathStatistics) -> u64 {
    match direction {
        BenchDirection::Upload => figures.bytes_sent.get(),
        BenchDirection::Download => figures.bytes_received.get(),
    }
}
