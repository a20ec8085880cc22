//! The end of a connection: in order by FIN, FIN-ACK, FIN-DONE, or at once by RST (spec 3.60 to 3.68).

use manyway_wire::PathId;
use manyway_wire::mmsp1::{Block, ErrorCode, Fin, FinDone, HEADER_LEN, Rst, encode_rst};

use super::closing::{CloseEnd, CloseEvent, ClosePacket, CloseState, Closed};
use super::errors::OwnedCause;
use super::handshake::HandshakeEvent;
use super::unnumbered::observe;
use super::{Mmsp1, TagChange};
use crate::engine::{Engine, Phase, report_closed, single};
use crate::error::text_of_peer;
use crate::observe::Direction;
use crate::{ClosedBy, ConnectionError, FourTuple, Instant, Transmit, Violation};

/// Longest text of an RST in bytes: both when it is sent, and when it is reported to the application.
const LONGEST_TEXT: usize = 128;

impl Mmsp1 {
    /// Closes in order. FIN carries neither code nor reason: the peer sees code 0.
    pub(crate) fn close(&mut self, engine: &mut Engine, now: Instant, code: u64, reason: &str) {
        if self.close_reason.is_none() {
            self.close_reason = Some((code, reason.to_owned()));
        }
        if engine.phase.is_handshaking() {
            let moved = self.handshake.on(now, HandshakeEvent::Close);
            return self.on_handshake_moved(engine, now, moved);
        }
        let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::Close);
        self.on_closed(engine, now, closed);
        self.drive_close(engine, now);
    }

    /// Ends at once by RST; the peer gets the reason, as text.
    pub(crate) fn abort(&mut self, engine: &mut Engine, now: Instant, code: u64, reason: &str) {
        self.close_reason = Some((code, reason.to_owned()));
        if engine.phase.is_handshaking() {
            return self.close(engine, now, code, reason);
        }
        let cause = OwnedCause::new(ErrorCode::UNRECOGNISED_ERROR, shortened(reason).as_bytes());
        self.end_by_rst(engine, now, cause, self.own_close(ClosedBy::Us));
    }

    /// Ends at once, because the peer is no longer authorised.
    pub(crate) fn revoke(&mut self, engine: &mut Engine, now: Instant, reason: &str) {
        self.abort(engine, now, 0, reason);
    }

    /// The peer broke the protocol in a way that ends the connection.
    pub(super) fn fail(&mut self, engine: &mut Engine, now: Instant, code: ErrorCode, reason: &'static str) {
        let information: &[u8] = if code == ErrorCode::UNRECOGNISED_ERROR { reason.as_bytes() } else { &[0] };
        let violation = Violation::Mmsp1 { code: code.0, reason };
        self.end_by_rst(
            engine,
            now,
            OwnedCause::new(code, information),
            ConnectionError::Violation(violation),
        );
    }

    fn end_by_rst(&mut self, engine: &mut Engine, now: Instant, cause: OwnedCause, error: ConnectionError) {
        if self.closing.abort(now, cause) != Closed::No {
            self.end(engine, now, CloseEnd::Aborted, error);
        }
    }

    /// Ends without a packet, because the peer does not receive any.
    pub(crate) fn give_up(&mut self, engine: &mut Engine, now: Instant, error: ConnectionError) {
        self.closing.give_up();
        self.handshake.give_up();
        self.end(engine, now, CloseEnd::NoAnswer, error);
    }

    /// Sends FIN or FIN-ACK once everything is acknowledged.
    pub(super) fn drive_close(&mut self, engine: &mut Engine, now: Instant) {
        let waits = matches!(self.closing.state(), CloseState::FinPending | CloseState::FinReceived);
        if waits && self.streams.is_idle() {
            let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::Flushed);
            self.on_closed(engine, now, closed);
        }
    }

    /// FIN came: its acknowledgement was taken.
    pub(super) fn on_fin(&mut self, engine: &mut Engine, now: Instant) {
        let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::Fin);
        self.on_closed(engine, now, closed);
        self.drive_close(engine, now);
    }

    /// FIN-ACK came between these addresses, to which FIN-DONE goes.
    pub(super) fn on_fin_ack(&mut self, engine: &mut Engine, now: Instant, tuple: FourTuple) {
        let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::FinAck);
        if closed == Closed::Ended(CloseEnd::Answered) {
            let header = self.header(self.peer_tag());
            self.queue_answer(tuple, header, |w| FinDone { reflected: false }.encode(w));
        }
        self.on_closed(engine, now, closed);
    }

    pub(super) fn on_fin_done(&mut self, engine: &mut Engine, now: Instant) {
        let closed = self.closing.on(now, engine.paths.longest_pto(), CloseEvent::FinDone);
        self.on_closed(engine, now, closed);
    }

    /// RST came with a right tag from an address of a path.
    pub(super) fn on_rst(&mut self, engine: &mut Engine, now: Instant, rst: &Rst<'_>) {
        let error = match rst.causes.iter().next() {
            _ if rst.reflected => ConnectionError::Reset,
            None => ConnectionError::AbortedByPeer { code: 0, reason: String::new() },
            Some(cause) => {
                let reason = if cause.code == ErrorCode::UNRECOGNISED_ERROR {
                    let text = cause.information;
                    text_of_peer(text.get(..LONGEST_TEXT).unwrap_or(text))
                } else {
                    cause.code.to_string()
                };
                ConnectionError::AbortedByPeer { code: cause.code.0.into(), reason }
            }
        };
        match self.closing.on(now, engine.paths.longest_pto(), CloseEvent::Rst) {
            Closed::Ended(CloseEnd::Reset) => self.end(engine, now, CloseEnd::Reset, error),
            closed @ (Closed::No | Closed::Flushing | Closed::ByPeer | Closed::Ended(_)) => {
                self.on_closed(engine, now, closed);
            }
        }
    }

    pub(super) fn on_closed(&mut self, engine: &mut Engine, now: Instant, closed: Closed) {
        match closed {
            Closed::No => {}
            Closed::Flushing => engine.phase = Phase::Closing,
            Closed::ByPeer => {
                engine.phase = Phase::Closing;
                if self.close_reason.is_none() {
                    self.report(engine, now, self.own_close(ClosedBy::Peer));
                }
            }
            Closed::Ended(end) => self.end(engine, now, end, self.own_close(ClosedBy::Us)),
        }
    }

    /// The connection has ended; what is due still goes out.
    pub(super) fn end(&mut self, engine: &mut Engine, now: Instant, end: CloseEnd, error: ConnectionError) {
        if !engine.phase.is_open() {
            return;
        }
        tracing::debug!(?end, "MMSP/1 connection ended");
        let pto = engine.paths.longest_pto();
        engine.phase = Phase::Draining;
        self.report(engine, now, error);
        let (own, peer) = (self.own.tag, self.peer.map(|peer| peer.tag));
        let is_orderly = matches!(end, CloseEnd::Answered | CloseEnd::Complete);
        self.tag_changes.push_back(TagChange::Ended { own, peer, at: now, pto, is_orderly });
    }

    fn report(&mut self, engine: &mut Engine, now: Instant, error: ConnectionError) {
        if !std::mem::replace(&mut self.counts.reported, true) {
            report_closed(engine, now, error);
        }
    }

    pub(super) fn own_close(&self, by: ClosedBy) -> ConnectionError {
        let (code, reason) = self.close_reason.clone().unwrap_or_default();
        ConnectionError::Closed { by, code, reason }
    }

    /// The next packet of the close: each goes on the next path, because any of them may have failed.
    pub(super) fn transmit_close(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (packet, turn) = self.closing.take_due(now)?;
        let path = engine.paths.by_turn(turn)?;
        let (id, tuple) = (path.id, path.tuple());
        let peer = self.peer_tag();
        match packet {
            ClosePacket::Fin => {
                let fin = Fin { ack: self.streams.ack() };
                self.write_packet(buffer, peer, |w| fin.encode(w));
            }
            ClosePacket::FinAck => self.write_packet(buffer, peer, |w| Block::FinAck.encode(w)),
            ClosePacket::Rst(cause) => self.write_packet(buffer, peer, |w| {
                encode_rst(w, false, std::iter::once(cause.as_cause()));
            }),
        }
        engine.note_packet(now);
        if let Some(path) = engine.paths.get_mut(id) {
            path.count_sent_bytes(buffer.len());
            path.addresses.on_sent(buffer.len());
        }
        observe(engine, now, Direction::Sent, (id, buffer.get(HEADER_LEN..).unwrap_or_default()));
        Some(single(tuple, buffer.len()))
    }

    /// A path for what has to reach the peer whatever the state of the paths.
    pub(super) fn any_path(engine: &Engine) -> PathId {
        engine.paths.by_turn(0).map_or(PathId::FIRST, |path| path.id)
    }
}

/// Truncates a text at a character boundary.
fn shortened(text: &str) -> &str {
    let most = text.len().min(LONGEST_TEXT);
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}
