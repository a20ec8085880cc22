//! What the engine has for the wire: told in order, and carried out before the next packet is built.
//!
//! The engine never calls the wire for these, so what a path or a timer decides runs to its end before any block is
//! written, and each wire says it in its own words, or not at all.

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::packet::content::Contents;
use crate::path::PathAvailability;

/// What became of a path that the wire may have to tell the peer, or to follow itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// This is how this end sees a path now.
    Status(PathId, PathAvailability),
    /// A path is suspect: the peer should say what it received last on it.
    Liveness(PathId),
    /// A path has other addresses now: an observer must not link them by an id.
    Migrated(PathId),
    /// A path is closed, and there is room for another one.
    Closed {
        /// Which path.
        path: PathId,
        /// Whether the peer has to be told.
        tell: bool,
    },
    /// No path works any more, or one does again.
    Pathless(bool),
}

/// What became of what packets carried.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    pub(crate) delivered: Vec<Contents>,
    pub(crate) lost: Vec<Contents>,
    /// Content that goes out once more on another path; the original may still arrive.
    pub(crate) reinjected: Vec<Contents>,
    /// Paths on which anything was newly acknowledged.
    pub(crate) progress: SmallVec<[PathId; 4]>,
    /// An acknowledgement or a timeout was dealt with, even if nothing of the above came of it.
    is_settled: bool,
}

/// Notices and fates that the wire has not heard of.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    pub(crate) news: Vec<Notice>,
    pub(crate) fates: Fates,
}

impl Notices {
    pub(crate) fn push(&mut self, notice: Notice) {
        self.news.push(notice);
    }

    /// An acknowledgement or a timeout was dealt with.
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

    /// Takes all there is; the memory comes back by [`reuse`](Self::reuse).
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Gives the memory of notices back that were carried out, unless there are new ones already.
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

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.news.shrink_to_fit();
        self.fates.delivered.shrink_to_fit();
        self.fates.lost.shrink_to_fit();
        self.fates.reinjected.shrink_to_fit();
    }
}
