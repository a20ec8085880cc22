//! Handshake packets, and CLOSE, which goes at every encryption level.

use manyway_wire::mmsp2::{AckNow, Close, LongKind, Ping, Syn, SynAck};
use manyway_wire::{PathId, Writer};

use super::Mmsp2;
use super::output::write_ack;
use super::state::DueClose;
use crate::EncryptionLevel;
use crate::engine::packet::Built;
use crate::engine::{Engine, single};
use crate::mmsp2::packet_builder::{HeaderFacts, PacketBuilder};
use crate::packet::BASE_DATAGRAM;
use crate::path::Path;
use crate::recovery::PacketKind;
use crate::{Instant, Side, Transmit};

/// A server under the amplification limit waits until it may send a whole datagram.
const LEAST_HANDSHAKE_PACKET: usize = BASE_DATAGRAM as usize;

impl Mmsp2 {
    /// Sends CLOSE at every level that the peer may be able to decrypt.
    pub(crate) fn transmit_close(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        due: &DueClose,
    ) -> Option<Transmit> {
        let (id, tuple) = engine
            .paths
            .by_turn(due.turn)
            .filter(|path| path.has_room())
            .map(|path| (path.id, path.tuple()))?;
        let close = Close { step: due.step, code: due.code, text: due.reason.as_bytes() };
        for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake] {
            if self.handshake.is_some() && self.protector.has(level) {
                self.build_handshake_packet(engine, now, buffer, level, Some(&close));
            }
        }
        if self.protector.has(EncryptionLevel::OneRtt)
            && let Some(destination) = self.ids.remote.use_current(id)
            && let Some(path) = engine.paths.get_mut(id)
        {
            let facts = HeaderFacts {
                path: id,
                destination,
                packet_number: path.recovery.take_packet_number(),
                largest_acked: path.recovery.largest_acked(),
                size: usize::from(BASE_DATAGRAM).saturating_sub(buffer.len()),
            };
            let mut builder = PacketBuilder::short(buffer, &facts, self.protector.key_phase());
            let mut writer = builder.writer(buffer);
            write_ack(now, id, &mut path.receiving, &mut writer, &mut builder.contents);
            close.encode(&mut writer);
            if engine.shared.observer.is_some() {
                builder.keep_clear(buffer);
            }
            if let Some(mut built) = builder.finish(buffer, &mut self.protector) {
                built.kind = PacketKind::AckOnly;
                path.recovery.on_sent(now, built.take_sent());
                path.count_sent_bytes(built.size);
                observe(engine, now, &built);
            }
        }
        if let Some(path) = engine.paths.get_mut(id) {
            if path.room() < buffer.len() {
                self.protector.drop_jobs();
                buffer.clear();
                return None;
            }
            path.addresses.on_sent(buffer.len());
        }
        (!buffer.is_empty()).then(|| single(tuple, buffer.len()))
    }

    /// Handshake packets: Initial and Handshake packets share a datagram.
    pub(crate) fn transmit_handshake(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = engine.paths.get(PathId::FIRST)?;
        let handshake = self.handshake.as_ref()?;
        let tuple =
            if handshake.attempts.is_settled() { path.tuple() } else { handshake.attempts.current()? };
        if path.room() < LEAST_HANDSHAKE_PACKET {
            return None;
        }
        let wants_initial = self.wants_handshake(now, EncryptionLevel::Initial);
        let wants_handshake = self.wants_handshake(now, EncryptionLevel::Handshake);
        if wants_initial {
            self.build_handshake_packet(engine, now, buffer, EncryptionLevel::Initial, None);
        }
        if wants_handshake {
            self.build_handshake_packet(engine, now, buffer, EncryptionLevel::Handshake, None);
        }
        let handshake = self.handshake.as_mut()?;
        if !handshake.attempts.is_settled()
            && !handshake.tls.wants(EncryptionLevel::Initial)
            && handshake.attempts.advance()
        {
            handshake.tls.resend_all(EncryptionLevel::Initial);
        }
        if buffer.is_empty() {
            return None;
        }
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            path.addresses.on_sent(buffer.len());
            path.count_sent_bytes(buffer.len());
        }
        Some(single(tuple, buffer.len()))
    }

    fn wants_handshake(&self, now: Instant, level: EncryptionLevel) -> bool {
        let Some(handshake) = self.handshake.as_ref().filter(|_| self.protector.has(level)) else {
            return false;
        };
        let (space, pto_probes) = match level {
            EncryptionLevel::Initial => (&handshake.initial_space, handshake.initial_pto_probes),
            EncryptionLevel::Handshake | EncryptionLevel::OneRtt => {
                (&handshake.handshake_space, handshake.handshake_pto_probes)
            }
        };
        handshake.tls.wants(level) || pto_probes > 0 || space.receiving.acks.due(now)
    }

    fn build_handshake_packet(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        level: EncryptionLevel,
        close: Option<&Close<'_>>,
    ) {
        let client = engine.side == Side::Client;
        let other_follows =
            level == EncryptionLevel::Initial && self.wants_handshake(now, EncryptionLevel::Handshake);
        let is_datagram = engine.paths.get(PathId::FIRST).is_none_or(Path::is_datagram);
        let Some(handshake) = &mut self.handshake else { return };
        let destination = handshake.destination();
        let wants_bytes = handshake.tls.wants(level);
        let (space, pto_probes, kind) = match level {
            EncryptionLevel::Initial => {
                (&mut handshake.initial_space, &mut handshake.initial_pto_probes, LongKind::Initial)
            }
            EncryptionLevel::Handshake | EncryptionLevel::OneRtt => {
                (&mut handshake.handshake_space, &mut handshake.handshake_pto_probes, LongKind::Handshake)
            }
        };
        let facts = HeaderFacts {
            path: PathId::FIRST,
            destination,
            packet_number: space.recovery.take_packet_number(),
            largest_acked: space.recovery.largest_acked(),
            size: usize::from(BASE_DATAGRAM).saturating_sub(buffer.len()),
        };
        let mut builder = PacketBuilder::long(buffer, &facts, kind, handshake.local_id);
        let mut writer = builder.writer(buffer);
        let is_pto_probe = std::mem::take(pto_probes) > 0;
        // spec 4.12: SYN or PING comes first, so that the server can tell them apart at once
        if close.is_none() && (wants_bytes || is_pto_probe) {
            write_greeting(client, level, &handshake.info, &mut writer);
            builder.ack_eliciting = true;
        }
        if space.receiving.acks.is_waiting() {
            write_ack(now, PathId::FIRST, &mut space.receiving, &mut writer, &mut builder.contents);
        }
        match close {
            Some(close) => close.encode(&mut writer),
            None => handshake.tls.write_into(level, &mut writer, &mut builder.contents),
        }
        if is_pto_probe {
            AckNow.encode(&mut writer);
        }
        // spec 4.14: the first flights prove that the path carries 1200 bytes
        let padded = close.is_none() && !other_follows && (client || builder.ack_eliciting);
        if padded
            && is_datagram
            && (level == EncryptionLevel::Initial || self.protector.has(EncryptionLevel::Initial))
        {
            let rest = usize::from(BASE_DATAGRAM).saturating_sub(buffer.len() - builder.len(buffer));
            builder.pad_to(buffer, rest);
        }
        if builder.is_empty(buffer) {
            return builder.cancel(buffer);
        }
        if engine.shared.observer.is_some() {
            builder.keep_clear(buffer);
        }
        if let Some(mut built) = builder.finish(buffer, &mut self.protector) {
            space.recovery.on_sent(now, built.take_sent());
            observe(engine, now, &built);
        }
    }
}

/// Shows a packet to the observer, if there is one.
fn observe(engine: &mut Engine, now: Instant, built: &Built) {
    if let Some(packet) = built.observed() {
        engine.observe_packet(now, &packet);
    }
}

/// Whether the amplification limit permits any handshake packet.
pub(super) fn may_send_handshake(engine: &Engine) -> bool {
    engine.paths.get(PathId::FIRST).is_some_and(|path| path.room() >= LEAST_HANDSHAKE_PACKET)
}

fn write_greeting(client: bool, level: EncryptionLevel, info: &[u8], writer: &mut Writer<'_>) {
    match (client, level) {
        (true, EncryptionLevel::Initial) if info.is_empty() => Syn { info }.encode(writer),
        (true, EncryptionLevel::Initial | EncryptionLevel::Handshake) => Ping { info }.encode(writer),
        (false, EncryptionLevel::Initial) => SynAck { info }.encode(writer),
        (_, EncryptionLevel::Handshake | EncryptionLevel::OneRtt) => {}
    }
}
