//! Timers of MMSP/2 itself: its handshake, its close, its rendezvous client.

use std::ops::RangeInclusive;

use manyway_wire::PathId;

use super::handshake_output::may_send_handshake;
use super::input::PacketFacts;
use super::{Checked, Mmsp2};
use crate::EncryptionLevel;
use crate::engine::Engine;
use crate::recovery::{Outcome, ReceivedAck, TimeoutKind};
use crate::time::Earliest;
use crate::{Instant, Side};

impl Mmsp2 {
    /// When [`Self::on_timeout`] has to be called next.
    pub(crate) fn deadline(&self, engine: &Engine) -> Option<Instant> {
        let mut earliest = Earliest::default();
        earliest.take(self.life.deadline());
        if !engine.phase.is_open() {
            return earliest.get();
        }
        if let Some(handshake) = &self.handshake {
            earliest.take(handshake.attempts.deadline());
            for (level, space) in [
                (EncryptionLevel::Initial, &handshake.initial_space),
                (EncryptionLevel::Handshake, &handshake.handshake_space),
            ] {
                if self.protector.has(level) {
                    earliest.take(space.recovery.deadline());
                    earliest.take(space.receiving.acks.deadline().filter(|_| may_send_handshake(engine)));
                }
            }
            earliest.take(self.anti_deadlock_deadline(engine));
        }
        if !engine.phase.is_handshaking() {
            earliest.take(self.targets.deadline());
            earliest.take(self.rendezvous.as_ref().and_then(|rendezvous| rendezvous.deadline()));
        }
        earliest.get()
    }

    /// Does the work that is due at `now`; a call before the deadline does no harm.
    pub(crate) fn on_timeout(&mut self, engine: &mut Engine, now: Instant) {
        self.drive_close(engine, now);
        if !engine.phase.is_open() {
            return;
        }
        if let Some(error) = engine.expiry().reason(now) {
            return self.give_up(engine, now, error);
        }
        self.handshake_timeouts(engine, now);
        self.target_holder(engine).on_timeout(now);
    }

    /// This host slept until now: repeats the packets of a handshake or close in progress, and restarts the timers of
    /// both.
    pub(crate) fn on_wake(&mut self, engine: &Engine, now: Instant) {
        self.life.on_wake(now, engine.paths.longest_pto(), engine.paths.drain_time());
        self.wake_handshake(engine, now);
    }

    /// Anti-deadlock PTO: a client whose acknowledged flight is not fully answered sends again, because the server
    /// may wait for bytes that raise its amplification limit (RFC 9002, section 6.2.2.1).
    fn anti_deadlock_deadline(&self, engine: &Engine) -> Option<Instant> {
        let handshake = self.handshake.as_ref()?;
        let waits = engine.side == Side::Client
            && engine.phase.is_handshaking()
            && handshake.attempts.is_settled()
            && handshake.initial_space.recovery.packets_in_flight() == 0
            && handshake.handshake_space.recovery.packets_in_flight() == 0;
        waits.then(|| engine.clock.last_activity + handshake.initial_space.recovery.pto())
    }

    fn handshake_timeouts(&mut self, engine: &mut Engine, now: Instant) {
        if self.anti_deadlock_deadline(engine).is_some_and(|at| at <= now) {
            engine.clock.last_activity = now;
            if let Some(handshake) = &mut self.handshake {
                handshake.initial_pto_probes = 1;
            }
        }
        let Some(handshake) = &mut self.handshake else { return };
        if handshake.attempts.on_timeout(now) {
            handshake.tls.resend_all(EncryptionLevel::Initial);
        }
        for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake] {
            self.handshake_level_timeout(engine, now, level);
        }
    }

    fn handshake_level_timeout(&mut self, engine: &mut Engine, now: Instant, level: EncryptionLevel) {
        if !self.protector.has(level) {
            return;
        }
        let Some(handshake) = &mut self.handshake else { return };
        let space = if level == EncryptionLevel::Initial {
            &mut handshake.initial_space
        } else {
            &mut handshake.handshake_space
        };
        if space.recovery.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut outcome = std::mem::take(&mut engine.shared.outcome);
        let kind = space.recovery.on_timeout(now, &mut outcome);
        if let TimeoutKind::ProbeTimeout { count } = kind {
            handshake.say_again(level);
            if handshake.attempts.is_settled() && count >= 2 && engine.side == Side::Client {
                // The candidate that answered first may have died since; unless data came over it, and only PONG is
                // late.
                let path = engine.paths.get_mut(PathId::FIRST);
                if let Some(path) = path.filter(|path| path.receiving.numbers.largest().is_none())
                    && let Some(next) = handshake.attempts.after(&path.tuple())
                {
                    path.addresses.set(next);
                    path.set_role(engine.manager.role_of(&next.local));
                    path.challenger.set_targets(now, engine.manager.targets(next.local));
                }
            }
        }
        self.settle_handshake(engine, level, &mut outcome);
        engine.shared.outcome = outcome;
    }

    /// A client repeats its unacknowledged content, because packets for a sleeping host are lost. The server waits
    /// for that.
    fn wake_handshake(&mut self, engine: &Engine, now: Instant) {
        let Some(handshake) = &mut self.handshake else { return };
        for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake] {
            let space = if level == EncryptionLevel::Initial {
                &mut handshake.initial_space
            } else {
                &mut handshake.handshake_space
            };
            space.recovery.on_wake(now);
            let waits = space.recovery.packets_in_flight() > 0 && self.protector.has(level);
            if engine.side == Side::Client && waits {
                handshake.say_again(level);
            }
        }
    }

    /// Handles an acknowledgement of handshake packets.
    pub(super) fn on_handshake_ack<I: Iterator<Item = RangeInclusive<u64>>>(
        &mut self,
        engine: &mut Engine,
        facts: &PacketFacts,
        ack: ReceivedAck<I>,
    ) -> Checked {
        let Some(handshake) = &mut self.handshake else { return Ok(()) };
        let space = if facts.level == EncryptionLevel::Initial {
            &mut handshake.initial_space
        } else {
            &mut handshake.handshake_space
        };
        let mut outcome = std::mem::take(&mut engine.shared.outcome);
        let result = space.recovery.on_ack(facts.now, ack, &[], &mut outcome);
        self.settle_handshake(engine, facts.level, &mut outcome);
        engine.shared.outcome = outcome;
        result
    }

    /// Passes on the fate of handshake packets.
    pub(super) fn settle_handshake(
        &mut self,
        engine: &mut Engine,
        level: EncryptionLevel,
        outcome: &mut Outcome,
    ) {
        for content in outcome.delivered.drain(..).flatten() {
            self.on_content_delivered(engine, level, &content);
        }
        for content in outcome.lost.drain(..).flatten() {
            self.on_content_lost(level, &content);
        }
        outcome.clear();
    }
}
