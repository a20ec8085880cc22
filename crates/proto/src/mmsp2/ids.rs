//! Connection IDs of each path: those by which the peer reaches this end, and those by which this end reaches the
//! peer.

use std::collections::VecDeque;

use manyway_wire::mmsp2::{NewCid, RetireCid};
use manyway_wire::{ConnectionId, PathId, Writer};

use std::sync::Arc;

use crate::mmsp2::reset_token::ResetKey;
use crate::packet::content::{Contents, SentContent};
use crate::{Rng, Shard, Violation};

/// Ids of a path in use (spec 6.9): a path that moves takes a fresh one.
const OF_OPEN_PATH: usize = 2;
/// Ids of a path that may be opened.
const OF_NEXT_PATH: usize = 1;

/// A change for the endpoint's table of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdChange {
    Added(ConnectionId, PathId),
    Removed(ConnectionId),
    /// A peer that sends this token has lost the connection.
    TokenIssued([u8; 16]),
    TokenRetired([u8; 16]),
}

/// The lowest sequence number that a further ID may have, of each path that has retired one.
#[derive(Debug, Default)]
struct RetiredBelow(Vec<(PathId, u64)>);

impl RetiredBelow {
    /// That of a path, 0 if it has retired none.
    fn of(&self, path: PathId) -> u64 {
        self.0.iter().find(|(of, _)| *of == path).map_or(0, |(_, lowest)| *lowest)
    }

    fn raise(&mut self, path: PathId, to: u64) {
        match self.0.iter_mut().find(|(of, _)| *of == path) {
            Some((_, lowest)) => *lowest = to.max(*lowest),
            None if to > 0 => self.0.push((path, to)),
            None => {}
        }
    }

    fn forget(&mut self, path: PathId) {
        self.0.retain(|(of, _)| *of != path);
    }
}

/// An id of this end. Every idle connection has several: the order of size matters.
#[derive(Debug, Clone, Copy)]
struct Issued {
    path: PathId,
    sequence: u32,
    id: ConnectionId,
    wanted: bool,
    /// Whether the peer may know it.
    told: bool,
}

impl Issued {
    fn is(&self, path: PathId, sequence: u64) -> bool {
        self.path == path && u64::from(self.sequence) == sequence
    }
}

/// Ids by which the peer reaches this end.
#[derive(Debug)]
pub(crate) struct LocalIds {
    /// In order of paths, and of numbers within a path.
    ids: Vec<Issued>,
    retired: RetiredBelow,
    changes: VecDeque<IdChange>,
    reset_key: Arc<ResetKey>,
    wanted: usize,
    /// The highest path that was opened.
    opened: PathId,
    issued_up_to: PathId,
}

impl LocalIds {
    /// Starts with the id that this end chose for the handshake; it becomes the first of path 0.
    pub(crate) fn new(first: ConnectionId, reset_key: Arc<ResetKey>) -> Self {
        Self {
            ids: vec![Issued { path: PathId::FIRST, sequence: 0, id: first, wanted: false, told: true }],
            retired: RetiredBelow::default(),
            changes: VecDeque::from([IdChange::Added(first, PathId::FIRST)]),
            reset_key,
            wanted: 0,
            opened: PathId::FIRST,
            issued_up_to: PathId::FIRST,
        }
    }

    /// Whose ids they are.
    pub(crate) fn shard(&self) -> Shard {
        self.reset_key.shard()
    }

    /// Bytes of each of them.
    pub(crate) fn id_length(&self) -> usize {
        self.reset_key.id_length()
    }

    /// Issues the missing ids of every path up to `highest` that was not closed.
    pub(crate) fn issue_up_to(&mut self, highest: PathId, rng: &mut Rng) {
        if self.of(PathId::FIRST) > 0 {
            self.refill(PathId::FIRST, rng);
        }
        for path in (self.issued_up_to.0 + 1..=highest.0).map(PathId) {
            self.refill(path, rng);
            self.issued_up_to = path;
        }
    }

    /// A path was opened, by either end: it may move, and needs another id for that.
    pub(crate) fn on_opened(&mut self, path: PathId, rng: &mut Rng) {
        self.opened = self.opened.max(path);
        if self.of(path) > 0 {
            self.refill(path, rng);
        }
    }

    /// How many ids a path has.
    fn of(&self, path: PathId) -> usize {
        self.ids.iter().filter(|issued| issued.path == path).count()
    }

    /// Issues the missing ids of a path; none if it has used up all numbers.
    fn refill(&mut self, path: PathId, rng: &mut Rng) {
        let ahead = if path <= self.opened { OF_OPEN_PATH } else { OF_NEXT_PATH };
        for _ in self.of(path)..ahead {
            let Ok(sequence) = u32::try_from(self.next_sequence(path)) else { return };
            let id = self.reset_key.issue_id(rng);
            let at = self.ids.partition_point(|issued| issued.path <= path);
            self.ids.insert(at, Issued { path, sequence, id, wanted: true, told: false });
            self.wanted += 1;
            self.changes.push_back(IdChange::Added(id, path));
        }
    }

    fn next_sequence(&self, path: PathId) -> u64 {
        let last = self.ids.iter().rfind(|issued| issued.path == path);
        let next = last.map_or(0, |issued| u64::from(issued.sequence) + 1);
        next.max(self.retired.of(path))
    }

    /// The peer retires an id: it gets another one while the path lives.
    pub(crate) fn on_retire(&mut self, block: &RetireCid, rng: &mut Rng) -> Result<(), Violation> {
        if self.of(block.path) == 0 {
            return Ok(());
        }
        let at = self.ids.iter().position(|issued| issued.is(block.path, block.sequence));
        let untold = at.and_then(|at| self.ids.get(at)).is_some_and(|issued| !issued.told);
        if block.sequence >= self.next_sequence(block.path) || untold {
            return Err(Violation::ConnectionId {
                path: block.path,
                reason: "an id was retired that was never issued",
            });
        }
        if let Some(at) = at {
            self.retired.raise(block.path, self.next_sequence(block.path));
            let retired = self.ids.remove(at);
            self.wanted -= usize::from(retired.wanted);
            self.changes.push_back(IdChange::Removed(retired.id));
            self.refill(block.path, rng);
        }
        Ok(())
    }

    /// The path is closed: releases its ids.
    pub(crate) fn forget(&mut self, path: PathId) {
        let Self { ids, changes, wanted, .. } = self;
        ids.retain(|issued| {
            if issued.path == path {
                *wanted -= usize::from(issued.wanted);
                changes.push_back(IdChange::Removed(issued.id));
            }
            issued.path != path
        });
        self.retired.forget(path);
    }

    pub(crate) fn poll_change(&mut self) -> Option<IdChange> {
        self.changes.pop_front()
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.changes.shrink_to_fit();
        self.ids.shrink_to_fit();
    }

    /// Adds an id that belongs to no path and is not issued to the peer.
    pub(crate) fn add_alias(&mut self, id: ConnectionId) {
        self.changes.push_back(IdChange::Added(id, PathId::FIRST));
    }

    /// Releases an id that belongs to no path, such as the original destination of the client.
    pub(crate) fn release(&mut self, id: ConnectionId) {
        self.changes.push_back(IdChange::Removed(id));
    }

    /// Releases every id, at the end of the connection.
    pub(crate) fn forget_all(&mut self) {
        self.changes.extend(self.ids.drain(..).map(|issued| IdChange::Removed(issued.id)));
        (self.wanted, self.retired) = (0, RetiredBelow::default());
    }

    pub(crate) fn wants(&self) -> bool {
        self.wanted > 0
    }

    pub(crate) fn write_into(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        for issued in self.ids.iter_mut().filter(|issued| issued.wanted) {
            let block = NewCid {
                path: issued.path,
                sequence: issued.sequence.into(),
                retire_prior_to: 0,
                id: issued.id,
                reset_token: self.reset_key.token(&issued.id),
            };
            if block.encoded_len() > writer.remaining() {
                return;
            }
            block.encode(writer);
            contents.push(SentContent::NewCid { path: block.path, sequence: block.sequence });
            (issued.wanted, issued.told) = (false, true);
            self.wanted -= 1;
        }
    }

    pub(crate) fn on_lost(&mut self, path: PathId, sequence: u64) {
        let lost = self.ids.iter_mut().find(|issued| issued.is(path, sequence) && !issued.wanted);
        if let Some(issued) = lost {
            issued.wanted = true;
            self.wanted += 1;
        }
    }
}

/// An id of the peer.
#[derive(Debug, Clone, Copy)]
struct PeerId {
    path: PathId,
    sequence: u64,
    id: ConnectionId,
    token: Option<[u8; 16]>,
    /// Whether packets carried it: only then may a reset use its token (RFC 9000, section 10.3.1).
    used: bool,
}

impl PeerId {
    /// The stateless reset token by which the endpoint finds this connection.
    fn known_token(&self) -> Option<[u8; 16]> {
        self.token.filter(|_| self.used)
    }
}

/// Ids by which this end reaches the peer.
#[derive(Debug, Default)]
pub(crate) struct RemoteIds {
    /// In order of paths. The first of a path is in use, the others wait.
    ids: Vec<PeerId>,
    /// Numbers below which the ids of a path were given back.
    retired: RetiredBelow,
    /// Ids to retire, with whether the block is in flight.
    retire: Vec<(PathId, u64, bool)>,
    changes: VecDeque<IdChange>,
}

/// Most ids retired without acknowledgement; a peer that forces more breaks the protocol.
const MAX_RETIRING: usize = 64;
/// Most ids that wait for use on a path.
const MAX_GIVEN: usize = 4;

impl RemoteIds {
    /// Sets the id that the peer chose for the handshake; it becomes the first of path 0.
    pub(crate) fn set_first(&mut self, id: ConnectionId, token: Option<[u8; 16]>) {
        self.ids.retain(|known| (known.path, known.sequence) != (PathId::FIRST, 0));
        self.ids.insert(0, PeerId { path: PathId::FIRST, sequence: 0, id, token, used: true });
        self.changes.extend(token.map(IdChange::TokenIssued));
    }

    /// The id in use on a path.
    pub(crate) fn current(&self, path: PathId) -> Option<ConnectionId> {
        self.ids.iter().find(|known| known.path == path).map(|known| known.id)
    }

    /// The id for a packet that is about to be sent on a path. Costs a search among the ids.
    pub(crate) fn use_current(&mut self, path: PathId) -> Option<ConnectionId> {
        let known = self.ids.iter_mut().find(|known| known.path == path)?;
        if !std::mem::replace(&mut known.used, true) {
            self.changes.extend(known.token.map(IdChange::TokenIssued));
        }
        Some(known.id)
    }

    pub(crate) fn on_new(&mut self, block: &NewCid, limit: PathId) -> Result<(), Violation> {
        let violation = |reason| Err(Violation::ConnectionId { path: block.path, reason });
        if block.path > limit {
            return violation("an id for a path beyond the limit");
        }
        if block.retire_prior_to > block.sequence {
            return violation("retire-prior-to is above the id's own sequence");
        }
        let of_path = |known: &&PeerId| known.path == block.path;
        if let Some(known) = self.ids.iter().filter(of_path).find(|it| it.sequence == block.sequence) {
            return if known.id == block.id { Ok(()) } else { violation("two ids have one sequence number") };
        }
        if block.sequence < self.retired.of(block.path) {
            return Ok(());
        }
        self.retired.raise(block.path, block.retire_prior_to);
        let at = self.ids.partition_point(|known| known.path <= block.path);
        let (path, sequence, token) = (block.path, block.sequence, Some(block.reset_token));
        self.ids.insert(at, PeerId { path, sequence, id: block.id, token, used: false });
        let below = self.retired.of(path);
        let old = |known: &&PeerId| known.path == path && known.sequence < below;
        let retired: Vec<_> = self.ids.iter().filter(old).map(|it| it.sequence).collect();
        let tokens = self.ids.iter().filter(old).filter_map(PeerId::known_token);
        self.changes.extend(tokens.map(IdChange::TokenRetired));
        self.ids.retain(|known| !old(&known));
        let given = self.ids.iter().filter(of_path).count();
        if given > MAX_GIVEN || self.retire.len() + retired.len() > MAX_RETIRING {
            return violation("more ids than agreed");
        }
        self.retire.extend(retired.into_iter().map(|sequence| (path, sequence, true)));
        Ok(())
    }

    /// Switches to a fresh id for a migrated path, so that observers cannot link the two addresses; keeps the old one
    /// if there is no other.
    pub(crate) fn rotate(&mut self, path: PathId) {
        let mut of_path = self.ids.iter().enumerate().filter(|(_, known)| known.path == path);
        let (Some((at, _)), Some(_)) = (of_path.next(), of_path.next()) else { return };
        let old = self.ids.remove(at);
        self.changes.extend(old.known_token().map(IdChange::TokenRetired));
        // A late copy of its NEW-CID must not restore it.
        self.retired.raise(path, old.sequence + 1);
        if self.retire.len() < MAX_RETIRING {
            self.retire.push((path, old.sequence, true));
        }
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        let tokens = self.ids.iter().filter(|known| known.path == path).filter_map(PeerId::known_token);
        self.changes.extend(tokens.map(IdChange::TokenRetired));
        self.ids.retain(|known| known.path != path);
        self.retired.forget(path);
        self.retire.retain(|(retired, ..)| *retired != path);
    }

    /// Drops every id, at the end of the connection.
    pub(crate) fn forget_all(&mut self) {
        while let Some(path) = self.ids.first().map(|known| known.path) {
            self.forget(path);
        }
    }

    pub(crate) fn poll_change(&mut self) -> Option<IdChange> {
        self.changes.pop_front()
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.changes.shrink_to_fit();
        self.retire.shrink_to_fit();
        self.ids.shrink_to_fit();
    }

    pub(crate) fn wants(&self) -> bool {
        self.retire.iter().any(|(_, _, wanted)| *wanted)
    }

    pub(crate) fn write_into(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        for (path, sequence, wanted) in self.retire.iter_mut().filter(|(_, _, wanted)| *wanted) {
            let block = RetireCid { path: *path, sequence: *sequence };
            if block.encoded_len() <= writer.remaining() {
                block.encode(writer);
                contents.push(SentContent::RetireCid { path: *path, sequence: *sequence });
                *wanted = false;
            }
        }
    }

    pub(crate) fn on_delivered(&mut self, path: PathId, sequence: u64) {
        self.retire.retain(|(retired, number, _)| (*retired, *number) != (path, sequence));
    }

    pub(crate) fn on_lost(&mut self, path: PathId, sequence: u64) {
        for entry in
            self.retire.iter_mut().filter(|(retired, number, _)| (*retired, *number) == (path, sequence))
        {
            entry.2 = true;
        }
    }
}

#[cfg(test)]
mod tests;
