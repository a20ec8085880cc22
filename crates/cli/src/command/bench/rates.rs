//! How fast each path went since it was last asked.

use std::collections::BTreeMap;

use manyway::{ByteCount, ConnectionInfo, PathId, PathInfo, Rate};
use manyway_transfer::BenchDirection;
use tokio::time::Instant;

use crate::output::path::PathLabel;

/// Remembers the bytes of every path in both directions.
#[derive(Debug, Default)]
pub(super) struct PathRates {
    before: BTreeMap<(BenchDirection, PathId), (Instant, u64)>,
    asked: BTreeMap<BenchDirection, Instant>,
}

/// A path and its rate in one interval; bytes on the wire, headers and repeats included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathRate {
    pub(super) label: PathLabel,
    pub(super) rate: Rate,
}

impl PathRates {
    /// The rates since the last call for that direction; a path that is new since then had nothing before.
    pub(super) fn take(
        &mut self,
        now: Instant,
        direction: BenchDirection,
        info: &ConnectionInfo,
    ) -> Vec<PathRate> {
        let last = self.asked.insert(direction, now);
        let of_path = |path: &PathInfo| {
            let figures = &path.statistics;
            let bytes = match direction {
                BenchDirection::Upload => figures.bytes_sent.get(),
                BenchDirection::Download => figures.bytes_received.get(),
            };
            let before = self.before.insert((direction, figures.id), (now, bytes));
            let before = before.or_else(|| last.map(|at| (at, 0)));
            let rate = before.map_or(Rate::ZERO, |(at, before)| {
                let span = now.saturating_duration_since(at);
                if span.is_zero() { Rate::ZERO } else { ByteCount(bytes.saturating_sub(before)).per(span) }
            });
            PathRate { label: PathLabel::of(path), rate }
        };
        info.paths.iter().map(of_path).collect()
    }
}
