//! Which paths share a bottleneck (RFC 8382), from when packets left and arrived.
//!
//! Two paths are taken to share one until they are found not to: for as long as it takes to find out, the flows of others
//! would lose half of what is theirs otherwise, while links that nobody else uses are filled either way.
//!
//! The delays of each path are summed up in intervals. Paths whose figures are alike and whose delays rise and fall
//! together queue at the same place.

mod history;
mod summary;
mod together;

use std::collections::BTreeMap;

use manyway_wire::PathId;

pub(crate) use history::{DelayHistory, interval_of};
use summary::Summary;
use together::Togetherness;

use crate::Instant;

/// The changes of delay in one queue go together at least so well, in thousandths, and cut ones so well.
const TOGETHER: Togetherness = Togetherness { plain: 950, cut: 800 };
/// Below, two paths do not share a bottleneck any more, in thousandths.
const APART: i64 = 700;
/// So many intervals more that speak for a shared bottleneck than against it make it one.
const BELIEVED: u8 = 10;
/// No more are counted, so that so many against it end it.
const SURE: u8 = 20;
/// Without anything that speaks for or against it for so many intervals, a verdict is forgotten.
const KEEPS: u32 = 30;

/// What is known of the pairs of paths of a connection.
#[derive(Debug, Default)]
pub(crate) struct SharedBottlenecks {
    pairs: BTreeMap<[PathId; 2], Pair>,
    /// Judged up to this interval.
    judged: u32,
}

/// Two paths of which there is something to say.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// How many intervals more spoke for it than against it.
    evidence: u8,
    shared: bool,
    /// The last interval that spoke.
    judged: u32,
}

impl SharedBottlenecks {
    /// Judges all pairs anew, once an interval. Costs O(paths²) then.
    pub(crate) fn judge<'a>(
        &mut self,
        now: Instant,
        paths: impl Iterator<Item = (PathId, &'a DelayHistory)>,
    ) {
        let now = interval_of(now);
        if now <= self.judged {
            return;
        }
        self.judged = now;
        self.pairs.retain(|_, pair| now - pair.judged < KEEPS);
        let known = paths.filter_map(|(id, history)| Some((id, history, Summary::of(history, now)?)));
        let known: smallvec::SmallVec<[_; 8]> = known.collect();
        for (at, (id, history, summary)) in known.iter().enumerate() {
            for (other, other_history, other_summary) in known.iter().skip(at + 1) {
                let pair = self.pairs.entry(key([*id, *other])).or_insert_with(|| Pair::presumed(now));
                let together = Togetherness::of(history, other_history, now);
                pair.judge(now, summary.is_like(other_summary, pair.shared), together);
            }
        }
    }

    /// Whether two paths share their bottleneck, or are not found not to.
    pub(crate) fn shared(&self, paths: [PathId; 2]) -> bool {
        self.pairs.get(&key(paths)).is_none_or(|pair| pair.shared)
    }

    /// A path is gone, or leads elsewhere now.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.pairs.retain(|paths, _| !paths.contains(&path));
    }
}

/// Each pair has one key.
fn key([a, b]: [PathId; 2]) -> [PathId; 2] {
    [a.min(b), a.max(b)]
}

impl Pair {
    fn presumed(now: u32) -> Self {
        Self { evidence: BELIEVED, shared: true, judged: now }
    }

    /// Figures that are alike and delays that go together speak for it. Once it is believed, only delays that do not go
    /// together speak against it: the figures vary, above all where the queue is not always full.
    fn judge(&mut self, now: u32, is_like: bool, together: Option<Togetherness>) {
        let agrees = |it: Togetherness| is_like && it.plain >= TOGETHER.plain && it.cut >= TOGETHER.cut;
        let differs = |it: Togetherness| !self.shared || it.plain < APART;
        if together.is_some_and(agrees) {
            self.evidence = (self.evidence + 1).min(SURE);
        } else if together.is_none_or(differs) {
            self.evidence = self.evidence.saturating_sub(1);
        } else {
            return;
        }
        self.judged = now;
        self.shared = match self.evidence {
            0 => false,
            BELIEVED.. => true,
            _ => self.shared,
        };
    }
}

#[cfg(test)]
mod tests;
