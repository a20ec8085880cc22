//! Paths come, move and go.

use manyway_wire::PathId;
use manyway_wire::mmsp2::{AddAddress, PathStatus, RemoveAddress};

use super::control::from_wire;
use super::input::PacketFacts;
use super::settle::Portion;
use super::setup::race_order;
use super::{Connection, Initiator};
use crate::event::{Event, PathEvent};
use crate::path::remotes::MAX_REMOTES;
use crate::path::{
    Followed, LocalCandidate, Path, PathAvailability, PathReason, PathState, Role, SendRefusal,
};
use crate::{FourTuple, Instant};

/// The code of a PATH-CLOSE whose reason needs none.
const NO_ERROR: u64 = 0;
/// If that many packets sent last were sent again elsewhere, all were.
const LOOKED_AT: usize = 64;

impl Connection {
    /// Tells which addresses this end may use from now on. At a client paths over missing ones close at once, and new ones
    /// are tried. A server leaves them at its rendezvous server; its paths go on until [`relocate`](Self::relocate) or
    /// [`on_links_changed`](Self::on_links_changed) says that their addresses are gone.
    pub fn set_local_addresses(&mut self, now: Instant, locals: &[LocalCandidate]) {
        self.manager.set_locals(locals);
        self.tell_meeting();
        if self.side == Initiator::Server {
            return;
        }
        if self.is_handshaking() {
            let legs = race_order(&self.manager);
            if let Some(setup) = &mut self.setup {
                setup.race.set_legs(legs);
                setup.handshake.resend_all(crate::protection::Level::Open);
            }
            return;
        }
        for id in self.paths.ids() {
            let gone = self.paths.get(id).is_some_and(|path| !self.keeps(path));
            let Some(reason) = gone.then(|| self.why_left(id)) else { continue };
            if !self.carry_over(now, id, reason) {
                self.close_own_path(now, id, reason);
            }
        }
        self.retarget_paths(now);
        self.open_missing_paths(now);
    }

    /// Why the own address of a path is not used any more.
    pub(super) fn why_left(&self, id: PathId) -> PathReason {
        let local = self.paths.get(id).map(|path| path.tuple().local);
        local.map_or(PathReason::AddressGone, |local| self.manager.why_left(&local))
    }

    /// While no other path works the peer can not be told of a close and grants no further ids, and right after the
    /// set-up there may be none yet. So the last path keeps its id when its address is gone, and tries another
    /// interface, now or when one appears; false if it has to be closed.
    fn carry_over(&mut self, now: Instant, id: PathId, reason: PathReason) -> bool {
        let silent = |path: &Path| matches!(path.state(), PathState::Validating | PathState::Dead);
        if self.paths.iter().any(|path| path.id != id && !silent(path)) {
            return false;
        }
        self.declare_dead(now, id, reason);
        if let Some(path) = self.paths.get_mut(id) {
            path.forget_flaps();
        }
        let others = self.paths.iter().filter(|path| path.id != id);
        let busy: Vec<_> = others.map(|path| path.tuple().local).collect();
        let Some(open) = self.manager.missing(&busy).into_iter().next() else { return true };
        if let (Some(path), Some(tuple)) = (self.paths.get_mut(id), open.targets.first()) {
            path.place.choose(*tuple);
            path.set_role(open.role);
            path.prober.start(now, open.targets, None);
            self.ids.remote.rotate(id);
            self.forget_size(now, id);
            self.begin_anew(now, id);
        }
        true
    }

    fn keeps(&self, path: &Path) -> bool {
        self.manager.has_local(&path.tuple().local)
    }

    /// The addresses that this end was told to use by [`set_local_addresses`](Self::set_local_addresses), or at the start.
    pub fn local_candidates(&self) -> Vec<LocalCandidate> {
        self.manager.local_candidates().to_vec()
    }

    /// The addresses of the peer that are known: those that the application named, and those that the peer did.
    pub fn remote_addresses(&self) -> Vec<std::net::SocketAddr> {
        self.manager.remotes().collect()
    }

    /// Adds addresses of the peer, as from a new look at its name, and has them asked first. Where there is no room for
    /// them, they take the places of others that no working path uses.
    pub fn add_remote_addresses(&mut self, now: Instant, remotes: &[std::net::SocketAddr]) {
        let working = self.paths.iter().filter(|path| path.is_live());
        let used: Vec<_> = working.map(|path| path.tuple().remote).collect();
        self.manager.refresh_remotes(remotes, &used);
        self.retarget_paths(now);
        self.open_missing_paths(now);
    }

    /// Addresses came or went: paths that nobody answers on try the present ones.
    pub(super) fn retarget_paths(&mut self, now: Instant) {
        if self.side == Initiator::Server {
            return;
        }
        for id in self.paths.ids() {
            let targets = self.targets(id);
            let looks = |path: &&mut Path| matches!(path.state(), PathState::Validating | PathState::Dead);
            if let Some(path) = self.paths.get_mut(id).filter(looks) {
                path.prober.set_targets(now, targets);
            }
        }
    }

    /// The pairs that a path without an answer asks: all of its interface. Where pairs are chosen one by one it is its
    /// own, and the others of its interface that no path has only while nothing works.
    pub(super) fn targets(&self, id: PathId) -> Vec<FourTuple> {
        let Some(path) = self.paths.get(id) else { return Vec::new() };
        let mut targets = self.manager.targets(path.tuple().local);
        if self.manager.selection.is_some() {
            let stuck = !self.paths.iter().any(Path::is_live);
            targets.retain(|tuple| *tuple == path.tuple() || (stuck && !self.is_taken(id, tuple)));
        }
        targets
    }

    /// Whether another path than this one lies between some addresses. One on which nothing was ever acknowledged does not
    /// keep them from a dead one: perhaps the peer has no id to answer with (spec 6.11).
    pub(super) fn is_taken(&self, id: PathId, tuple: &FourTuple) -> bool {
        let is_dead = self.paths.get(id).is_some_and(|path| path.state() == PathState::Dead);
        let holds = |other: &Path| other.id != id && other.tuple() == *tuple;
        self.paths.iter().any(|other| holds(other) && !(is_dead && is_unproven(other)))
    }

    /// A path has come to where others asked in vain: these close (spec 6.50).
    pub(super) fn close_twins(&mut self, now: Instant, id: PathId) {
        let Some(tuple) = self.paths.get(id).map(|path| path.tuple()) else { return };
        if self.manager.selection.is_none() {
            return;
        }
        for twin in self.paths.ids() {
            let is_twin = |path: &&Path| path.id != id && path.tuple() == tuple && is_unproven(path);
            if self.paths.get(twin).filter(is_twin).is_some() {
                self.close_own_path(now, twin, PathReason::Replaced);
            }
        }
    }

    /// Tells the peer by which addresses this end can be reached from now on, at most 8; a server does.
    pub fn set_advertised_addresses(&mut self, addresses: &[std::net::SocketAddr]) {
        if self.life.is_established() && self.side == Initiator::Server {
            self.control.announce(addresses.get(..MAX_REMOTES).unwrap_or(addresses));
            self.tell_meeting();
        }
    }

    /// Whether a path lies between these addresses, or may during the set-up.
    pub(crate) fn uses(&self, tuple: &FourTuple) -> bool {
        self.is_handshaking() || (self.life.is_open() && self.paths.iter().any(|path| path.tuple() == *tuple))
    }

    /// The system refuses to send between these addresses: the path is dead at once. During the set-up, the other address
    /// pairs go on.
    pub fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        if self.is_handshaking() {
            if let Some(setup) = &mut self.setup {
                setup.race.on_refused(now, &tuple);
            }
            return;
        }
        let reason = match refusal {
            SendRefusal::Unreachable => PathReason::SendRefused,
            SendRefusal::Denied => PathReason::SendDenied,
        };
        for id in self.paths.ids() {
            if self.paths.get(id).is_some_and(|path| path.tuple() == tuple) {
                self.declare_dead(now, id, reason);
            }
        }
    }

    /// Opens every path that the addresses allow and the peer's ids reach.
    pub(super) fn open_missing_paths(&mut self, now: Instant) {
        if self.side == Initiator::Server || !self.life.is_established() {
            return;
        }
        if self.manager.selection.is_some() {
            return self.manager.survey(now);
        }
        let staying = self.paths.iter().filter(|path| !self.manager.is_leaving(path.tuple().remote));
        let busy: Vec<_> = staying.map(|path| path.tuple().local).collect();
        for open in self.manager.missing(&busy) {
            if !self.open_path(now, open.targets, open.role) {
                return;
            }
        }
    }

    /// Opens a path that tries some pairs; false if it has to wait for an id.
    pub(super) fn open_path(&mut self, now: Instant, targets: Vec<FourTuple>, role: Role) -> bool {
        let id = self.agreed.next_path;
        let within = id.0 <= self.agreed.peer_path_limit.min(self.agreed.own_path_limit);
        let Some(tuple) = targets.first().copied().filter(|_| within) else { return false };
        if self.ids.remote.current(id).is_none() {
            return false;
        }
        self.agreed.next_path = PathId(id.0 + 1);
        let mut path = Path::new(id, tuple, role, self.another_space(id), now);
        path.on_proven();
        path.prober.start(now, targets, None);
        self.paths.insert(path);
        self.report_opened(now, id, PathReason::Opened);
        true
    }

    pub(super) fn report_opened(&mut self, now: Instant, id: PathId, reason: PathReason) {
        if let Some(path) = self.paths.get_mut(id) {
            path.set_reason(reason);
            let event =
                PathEvent { path: id, tuple: path.tuple(), role: path.role(), state: path.state(), reason };
            self.announce_path(now, event);
        }
    }

    /// Closes a path from this end and tells the peer.
    pub(super) fn close_own_path(&mut self, now: Instant, id: PathId, reason: PathReason) {
        self.control.send_close(id, NO_ERROR);
        self.remove_path(now, id, reason);
    }

    /// Forgets a path; what was in flight on it is sent again on the others.
    pub(super) fn remove_path(&mut self, now: Instant, id: PathId, reason: PathReason) {
        if !self.advance_path(now, id, PathState::Closed, reason) {
            return;
        }
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        if let Some(mut path) = self.paths.remove(id) {
            path.space.recovery.abandon(now, &mut outcome);
            if matches!(reason, PathReason::ClosedByApplication | PathReason::ClosedByPeer) {
                self.manager.set_aside(path.tuple());
            }
        }
        self.settle(now, crate::protection::Level::Data, id, &mut outcome);
        self.shared.outcome = outcome;
        self.control.forget_status(id);
        self.ids.remote.forget(id);
        self.protector.forget_path(id);
        self.allow_another_path();
        self.open_missing_paths(now);
    }

    /// The peer closed a path; perhaps one of which nothing else ever arrived here.
    pub(super) fn on_path_close(&mut self, now: Instant, id: PathId) {
        if self.paths.get(id).is_some() {
            self.remove_path(now, id, PathReason::ClosedByPeer);
        } else if id.0 <= self.agreed.own_path_limit && !self.paths.is_spent(id) {
            self.paths.spend(id);
            self.ids.remote.forget(id);
            self.allow_another_path();
        }
        self.ids.local.forget(id);
    }

    /// For each path that closed the peer gets one more id, so that the number of open paths stays the same.
    fn allow_another_path(&mut self) {
        let limit = self.agreed.own_path_limit.saturating_add(1);
        self.agreed.own_path_limit = limit;
        self.control.send_path_limit(limit);
        self.issue_ids();
    }

    pub(super) fn on_path_limit(&mut self, limit: u32) {
        if limit > self.agreed.peer_path_limit {
            self.agreed.peer_path_limit = limit;
            self.issue_ids();
        }
    }

    /// Issues ids for every path that both ends allow and that has none yet.
    pub(super) fn issue_ids(&mut self) {
        let highest = PathId(self.agreed.own_path_limit.min(self.agreed.peer_path_limit));
        self.ids.local.issue_up_to(highest, &mut self.shared.rng);
    }

    pub(super) fn on_add_address(&mut self, facts: &PacketFacts, block: &AddAddress) {
        if self.config.peer_port.is_some_and(|port| port != block.address.port()) {
            return;
        }
        let peer = facts.tuple.remote.ip();
        if self.manager.on_add_address(block.id, block.sequence, block.address, peer) {
            self.retarget_paths(facts.now);
            self.open_missing_paths(facts.now);
            self.events.push(Event::PeerAddresses);
        }
    }

    pub(super) fn on_remove_address(&mut self, now: Instant, block: &RemoveAddress) {
        let Some(address) = self.manager.on_remove_address(block.id, block.sequence) else { return };
        // It may still be there for a moment, and until another path works there is nothing better.
        self.manager.set_leaving(address);
        self.close_leaving(now);
        self.retarget_paths(now);
        self.open_missing_paths(now);
        self.events.push(Event::PeerAddresses);
    }

    pub(super) fn on_path_status(&mut self, now: Instant, block: &PathStatus) {
        let Some(path) = self.paths.get_mut(block.path) else { return };
        let was_ready = path.peer_ready();
        let state = from_wire(block.state);
        let Some(before) = path.on_peer_status(block.sequence, state) else { return };
        let is_ready = path.peer_ready();
        if was_ready && !is_ready {
            // Acknowledge elsewhere, at once; and say something here: if only a NAT forgot this end, the peer learns the
            // new address from it.
            path.space.acks.force();
            if path.state() == PathState::Dead {
                path.prober.hurry(now);
            } else {
                path.schedule_probes(1);
            }
        }
        if state == PathAvailability::Dead && before != PathAvailability::Dead {
            // What is on its way there may never arrive: send it elsewhere too. A mere suspicion of the peer is about
            // what it sends itself; of what this end sends the acknowledgements tell more.
            // A peer that says so again and again must not cost a look at everything in flight each time.
            let has_new = path.space.recovery.in_flight().rev().take(LOOKED_AT).any(|packet| !packet.moved);
            if has_new && self.paths.best_live(Some(block.path)).is_some() {
                self.reinject(now, block.path, Portion::ALL);
            }
        } else if is_ready && !was_ready && path.state() == PathState::Dead {
            path.prober.hurry(now);
        }
        self.weigh_paths(now);
        self.on_rate(now, block);
    }

    /// The peer sends real data on a path from another address than before: a NAT gave it a new one. Follow it, prove
    /// the address, go back if it does not answer (RFC 9000, section 9.3).
    pub(super) fn follow_peer(&mut self, facts: &PacketFacts) {
        if self.side == Initiator::Client {
            return;
        }
        let Some(path) = self.paths.get_mut(facts.path).filter(|path| path.tuple() != facts.tuple) else {
            return;
        };
        let old = path.tuple();
        if path.state() == PathState::Validating {
            // Several pairs were tried, and the client settled on this one.
            path.place.start_anew(facts.tuple, facts.datagram);
            path.prober.start(facts.now, vec![facts.tuple], None);
            return;
        }
        if !path.place.may_follow(facts.now, &facts.tuple) {
            return;
        }
        match path.place.follow(facts.now, facts.tuple, facts.datagram) {
            Followed::Back => path.on_back(facts.now),
            Followed::Away => {
                let wait = path.space.recovery.pto();
                path.prober.start(facts.now, vec![facts.tuple], Some(wait));
            }
        }
        self.ids.remote.rotate(facts.path);
        let (role, state) = (path.role(), path.state());
        if Self::leads_elsewhere(&old, &facts.tuple) {
            self.forget_size(facts.now, facts.path);
            self.start_size_search(facts.now, facts.path);
        }
        let event =
            PathEvent { path: facts.path, tuple: facts.tuple, role, state, reason: PathReason::Moved };
        self.announce_path(facts.now, event);
    }

    /// A new address of the peer does not answer: back to where the path worked.
    pub(super) fn give_up_move(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        if let Some(old) = path.place.fallback().filter(|_| path.prober.rounds() > 3) {
            let elsewhere = Self::leads_elsewhere(&path.tuple(), &old);
            path.place.move_back();
            path.on_back(now);
            let event = PathEvent {
                path: id,
                tuple: old,
                role: path.role(),
                state: path.state(),
                reason: PathReason::NoAnswer,
            };
            if elsewhere {
                self.forget_size(now, id);
                self.start_size_search(now, id);
            }
            self.announce_path(now, event);
        }
    }
}

/// Whether a path has not shown yet that it works.
fn is_unproven(path: &Path) -> bool {
    let never = path.space.recovery.last_progress().is_none();
    path.state() == PathState::Validating || (path.state() == PathState::Dead && never)
}
