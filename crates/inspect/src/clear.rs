//! Packets of MMSP/1, which are in clear text.

use adler2::Adler32;
use manyway_wire::DecodeError;
use manyway_wire::frame::RawBlocks;
use manyway_wire::mmsp1::{Block, HEADER_LEN, Header, Packet, PacketError};

/// A packet of MMSP/1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClearPacket<'a> {
    /// Ports and connection id.
    pub header: Header,
    /// Why a receiver drops the packet, if it does.
    pub fault: Option<PacketError>,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// Describes a datagram that begins as a packet of MMSP/1 does: with two ports of its range (rule 3.4), whatever its
/// checksum.
///
/// ```
/// use manyway_inspect::clear_packet;
///
/// let pong = [0, 1, 0, 2, 0, 0x24, 0, 0x13, 0, 0, 0, 7, 5, 0, 0, 4];
/// let packet = clear_packet(&pong).expect("the ports are those of MMSP/1");
/// assert_eq!((packet.header.destination_port, packet.header.connection.0), (2, 7));
/// assert!(clear_packet(&[0x40; 30]).is_none());
/// ```
pub fn clear_packet(datagram: &[u8]) -> Option<ClearPacket<'_>> {
    let (header, _) = Header::decode(datagram).ok()?;
    let fault = Packet::decode(datagram).err();
    Some(ClearPacket { header, fault, payload: datagram.get(HEADER_LEN..).unwrap_or_default() })
}

/// The packets of a datagram of a capture, each as [`clear_packet`] describes it: one, or many that a sender passed to the
/// system at once, which a capture shows as one before they are segmented. None if it is no datagram of MMSP/1.
pub fn clear_packets(datagram: &[u8]) -> impl Iterator<Item = ClearPacket<'_>> {
    datagram.chunks(segment(datagram).max(1)).map_while(clear_packet)
}

/// The length of the first packet, which is that of all others but for the last: if the checksum of the whole is wrong,
/// and right where the same ports and the same tag come again.
fn segment(datagram: &[u8]) -> usize {
    let whole = datagram.len();
    if !matches!(Packet::decode(datagram), Err(PacketError::Checksum { .. })) {
        return whole;
    }
    let names = |at: usize| Some((datagram.get(at..at + 4)?, datagram.get(at + 8..at + HEADER_LEN)?));
    let Some((first, checksum)) = names(0).zip(datagram.get(4..8)) else { return whole };
    // One pass, whatever a hostile capture repeats. The checksum counts as zeros, and blocks are padded to four bytes.
    let mut sum = Adler32::new();
    for part in [first.0, &[0; 4], first.1] {
        sum.write_slice(part);
    }
    for (size, word) in
        (HEADER_LEN..).step_by(4).zip(datagram.get(HEADER_LEN..).unwrap_or_default().chunks(4))
    {
        if names(size) == Some(first) && sum.checksum().to_be_bytes() == checksum {
            return size;
        }
        sum.write_slice(word);
    }
    whole
}

impl<'a> ClearPacket<'a> {
    /// The blocks, also those of a packet that a receiver drops.
    pub fn blocks(&self) -> ClearBlocksAt<'a> {
        ClearBlocksAt { frames: RawBlocks::new(self.payload) }
    }

    /// Whether a receiver drops the packet, or does not read one of its blocks.
    pub fn is_malformed(&self) -> bool {
        self.fault.is_some() || self.blocks().any(|at| at.block.is_err())
    }
}

/// A block of MMSP/1, or a decoding error, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClearBlockAt<'a> {
    /// Where it begins, from the start of the payload.
    pub offset: usize,
    /// Bytes that it occupies, padding included.
    pub length: usize,
    /// Its type; `None` if not even that can be read.
    pub kind: Option<u8>,
    /// The block; `None` if its type is unknown and a receiver skips it.
    pub block: Result<Option<Block<'a>>, DecodeError>,
}

/// Iterator over the blocks of a packet; see [`ClearPacket::blocks`]. It ends where a receiver stops to read.
#[derive(Debug, Clone)]
pub struct ClearBlocksAt<'a> {
    frames: RawBlocks<'a>,
}

impl<'a> Iterator for ClearBlocksAt<'a> {
    type Item = ClearBlockAt<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.frames.offset();
        let frame = self.frames.next()?;
        let length = self.frames.offset() - offset;
        let kind = frame.as_ref().ok().map(|frame| frame.kind);
        let block = frame.and_then(Block::decode);
        if matches!(block, Err(DecodeError::UnknownBlock { .. })) {
            self.frames.stop();
        }
        Some(ClearBlockAt { offset, length, kind, block })
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::Writer;
    use manyway_wire::mmsp1::{Tag, seal};

    use super::*;

    fn packet_of(payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let header = Header { source_port: 5001, destination_port: 4000, connection: Tag(7) };
        header.encode(&mut Writer::new(&mut packet, 1200));
        packet.extend(payload);
        seal(&mut packet);
        packet
    }

    // spec 3.10, 3.12
    #[test]
    fn blocks_have_their_offsets_and_end_where_a_receiver_stops() {
        let payload = [
            &[5, 0, 0, 4][..],
            &[0x90, 0, 0, 5, 1, 0, 0, 0],
            &[6, 0, 0, 5, 1, 0, 0, 0],
            &[0x2a, 0, 0, 4],
            &[5, 0, 0, 4],
        ]
        .concat();
        let packet = packet_of(&payload);
        let packet = clear_packet(&packet).unwrap();
        let found: Vec<_> = packet
            .blocks()
            .map(|at| (at.offset, at.length, at.kind, at.block.map(|block| block.is_some()).ok()))
            .collect();
        let expected = [
            (0, 4, Some(5), Some(true)),
            (4, 8, Some(0x90), Some(false)),
            (12, 8, Some(6), None),
            (20, 4, Some(0x2a), None),
        ];
        assert_eq!(found, expected);
        assert!(packet.is_malformed());
    }

    #[test]
    fn datagrams_of_one_send_call_are_separated() {
        let long = packet_of(&[5, 0, 0, 4].repeat(6));
        let many = [&long[..], &long, &packet_of(&[5, 0, 0, 4])].concat();
        let blocks: Vec<usize> = clear_packets(&many).map(|packet| packet.blocks().count()).collect();
        assert_eq!(blocks, [6, 6, 1]);
        assert!(clear_packets(&many).all(|packet| !packet.is_malformed()));
        // A damaged one stays whole, and nothing comes of nothing.
        let mut damaged = long;
        damaged[20] ^= 1;
        assert_eq!((clear_packets(&damaged).count(), clear_packets(&[]).count()), (1, 0));
    }

    // spec 3.3, 3.7
    #[test]
    fn a_packet_that_a_receiver_drops_is_described_with_the_reason() {
        let mut damaged = packet_of(&[5, 0, 0, 4]);
        assert!(!clear_packet(&damaged).unwrap().is_malformed());
        damaged[15] ^= 1;
        let fault = clear_packet(&damaged).unwrap().fault;
        assert!(matches!(fault, Some(PacketError::Checksum { .. })));
        let bundled = packet_of(&[7, 0, 0, 4, 5, 0, 0, 4]);
        let packet = clear_packet(&bundled).unwrap();
        assert_eq!((packet.fault, packet.blocks().count()), (Some(PacketError::Bundled { kind: 7 }), 2));
    }
}
