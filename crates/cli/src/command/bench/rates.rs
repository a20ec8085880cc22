//! The paths of a run, also those that closed meanwhile, and how fast each went since it was last asked.

use std::collections::BTreeMap;

use manyway::{ByteCount, ConnectionInfo, PathId, PathInfo, PathState, PathStatistics, Rate};
use manyway_transfer::BenchDirection;
use tokio::time::Instant;

use crate::output::path::PathLabel;

/// Remembers the newest figures of every path, and what was asked before in each direction.
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

/// A path and its rate in one interval; bytes on the wire, headers and repeats included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathRate {
    pub(super) label: PathLabel,
    pub(super) rate: Rate,
}

impl Paths {
    /// Takes note of the figures as they are now. Of a path that closes, what went since the last call is lost.
    pub(super) fn note(&mut self, info: &ConnectionInfo) {
        for path in self.seen.values_mut() {
            path.statistics.state = PathState::Closed;
        }
        self.seen.extend(info.paths.iter().map(|path| (path.statistics.id, path.clone())));
    }

    /// Every path that was there at any look, with its newest figures; closed ones are in that state.
    pub(super) fn all(&self) -> impl Iterator<Item = &PathInfo> {
        self.seen.values()
    }

    /// The rates since the last call for that direction, of the paths that are open or carried something since then. A
    /// path that is new since then had nothing before.
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
        shown.map(|path| PathRate { label: PathLabel::of(path), rate: rate(moved(path)) }).collect()
    }
}

fn bytes_of(direction: BenchDirection, figures: &PathStatistics) -> u64 {
    match direction {
        BenchDirection::Upload => figures.bytes_sent.get(),
        BenchDirection::Download => figures.bytes_received.get(),
    }
}
