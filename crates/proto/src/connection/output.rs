//! Packets out: what is due goes in fixed order, each call gives one batch for one address pair.

use manyway_wire::mmsp2::{AckNow, Probe, ProbeAck};
use manyway_wire::{PathId, Writer, mmsp2};

use super::probing::{Probing, next_probing};
use super::{BASE_DATAGRAM, Connection, Initiator};
use crate::io::EcnCounts;
use crate::observe::Fact;
use crate::packet::builder::{HeaderFacts, PacketBuilder};
use crate::packet::content::{Contents, SentContent};
use crate::path::{Path, PathState, Space};
use crate::recovery::{PacketKind, SentPacket};
use crate::scheduler::Source;
use crate::stream::priority::Pick;
use crate::{ByteCount, Ecn, FourTuple, Instant, Transmit, Violation};

/// Most datagrams of a batch, and most bytes: what one system call with segmentation offload takes.
const MAX_SEGMENTS: usize = 64;
const MAX_BATCH: usize = 65_000;

/// What a packet of the data level may carry beside acknowledgements.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carry {
    pub(super) load: Load,
    /// Which bytes of streams.
    pub(super) source: Source,
    /// Of which classes.
    pub(super) pick: Pick,
    /// Something that asks for an acknowledgement even if nothing else does.
    pub(super) question: bool,
    pub(super) mtu_probe: Option<u16>,
    /// The mark of its datagram.
    pub(super) ecn: Ecn,
}

/// How much of what waits may go into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Load {
    #[default]
    Acks,
    /// Once more what a burst on another path carried.
    Copies,
    /// Facts for the peer.
    Control,
    /// Facts for the peer, and bytes of streams.
    Data,
}

impl Connection {
    /// Writes the next batch of datagrams into the empty `buffer`.
    pub(crate) fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.drive_close(now);
        if let Some(word) = self.take_due_close(now) {
            return self.transmit_close(now, buffer, &word);
        }
        if !self.life.is_open() {
            return None;
        }
        if let Some(transmit) = self.transmit_setup(now, buffer) {
            return Some(transmit);
        }
        if self.is_handshaking() {
            return None;
        }
        let longest_pto = self.longest_pto();
        if self.protector.maybe_update(now, longest_pto) {
            self.counts.key_updates += 1;
            self.observe(now, &Fact::KeyUpdate);
        }
        if self.protector.is_worn_out() {
            self.fail(now, Violation::KeyWornOut);
            let word = self.take_due_close(now)?;
            return self.transmit_close(now, buffer, &word);
        }
        self.close_leaving(now);
        self.select_pairs(now);
        self.transmit_probing(now, buffer)
            .or_else(|| self.transmit_survey(now, buffer))
            .or_else(|| self.transmit_rendezvous(now, buffer))
            .or_else(|| self.transmit_question(now, buffer))
            .or_else(|| self.transmit_timeout_probes(now, buffer))
            .or_else(|| self.transmit_control(now, buffer))
            .or_else(|| self.transmit_data(now, buffer))
            .or_else(|| self.transmit_mtu_probe(now, buffer))
            .or_else(|| self.transmit_acks(now, buffer))
    }

    /// PROBE-ACKs and PROBEs go alone, to the very addresses that they are about.
    fn transmit_probing(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let is_client = self.side == Initiator::Client;
        for id in self.paths.ids() {
            let reached = self.ids.remote.current(id).is_some();
            let carries_own_acks = self.paths.get(id).and_then(|path| self.ack_carrier(path)) == Some(id);
            let path = self.paths.get_mut(id)?;
            if !reached {
                // Without an id of the peer nothing can be said on this path.
                path.drop_answers();
                continue;
            }
            let Some(Probing { tuple, answer, question, is_full }) =
                next_probing(now, path, &mut self.manager, &mut self.shared.rng, is_client)
            else {
                continue;
            };
            let limited = path.tuple() == tuple;
            let facts = HeaderFacts {
                path: id,
                destination: self.ids.remote.use_current(id)?,
                packet_number: path.space.recovery.take_packet_number(),
                largest_acked: path.space.recovery.largest_acked(),
                size: usize::from(BASE_DATAGRAM),
            };
            let mut builder = PacketBuilder::short(buffer, &facts, self.protector.key_phase());
            let mut writer = builder.writer(buffer);
            // Not to an address where perhaps nobody is: an acknowledgement is written once.
            let settled = path.place.is_proven() && tuple == path.tuple();
            if carries_own_acks && settled && path.space.acks.is_waiting() {
                write_ack(now, id, &mut path.space, &mut writer, &mut builder.contents);
            }
            if let Some(nonce) = answer {
                ProbeAck { nonce, observed: tuple.remote }.encode(&mut writer);
            }
            if let Some(nonce) = question {
                Probe { nonce }.encode(&mut writer);
            }
            if is_full {
                builder.pad_to(buffer, usize::from(BASE_DATAGRAM));
            }
            if self.shared.observer.is_some() {
                builder.keep_clear(buffer);
            }
            let size = builder.finish(buffer, &mut self.protector)?;
            if limited {
                path.place.on_sent(size);
            } else {
                path.space.recovery.on_sent_astray(facts.packet_number);
            }
            path.count_sent(size);
            // Not tracked as in flight: the answer tells, and a path that is dead has nothing in flight.
            path.space.recovery.on_sent(now, sent_packet(&builder, size, PacketKind::AckOnly));
            self.on_packet_out(now, id, &builder, size, true);
            return Some(single(tuple, buffer.len()));
        }
        None
    }

    /// The question of a sender that waits for credit, with what holds it back.
    fn transmit_question(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let path = self.paths.get(self.persist.take_due()?)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, question: true, ..Carry::default() };
        self.transmit_one(now, buffer, id, datagram, carry)
    }

    fn transmit_timeout_probes(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for id in self.paths.ids() {
            let lone = self.paths.best_live(Some(id)).is_none();
            let Some(path) = self.paths.get_mut(id).filter(|path| path.has_probes_due()) else { continue };
            // spec 6.35: such an address gets questions of the prober alone.
            if self.manager.is_hearsay(path.tuple().remote) {
                continue;
            }
            path.on_pto_probe_sent();
            let datagram = usize::from(path.mtu.current());
            let load = if lone && path.is_live() { Load::Data } else { Load::Acks };
            let carry = Carry { load, question: true, ..Carry::default() };
            if let Some(transmit) = self.transmit_one(now, buffer, id, datagram, carry) {
                return Some(transmit);
            }
        }
        None
    }

    /// Facts for the peer go on the nearest path whatever its window: they are few and keep everything else moving.
    fn transmit_control(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if !self.wants_control() {
            return None;
        }
        let path = self.paths.best_live(None)?;
        let (id, datagram) = (path.id, usize::from(path.mtu.current()));
        let carry = Carry { load: Load::Control, ..Carry::default() };
        self.transmit_one(now, buffer, id, datagram, carry)
    }

    fn wants_control(&self) -> bool {
        self.control.wants()
            || self.ids.local.wants()
            || self.ids.remote.wants()
            || self.streams.wants_control()
    }

    /// Writes up to `quantum` bytes of datagrams for a path, all of one size but for the last.
    pub(super) fn transmit_batch(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, quantum): (PathId, ByteCount),
        carry: Carry,
    ) -> Option<Transmit> {
        let path = self.paths.get(id)?;
        let (tuple, datagram) = (path.tuple(), usize::from(path.mtu.current()));
        // spec 9.49: a batch has one mark, since one system call sends it.
        let carry = Carry { ecn: path.space.recovery.ecn().mark(), ..carry };
        let mut left = quantum.to_usize().min(path.place.amplification().room());
        let mut segment = None;
        for _ in 0..MAX_SEGMENTS {
            if left == 0 || buffer.len() + datagram > MAX_BATCH {
                break;
            }
            let Some(size) = self.build_packet(now, buffer, id, datagram, carry) else { break };
            left = left.saturating_sub(size);
            // All datagrams of a batch are equal, only the last may be shorter.
            if size < *segment.get_or_insert(size) || size < datagram {
                break;
            }
        }
        let segment = segment?;
        self.sending.on_sent(now, ByteCount::of(buffer.len()));
        Some(Transmit { tuple, length: buffer.len(), segment, ecn: carry.ecn })
    }

    fn transmit_mtu_probe(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for id in self.paths.ids() {
            let path = self.paths.get(id).filter(|path| path.state() == PathState::Active);
            let Some(size) = path.and_then(|path| path.mtu.wanted()) else { continue };
            let carry = Carry { question: true, mtu_probe: Some(size), ..Carry::default() };
            let Some(transmit) = self.transmit_one(now, buffer, id, usize::from(size), carry) else {
                continue;
            };
            if let Some(path) = self.paths.get_mut(id) {
                path.mtu.on_probe_sent();
                // Behind it something small, whose answer tells of its loss: else the probe timer had to.
                path.schedule_probes(1);
            }
            return Some(transmit);
        }
        None
    }

    fn transmit_acks(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for id in self.paths.ids() {
            let Some(path) = self.paths.get(id).filter(|path| path.space.acks.due(now)) else { continue };
            let Some(carrier) = self.ack_carrier(path) else { continue };
            if let Some(transmit) =
                self.transmit_one(now, buffer, carrier, usize::from(BASE_DATAGRAM), Carry::default())
            {
                return Some(transmit);
            }
        }
        None
    }

    /// An acknowledgement goes on the path that it acknowledges, which keeps its round-trip time clean and proves its
    /// way back; while that path is in doubt, on the best other one.
    pub(super) fn ack_carrier(&self, path: &Path) -> Option<PathId> {
        if path.is_live() && self.can_send(path) {
            return Some(path.id);
        }
        if let Some(other) = self.paths.best_live(Some(path.id)).filter(|other| self.can_send(other)) {
            return Some(other.id);
        }
        let usable = path.state() != PathState::Validating && self.can_send(path);
        usable.then_some(path.id)
    }

    /// Whether a packet could go on a path: else no deadline that wants one may be waited for.
    pub(super) fn can_send(&self, path: &Path) -> bool {
        self.ids.remote.current(path.id).is_some() && path.place.amplification().has_room()
    }

    fn transmit_one(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
        size: usize,
        carry: Carry,
    ) -> Option<Transmit> {
        let tuple = self.paths.get(id)?.tuple();
        self.build_packet(now, buffer, id, size, carry)?;
        Some(single(tuple, buffer.len()))
    }

    /// Appends one packet of the data level; `None` if there was nothing to put into it, or no room to send it.
    fn build_packet(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
        size: usize,
        carry: Carry,
    ) -> Option<usize> {
        let path = self.paths.get_mut(id)?;
        let room = path.place.amplification().room();
        if room == 0 || carry.mtu_probe.is_some_and(|size| room < usize::from(size)) {
            return None;
        }
        let destination = self.ids.remote.use_current(id)?;
        let size = size.min(room);
        path.space.recovery.set_trap(&mut self.shared.rng);
        let facts = HeaderFacts {
            path: id,
            destination,
            packet_number: path.space.recovery.next_packet_number(),
            largest_acked: path.space.recovery.largest_acked(),
            size,
        };
        let mut builder = PacketBuilder::short(buffer, &facts, self.protector.key_phase());
        let mut writer = builder.writer(buffer);
        // First, while there is room for certain: all others take what is left.
        if carry.question {
            AckNow.encode(&mut writer);
            builder.asks_for_ack = true;
        }
        self.write_acks(now, id, &mut writer, &mut builder.contents);
        // Asked first: in bulk there is nothing to say, and walking over every id would cost each packet.
        if matches!(carry.load, Load::Control | Load::Data) && self.wants_control() {
            let before = writer.position();
            self.control.write_into(&mut writer, &mut builder.contents);
            self.ids.local.write_into(&mut writer, &mut builder.contents);
            self.ids.remote.write_into(&mut writer, &mut builder.contents);
            self.streams.write_control(&mut writer, &mut builder.contents);
            builder.asks_for_ack |= writer.position() > before;
        }
        let contents = &mut builder.contents;
        let carries_data = match carry.load {
            Load::Acks | Load::Control => false,
            Load::Copies => self.sending.copies.write(id, &self.streams, &mut writer, contents),
            Load::Data => self.streams.write_data(&mut writer, contents, carry.source, carry.pick),
        };
        builder.asks_for_ack |= carries_data;
        let has_room = writer.remaining() >= AckNow.encoded_len();
        if !builder.asks_for_ack && has_room && self.asks_about_acks(now, id, &builder.contents) {
            AckNow.encode(&mut writer);
            builder.asks_about_acks = true;
        }
        if let Some(size) = carry.mtu_probe {
            builder.contents.push(SentContent::MtuProbe { size });
            builder.pad_to(buffer, usize::from(size));
        }
        if builder.is_empty(buffer) {
            builder.cancel(buffer);
            return None;
        }
        if self.shared.observer.is_some() {
            builder.keep_clear(buffer);
        }
        let size = builder.finish(buffer, &mut self.protector)?;
        let path = self.paths.get_mut(id)?;
        if carries_data {
            path.on_data_sent(now);
            self.persist.on_data(now);
        }
        path.space.recovery.take_packet_number();
        let kind = if carry.mtu_probe.is_some() { PacketKind::MtuProbe } else { builder.kind() };
        let mut packet = sent_packet(&builder, size, kind);
        packet.moved = carry.load == Load::Copies;
        packet.marked = carry.ecn == Ecn::Ect0;
        path.space.recovery.on_sent(now, packet);
        path.place.on_sent(size);
        path.count_sent(size);
        self.on_packet_out(now, id, &builder, size, builder.asks_for_ack);
        Some(size)
    }
}

impl Connection {
    fn write_acks(
        &mut self,
        now: Instant,
        carrier: PathId,
        writer: &mut Writer<'_>,
        contents: &mut Contents,
    ) {
        for id in self.paths.ids() {
            let Some(path) = self.paths.get(id) else { continue };
            let is_own = id == carrier;
            let asked = if is_own { path.space.acks.is_waiting() } else { path.space.acks.due(now) };
            if !asked {
                continue;
            }
            let chosen = self.ack_carrier(path);
            if let Some(path) = self.paths.get_mut(id).filter(|_| is_own || chosen == Some(carrier)) {
                write_ack(now, id, &mut path.space, writer, contents);
                // It may not arrive on a path in doubt: the other one has to bring it.
                if chosen.is_some_and(|chosen| chosen != carrier) {
                    path.space.acks.force();
                }
            }
        }
    }

    /// Whether a packet of nothing but acknowledgements asks if they arrive: they name gaps that the peer, once it has
    /// them, need not be told of again.
    fn asks_about_acks(&self, now: Instant, carrier: PathId, contents: &Contents) -> bool {
        let mut acked = contents.iter().filter_map(|content| {
            if let SentContent::PathAck { path, .. } = content { self.paths.get(*path) } else { None }
        });
        acked.any(|path| path.space.received.has_gaps())
            && self.paths.get(carrier).is_some_and(|path| path.space.recovery.may_ask_about_acks(now))
    }

    pub(super) fn on_packet_out(
        &mut self,
        now: Instant,
        path: PathId,
        builder: &PacketBuilder,
        size: usize,
        asks_for_ack: bool,
    ) {
        self.note_stir(now);
        if asks_for_ack && !self.clock.asked_since_heard {
            self.clock.asked_since_heard = true;
            self.clock.last_activity = now;
        }
        if let Some(path) = self.paths.get_mut(path).filter(|_| asks_for_ack) {
            path.on_asked(now);
        }
        let size = u16::try_from(size).unwrap_or(u16::MAX);
        self.observe(
            now,
            &Fact::PacketSent { path, packet_number: builder.packet_number, size, asks_for_ack },
        );
        if let Some(packet) = builder.observed(usize::from(size)) {
            self.observe_packet(now, &packet);
        }
    }
}

pub(super) fn write_ack(
    now: Instant,
    path: PathId,
    space: &mut Space,
    writer: &mut Writer<'_>,
    contents: &mut Contents,
) {
    let Some(largest) = space.received.largest() else {
        // Somebody asked, but there is nothing to tell.
        return space.acks.on_ack_sent();
    };
    let delay = space.received.largest_time().map_or_else(Default::default, |at| now - at);
    let received_at = space.received.largest_time().unwrap_or(now).as_nanos() / 1000;
    // The receiver's clock wraps every 71 minutes; only differences count.
    let received_at = u32::try_from(received_at % (1 << 32)).unwrap_or_default();
    let ranges = space.received.ranges();
    let ecn = space.received.ecn().map(|EcnCounts { ect0, ect1, ce }| mmsp2::EcnCounts { ect0, ect1, ce });
    if mmsp2::encode_path_ack(writer, path, delay, received_at, ranges, ecn) > 0 {
        contents.push(SentContent::PathAck { path, largest });
        space.acks.on_ack_sent();
    }
}

pub(super) fn sent_packet(builder: &PacketBuilder, size: usize, kind: PacketKind) -> SentPacket {
    SentPacket::new(
        builder.packet_number,
        u16::try_from(size).unwrap_or(u16::MAX),
        kind,
        builder.contents.clone(),
    )
}

pub(super) fn single(tuple: FourTuple, length: usize) -> Transmit {
    Transmit { tuple, length, segment: length, ecn: Ecn::NotEct }
}
