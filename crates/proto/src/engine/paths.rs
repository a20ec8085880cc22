//! Opening, migrating and closing paths.

use std::net::{IpAddr, SocketAddr};

use manyway_wire::PathId;

use super::costs::tell_cost;
use super::notices::Notice;
use super::pairs::is_unvalidated;
use super::settle::Portion;
use super::{Engine, Side, leaving};
use crate::event::{Event, PathEvent};
use crate::path::{Migration, Path, PathAvailability, PathReason, PathReport, PathState, Role, SendRefusal};
use crate::{ByteCount, FourTuple, Instant, Rate};

/// If this many of the last packets were reinjected, all were.
const LOOKED_AT: usize = 64;

/// The origin of a packet with content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) now: Instant,
    pub(crate) path: PathId,
    pub(crate) tuple: FourTuple,
    /// Bytes of the whole datagram: they raise the amplification limit of its source.
    pub(crate) datagram: usize,
}

impl Engine {
    /// The addresses of this host changed: a client at once closes paths over missing ones, and tries new ones.
    pub(crate) fn on_locals_changed(&mut self, now: Instant) {
        if self.side == Side::Server || self.phase.is_handshaking() {
            return;
        }
        for id in self.paths.ids() {
            let gone = self.paths.get(id).is_some_and(|path| !self.pairs().keeps(path));
            let Some(reason) = gone.then(|| self.pairs().why_left(id)) else { continue };
            if !self.carry_over(now, id, reason) {
                self.close_own_path(now, id, reason);
            }
        }
        self.retarget_paths(now);
        self.open_missing_paths(now);
    }

    /// Keeps the last path when its address is gone. While no other path works, the peer cannot be notified of a
    /// close and grants no further ids, and right after the handshake there may be none yet. So the last path keeps
    /// its id, and tries another interface, now or when one appears. Returns false if the path has to be closed.
    fn carry_over(&mut self, now: Instant, id: PathId, reason: PathReason) -> bool {
        if !self.paths.get(id).is_some_and(Path::is_datagram) {
            return false;
        }
        let silent = |path: &Path| matches!(path.state(), PathState::Validating | PathState::Dead);
        if self.paths.iter().any(|path| path.id != id && !silent(path)) {
            return false;
        }
        self.declare_dead(now, id, reason);
        if let Some(path) = self.paths.get_mut(id) {
            path.forget_flaps();
        }
        let others = self.paths.iter().filter(|path| path.id != id && path.is_datagram());
        let busy: Vec<_> = others.map(|path| path.tuple().local).collect();
        let Some(open) = self.manager.missing(&busy).into_iter().next() else { return true };
        if let (Some(path), Some(tuple)) = (self.paths.get_mut(id), open.targets.first()) {
            path.addresses.set(*tuple);
            path.set_role(open.role);
            path.challenger.start(now, open.targets, None);
            self.notices.push(Notice::Migrated(id));
            self.forget_size(now, id);
            self.reset_path(now, id);
        }
        true
    }

    /// Adds addresses of the peer, and challenges them first.
    pub(crate) fn add_remote_addresses(&mut self, now: Instant, remotes: &[SocketAddr]) {
        let working = self.paths.iter().filter(|path| path.is_live());
        let used: Vec<_> = working.map(|path| path.tuple().remote).collect();
        self.manager.refresh_remotes(remotes, &used);
        self.retarget_paths(now);
        self.open_missing_paths(now);
    }

    /// Addresses came or went: paths without a response try the present ones.
    pub(crate) fn retarget_paths(&mut self, now: Instant) {
        if self.side == Side::Server {
            return;
        }
        leaving::leave_relays(self);
        for id in self.paths.ids() {
            let targets = self.pairs().targets(id);
            let looks = |path: &&mut Path| matches!(path.state(), PathState::Validating | PathState::Dead);
            if let Some(path) = self.paths.get_mut(id).filter(looks) {
                path.challenger.set_targets(now, targets);
            }
        }
    }

    /// A path has moved to addresses that other paths challenge without a response: these close (spec 6.71).
    pub(crate) fn close_duplicates(&mut self, now: Instant, id: PathId) {
        let Some(tuple) = self.paths.get(id).map(|path| path.tuple()) else { return };
        if self.manager.selection.is_none() {
            return;
        }
        for duplicate in self.paths.ids() {
            let is_duplicate = |path: &&Path| path.id != id && path.tuple() == tuple && is_unvalidated(path);
            if self.paths.get(duplicate).filter(is_duplicate).is_some() {
                self.close_own_path(now, duplicate, PathReason::Replaced);
            }
        }
    }

    /// The system refuses to send between these addresses: the path is dead at once. One that is dead because nothing
    /// was heard is dead for this reason instead.
    pub(crate) fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        let reason = match refusal {
            SendRefusal::Unreachable => PathReason::SendRefused,
            SendRefusal::Denied => PathReason::SendDenied,
        };
        for id in self.paths.ids() {
            let Some(path) = self.paths.get(id).filter(|path| path.tuple() == tuple) else { continue };
            if path.state() == PathState::Dead && is_silence(path.reason()) {
                self.change_reason(now, id, reason);
            } else {
                self.declare_dead(now, id, reason);
            }
        }
    }

    /// Opens every path that the addresses and the peer's path ids permit.
    pub(crate) fn open_missing_paths(&mut self, now: Instant) {
        if self.side == Side::Server || !self.phase.is_established() {
            return;
        }
        if self.manager.selection.is_some() {
            return self.manager.update_checks(now);
        }
        let stays = |path: &&Path| path.is_datagram() && !self.manager.is_deprecated(path.tuple().remote);
        let staying = self.paths.iter().filter(stays);
        let busy: Vec<_> = staying.map(|path| path.tuple().local).collect();
        for open in self.manager.missing(&busy) {
            if !self.open_path(now, open.targets, open.role) {
                return;
            }
        }
    }

    /// Opens a path that tries some pairs; false if it has to wait for an id.
    pub(crate) fn open_path(&mut self, now: Instant, targets: Vec<FourTuple>, role: Role) -> bool {
        let Some(tuple) = targets.first().copied() else { return false };
        let Some(id) = self.take_path_id() else { return false };
        let mut path = Path::new(id, tuple, role, self.another_recovery(id), now);
        path.on_validated();
        path.challenger.start(now, targets, None);
        path.challenger.slow_down(self.features.between_challenges);
        self.paths.insert(path);
        self.report_opened(now, id, PathReason::Opened);
        true
    }

    /// The id of the next path that this end opens, if both ends allow one and it can be reached.
    pub(crate) fn take_path_id(&mut self) -> Option<PathId> {
        let id = self.limits.next_path;
        if id > self.limits.highest_path() || !self.paths.is_reachable(id) {
            return None;
        }
        self.limits.next_path = PathId(id.0 + 1);
        Some(id)
    }

    /// How many more paths may be opened now.
    pub(crate) fn path_room(&self) -> usize {
        let room = (self.limits.highest_path().0 + 1).saturating_sub(self.limits.next_path.0);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    pub(crate) fn report_opened(&mut self, now: Instant, id: PathId, reason: PathReason) {
        if let Some(path) = self.paths.get_mut(id) {
            path.set_reason(reason);
            let event =
                PathEvent { path: id, tuple: path.tuple(), role: path.role(), state: path.state(), reason };
            self.announce_path(now, event);
            self.notices.push(Notice::Opened(id));
        }
    }

    /// Closes a path from this end and notifies the peer.
    pub(crate) fn close_own_path(&mut self, now: Instant, id: PathId, reason: PathReason) {
        self.remove_path(now, id, reason, true);
    }

    /// Removes a path, and may notify the peer; what was in flight on it is sent again on the others.
    fn remove_path(&mut self, now: Instant, id: PathId, reason: PathReason, tell: bool) {
        if !self.advance_path(now, id, PathState::Closed, reason) {
            return;
        }
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        if let Some(mut path) = self.paths.remove(id) {
            path.recovery.abandon(now, &mut outcome);
            let is_wish = matches!(reason, PathReason::ClosedByApplication | PathReason::ClosedByPeer);
            if is_wish && path.is_datagram() {
                self.manager.on_closed_by_application(path.tuple());
            }
        }
        self.settle(now, id, &mut outcome);
        self.shared.outcome = outcome;
        self.on_closed(id, tell);
        self.open_missing_paths(now);
    }

    /// The peer closed a path, perhaps one on which nothing else ever arrived here.
    pub(crate) fn on_peer_closed_path(&mut self, now: Instant, id: PathId) {
        if self.paths.get(id).is_some() {
            self.remove_path(now, id, PathReason::ClosedByPeer, false);
        } else if id.0 <= self.limits.own_paths && !self.paths.is_retired(id) {
            self.paths.retire(id);
            self.on_closed(id, false);
        }
    }

    /// The peer gets one more id for each closed path, so that the number of open paths stays the same.
    fn on_closed(&mut self, path: PathId, tell: bool) {
        self.paths.set_reachable(path, false);
        self.limits.own_paths = self.limits.own_paths.saturating_add(1);
        self.notices.push(Notice::Closed { path, tell });
    }

    /// The peer opened a path: its first packet came from `heard`.
    pub(crate) fn accept_path(&mut self, heard: &Heard, size: usize) {
        let role = self.manager.role_of(&heard.tuple.local);
        let mut path = Path::new(heard.path, heard.tuple, role, self.another_recovery(heard.path), heard.now);
        // The datagram came before the path, so it is not counted yet.
        path.addresses.on_received(size);
        self.paths.insert(path);
        self.report_opened(heard.now, heard.path, PathReason::OpenedByPeer);
        if let Some(path) = self.paths.get_mut(heard.path) {
            path.challenger.start(heard.now, vec![heard.tuple], None);
            path.challenger.slow_down(self.features.between_challenges);
        }
    }

    /// The peer at `peer` advertises an address.
    pub(crate) fn on_add_address(
        &mut self,
        now: Instant,
        peer: IpAddr,
        (id, sequence): (u64, u64),
        address: SocketAddr,
    ) {
        if self.config.peer_port.is_some_and(|port| port != address.port()) {
            return;
        }
        if self.manager.on_add_address(id, sequence, address, peer) {
            self.retarget_paths(now);
            self.open_missing_paths(now);
            self.events.push(Event::PeerAddresses);
        }
    }

    /// The peer withdraws an address.
    pub(crate) fn on_remove_address(&mut self, now: Instant, (id, sequence): (u64, u64)) {
        let Some(address) = self.manager.on_remove_address(id, sequence) else { return };
        // The peer may still be reachable there for a moment, and until another path works there is no better choice.
        self.manager.deprecate(address);
        leaving::close(self, now);
        self.retarget_paths(now);
        self.open_missing_paths(now);
        self.events.push(Event::PeerAddresses);
    }

    /// The peer reports the availability and the cost of a path, and possibly its delivery rate.
    pub(crate) fn on_peer_status(
        &mut self,
        now: Instant,
        (id, sequence): (PathId, u64),
        report: PathReport,
        rate: Option<Rate>,
    ) {
        let Some(path) = self.paths.get_mut(id) else { return };
        let was_ready = path.peer_ready();
        let Some(before) = path.on_peer_status(sequence, report) else { return };
        let is_ready = path.peer_ready();
        if was_ready && !is_ready {
            // Acknowledges on another path at once, and sends a packet here too: if only a NAT forgot this end, the
            // peer learns the new address from it.
            path.receiving.acks.force();
            if path.state() == PathState::Dead {
                path.challenger.expedite(now);
            } else {
                path.schedule_pto_probes(1);
            }
        }
        if report.availability == PathAvailability::Dead && before != PathAvailability::Dead {
            // Packets in flight there may never arrive, so reinjects them elsewhere. A mere suspicion of the peer
            // concerns the data that it sends; for the data of this end acknowledgements say more. A peer that
            // repeats the report must not cost a scan of all packets in flight each time.
            let has_new = path.recovery.in_flight().rev().take(LOOKED_AT).any(|packet| !packet.reinjected);
            if has_new && self.paths.best_live(Some(id)).is_some() {
                self.reinject(now, id, Portion::ALL);
            }
        } else if is_ready && !was_ready && path.state() == PathState::Dead {
            path.challenger.expedite(now);
        }
        self.weigh_paths(now);
        if let Some(rate) = rate {
            self.on_peer_rate(now, id, rate);
        }
    }

    /// The peer wants at most `window` in flight on a path, and at most this rate; `None` does not limit.
    pub(crate) fn on_receive_limit(
        &mut self,
        (id, sequence): (PathId, u64),
        window: Option<ByteCount>,
        rate: Option<Rate>,
    ) {
        if let Some(path) = self.paths.get_mut(id) {
            path.recovery.on_receive_limit(sequence, window, rate);
        }
    }

    /// The peer sends real data on a path from a new address, because a NAT rebound it: follows it, validates the
    /// address, and returns if it does not answer (RFC 9000, section 9.3).
    pub(crate) fn follow_peer(&mut self, heard: &Heard) {
        if self.side == Side::Client {
            return;
        }
        let Some(path) = self.paths.get_mut(heard.path).filter(|path| !path.addresses.are(&heard.tuple))
        else {
            return;
        };
        let old = path.tuple();
        if !old.is_datagram() || !heard.tuple.is_datagram() {
            return challenge_both(heard, path);
        }
        if path.state() == PathState::Validating {
            // The client tried several pairs, and settled on this one.
            path.addresses.reset(heard.tuple, heard.datagram);
            path.challenger.start(heard.now, vec![heard.tuple], None);
            return;
        }
        if !path.addresses.may_migrate(heard.now, &heard.tuple) {
            return;
        }
        match path.addresses.migrate(heard.now, heard.tuple, heard.datagram) {
            Migration::Reverted => path.on_migration_reverted(heard.now),
            Migration::Started => {
                let wait = path.recovery.pto();
                path.challenger.start(heard.now, vec![heard.tuple], Some(wait));
            }
        }
        self.notices.push(Notice::Migrated(heard.path));
        let (role, state) = (path.role(), path.state());
        if old.leads_elsewhere(&heard.tuple) {
            self.forget_size(heard.now, heard.path);
            self.start_size_search(heard.now, heard.path);
        }
        let event =
            PathEvent { path: heard.path, tuple: heard.tuple, role, state, reason: PathReason::Moved };
        self.announce_path(heard.now, event);
        tell_cost(self, heard.path);
    }

    /// The new address of the peer does not answer: returns to the validated address.
    pub(crate) fn give_up_move(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(id) else { return };
        if let Some(old) = path.addresses.fallback().filter(|_| path.challenger.rounds() > 3) {
            let elsewhere = path.tuple().leads_elsewhere(&old);
            path.addresses.revert();
            path.on_migration_reverted(now);
            let (role, state, reason) = (path.role(), path.state(), PathReason::NoAnswer);
            let event = PathEvent { path: id, tuple: old, role, state, reason };
            if elsewhere {
                self.forget_size(now, id);
                self.start_size_search(now, id);
            }
            self.announce_path(now, event);
            tell_cost(self, id);
        }
    }
}

/// Packets of a path over one carrier arrived over another: the path stays where it is, but while neither has answered,
/// both are challenged, because either may carry copies of the other's packets (spec 6.102).
fn challenge_both(heard: &Heard, path: &mut Path) {
    if path.state() != PathState::Validating || path.challenger.is_target(&heard.tuple) {
        return;
    }
    if path.is_datagram() || heard.tuple.is_datagram() {
        // spec 6.36: an address that is not the path's is challenged only in return for its packets.
        path.challenger.challenge_back(heard.now, heard.tuple);
    } else {
        path.challenger.start(heard.now, vec![path.tuple(), heard.tuple], None);
    }
}

fn is_silence(reason: PathReason) -> bool {
    matches!(
        reason,
        PathReason::Silence { .. } | PathReason::ProbeTimeout { .. } | PathReason::PeerReceivedNothing
    )
}
