//! 1-RTT packets: header, blocks, seal.

use manyway_wire::mmsp2::{AckNow, Probe, ProbeAck};
use manyway_wire::{PathId, Writer, mmsp2};

use smallvec::SmallVec;

use super::Mmsp2;
use crate::engine::packet::Built;
use crate::engine::{Carry, ChallengePacket, Engine, Load};
use crate::io::EcnCounts;
use crate::mmsp2::packet_builder::{HeaderFacts, PacketBuilder};
use crate::packet::BASE_DATAGRAM;
use crate::packet::content::{Contents, SentContent};
use crate::path::Receiving;
use crate::recovery::PacketKind;
use crate::{Instant, SealJobs};

impl Mmsp2 {
    /// A PROBE, a PROBE-ACK or both, alone between the addresses that they validate. Between addresses without a path
    /// it carries the id of a working path; it is not in flight, and its acknowledgement says nothing about the path
    /// (spec 6.70).
    pub(crate) fn build_challenge(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        id: PathId,
        packet: &ChallengePacket,
    ) -> Option<Built> {
        let ChallengePacket { tuple, response, challenge, is_full } = *packet;
        let carries_own_acks =
            engine.paths.get(id).and_then(|path| engine.paths.ack_carrier(path)) == Some(id);
        let path = engine.paths.get_mut(id)?;
        let facts = HeaderFacts {
            path: id,
            destination: self.ids.remote.use_current(id)?,
            packet_number: path.recovery.take_packet_number(),
            largest_acked: path.recovery.largest_acked(),
            size: usize::from(BASE_DATAGRAM),
        };
        let mut builder = PacketBuilder::short(buffer, &facts, self.protector.key_phase());
        let mut writer = builder.writer(buffer);
        // An acknowledgement is written once, so it must not go to an address where the peer may be absent.
        let settled = path.addresses.is_validated() && tuple == path.tuple();
        if carries_own_acks && settled && path.receiving.acks.is_waiting() {
            write_ack(now, id, &mut path.receiving, &mut writer, &mut builder.contents);
        }
        if let Some(nonce) = response {
            ProbeAck { nonce, observed: tuple.remote }.encode(&mut writer);
        }
        if let Some(nonce) = challenge {
            Probe { nonce }.encode(&mut writer);
        }
        if is_full {
            builder.pad_to(buffer, usize::from(BASE_DATAGRAM));
        }
        if engine.shared.observer.is_some() {
            builder.keep_clear(buffer);
        }
        builder.finish(buffer, &mut self.protector)
    }

    /// Moves the jobs that seal the packets of a batch to `jobs`.
    pub(crate) fn move_jobs(&mut self, jobs: &mut SealJobs) {
        self.protector.move_jobs(jobs);
    }

    /// The paths for packets with the acknowledgements that are due.
    pub(crate) fn ack_carriers(&self, engine: &Engine, now: Instant) -> SmallVec<[PathId; 8]> {
        engine.paths.ack_carriers(now)
    }

    /// Whether control blocks wait.
    pub(crate) fn wants_control(&self) -> bool {
        self.control.wants()
            || self.ids.local.wants()
            || self.ids.remote.wants()
            || self.streams.wants_control()
    }

    /// Appends one packet; `None` if it would be empty, or may not be sent. The engine records it.
    pub(crate) fn build(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
        (id, size): (PathId, usize),
        carry: Carry,
    ) -> Option<Built> {
        let path = engine.paths.get_mut(id)?;
        let room = path.room();
        if room == 0 || carry.mtu_probe.is_some_and(|size| room < usize::from(size)) {
            return None;
        }
        let destination = self.ids.remote.use_current(id)?;
        let size = size.min(room);
        path.recovery.maybe_skip_number(&mut engine.shared.rng);
        let facts = HeaderFacts {
            path: id,
            destination,
            packet_number: path.recovery.next_packet_number(),
            largest_acked: path.recovery.largest_acked(),
            size,
        };
        let mut builder = PacketBuilder::short(buffer, &facts, self.protector.key_phase());
        let mut writer = builder.writer(buffer);
        // Comes first, while it certainly fits: all other blocks take the rest of the packet.
        if carry.ack_eliciting {
            AckNow.encode(&mut writer);
            builder.ack_eliciting = true;
        }
        write_acks(engine, now, id, &mut writer, &mut builder.contents);
        let carries_data = self.write_load(engine, (id, carry), &mut writer, &mut builder);
        let has_room = writer.remaining() >= AckNow.encoded_len();
        if !builder.ack_eliciting && has_room && is_ack_query(engine, now, id, &builder.contents) {
            AckNow.encode(&mut writer);
            builder.is_ack_query = true;
        }
        if let Some(size) = carry.mtu_probe {
            builder.contents.push(SentContent::MtuProbe { size });
            builder.pad_to(buffer, usize::from(size));
        }
        if builder.is_empty(buffer) {
            builder.cancel(buffer);
            return None;
        }
        if engine.shared.observer.is_some() {
            builder.keep_clear(buffer);
        }
        let mut built = builder.finish(buffer, &mut self.protector)?;
        built.carries_data = carries_data;
        if carry.mtu_probe.is_some() {
            built.kind = PacketKind::MtuProbe;
        }
        Some(built)
    }

    /// Writes control blocks and stream data as far as they fit; true if any stream data was written.
    fn write_load(
        &mut self,
        engine: &mut Engine,
        (id, carry): (PathId, Carry),
        writer: &mut Writer<'_>,
        builder: &mut PacketBuilder,
    ) -> bool {
        // Checks first: during bulk transfer no control block is pending, and a walk over every id would cost each
        // packet.
        if matches!(carry.load, Load::Control | Load::Data) && self.wants_control() {
            let before = writer.position();
            self.control.write_into(writer, &mut builder.contents);
            self.ids.local.write_into(writer, &mut builder.contents);
            self.ids.remote.write_into(writer, &mut builder.contents);
            self.streams.write_control(writer, &mut builder.contents);
            builder.ack_eliciting |= writer.position() > before;
        }
        let contents = &mut builder.contents;
        let carries_data = match carry.load {
            Load::Acks | Load::Control => false,
            Load::Copies => {
                let before = contents.len();
                let streams = &self.streams;
                let write = |copied: &SentContent, from| streams.write_copy(copied, from, writer, contents);
                engine.sending.copies.write(id, write);
                contents.len() > before
            }
            Load::Data => self.streams.write_data(writer, contents, carry.source, carry.filter),
        };
        builder.ack_eliciting |= carries_data;
        carries_data
    }
}

fn write_acks(
    engine: &mut Engine,
    now: Instant,
    carrier: PathId,
    writer: &mut Writer<'_>,
    contents: &mut Contents,
) {
    for (id, is_detour) in engine.paths.due_acks(now, carrier) {
        let Some(path) = engine.paths.get_mut(id) else { continue };
        write_ack(now, id, &mut path.receiving, writer, contents);
        if is_detour {
            path.receiving.acks.force();
        }
    }
}

/// Whether an ACK-only packet becomes an ACK query: it reports gaps that need not be reported again once the peer has
/// it.
fn is_ack_query(engine: &Engine, now: Instant, carrier: PathId, contents: &Contents) -> bool {
    let mut acked = contents.iter().filter_map(|content| {
        if let SentContent::PathAck { path, .. } = content { engine.paths.get(*path) } else { None }
    });
    acked.any(|path| path.receiving.numbers.has_gaps())
        && engine.paths.get(carrier).is_some_and(|path| path.recovery.may_query_acks(now))
}

pub(crate) fn write_ack(
    now: Instant,
    path: PathId,
    receiving: &mut Receiving,
    writer: &mut Writer<'_>,
    contents: &mut Contents,
) {
    let Some(largest) = receiving.numbers.largest() else {
        // An acknowledgement was requested, but there is nothing to acknowledge.
        return receiving.acks.on_ack_sent();
    };
    let delay = receiving.numbers.largest_time().map_or_else(Default::default, |at| now - at);
    let received_at = receiving.numbers.largest_time().unwrap_or(now).as_nanos() / 1000;
    // The receiver's clock wraps every 71 minutes; only differences count.
    let received_at = u32::try_from(received_at % (1 << 32)).unwrap_or_default();
    let ranges = receiving.numbers.ranges();
    let ecn = receiving.numbers.ecn().map(|EcnCounts { ect0, ect1, ce }| mmsp2::EcnCounts { ect0, ect1, ce });
    if mmsp2::encode_path_ack(writer, path, delay, received_at, ranges, ecn) > 0 {
        contents.push(SentContent::PathAck { path, largest });
        receiving.acks.on_ack_sent();
    }
}
