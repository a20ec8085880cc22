//! The end of a connection: in order by FIN, FIN-ACK, FIN-DONE, or at once by ABORT (spec 5.9b).

use manyway_wire::mmsp2::{Close, CloseStep, ErrorCode};
use manyway_wire::{ConnectionId, PathId};

use super::Mmsp2;
use super::input::PacketFacts;
use super::state::{CloseReason, DueClose, FLUSH_TIME, FinalClose, Life};
use crate::EncryptionLevel;
use crate::engine::{Engine, report_closed};
use crate::error::text_of_peer;
use crate::event::Event;
use crate::mmsp2::tls::{Handshake, is_authentication_alert};
use crate::repeat::Repeat;
use crate::{ClosedBy, ConnectionError, Instant, Side, Violation};

impl Mmsp2 {
    /// Closes in order: data already written still arrives, then the peer gets `code` and `reason`.
    ///
    /// [`Event::Closed`](crate::Event::Closed) follows. Data of the peer is accepted for at most 30 s.
    pub(crate) fn close(&mut self, engine: &mut Engine, now: Instant, code: u64, reason: &str) {
        match self.life {
            Life::Established => {
                let given = CloseReason { code, reason: shortened(reason) };
                self.enter(engine, Life::Flushing { until: now + FLUSH_TIME, given });
                self.drive_close(engine, now);
            }
            Life::Handshaking => self.abort(engine, now, code, reason),
            Life::Flushing { .. }
            | Life::FinSent { .. }
            | Life::PeerClosing { .. }
            | Life::FinAckSent { .. }
            | Life::Draining { .. }
            | Life::Closed => {}
        }
    }

    /// Ends at once without flushing; the peer gets `code` and `reason`.
    pub(crate) fn abort(&mut self, engine: &mut Engine, now: Instant, code: u64, reason: &str) {
        let error = ConnectionError::Closed { by: ClosedBy::Us, code, reason: shortened(reason) };
        let code = ErrorCode::from_application(code).0;
        self.end(engine, now, error, Some((CloseStep::Abort, code, shortened(reason))));
    }

    /// Ends at once, because the peer is no longer authorised: it sees a failed authentication (spec 7.42).
    pub(crate) fn revoke(&mut self, engine: &mut Engine, now: Instant, reason: &str) {
        let text = shortened(reason);
        let error = ConnectionError::Closed { by: ClosedBy::Us, code: 0, reason: text.clone() };
        self.end(engine, now, error, Some((CloseStep::Abort, ErrorCode::UNAUTHORISED.0, text)));
    }

    /// The peer broke the protocol.
    pub(crate) fn fail(&mut self, engine: &mut Engine, now: Instant, violation: Violation) {
        let (code, text) = (violation.code().0, shortened(&violation.to_string()));
        let error = if let Violation::Tls { alert, reason } = &violation
            && is_authentication_alert(*alert)
        {
            let handshake = self.handshake.as_ref().map(|handshake| &handshake.tls);
            // spec 7.38: a SYN may have a spoofed source, so its refusal must not count against its address.
            if engine.side == Side::Server && handshake.is_some_and(Handshake::was_answered) {
                self.counts.refused_client = Some(now);
                if let Some(path) = engine.paths.get(PathId::FIRST) {
                    engine.events.push(Event::ClientRefused { remote: path.tuple().remote });
                }
            }
            let shown = handshake.and_then(Handshake::unexpected_key);
            ConnectionError::Authentication { reason: reason.clone(), shown }
        } else {
            ConnectionError::Violation(violation)
        };
        self.end(engine, now, error, Some((CloseStep::Abort, code, text)));
    }

    /// The peer proved that it issued an id of this connection and has lost its state.
    pub(crate) fn on_stateless_reset(&mut self, engine: &mut Engine, now: Instant) {
        self.end(engine, now, ConnectionError::Reset, None);
    }

    /// Ends without a CLOSE, because the peer does not receive any.
    pub(crate) fn give_up(&mut self, engine: &mut Engine, now: Instant, error: ConnectionError) {
        self.end(engine, now, error, None);
    }

    /// Ends at once without a trace: evicts the handshake of a client in favour of newer ones. Returns this end's id.
    pub(crate) fn evict(&mut self, engine: &mut Engine, now: Instant) -> Option<ConnectionId> {
        let id = self.handshake.as_ref().map(|handshake| handshake.local_id);
        if engine.phase.is_open() {
            report_closed(engine, now, ConnectionError::ConnectTimeout);
        }
        self.discard(engine);
        id
    }

    /// Removes all state: there is nothing left to send or to receive.
    fn discard(&mut self, engine: &mut Engine) {
        self.enter(engine, Life::Closed);
        self.leave_rendezvous();
        self.ids.local.forget_all();
        self.ids.remote.forget_all();
        if let Some(handshake) = self.handshake.take() {
            self.ids.local.release(handshake.original_destination);
        }
    }

    fn end(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        error: ConnectionError,
        close: Option<(CloseStep, u64, String)>,
    ) {
        if !engine.phase.is_open() {
            return;
        }
        let told = matches!(self.life, Life::PeerClosing { .. } | Life::FinAckSent { .. });
        let final_close = close.map(|(step, code, reason)| Box::new(FinalClose::new(step, code, reason)));
        if engine.phase.is_handshaking() && final_close.is_none() {
            // A handshake that ends without a CLOSE needs no draining period, and strangers must not cost more
            // memory.
            self.discard(engine);
        } else {
            self.enter(engine, Life::Draining { until: now + engine.paths.drain_time(), final_close });
        }
        if !told {
            report_closed(engine, now, error);
        }
    }

    pub(crate) fn on_close(&mut self, engine: &mut Engine, facts: &PacketFacts, block: &Close<'_>) {
        let now = facts.now;
        let reason = text_of_peer(block.text);
        let given = CloseReason { code: application_code(block.code), reason };
        let repeat = Repeat::new(now, engine.paths.longest_pto());
        match (block.step, &mut self.life) {
            // Any host can write an Initial packet: it ends only the attempt over these addresses.
            (CloseStep::Abort, Life::Handshaking)
                if facts.level == EncryptionLevel::Initial
                    && engine.side == Side::Client
                    && self
                        .handshake
                        .as_mut()
                        .is_some_and(|handshake| handshake.attempts.drop_candidate(&facts.tuple)) =>
            {
                if let Some(handshake) = &mut self.handshake {
                    handshake.tls.resend_all(EncryptionLevel::Initial);
                }
            }
            (CloseStep::Abort, _) => {
                let code = ErrorCode(block.code);
                // spec 7.42: authorisation may end later than during the handshake
                let is_refusal = code.alert().is_some_and(is_authentication_alert);
                let error = if is_refusal || code == ErrorCode::UNAUTHORISED {
                    ConnectionError::Authentication { reason: given.reason, shown: None }
                } else {
                    ConnectionError::AbortedByPeer { code: block.code, reason: given.reason }
                };
                self.end(engine, now, error, None);
            }
            (CloseStep::Fin, Life::Established | Life::Flushing { .. }) => {
                report_closed(engine, now, given.clone().into_error(ClosedBy::Peer));
                self.enter(engine, Life::PeerClosing { until: now + FLUSH_TIME, given });
                self.drive_close(engine, now);
            }
            // Both ends closed at once: each answers the other.
            (CloseStep::Fin, Life::FinSent { given, .. }) => {
                let own = given.clone();
                report_closed(engine, now, own.clone().into_error(ClosedBy::Us));
                self.enter(engine, Life::FinAckSent { until: now + FLUSH_TIME, repeat, given: own });
            }
            (CloseStep::Fin, Life::FinAckSent { repeat: pending, .. }) => *pending = repeat,
            (CloseStep::FinAck, Life::FinSent { given, .. }) => {
                let own = given.clone();
                let close = Some((CloseStep::FinDone, wire_code(own.code), String::new()));
                self.end(engine, now, own.into_error(ClosedBy::Us), close);
            }
            (CloseStep::FinAck, Life::FinAckSent { given, .. }) => {
                let own = given.clone();
                let close = Some((CloseStep::FinDone, wire_code(own.code), String::new()));
                self.end(engine, now, own.into_error(ClosedBy::Peer), close);
            }
            (CloseStep::FinDone, Life::FinAckSent { given, .. }) => {
                let own = given.clone();
                self.end(engine, now, own.into_error(ClosedBy::Peer), None);
            }
            (
                CloseStep::Fin | CloseStep::FinAck | CloseStep::FinDone,
                Life::Handshaking
                | Life::Established
                | Life::Flushing { .. }
                | Life::FinSent { .. }
                | Life::PeerClosing { .. }
                | Life::Draining { .. }
                | Life::Closed,
            ) => {}
        }
    }

    /// Advances the close as far as possible now.
    pub(crate) fn drive_close(&mut self, engine: &mut Engine, now: Instant) {
        let flushed = self.streams.is_idle();
        match &self.life {
            Life::Flushing { given, .. } if flushed => {
                let given = given.clone();
                let repeat = Repeat::new(now, engine.paths.longest_pto());
                self.enter(engine, Life::FinSent { until: now + FLUSH_TIME, repeat, given });
            }
            Life::PeerClosing { given, .. } if flushed => {
                let given = given.clone();
                let repeat = Repeat::new(now, engine.paths.longest_pto());
                self.enter(engine, Life::FinAckSent { until: now + FLUSH_TIME, repeat, given });
            }
            Life::Flushing { until, given } if *until <= now => {
                let given = given.clone();
                self.abort(engine, now, given.code, &given.reason);
            }
            Life::PeerClosing { until, given } if *until <= now => {
                let given = given.clone();
                self.abort(engine, now, given.code, &given.reason);
            }
            // The peer still flushes, but its time is up.
            Life::FinSent { until, given, .. } if *until <= now => {
                let given = given.clone();
                self.abort(engine, now, given.code, &given.reason);
            }
            Life::FinSent { repeat, given, .. } if repeat.is_exhausted(now) => {
                let given = given.clone();
                self.give_up(engine, now, given.into_error(ClosedBy::Us));
            }
            Life::FinAckSent { until, repeat, given } if *until <= now || repeat.is_exhausted(now) => {
                let given = given.clone();
                self.give_up(engine, now, given.into_error(ClosedBy::Peer));
            }
            Life::Draining { until, .. } if *until <= now => {
                self.discard(engine);
            }
            Life::Handshaking
            | Life::Established
            | Life::Flushing { .. }
            | Life::FinSent { .. }
            | Life::PeerClosing { .. }
            | Life::FinAckSent { .. }
            | Life::Draining { .. }
            | Life::Closed => {}
        }
    }

    /// The CLOSE to send now, if one is due. The final one waits until a path takes packets.
    pub(crate) fn take_due_close(&mut self, engine: &Engine, now: Instant) -> Option<DueClose> {
        match &mut self.life {
            Life::FinSent { repeat, given, .. } => {
                let (code, reason) = (wire_code(given.code), given.reason.clone());
                repeat.take_due(now).map(|turn| DueClose { step: CloseStep::Fin, code, reason, turn })
            }
            Life::FinAckSent { repeat, given, .. } => {
                let (code, reason) = (wire_code(given.code), String::new());
                repeat.take_due(now).map(|turn| DueClose { step: CloseStep::FinAck, code, reason, turn })
            }
            Life::Draining { final_close: Some(close), .. } => {
                let may_send = engine.paths.by_turn(0).is_some_and(|path| path.has_room());
                if may_send { close.take_due() } else { None }
            }
            Life::Handshaking
            | Life::Established
            | Life::Flushing { .. }
            | Life::PeerClosing { .. }
            | Life::Draining { final_close: None, .. }
            | Life::Closed => None,
        }
    }
}

/// The code of an application as CLOSE carries it (spec 4.18).
fn wire_code(application: u64) -> u64 {
    ErrorCode::from_application(application).0
}

/// The code of the peer's application.
fn application_code(code: u64) -> u64 {
    ErrorCode(code).application().unwrap_or(code)
}

/// Truncates a text to the size limit of a CLOSE, at a character boundary.
fn shortened(text: &str) -> String {
    let end =
        (0..=text.len().min(Close::MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}
