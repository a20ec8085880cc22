//! Packets of the toy wire.

use std::time::Duration;

use manyway_wire::{DecodeError, PathId, Reader, Writer};

use smallvec::SmallVec;

use super::row::{AROUND_DATA, DATA, Row};

use crate::EncryptionLevel;
use crate::engine::notices::{Fates, Notice};
use crate::engine::packet::Built;
use crate::engine::{Carry, ChallengePacket, Engine, Heard, Load};
use crate::packet::ack_policy::Demand;
use crate::packet::content::{Contents, SentContent};
use crate::recovery::{PacketKind, ReceivedAck};
use crate::{ByteCount, Ecn, FourTuple, Instant, SealJobs, Side, Transmit};

const HEADER: usize = 12;
const ACK: u8 = 1;
const CHALLENGE: u8 = 3;
const ANSWER: u8 = 4;
const PING: u8 = 5;
/// Most acknowledged ranges in a packet.
const MOST_RANGES: usize = 16;

/// The part of a connection that belongs to the toy wire.
#[derive(Debug, Default)]
pub(crate) struct Toy {
    pub(crate) streams: Row,
}

/// Calls without an effect in this wire.
impl Toy {
    pub(crate) fn poll_transmit(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        _buffer: &[u8],
    ) -> Option<Transmit> {
        self.carry_out(engine, now);
        None
    }

    pub(crate) fn ack_carriers(&self, engine: &Engine, now: Instant) -> SmallVec<[PathId; 8]> {
        engine.paths.ack_carriers(now)
    }

    pub(crate) fn deadline(&self, _engine: &Engine) -> Option<Instant> {
        None
    }

    pub(crate) fn on_timeout(&self, _engine: &Engine, _now: Instant) {}

    pub(crate) fn on_wake(&self, _engine: &Engine, _now: Instant) {}

    /// Packets are complete: there is nothing to seal.
    pub(crate) fn move_jobs(&self, _jobs: &SealJobs) {}

    pub(crate) fn shrink_to_fit(&self) {}

    pub(crate) fn wants_control(&self) -> bool {
        false
    }
}

impl Toy {
    pub(crate) fn on_datagram(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        (tuple, ecn): (FourTuple, Ecn),
        datagram: &[u8],
    ) {
        let mut reader = Reader::new(datagram);
        let (Ok(path), Ok(number)) = (reader.u32(), reader.u64()) else { return };
        let heard = Heard { now, path: PathId(path), tuple, datagram: datagram.len() };
        match engine.paths.get_mut(heard.path) {
            Some(path) if path.tuple() == tuple => path.on_datagram(now, datagram.len()),
            None if engine.side == Side::Server && path <= engine.limits.own_paths => {
                engine.accept_path(&heard, datagram.len());
            }
            Some(_) | None => {}
        }
        engine.on_packet_in(&heard, datagram.len());
        let demand = self.read_blocks(engine, &heard, &mut reader).unwrap_or(Demand::None);
        let mut is_newest = false;
        if let Some(path) = engine.paths.get_mut(heard.path) {
            is_newest = path.receiving.numbers.largest().is_none_or(|largest| number > largest);
            let arrival = path.receiving.numbers.insert(number, now);
            path.receiving.numbers.count_ecn(ecn);
            path.receiving.acks.on_packet(now, arrival, demand, datagram.len());
        }
        if is_newest && demand == Demand::Normal {
            engine.follow_peer(&heard);
        }
        self.carry_out(engine, now);
    }

    fn read_blocks(
        &mut self,
        engine: &mut Engine,
        heard: &Heard,
        reader: &mut Reader<'_>,
    ) -> Result<Demand, DecodeError> {
        let mut demand = Demand::None;
        while !reader.is_empty() {
            match reader.u8()? {
                ACK => {
                    let (path, delay, received_at) = (reader.u32()?, reader.u32()?, reader.u32()?);
                    let mut ranges = Vec::new();
                    for _ in 0..reader.u8()? {
                        ranges.push(reader.u64()?..=reader.u64()?);
                    }
                    let delay = Duration::from_micros(delay.into());
                    let ack = ReceivedAck::new(PathId(path), ranges.into_iter(), delay, received_at);
                    // An acknowledgement of packets that were never sent is ignored, and the connection continues.
                    let _ = engine.on_ack(heard.now, ack.over(heard.path));
                }
                DATA => {
                    let (offset, length) = (reader.u64()?, reader.u16()?);
                    let data = reader.bytes(length.into())?;
                    self.streams.take(offset, data);
                    engine.on_data_in(heard.now, heard.path);
                    demand = Demand::Normal;
                }
                CHALLENGE => engine.on_challenge(heard, reader.u64()?),
                ANSWER => {
                    engine.on_challenge_answered(heard, reader.u64()?, heard.tuple.local.address);
                }
                PING => demand = Demand::Immediate,
                // Padding.
                _ => {}
            }
        }
        Ok(demand)
    }

    pub(crate) fn build(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, size): (PathId, usize),
        carry: Carry,
    ) -> Option<Built> {
        let path = engine.paths.get_mut(id)?;
        let size = size.min(path.room());
        if size < HEADER + AROUND_DATA || carry.mtu_probe.is_some_and(|probe| size < usize::from(probe)) {
            return None;
        }
        let start = buffer.len();
        let number = path.recovery.next_packet_number();
        let mut writer = Writer::new(buffer, start + size);
        write_header(&mut writer, id, number);
        if carry.ack_eliciting {
            writer.u8(PING);
        }
        write_acks(engine, now, id, &mut writer);
        let mut contents = Contents::new();
        match carry.load {
            Load::Acks | Load::Control => {}
            Load::Copies => {
                let streams = &self.streams;
                let write =
                    |copied: &SentContent, from| streams.write_copy(copied, from, &mut writer, &mut contents);
                engine.sending.copies.write(id, write);
            }
            Load::Data => self.streams.write_next(&mut writer, &mut contents),
        }
        let carries_data = !contents.is_empty();
        if let Some(probe) = carry.mtu_probe {
            contents.push(SentContent::MtuProbe { size: probe });
            writer.zeros(writer.remaining());
        }
        if buffer.len() == start + HEADER {
            buffer.truncate(start);
            return None;
        }
        let kind = match carry.mtu_probe {
            Some(_) => PacketKind::MtuProbe,
            None if carries_data || carry.ack_eliciting => PacketKind::Ordinary,
            None => PacketKind::AckOnly,
        };
        let packet = built((id, number), buffer.len() - start, kind);
        Some(Built { contents, carries_data, ..packet })
    }

    pub(crate) fn build_challenge(
        &self,
        engine: &mut Engine,
        _now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
        packet: &ChallengePacket,
    ) -> Option<Built> {
        let path = engine.paths.get_mut(id)?;
        let number = path.recovery.take_packet_number();
        let mut writer = Writer::new(buffer, usize::from(crate::packet::BASE_DATAGRAM));
        write_header(&mut writer, id, number);
        for (kind, nonce) in [(ANSWER, packet.response), (CHALLENGE, packet.challenge)] {
            if let Some(nonce) = nonce {
                writer.u8(kind);
                writer.u64(nonce);
            }
        }
        if packet.is_full {
            writer.zeros(writer.remaining());
        }
        Some(built((id, number), buffer.len(), PacketKind::AckOnly))
    }

    pub(crate) fn carry_out(&mut self, engine: &mut Engine, now: Instant) {
        while !engine.notices.is_empty() {
            let mut notices = engine.notices.take();
            let Fates { delivered, lost, reinjected, progress, .. } = &mut notices.fates;
            delivered.drain(..).flatten().for_each(|content| self.streams.on_delivered(&content));
            let again = lost.drain(..).chain(reinjected.drain(..)).flatten();
            again.for_each(|content| self.streams.on_lost(&content));
            if !progress.is_empty() {
                engine.on_progress(now, ByteCount(self.streams.acknowledged()));
            }
            for notice in &notices.news {
                if let Notice::Closed { path, .. } = notice {
                    engine.paths.set_reachable(*path, false);
                }
            }
            engine.notices.reuse(notices);
        }
    }
}

/// A packet without data.
fn built((path, packet_number): (PathId, u64), size: usize, kind: PacketKind) -> Built {
    Built {
        level: Some(EncryptionLevel::OneRtt),
        path,
        packet_number,
        takes_number: true,
        size,
        kind,
        contents: Contents::new(),
        carries_data: false,
        clear: None,
    }
}

fn write_header(writer: &mut Writer<'_>, path: PathId, number: u64) {
    writer.u32(path.0);
    writer.u64(number);
}

fn write_acks(engine: &mut Engine, now: Instant, carrier: PathId, writer: &mut Writer<'_>) {
    for (id, is_detour) in engine.paths.due_acks(now, carrier) {
        let Some(receiving) = engine.paths.get_mut(id).map(|path| &mut path.receiving) else { continue };
        let ranges: Vec<_> = receiving.numbers.ranges().take(MOST_RANGES).collect();
        if writer.remaining() < 14 + 16 * ranges.len() {
            return;
        }
        let at = receiving.numbers.largest_time().unwrap_or(now);
        writer.u8(ACK);
        writer.u32(id.0);
        writer.u32(u32::try_from((now - at).as_micros()).unwrap_or(u32::MAX));
        writer.u32(u32::try_from(at.as_nanos() / 1000 % (1 << 32)).unwrap_or_default());
        writer.u8(u8::try_from(ranges.len()).unwrap_or_default());
        for range in ranges {
            writer.u64(*range.start());
            writer.u64(*range.end());
        }
        receiving.acks.on_ack_sent();
        if is_detour {
            receiving.acks.force();
        }
    }
}
