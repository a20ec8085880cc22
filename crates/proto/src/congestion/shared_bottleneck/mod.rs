//! Shared bottleneck detection (RFC 8382), from the send and arrival times of packets.
//!
//! Two paths are assumed to share a bottleneck until they are found not to. During detection the flows of others
//! would otherwise lose half of their share, while links without other users are filled in either case.
//!
//! The delays of each path are summarised in intervals. Paths with similar statistics whose delays rise and fall
//! together queue at the same place.

mod history;
mod summary;
mod together;

use std::collections::BTreeMap;

use manyway_wire::PathId;

pub(crate) use history::{DelayHistory, interval_of};
use summary::Summary;
use together::GroupEvidence;

use crate::Instant;

/// Lowest correlation, in thousandths, between the delay changes of paths in one queue: of plain and of limited
/// changes.
const TOGETHER: GroupEvidence = GroupEvidence { plain: 950, cut: 800 };
/// Correlation, in thousandths, below which two paths no longer share a bottleneck.
const APART: i64 = 700;
/// Surplus of intervals in favour that establishes a shared bottleneck.
const BELIEVED: u8 = 10;
/// Most surplus that counts, so that as many intervals against it end it.
const SURE: u8 = 20;
/// A verdict without evidence for or against it is forgotten after this many intervals.
const KEEPS: u32 = 30;

/// Verdicts on the pairs of paths of a connection.
#[derive(Debug, Default)]
pub(crate) struct SharedBottlenecks {
    pairs: BTreeMap<[PathId; 2], Pair>,
    /// The last interval that was evaluated.
    evaluated: u32,
}

/// Two paths with a verdict.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Surplus of intervals in favour.
    evidence: u8,
    shared: bool,
    /// The last interval with evidence.
    last_evidence: u32,
}

impl SharedBottlenecks {
    /// Judges all pairs, once in an interval. Costs O(paths²) then.
    pub(crate) fn judge<'a>(
        &mut self,
        now: Instant,
        paths: impl Iterator<Item = (PathId, &'a DelayHistory)>,
    ) {
        let now = interval_of(now);
        if now <= self.evaluated {
            return;
        }
        self.evaluated = now;
        self.pairs.retain(|_, pair| now - pair.last_evidence < KEEPS);
        let known = paths.filter_map(|(id, history)| Some((id, history, Summary::of(history, now)?)));
        let known: smallvec::SmallVec<[_; 8]> = known.collect();
        for (at, (id, history, summary)) in known.iter().enumerate() {
            for (other, other_history, other_summary) in known.iter().skip(at + 1) {
                let pair = self.pairs.entry(key([*id, *other])).or_insert_with(|| Pair::presumed(now));
                let together = GroupEvidence::of(history, other_history, now);
                pair.judge(now, summary.is_like(other_summary, pair.shared), together);
            }
        }
    }

    /// Whether two paths share their bottleneck, or are assumed to.
    pub(crate) fn shared(&self, paths: [PathId; 2]) -> bool {
        self.pairs.get(&key(paths)).is_none_or(|pair| pair.shared)
    }

    /// A path is closed, or leads elsewhere now.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.pairs.retain(|paths, _| !paths.contains(&path));
    }
}

/// The key of a pair, independent of its order.
fn key([a, b]: [PathId; 2]) -> [PathId; 2] {
    [a.min(b), a.max(b)]
}

impl Pair {
    fn presumed(now: u32) -> Self {
        Self { evidence: BELIEVED, shared: true, last_evidence: now }
    }

    /// Similar statistics and correlated delays are evidence in favour. Once a shared bottleneck is established, only
    /// uncorrelated delays are evidence against it: the statistics vary, above all if the queue is not always full.
    fn judge(&mut self, now: u32, is_like: bool, together: Option<GroupEvidence>) {
        let agrees = |it: GroupEvidence| is_like && it.plain >= TOGETHER.plain && it.cut >= TOGETHER.cut;
        let differs = |it: GroupEvidence| !self.shared || it.plain < APART;
        if together.is_some_and(agrees) {
            self.evidence = (self.evidence + 1).min(SURE);
        } else if together.is_none_or(differs) {
            self.evidence = self.evidence.saturating_sub(1);
        } else {
            return;
        }
        self.last_evidence = now;
        self.shared = match self.evidence {
            0 => false,
            BELIEVED.. => true,
            _ => self.shared,
        };
    }
}

#[cfg(test)]
mod tests;
