//! Packets of a server without a connection: what a first packet contains, and the answers that keep no state.

use manyway_wire::mmsp2::{Block, Blocks, LongKind, SynAck, VERSION, encode_version_list};
use manyway_wire::{ConnectionId, PathId, Side, Writer};

use super::Arrival;
use crate::EncryptionLevel;
use crate::KeyLimits;
use crate::mmsp2::packet_builder::{HeaderFacts, PacketBuilder};
use crate::mmsp2::protection::{Incoming, Protector};
use crate::packet::replay::ReplayWindow;

/// Least size of datagrams that start a handshake (spec 7.7), and the most bytes of an answer to one.
pub(crate) const FIRST_FLIGHT: usize = 1200;

/// The ids of a handshake that has no connection at this end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstIds {
    /// The destination of the client's first packet, from which the keys derive.
    pub(crate) original_destination: ConnectionId,
    /// The id of the client.
    pub(crate) client: ConnectionId,
    /// The id of this end.
    pub(crate) own: ConnectionId,
}

/// A client's first packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstPacket {
    pub(crate) packet_number: u64,
    /// Whether it returns a valid INFO.
    pub(crate) is_validated: bool,
}

/// Decrypts a copy of a client's first packet, and checks each INFO in it; `None` if it cannot be decrypted.
pub(crate) fn open_first_packet(
    arrival: &Arrival<'_>,
    original_destination: &ConnectionId,
    is_valid: impl Fn(&[u8]) -> bool,
) -> Option<FirstPacket> {
    let packet = &arrival.header;
    let mut copy = arrival.datagram.get(..packet.length)?.to_vec();
    let bytes = copy.as_mut_slice();
    let incoming = Incoming {
        level: EncryptionLevel::Initial,
        path: PathId::FIRST,
        number_offset: packet.number_offset,
        expected: 0,
    };
    let opened = initial_keys(original_destination).open(&incoming, bytes, &ReplayWindow::new()).ok()?;
    let payload = bytes.get(opened.payload)?;
    let is_validated = Blocks::new(payload).any(|block| match block {
        Ok(Block::Ping(ping)) => is_valid(ping.info),
        _ => false,
    });
    Some(FirstPacket { packet_number: opened.packet_number, is_validated })
}

/// SYN-ACK with the INFO and nothing else, which the client returns (spec 4.12, 7.10), as an answer to the packet with
/// this number.
pub(crate) fn syn_ack(ids: &FirstIds, packet_number: u64, info: &[u8]) -> Option<Vec<u8>> {
    let mut protector = initial_keys(&ids.original_destination);
    let header = HeaderFacts {
        path: PathId::FIRST,
        destination: ids.client,
        // spec 4.13
        packet_number,
        largest_acked: None,
        size: FIRST_FLIGHT,
    };
    let mut buffer = Vec::with_capacity(FIRST_FLIGHT);
    let builder = PacketBuilder::long(&mut buffer, &header, LongKind::Initial, ids.own);
    SynAck { info }.encode(&mut builder.writer(&mut buffer));
    builder.finish(&mut buffer, &mut protector)?;
    protector.run_jobs(&mut buffer).then_some(buffer)
}

/// The version that this end speaks, for a client of another one.
pub(crate) fn version_list(destination: &[u8], source: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_version_list(&mut Writer::new(&mut bytes, FIRST_FLIGHT), destination, source, &[VERSION]);
    bytes
}

fn initial_keys(original_destination: &ConnectionId) -> Protector {
    let mut protector = Protector::new(Side::Server, KeyLimits::default());
    protector.set_initial_keys(original_destination);
    protector
}
