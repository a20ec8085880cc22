//! What the engine records of packets of bulk data behind the first one of their batch.

use manyway_wire::PathId;

use super::Engine;
use crate::observe::Fact;
use crate::packet::content::{Contents, SentContent};
use crate::recovery::{PacketKind, SentPacket};
use crate::{Ecn, Instant};

/// Records a packet with stream data, `content`, right behind another one of its batch.
pub(crate) fn on_row_packet(
    engine: &mut Engine,
    now: Instant,
    id: PathId,
    size: u16,
    ecn: Ecn,
    content: SentContent,
) {
    let Some(path) = engine.paths.get_mut(id) else { return };
    let packet_number = path.recovery.take_packet_number();
    let mut packet = SentPacket::new(packet_number, size, PacketKind::Ordinary, Contents::new());
    packet.contents.push(content);
    packet.marked = ecn == Ecn::Ect0;
    path.recovery.on_sent(now, packet);
    path.addresses.on_sent(size.into());
    path.count_sent(size.into());
    engine.observe(now, &Fact::PacketSent { path: id, packet_number, size, ack_eliciting: true });
}
