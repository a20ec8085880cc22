//! Notices of the engine for the wire: queued in order, and carried out before the next packet is built.
//!
//! The engine never calls the wire for these, so the decision of a path or timer is complete before any block
//! is written. Each wire expresses a notice in its own blocks, or not at all.

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::packet::content::Contents;
use crate::path::PathReport;

/// An event of a path that the wire may have to report to the peer, or to act on itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The availability of this path in the view of this end, and its cost.
    Status(PathId, PathReport),
    /// The cost of this path may have changed.
    Cost(PathId, PathReport),
    /// A path is suspect: the peer should report what it last received on it.
    Liveness(PathId),
    /// A path has other addresses now: it needs a new connection ID, so that an observer cannot link them.
    Migrated(PathId),
    /// A path was opened, by either end.
    Opened(PathId),
    /// A path is closed, and there is room for another one.
    Closed {
        /// The closed path.
        path: PathId,
        /// Whether to report it to the peer.
        tell: bool,
    },
    /// Data on a path, or a report of a router, make it likely that it failed; only a path challenge may tell
    /// ([`Detection::Probes`](crate::Detection::Probes)).
    Overdue(PathId),
    /// No path works any more (true), or one works again (false).
    Pathless(bool),
}

/// The fate of the contents of packets.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    pub(crate) delivered: Vec<Contents>,
    pub(crate) lost: Vec<Contents>,
    /// Content that is reinjected on another path; the original may still arrive.
    pub(crate) reinjected: Vec<Contents>,
    /// Paths on which packets were newly acknowledged.
    pub(crate) progress: SmallVec<[PathId; 4]>,
    /// Whether an acknowledgement or a timeout was handled, even without any of the above.
    is_settled: bool,
}

/// Notices and fates that wait for the wire.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    pub(crate) news: Vec<Notice>,
    pub(crate) fates: Fates,
}

impl Notices {
    pub(crate) fn push(&mut self, notice: Notice) {
        self.news.push(notice);
    }

    /// An acknowledgement or a timeout was handled.
    pub(crate) fn on_settled(&mut self) {
        self.fates.is_settled = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Fates { delivered, lost, reinjected, progress, is_settled } = &self.fates;
        self.news.is_empty()
            && !is_settled
            && delivered.is_empty()
            && lost.is_empty()
            && reinjected.is_empty()
            && progress.is_empty()
    }

    /// Takes everything; [`reuse`](Self::reuse) returns the memory.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Returns the memory of notices that were carried out, unless new ones exist already.
    pub(crate) fn reuse(&mut self, mut carried_out: Self) {
        if self.is_empty() {
            carried_out.clear();
            *self = carried_out;
        }
    }

    fn clear(&mut self) {
        self.news.clear();
        let Fates { delivered, lost, reinjected, progress, is_settled } = &mut self.fates;
        delivered.clear();
        lost.clear();
        reinjected.clear();
        progress.clear();
        *is_settled = false;
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.news.shrink_to_fit();
        self.fates.delivered.shrink_to_fit();
        self.fates.lost.shrink_to_fit();
        self.fates.reinjected.shrink_to_fit();
    }
}
