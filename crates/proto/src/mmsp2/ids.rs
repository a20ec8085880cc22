//! Connection IDs of each path: those by which the peer reaches this end, and those by which this end reaches the
//! peer.

use std::collections::{BTreeMap, VecDeque};

use manyway_wire::mmsp2::{NewCid, RetireCid};
use manyway_wire::{ConnectionId, PathId, Writer};

use std::sync::Arc;

use crate::mmsp2::reset_token::ResetKey;
use crate::packet::content::{Contents, SentContent};
use crate::{Rng, Shard, Violation};

/// Ids issued for each path ahead of use (spec 4.38, 6.9).
const AHEAD: usize = 2;

/// A change for the endpoint's table of ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdChange {
    Added(ConnectionId, PathId),
    Removed(ConnectionId),
    /// A peer that sends this token has lost the connection.
    TokenIssued([u8; 16]),
    TokenRetired([u8; 16]),
}

#[derive(Debug, Clone, Copy)]
struct Issued {
    sequence: u64,
    id: ConnectionId,
    wanted: bool,
    /// Whether the peer may know it.
    told: bool,
}

#[derive(Debug, Default)]
struct IssuedToPath {
    next_sequence: u64,
    ids: Vec<Issued>,
}

/// Ids by which the peer reaches this end.
#[derive(Debug)]
pub(crate) struct LocalIds {
    paths: BTreeMap<PathId, IssuedToPath>,
    changes: VecDeque<IdChange>,
    reset_key: Arc<ResetKey>,
    wanted: usize,
    issued_up_to: PathId,
}

impl LocalIds {
    /// Starts with the id that this end chose for the handshake; it becomes the first of path 0.
    pub(crate) fn new(first: ConnectionId, reset_key: Arc<ResetKey>) -> Self {
        let mut paths = BTreeMap::new();
        let ids = vec![Issued { sequence: 0, id: first, wanted: false, told: true }];
        paths.insert(PathId::FIRST, IssuedToPath { next_sequence: 1, ids });
        let changes = VecDeque::from([IdChange::Added(first, PathId::FIRST)]);
        Self { paths, changes, reset_key, wanted: 0, issued_up_to: PathId::FIRST }
    }

    /// Whose ids they are.
    pub(crate) fn shard(&self) -> Shard {
        self.reset_key.shard()
    }

    /// Issues the missing ids of every path up to `highest` that was not closed.
    pub(crate) fn issue_up_to(&mut self, highest: PathId, rng: &mut Rng) {
        self.refill(PathId::FIRST, rng);
        for path in (self.issued_up_to.0 + 1..=highest.0).map(PathId) {
            self.refill(path, rng);
            self.issued_up_to = path;
        }
    }

    fn refill(&mut self, path: PathId, rng: &mut Rng) {
        if path == PathId::FIRST && !self.paths.contains_key(&path) {
            return;
        }
        let issued = self.paths.entry(path).or_default();
        while issued.ids.len() < AHEAD {
            let id = self.reset_key.issue_id(rng.next_u64());
            issued.ids.push(Issued { sequence: issued.next_sequence, id, wanted: true, told: false });
            issued.next_sequence += 1;
            self.wanted += 1;
            self.changes.push_back(IdChange::Added(id, path));
        }
    }

    /// The peer retires an id: it gets another one while the path lives.
    pub(crate) fn on_retire(&mut self, block: &RetireCid, rng: &mut Rng) -> Result<(), Violation> {
        let Some(issued) = self.paths.get_mut(&block.path) else { return Ok(()) };
        let untold = issued.ids.iter().any(|issued| issued.sequence == block.sequence && !issued.told);
        if block.sequence >= issued.next_sequence || untold {
            return Err(Violation::ConnectionId {
                path: block.path,
                reason: "an id was retired that was never issued",
            });
        }
        if let Some(at) = issued.ids.iter().position(|issued| issued.sequence == block.sequence) {
            let retired = issued.ids.remove(at);
            self.wanted -= usize::from(retired.wanted);
            self.changes.push_back(IdChange::Removed(retired.id));
            self.refill(block.path, rng);
        }
        Ok(())
    }

    /// The path is closed: releases its ids.
    pub(crate) fn forget(&mut self, path: PathId) {
        for issued in self.paths.remove(&path).map(|issued| issued.ids).unwrap_or_default() {
            self.wanted -= usize::from(issued.wanted);
            self.changes.push_back(IdChange::Removed(issued.id));
        }
    }

    pub(crate) fn poll_change(&mut self) -> Option<IdChange> {
        self.changes.pop_front()
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.changes.shrink_to_fit();
        self.paths.values_mut().for_each(|path| path.ids.shrink_to_fit());
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
        while let Some((path, _)) = self.paths.first_key_value() {
            let path = *path;
            self.forget(path);
        }
    }

    pub(crate) fn wants(&self) -> bool {
        self.wanted > 0
    }

    pub(crate) fn write_into(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        for (path, issued) in &mut self.paths {
            for issued in issued.ids.iter_mut().filter(|issued| issued.wanted) {
                let block = NewCid {
                    path: *path,
                    sequence: issued.sequence,
                    retire_prior_to: 0,
                    id: issued.id,
                    reset_token: self.reset_key.token(&issued.id),
                };
                if block.encoded_len() > writer.remaining() {
                    return;
                }
                block.encode(writer);
                contents.push(SentContent::NewCid { path: *path, sequence: issued.sequence });
                (issued.wanted, issued.told) = (false, true);
                self.wanted -= 1;
            }
        }
    }

    pub(crate) fn on_lost(&mut self, path: PathId, sequence: u64) {
        let issued =
            self.paths.get_mut(&path).and_then(|path| path.ids.iter_mut().find(|i| i.sequence == sequence));
        if let Some(issued) = issued.filter(|issued| !issued.wanted) {
            issued.wanted = true;
            self.wanted += 1;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PeerId {
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

#[derive(Debug, Default)]
struct PeerIds {
    /// The first is in use, the others wait.
    ids: VecDeque<PeerId>,
    retired_below: u64,
}

/// Ids by which this end reaches the peer.
#[derive(Debug, Default)]
pub(crate) struct RemoteIds {
    paths: BTreeMap<PathId, PeerIds>,
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
        let known = self.paths.entry(PathId::FIRST).or_default();
        known.ids.retain(|it| it.sequence != 0);
        known.ids.push_front(PeerId { sequence: 0, id, token, used: true });
        self.changes.extend(token.map(IdChange::TokenIssued));
    }

    /// The id in use on a path.
    pub(crate) fn current(&self, path: PathId) -> Option<ConnectionId> {
        self.paths.get(&path)?.ids.front().map(|it| it.id)
    }

    /// The id for a packet that is about to be sent on a path. Costs a search among the paths.
    pub(crate) fn use_current(&mut self, path: PathId) -> Option<ConnectionId> {
        let known = self.paths.get_mut(&path)?.ids.front_mut()?;
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
        let known = self.paths.entry(block.path).or_default();
        if let Some(known) = known.ids.iter().find(|it| it.sequence == block.sequence) {
            return if known.id == block.id { Ok(()) } else { violation("two ids have one sequence number") };
        }
        if block.sequence < known.retired_below {
            return Ok(());
        }
        known.retired_below = known.retired_below.max(block.retire_prior_to);
        let token = Some(block.reset_token);
        known.ids.push_back(PeerId { sequence: block.sequence, id: block.id, token, used: false });
        let below = known.retired_below;
        let old = |known: &&PeerId| known.sequence < below;
        let retired: Vec<_> = known.ids.iter().filter(old).map(|it| it.sequence).collect();
        let tokens = known.ids.iter().filter(old).filter_map(PeerId::known_token);
        self.changes.extend(tokens.map(IdChange::TokenRetired));
        known.ids.retain(|it| it.sequence >= below);
        if known.ids.len() > MAX_GIVEN || self.retire.len() + retired.len() > MAX_RETIRING {
            return violation("more ids than agreed");
        }
        self.retire.extend(retired.into_iter().map(|sequence| (block.path, sequence, true)));
        Ok(())
    }

    /// Switches to a fresh id for a migrated path, so that observers cannot link the two addresses; keeps the old one
    /// if there is no other.
    pub(crate) fn rotate(&mut self, path: PathId) {
        let Some(known) = self.paths.get_mut(&path).filter(|it| it.ids.len() > 1) else { return };
        let Some(old) = known.ids.pop_front() else { return };
        self.changes.extend(old.known_token().map(IdChange::TokenRetired));
        // A late copy of its NEW-CID must not restore it.
        known.retired_below = known.retired_below.max(old.sequence + 1);
        if self.retire.len() < MAX_RETIRING {
            self.retire.push((path, old.sequence, true));
        }
    }

    pub(crate) fn forget(&mut self, path: PathId) {
        let known = self.paths.remove(&path).unwrap_or_default();
        let tokens = known.ids.iter().filter_map(PeerId::known_token);
        self.changes.extend(tokens.map(IdChange::TokenRetired));
        self.retire.retain(|(retired, ..)| *retired != path);
    }

    /// Drops every id, at the end of the connection.
    pub(crate) fn forget_all(&mut self) {
        while let Some((path, _)) = self.paths.first_key_value() {
            let path = *path;
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
        self.paths.values_mut().for_each(|path| path.ids.shrink_to_fit());
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
