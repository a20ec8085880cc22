//! The earliest moment at which something has to happen, and what happens then.

use manyway_wire::PathId;

use super::{Connection, Initiator};
use crate::path::{PathReason, PathState};
use crate::protection::Level;
use crate::recovery::TimeoutKind;
use crate::{ConnectionError, Instant};

impl Connection {
    /// When [`Self::handle_timeout`] has to be called next; costs O(paths).
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let mut earliest = Earliest(None);
        earliest.take(self.life.deadline());
        if !self.life.is_open() {
            return earliest.0;
        }
        earliest.take(self.connect_deadline());
        earliest.take(self.idle_deadline());
        earliest.take(self.clock.pathless_since.map(|since| since + self.config.no_path_timeout));
        if let Some(setup) = &self.setup {
            earliest.take(setup.race.deadline());
            for (level, space) in [(Level::Open, &setup.open), (Level::SetUp, &setup.set_up)] {
                if self.protector.has(level) {
                    earliest.take(space.recovery.deadline());
                    earliest.take(space.acks.deadline().filter(|_| self.may_send_setup()));
                }
            }
            earliest.take(self.nudge_deadline());
        }
        if self.is_handshaking() {
            return earliest.0;
        }
        earliest.take(self.clock.paced_until);
        earliest.take(self.clock.tidy_at);
        earliest.take(self.persist_deadline());
        earliest.take(self.still_there_deadline());
        earliest.take(self.message_deadline());
        earliest.take(self.selection_deadline());
        earliest.take(self.meeting.as_ref().and_then(|meeting| meeting.deadline()));
        for id in self.paths.ids() {
            self.path_deadlines(id, &mut earliest);
        }
        earliest.0
    }

    fn path_deadlines(&self, id: PathId, earliest: &mut Earliest) {
        let Some(path) = self.paths.get(id) else { return };
        earliest.take(path.space.recovery.deadline());
        if self.ack_carrier(path).is_some() {
            earliest.take(path.space.acks.deadline());
        }
        // Without an id of the peer no question can be asked; its arrival wakes the connection.
        earliest.take(path.prober.deadline().filter(|_| self.ids.remote.current(id).is_some()));
        earliest.take(path.mtu.deadline());
        earliest.take(path.ping_deadline());
        earliest.take(self.keep_alive_deadline(id));
        if path.state().carries_data() {
            earliest.take(path.silence_deadline().filter(|at| self.another_works(*at, id)));
        }
        earliest.take(self.suspicion_ends(id));
        earliest.take(self.probation_ends(id).map(|after| path.since() + after));
    }

    /// Does what is due at `now`; too early a call does no harm.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.drive_close(now);
        if !self.life.is_open() {
            return;
        }
        let due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        if due(self.connect_deadline()) {
            return self.give_up(now, ConnectionError::ConnectTimeout);
        }
        if due(self.idle_deadline()) {
            return self.give_up(now, ConnectionError::IdleTimeout);
        }
        if due(self.clock.pathless_since.map(|since| since + self.config.no_path_timeout)) {
            return self.give_up(now, ConnectionError::NoPath);
        }
        self.setup_timeouts(now);
        if self.is_handshaking() {
            return;
        }
        for id in self.paths.ids() {
            self.path_timeouts(now, id);
        }
        self.selection_timeout(now);
        self.persist_timeout(now);
        self.ask_still_there(now);
        self.expire_messages(now);
        self.tidy(now);
    }

    fn connect_deadline(&self) -> Option<Instant> {
        self.is_handshaking().then(|| self.clock.set_up_since + self.config.connect_timeout)
    }

    /// While no path works at all, the longer time for that counts.
    pub(super) fn idle_deadline(&self) -> Option<Instant> {
        if self.is_handshaking() || self.clock.pathless_since.is_some() {
            return None;
        }
        let least = self.longest_pto() * 3;
        Some(self.clock.last_activity + self.agreed.idle_timeout.max(least))
    }

    fn keep_alive_deadline(&self, id: PathId) -> Option<Instant> {
        let interval = self.config.keep_alive?;
        let path = self.paths.get(id).filter(|path| path.is_live() && !path.has_probes_due())?;
        if !self.can_send(path) {
            return None;
        }
        if path.space.recovery.packets_in_flight() > 0 {
            return None;
        }
        Some(path.last_asked() + interval)
    }

    /// A client whose flight was heard but not answered in full asks again: the server may be waiting for bytes that
    /// raise its limit (RFC 9002, section 6.2.2.1).
    fn nudge_deadline(&self) -> Option<Instant> {
        let setup = self.setup.as_ref()?;
        let waits = self.side == Initiator::Client
            && self.is_handshaking()
            && setup.race.is_settled()
            && setup.open.recovery.packets_in_flight() == 0
            && setup.set_up.recovery.packets_in_flight() == 0;
        waits.then(|| self.clock.last_activity + setup.open.recovery.pto())
    }

    fn setup_timeouts(&mut self, now: Instant) {
        if self.nudge_deadline().is_some_and(|at| at <= now) {
            self.clock.last_activity = now;
            if let Some(setup) = &mut self.setup {
                setup.open_probes = 1;
            }
        }
        let Some(setup) = &mut self.setup else { return };
        if setup.race.on_timeout(now) {
            setup.handshake.resend_all(Level::Open);
        }
        for level in [Level::Open, Level::SetUp] {
            self.setup_level_timeout(now, level);
        }
    }

    fn setup_level_timeout(&mut self, now: Instant, level: Level) {
        if !self.protector.has(level) {
            return;
        }
        let Some(setup) = &mut self.setup else { return };
        let space = if level == Level::Open { &mut setup.open } else { &mut setup.set_up };
        if space.recovery.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut outcome = std::mem::take(&mut self.shared.outcome);
        let kind = space.recovery.on_timeout(now, &mut outcome);
        if let TimeoutKind::ProbeTimeout { count } = kind {
            setup.say_again(level);
            if setup.race.is_settled() && count >= 2 && self.side == Initiator::Client {
                // The leg that answered first may have died since; unless data came over it, and only PONG is late.
                let path = self.paths.get_mut(PathId::FIRST);
                if let Some(path) = path.filter(|path| path.space.received.largest().is_none())
                    && let Some(next) = setup.race.after(&path.tuple())
                {
                    path.place.choose(next);
                    path.set_role(self.manager.role_of(&next.local));
                    path.prober.set_targets(now, self.manager.targets(next.local));
                }
            }
        }
        self.settle(now, level, PathId::FIRST, &mut outcome);
        self.shared.outcome = outcome;
    }

    fn path_timeouts(&mut self, now: Instant, id: PathId) {
        self.check_silence(now, id);
        let Some(path) = self.paths.get_mut(id) else { return };
        path.mtu.on_timeout(now);
        path.on_ping_timeout(now);
        if path.space.recovery.deadline().is_some_and(|at| at <= now) {
            let mut outcome = std::mem::take(&mut self.shared.outcome);
            let kind = path.space.recovery.on_timeout(now, &mut outcome);
            self.settle(now, Level::Data, id, &mut outcome);
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

/// The smallest of several deadlines.
struct Earliest(Option<Instant>);

impl Earliest {
    fn take(&mut self, deadline: Option<Instant>) {
        self.0 = match (self.0, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}
