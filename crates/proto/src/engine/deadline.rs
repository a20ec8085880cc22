//! The earliest deadline, and the work that is due at it.

use manyway_wire::PathId;

use super::Engine;
use crate::path::{Path, PathReason, PathState};
use crate::recovery::TimeoutKind;
use crate::time::Earliest;
use crate::wire::Wire;
use crate::{Detection, Instant};

/// When something has to happen next, as engine and wire stand now.
#[derive(Clone, Copy)]
pub(super) struct Deadlines<'a> {
    pub(super) engine: &'a Engine,
    pub(super) wire: &'a Wire,
}

impl Deadlines<'_> {
    /// The next call of [`Engine::handle_timeout`]; costs O(paths).
    fn earliest(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        earliest.take(self.engine.clock.paced_until);
        earliest.take(self.engine.clock.shrink_at);
        earliest.take(self.persist());
        earliest.take(self.receiver_keep_alive());
        earliest.take(self.message());
        earliest.take(self.engine.selection_deadline());
        for path in self.engine.paths.iter() {
            self.path_deadlines(path, &mut earliest);
        }
        earliest.get()
    }

    fn path_deadlines(&self, path: &Path, earliest: &mut Earliest) {
        let (paths, id) = (&self.engine.paths, path.id);
        earliest.take(path.recovery.deadline());
        if paths.ack_carrier(path).is_some() {
            earliest.take(path.receiving.acks.deadline());
        }
        // Without a connection ID of the peer no challenge can be sent, nor while the carrier takes nothing to the only
        // target; the connection is woken when that changes.
        let may_challenge = paths.is_reachable(id) && path.may_challenge();
        earliest.take(path.challenger.deadline().filter(|_| may_challenge));
        earliest.take(path.mtu.deadline());
        earliest.take(path.stalls_at());
        earliest.take(path.ping_deadline());
        earliest
            .take(self.engine.config.keep_alive.and_then(|interval| paths.keep_alive_deadline(id, interval)));
        if path.state().carries_data() && self.engine.features.detection == Detection::Fast {
            earliest.take(path.silence_deadline().filter(|at| paths.another_works(*at, id)));
        }
        earliest.take(path.suspicion_ends());
        earliest.take(path.probation_ends());
        earliest.take(path.retires_at());
    }

    /// The path of the next persist probe, if one is needed: each live path in turn, because any of them may have
    /// died.
    fn persist_path(&self) -> Option<&Path> {
        let is_eliciting = |path: &Path| path.has_pto_probes_due() || path.recovery.packets_in_flight() > 0;
        if !self.wire.is_blocked()
            || self.engine.paths.iter().any(|path| path.is_live() && is_eliciting(path))
        {
            return None;
        }
        let path = self.engine.paths.by_turn(self.engine.persist.probes)?;
        (path.is_live() && self.engine.paths.can_send(path)).then_some(path)
    }

    fn persist(&self) -> Option<Instant> {
        let path = self.persist_path()?;
        Some(self.engine.persist.deadline(path.recovery.pto()))
    }

    /// When the next keep-alive of a receiver is due.
    fn receiver_keep_alive(&self) -> Option<Instant> {
        let clock = &self.engine.clock;
        if clock.ack_eliciting_since_heard {
            return None;
        }
        let idle_at = self.engine.expiry().idle()?;
        let live = || self.engine.paths.iter().filter(|path| path.is_live());
        let pto = || live().map(|path| path.recovery.pto()).max().unwrap_or_default();
        clock.keep_alives.deadline(self.wire.bytes_received(), (clock.last_activity, idle_at), pto)
    }

    /// When the next message can no longer arrive in time.
    fn message(&self) -> Option<Instant> {
        self.wire.next_expiry().map(|at| at - self.engine.paths.fastest_way())
    }
}

impl Engine {
    /// When [`Self::handle_timeout`] has to be called next; costs O(paths).
    pub(crate) fn poll_timeout(&self, wire: &Wire) -> Option<Instant> {
        Deadlines { engine: self, wire }.earliest()
    }

    /// Does the work that is due at `now`; a call before the deadline does no harm.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, now: Instant) {
        for id in self.paths.ids() {
            self.path_timeouts(now, id);
            wire.carry_out(self, now);
        }
        self.selection_timeout(now);
        self.persist_timeout(wire, now);
        self.receiver_keep_alive_timeout(wire, now);
        self.expire_messages(wire, now);
        self.shrink_when_idle(wire, now);
        wire.carry_out(self, now);
    }

    /// Schedules a persist probe if it is due.
    fn persist_timeout(&mut self, wire: &mut Wire, now: Instant) {
        let deadlines = Deadlines { engine: self, wire };
        if deadlines.persist().is_none_or(|at| at > now) {
            return;
        }
        if let Some(id) = deadlines.persist_path().map(|path| path.id) {
            wire.repeat_blocked();
            self.persist.on_probe_sent(now, id);
        }
    }

    /// Schedules a keep-alive on all paths if it is due.
    fn receiver_keep_alive_timeout(&mut self, wire: &Wire, now: Instant) {
        if (Deadlines { engine: self, wire }).receiver_keep_alive().is_none_or(|at| at > now) {
            return;
        }
        self.clock.keep_alives.on_sent(wire.bytes_received());
        if !wire.expects_more() {
            return;
        }
        for path in self.paths.iter_mut().filter(|path| path.is_live()) {
            path.schedule_pto_probes(1);
        }
    }

    fn path_timeouts(&mut self, now: Instant, id: PathId) {
        self.check_silence(now, id);
        let Some(path) = self.paths.get_mut(id) else { return };
        path.mtu.on_timeout(now);
        path.check_stall(now);
        path.on_ping_timeout(now);
        if path.recovery.deadline().is_some_and(|at| at <= now) {
            let mut outcome = std::mem::take(&mut self.shared.outcome);
            let kind = path.recovery.on_timeout(now, &mut outcome);
            self.settle(now, id, &mut outcome);
            self.shared.outcome = outcome;
            if let TimeoutKind::ProbeTimeout { count } = kind {
                self.on_probe_timeout(now, id, count);
            }
        }
        let keep_alive_at =
            self.config.keep_alive.and_then(|interval| self.paths.keep_alive_deadline(id, interval));
        if keep_alive_at.is_some_and(|at| at <= now)
            && let Some(path) = self.paths.get_mut(id)
        {
            path.schedule_pto_probes(1);
        }
        self.give_up_move(now, id);
        self.end_suspicion(now, id);
        self.end_probation(now, id);
        if self.paths.get(id).and_then(Path::retires_at).is_some_and(|at| at <= now) {
            self.close_own_path(now, id, PathReason::Replaced);
        }
    }

    fn end_probation(&mut self, now: Instant, id: PathId) {
        let ended = |path: &&Path| path.probation_ends().is_some_and(|at| at <= now);
        let Some(path) = self.paths.get(id).filter(ended) else { return };
        debug_assert_eq!(path.state(), PathState::Probation);
        let working = path.working_state();
        self.advance_path(now, id, working, PathReason::ProbationServed);
        self.tell_status(id);
    }
}
