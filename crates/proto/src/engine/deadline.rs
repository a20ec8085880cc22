//! The earliest deadline, and the work that is due at it.

use manyway_wire::PathId;

use super::Engine;
use crate::Instant;
use crate::path::{PathReason, PathState};
use crate::recovery::TimeoutKind;
use crate::time::Earliest;
use crate::wire::Wire;

impl Engine {
    /// When [`Self::handle_timeout`] has to be called next; costs O(paths).
    pub(crate) fn poll_timeout(&self, wire: &Wire) -> Option<Instant> {
        let mut earliest = Earliest::default();
        earliest.take(self.clock.paced_until);
        earliest.take(self.clock.shrink_at);
        earliest.take(self.persist_deadline(wire));
        earliest.take(self.receiver_keep_alive_deadline(wire));
        earliest.take(self.message_deadline(wire));
        earliest.take(self.selection_deadline());
        for id in self.paths.ids() {
            self.path_deadlines(id, &mut earliest);
        }
        earliest.get()
    }

    fn path_deadlines(&self, id: PathId, earliest: &mut Earliest) {
        let Some(path) = self.paths.get(id) else { return };
        earliest.take(path.recovery.deadline());
        if self.ack_carrier(path).is_some() {
            earliest.take(path.receiving.acks.deadline());
        }
        // Without a connection ID of the peer no challenge can be sent; the wire format wakes the connection when it
        // has one.
        earliest.take(path.prober.deadline().filter(|_| self.is_reachable(id)));
        earliest.take(path.mtu.deadline());
        earliest.take(path.ping_deadline());
        earliest.take(self.keep_alive_deadline(id));
        if path.state().carries_data() {
            earliest.take(path.silence_deadline().filter(|at| self.paths.another_works(*at, id)));
        }
        earliest.take(self.suspicion_ends(id));
        earliest.take(self.probation_ends(id).map(|after| path.since() + after));
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

    fn keep_alive_deadline(&self, id: PathId) -> Option<Instant> {
        let interval = self.config.keep_alive?;
        let path = self.paths.get(id).filter(|path| path.is_live() && !path.has_probes_due())?;
        if !self.can_send(path) {
            return None;
        }
        if path.recovery.packets_in_flight() > 0 {
            return None;
        }
        Some(path.last_asked() + interval)
    }

    fn path_timeouts(&mut self, now: Instant, id: PathId) {
        self.check_silence(now, id);
        let Some(path) = self.paths.get_mut(id) else { return };
        path.mtu.on_timeout(now);
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
        if self.keep_alive_deadline(id).is_some_and(|at| at <= now)
            && let Some(path) = self.paths.get_mut(id)
        {
            path.schedule_probes(1);
        }
        self.give_up_move(now, id);
        self.end_suspicion(now, id);
        self.end_probation(now, id);
    }

    fn end_probation(&mut self, now: Instant, id: PathId) {
        let Some(after) = self.probation_ends(id) else { return };
        let Some(path) = self.paths.get(id).filter(|path| path.in_state_for(now) >= after) else { return };
        debug_assert_eq!(path.state(), PathState::Probation);
        let working = path.working_state();
        self.advance_path(now, id, working, PathReason::ProbationServed);
        self.tell_status(id);
    }
}
