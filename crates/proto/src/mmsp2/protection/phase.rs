//! Events since the last key update.

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::usage::Usage;
use crate::Instant;
use crate::KeyLimits;

/// One key phase.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    index: u64,
    pub(super) usage: Usage,
    /// First clock reading in this phase.
    began: Option<Instant>,
    /// First acknowledgement of a packet of this phase.
    acked: Option<Instant>,
    proof: Proof,
    /// Most connections have one path, and every idle connection pays for these places.
    paths: SmallVec<[PathNotes; 1]>,
}

/// How far the peer has come, as its own packets prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// No packet of this phase was decrypted.
    None,
    /// One was decrypted: the peer has the keys.
    Opened,
    /// One was decrypted and another sealed after it, so the peer may have its acknowledgement.
    Answered,
}

/// The first packet numbers of the phase on one path, [`NONE`] before there are any.
#[derive(Debug, Clone, Copy)]
struct PathNotes {
    path: PathId,
    sealed: u64,
    opened: u64,
}

/// Above all packet numbers.
const NONE: u64 = u64::MAX;

impl Phase {
    /// The phase after `index` key updates.
    pub(super) fn new(index: u64) -> Self {
        Self {
            index,
            usage: Usage::default(),
            began: None,
            acked: None,
            proof: Proof::None,
            paths: SmallVec::new(),
        }
    }

    /// The phase that follows this one. The records of paths start again.
    pub(super) fn successor(&self) -> Self {
        Self::new(self.index.wrapping_add(1))
    }

    /// The key phase bit on the wire.
    pub(super) fn bit(&self) -> bool {
        self.index & 1 == 1
    }

    /// Counts a sealed packet.
    pub(super) fn on_sealed(&mut self, path: PathId, number: u64) {
        self.usage.count();
        if self.proof == Proof::Opened {
            self.proof = Proof::Answered;
        }
        self.note(path, |notes| notes.sealed = notes.sealed.min(number));
    }

    /// Records a packet that the keys of this phase decrypted.
    pub(super) fn on_opened(&mut self, path: PathId, number: u64) {
        if self.proof == Proof::None {
            self.proof = Proof::Opened;
        }
        self.note(path, |notes| notes.opened = notes.opened.min(number));
    }

    /// Records the first acknowledgement of a packet of this phase.
    pub(super) fn on_acked(&mut self, now: Instant, path: PathId, largest: u64) {
        let of_this_phase = self.notes(path).is_some_and(|notes| largest >= notes.sealed);
        if of_this_phase && self.acked.is_none() {
            self.acked = Some(now);
        }
    }

    /// Forgets the record of a path.
    pub(super) fn forget_path(&mut self, path: PathId) {
        self.paths.retain(|notes| notes.path != path);
    }

    /// Whether a number of `path` lies below all numbers decrypted in this phase, so belongs to an earlier one.
    pub(super) fn is_older(&self, path: PathId, number: u64) -> bool {
        self.notes(path).is_none_or(|notes| number < notes.opened)
    }

    /// Whether a packet of this phase arrived from the peer.
    pub(super) fn peer_followed(&self) -> bool {
        self.proof != Proof::None
    }

    /// Whether the peer has acknowledged a packet of this phase, so that it will follow into the next.
    pub(super) fn is_acked(&self) -> bool {
        self.acked.is_some()
    }

    /// Whether the peer can have an acknowledgement of a packet of this phase, as it must before it leaves it (RFC
    /// 9001, section 6.2).
    pub(super) fn peer_may_leave(&self) -> bool {
        self.proof == Proof::Answered
    }

    /// Whether a key update is due and permitted (RFC 9001, sections 6.1 and 6.5).
    pub(super) fn should_end(
        &mut self,
        now: Instant,
        wait: impl Fn() -> Duration,
        limits: &KeyLimits,
    ) -> bool {
        let began = *self.began.get_or_insert(now);
        let due = self.usage.sealed() >= limits.update_after_packets || now - began >= limits.update_after;
        due && self.acked.is_some_and(|at| now - at >= wait())
    }

    fn notes(&self, path: PathId) -> Option<&PathNotes> {
        self.paths.iter().find(|notes| notes.path == path)
    }

    #[inline]
    fn note(&mut self, path: PathId, note: impl FnOnce(&mut PathNotes)) {
        if let Some(notes) = self.paths.iter_mut().find(|notes| notes.path == path) {
            return note(notes);
        }
        let mut notes = PathNotes { path, sealed: NONE, opened: NONE };
        note(&mut notes);
        self.paths.push(notes);
    }
}
