//! Packets without a number, which nothing acknowledges: those of the handshake and of the close.

use manyway_wire::PathId;
use manyway_wire::mmsp1::HEADER_LEN;

use crate::Instant;
use crate::engine::Engine;
use crate::observe::{Direction, ObservedPacket, PacketContent};

/// Counts a packet that leaves, and shows it to the observer.
pub(super) fn note_sent(engine: &mut Engine, now: Instant, packet: &[u8]) {
    engine.note_packet(now);
    if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
        path.count_sent_bytes(packet.len());
    }
    observe(engine, now, Direction::Sent, (PathId::FIRST, packet.get(HEADER_LEN..).unwrap_or_default()));
}

/// Shows a packet without a number to the observer.
pub(super) fn observe(
    engine: &mut Engine,
    now: Instant,
    direction: Direction,
    (path, payload): (PathId, &[u8]),
) {
    let content = PacketContent::Mmsp1 { payload };
    let size = HEADER_LEN + payload.len();
    engine.observe_packet(now, &ObservedPacket { direction, content, path, packet_number: None, size });
}
