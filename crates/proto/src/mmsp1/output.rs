//! Packets out: header, SACK, ERROR, DATA, checksum.

use manyway_wire::mmsp1::{HEADER_LEN, Header, Probe, ProbeAck, Tag, seal};
use manyway_wire::{PathId, Writer};
use smallvec::SmallVec;

use super::Mmsp1;
use super::monitor::MonitorAction;
use super::unnumbered::note_sent;
use crate::engine::packet::Built;
use crate::engine::{Carry, ChallengePacket, Engine, Load, Phase, forget_packets, record_challenge, single};
use crate::packet::BASE_DATAGRAM;
use crate::packet::content::{Contents, SentContent};
use crate::path::PathReason;
use crate::recovery::{PacketKind, SentPacket};
use crate::scheduler::Source;
use crate::{FourTuple, Instant, SealJobs, Transmit};

/// Answers that wait for the driver; more are dropped, as the network could have done.
const MOST_ANSWERS: usize = 8;
/// Smaller packets carry nothing.
const SMALLEST: usize = 64;

impl Mmsp1 {
    /// Sends what has precedence over the engine's packets: answers, the close, the handshake, and PROBE of the monitor.
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.drive_close(engine, now);
        if let Some((tuple, packet)) = self.answers.pop_front() {
            buffer.extend_from_slice(&packet);
            note_sent(engine, now, buffer);
            return Some(single(tuple, buffer.len()));
        }
        if let Some(transmit) = self.transmit_close(engine, now, buffer) {
            return Some(transmit);
        }
        if let Some(transmit) = self.transmit_handshake(engine, now, buffer) {
            return Some(transmit);
        }
        if engine.phase == Phase::Draining {
            engine.phase = Phase::Closed;
        }
        if engine.phase.is_handshaking() || !engine.phase.is_open() {
            return None;
        }
        if self.streams.wants_window_update() {
            self.sacks.force();
        }
        self.transmit_monitor(engine, now, buffer)
    }

    fn transmit_monitor(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some(action) = self.monitor.poll(now) {
            match action {
                MonitorAction::DeclareUnreachable(id) => {
                    engine.declare_dead(now, id, PathReason::NoAnswer);
                    self.carry_out(engine, now);
                }
                MonitorAction::Probe(id) => {
                    let Some(transmit) = self.transmit_probe(engine, now, buffer, id) else {
                        self.monitor.postpone(now, id);
                        continue;
                    };
                    let pto = engine.paths.get(id).map(|path| path.recovery.pto());
                    self.monitor.on_probe_sent(now, id, pto.unwrap_or_default());
                    return Some(transmit);
                }
            }
        }
        None
    }

    fn transmit_probe(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
    ) -> Option<Transmit> {
        let path = engine.paths.get_mut(id).filter(|path| path.has_room())?;
        let tuple = path.tuple();
        let challenge = Some(path.challenger.challenge(now, tuple, &mut engine.shared.rng));
        let packet = ChallengePacket { tuple, response: None, challenge, is_full: false };
        let built = self.build_challenge(engine, now, buffer, id, &packet)?;
        record_challenge(engine, now, &tuple, built)?;
        Some(single(tuple, buffer.len()))
    }

    /// Appends one packet; `None` if it would be empty, or may not be sent. The engine records it.
    ///
    /// `carry.ack_eliciting` asks for a packet that earns an answer: it gets DATA that was sent before, or else a PROBE.
    pub(crate) fn build(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, size): (PathId, usize),
        carry: Carry,
    ) -> Option<Built> {
        let path = engine.paths.get(id)?;
        let size = size.min(path.room());
        if carry.mtu_probe.is_some() || size < SMALLEST {
            return None;
        }
        let (start, packet_number, tuple) = (buffer.len(), path.recovery.next_packet_number(), path.tuple());
        let mut writer = Writer::new(buffer, start + size);
        self.header(self.peer_tag()).encode(&mut writer);
        if self.sack_goes_on(engine, now, id) && self.streams.write_sack(&mut writer) {
            self.sacks.on_sent();
        }
        if matches!(carry.load, Load::Control | Load::Data) {
            self.errors.write(&mut writer);
        }
        let mut contents = Contents::new();
        let is_persist_probe = self.write_load(engine, (id, carry), &mut writer, &mut contents);
        let asks = carry.ack_eliciting && contents.is_empty() && !is_persist_probe;
        if asks {
            self.forget_arrived(engine, id);
        }
        if asks && writer.remaining() >= SMALLEST - HEADER_LEN {
            let path = engine.paths.get_mut(id)?;
            let nonce = path.challenger.challenge(now, tuple, &mut engine.shared.rng);
            self.probe(now, id, tuple, nonce).encode(&mut writer);
        }
        if buffer.len() == start + HEADER_LEN {
            buffer.truncate(start);
            return None;
        }
        seal(buffer.get_mut(start..)?);
        let clear = clear_copy(engine, buffer.get(start..)?);
        self.streams.on_sent(now, id, packet_number, &contents);
        let takes_number = !contents.is_empty();
        let is_answered = takes_number || asks || is_persist_probe;
        Some(Built {
            level: None,
            path: id,
            packet_number,
            takes_number,
            size: buffer.len() - start,
            kind: if is_answered { PacketKind::Ordinary } else { PacketKind::AckOnly },
            contents,
            carries_data: takes_number,
            clear,
        })
    }

    /// Takes packets of a path out of flight whose content has arrived in other copies: no SACK will name them.
    fn forget_arrived(&self, engine: &mut Engine, id: PathId) {
        let Some(path) = engine.paths.get(id) else { return };
        let has_arrived =
            |packet: &&SentPacket| packet.contents.iter().all(|content| self.streams.has_arrived(content));
        let arrived: Vec<u64> =
            path.recovery.oldest().filter(has_arrived).map(|packet| packet.packet_number).collect();
        forget_packets(engine, id, &arrived);
    }

    /// Writes DATA; true if it is a persist probe.
    fn write_load(
        &mut self,
        engine: &mut Engine,
        (id, carry): (PathId, Carry),
        writer: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> bool {
        match carry.load {
            Load::Control if carry.ack_eliciting => return self.streams.write_persist(writer),
            Load::Acks | Load::Control if !carry.ack_eliciting => {}
            // Another path carries the data; a copy here earns a SACK if this path works.
            Load::Acks | Load::Control => self.streams.write_oldest(id, writer, contents),
            Load::Copies => {
                let streams = &self.streams;
                let write = |copied: &SentContent, _| streams.write_copy(copied, writer, contents);
                engine.sending.copies.write(id, write);
            }
            Load::Data => {
                let source = if carry.ack_eliciting { Source::Retransmission } else { carry.source };
                self.streams.write_data(writer, contents, source, carry.filter);
                if carry.ack_eliciting {
                    self.streams.write_oldest(id, writer, contents);
                }
            }
        }
        false
    }

    /// Whether a packet on this path takes a SACK along: that goes on the path of the newest DATA, unless that one is no
    /// way back (spec 3.127).
    fn sack_goes_on(&self, engine: &Engine, now: Instant, id: PathId) -> bool {
        if !self.sacks.is_waiting() {
            return false;
        }
        if self.sacks.return_to() == Some(id) {
            return true;
        }
        self.sacks.due(now) && self.sack_carrier(engine) == Some(id)
    }

    /// The path for a SACK.
    pub(super) fn sack_carrier(&self, engine: &Engine) -> Option<PathId> {
        let returns = self.sacks.return_to().and_then(|id| engine.paths.get(id));
        let returns = returns.filter(|path| path.is_live() && engine.paths.can_send(path));
        let carrier =
            returns.or_else(|| engine.paths.best_live(None).filter(|path| engine.paths.can_send(path)));
        carrier.map(|path| path.id)
    }

    /// The path for a packet with the SACK that is due.
    pub(crate) fn ack_carriers(&self, engine: &Engine, now: Instant) -> SmallVec<[PathId; 8]> {
        let is_due = self.sacks.due(now);
        self.sack_carrier(engine).filter(|_| is_due).into_iter().collect()
    }

    /// Whether an ERROR waits.
    pub(crate) fn wants_control(&self) -> bool {
        self.errors.any_due()
    }

    /// Packets are complete: there is nothing to seal.
    pub(crate) fn move_jobs(&self, _jobs: &SealJobs) {}

    /// A PROBE, a PROBE-ACK or both, alone between the addresses that they validate.
    pub(crate) fn build_challenge(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
        packet: &ChallengePacket,
    ) -> Option<Built> {
        let &ChallengePacket { tuple, response, challenge, .. } = packet;
        let echo = response.and_then(|nonce| self.peer_addresses.take_echo(nonce));
        if echo.is_none() && challenge.is_none() {
            return None;
        }
        let own_nonce = engine.shared.rng.next_u64();
        let mut writer = Writer::new(buffer, usize::from(BASE_DATAGRAM));
        self.header(self.peer_tag()).encode(&mut writer);
        if let Some(echo) = echo {
            let data = self.peer_addresses.probe_data(now, id, tuple.local.address.ip(), own_nonce);
            ProbeAck { echo, data, unrecognised: None }.encode(&mut writer);
        }
        if let Some(nonce) = challenge {
            self.probe(now, id, tuple, nonce).encode(&mut writer);
        }
        seal(buffer);
        Some(Built {
            level: None,
            path: id,
            packet_number: engine.paths.get(id)?.recovery.next_packet_number(),
            takes_number: false,
            size: buffer.len(),
            kind: PacketKind::AckOnly,
            contents: Contents::new(),
            carries_data: false,
            clear: clear_copy(engine, buffer),
        })
    }

    fn probe(&self, now: Instant, id: PathId, tuple: FourTuple, nonce: u64) -> Probe {
        Probe { data: self.peer_addresses.probe_data(now, id, tuple.remote.ip(), nonce), unrecognised: None }
    }

    /// The header of packets under this tag.
    pub(super) fn header(&self, connection: Tag) -> Header {
        Header { source_port: self.ports[0], destination_port: self.ports[1], connection }
    }

    /// Writes a packet into the empty `buffer`.
    pub(super) fn write_packet(
        &self,
        buffer: &mut Vec<u8>,
        connection: Tag,
        write: impl FnOnce(&mut Writer<'_>),
    ) {
        write_packet(buffer, self.header(connection), write);
    }

    /// Queues a packet between exactly these addresses.
    pub(super) fn queue_answer(
        &mut self,
        tuple: FourTuple,
        header: Header,
        write: impl FnOnce(&mut Writer<'_>),
    ) {
        if self.answers.len() < MOST_ANSWERS {
            let mut packet = Vec::new();
            write_packet(&mut packet, header, write);
            self.answers.push_back((tuple, packet));
        }
    }
}

/// Writes a packet into the empty `buffer`.
pub(crate) fn write_packet(buffer: &mut Vec<u8>, header: Header, write: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::new(buffer, usize::from(BASE_DATAGRAM));
    header.encode(&mut writer);
    write(&mut writer);
    seal(buffer);
}

/// What follows the header of a packet, if there is an observer.
fn clear_copy(engine: &Engine, packet: &[u8]) -> Option<Vec<u8>> {
    let payload = packet.get(HEADER_LEN..).unwrap_or_default();
    engine.shared.observer.is_some().then(|| payload.to_vec())
}
