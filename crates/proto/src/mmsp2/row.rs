//! Rows of packets: in bulk each packet carries nothing but the bytes of a stream that follow those of the packet before,
//! so that whatever else decides about packets is asked once.

use manyway_wire::mmsp2::{encode_short, packet_number};
use manyway_wire::{PathId, Writer};

use super::Mmsp2;
use crate::engine::{Carry, Engine, Load, on_row_packet};
use crate::mmsp2::protection::{Outgoing, Protector};
use crate::{EncryptionLevel, Instant};

/// Appends up to `most` packets of `size` bytes each, the same ones as as many calls of [`Mmsp2::build`] would, and
/// records them. Returns how many: none unless one of these calls came before at the same time, and all that is left
/// for a packet is bulk data.
pub(crate) fn build_row(
    wire: &mut Mmsp2,
    engine: &mut Engine,
    now: Instant,
    buffer: &mut Vec<u8>,
    (id, size, most): (PathId, usize, usize),
    carry: Carry,
) -> usize {
    let is_pure = carry.load == Load::Data && !carry.ack_eliciting && carry.mtu_probe.is_none();
    if !is_pure || engine.shared.observer.is_some() || wire.wants_control() {
        return 0;
    }
    if !engine.paths.due_acks(now, id).is_empty() {
        return 0;
    }
    let Some(destination) = wire.ids.remote.current(id) else { return 0 };
    let Some(room) = engine.paths.get(id).map(|path| path.room()) else { return 0 };
    let Some((mut turn, mut bulk)) = wire.streams.bulk(carry.source, carry.filter) else { return 0 };
    let mut written = bulk.written();
    let mut packets = 0;
    while packets < most.min(room / size.max(1)) {
        let Some(path) = engine.paths.get_mut(id) else { break };
        path.recovery.maybe_skip_number(&mut engine.shared.rng);
        let number = path.recovery.next_packet_number();
        let number_length = packet_number::truncated_len(number, path.recovery.largest_acked());
        let start = buffer.len();
        let mut writer = Writer::new(buffer, start + size - Protector::TAG_LENGTH);
        let key_phase = wire.protector.key_phase();
        let number_offset = encode_short(&mut writer, &destination, key_phase, number, number_length);
        let room = writer.remaining();
        let content = bulk.fill(&mut writer);
        let outgoing = Outgoing {
            level: EncryptionLevel::OneRtt,
            path: id,
            packet_number: number,
            start,
            number_offset,
            number_length,
        };
        let Some(content) = content.filter(|_| wire.protector.seal(&outgoing, buffer).is_ok()) else {
            buffer.truncate(start);
            break;
        };
        turn.charge(room);
        written = bulk.written();
        packets += 1;
        on_row_packet(engine, now, id, u16::try_from(size).unwrap_or(u16::MAX), carry.ecn, content);
    }
    if packets > 0 {
        wire.streams.on_bulk_sent(turn, written);
    }
    packets
}
