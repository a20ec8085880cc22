use super::*;
use crate::mmsp1::testing::{encoded, framed};
use crate::mmsp1::{Block, Cause, ErrorCode, Tseq, encode_rst};

const HEADER: Header = Header { source_port: 5001, destination_port: 9, connection: Tag(0x0102_0304) };

fn packet_of(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    HEADER.encode(&mut Writer::new(&mut packet, 1200));
    packet.extend(payload);
    seal(&mut packet);
    packet
}

// spec 3.2
#[test]
fn header_and_payload_come_back() {
    let packet = packet_of(&[5, 0, 0, 4]);
    assert_eq!(packet[..4], [0x13, 0x89, 0, 9]);
    assert_eq!(packet[8..12], [1, 2, 3, 4]);
    let read = Packet::decode(&packet).unwrap();
    assert_eq!((read.header, read.payload), (HEADER, &[5, 0, 0, 4][..]));
    assert_eq!(read.blocks().collect::<Vec<_>>(), [Ok(Block::Pong)]);
    assert_eq!(HEADER.answer(Tag(7)), Header { source_port: 9, destination_port: 5001, connection: Tag(7) });
}

// spec 3.3: RFC 1950, section 8.2, written out
#[test]
fn the_checksum_is_adler_32_with_its_own_place_as_zero() {
    for length in [0, 1, 4, 7, 8, 12, 13, 1200, 5552, 5553, 3 * 5552 + 1, 65_507] {
        let packet: Vec<u8> = (0..length).map(|at| u8::try_from(at * 7 % 256).unwrap() | 0xf0).collect();
        let (mut a, mut b) = (1_u64, 0_u64);
        for (at, byte) in packet.iter().enumerate() {
            a = (a + u64::from(if (4..8).contains(&at) { 0 } else { *byte })) % 65_521;
            b = (b + a) % 65_521;
        }
        assert_eq!(u64::from(checksum(&packet)), (b << 16) | a, "{length}");
    }
    // The known sum of "Wikipedia" is 0x11e60398; its middle is the place of the checksum.
    assert_eq!(checksum(b"Wikipedia"), checksum(b"Wiki\0\0\0\0a"));
}

// spec 3.3
#[test]
fn a_packet_with_any_bit_changed_is_refused() {
    let packet = packet_of(&framed(0, 3, b"0123456789abcdefgh"));
    for bit in 0..8 * packet.len() {
        let mut changed = packet.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Packet::decode(&changed).is_err(), "bit {bit}");
    }
    let mut wrong = packet;
    wrong[7] ^= 1;
    assert!(matches!(Packet::decode(&wrong), Err(PacketError::Checksum { .. })));
}

// spec 3.2
#[test]
fn a_packet_shorter_than_its_header_is_refused_and_sealing_leaves_it() {
    let packet = packet_of(&[]);
    assert_eq!(Packet::decode(&packet).map(|packet| packet.payload), Ok(&[][..]));
    for length in 0..HEADER_LEN {
        let mut cut = packet[..length].to_vec();
        assert!(matches!(Packet::decode(&cut), Err(PacketError::Header(DecodeError::Truncated { .. }))));
        seal(&mut cut);
        assert!(length >= 8 || cut == packet[..length]);
    }
}

// spec 3.4
#[test]
fn ports_lie_between_1_and_16383() {
    for (port, is_valid) in [(0, false), (1, true), (16_383, true), (16_384, false), (u16::MAX, false)] {
        for header in [Header { source_port: port, ..HEADER }, Header { destination_port: port, ..HEADER }] {
            let mut packet = Vec::new();
            header.encode(&mut Writer::new(&mut packet, 12));
            seal(&mut packet);
            assert_eq!(Packet::decode(&packet).is_ok(), is_valid, "{header:?}");
        }
    }
}

// spec 3.7
#[test]
fn six_blocks_travel_alone_and_a_packet_in_which_one_is_bundled_is_refused() {
    let alone: Vec<_> = (0..=u8::MAX).filter(|kind| travels_alone(*kind)).collect();
    assert_eq!(alone, [2, 3, 6, 7, 8, 9]);
    let others = [framed(5, 0, &[]), framed(0x80, 0, &[]), framed(0x7f, 0, &[1]), vec![5, 0, 0, 3]];
    for kind in alone {
        let block = framed(kind, 0, &[]);
        assert!(Packet::decode(&packet_of(&block)).is_ok());
        for other in others.iter().chain([&block]) {
            for payload in [[&block[..], other].concat(), [&other[..], &block].concat()] {
                // Nothing is read behind a block without an end.
                let is_hidden = payload[..4] == [5, 0, 0, 3];
                let padded: Vec<u8> = if payload[..4] == [0x7f, 0, 0, 5] {
                    [&other[..], &[0; 3], &block].concat()
                } else {
                    payload
                };
                let expected = Err(PacketError::Bundled { kind });
                let read = Packet::decode(&packet_of(&padded)).map(|_| ());
                assert_eq!(read, if is_hidden { Ok(()) } else { expected }, "{padded:?}");
            }
        }
    }
}

// spec 3.9: fewer bytes than a block's header are filler and no other block
#[test]
fn trailing_filler_is_no_other_block() {
    let mut fin = encoded(&Block::Fin(Fin { ack: Tseq(1) }));
    fin.extend([0; 3]);
    assert!(Packet::decode(&packet_of(&fin)).is_ok());
}

#[test]
fn errors_tell_what_is_wrong() {
    let words = PacketError::Checksum { written: 1, computed: 0x0002_0003 }.to_string();
    assert_eq!(words, "the checksum is 0x00000001, that of the bytes 0x00020003");
    let words = PacketError::Bundled { kind: 2 }.to_string();
    assert_eq!(words, "block 0x02 must travel alone and does not");
    let words = Packet::decode(&[]).unwrap_err().to_string();
    assert_eq!(words, "packet header is cut at byte 0: 2 bytes needed, 0 left");
}

// spec 3.27
#[test]
fn a_reflected_tag_needs_nothing_but_the_header_and_the_flag() {
    let mut packet = Vec::new();
    let mut w = Writer::new(&mut packet, 1200);
    HEADER.answer(HEADER.connection).encode(&mut w);
    let cause = Cause { code: ErrorCode::STALE_INFO, information: &[0; 4] };
    assert_eq!(encode_rst(&mut w, true, [cause].into_iter()), 1);
    seal(&mut packet);
    let read = Packet::decode(&packet).unwrap();
    assert_eq!(read.header.connection, HEADER.connection);
    assert!(matches!(read.blocks().next(), Some(Ok(Block::Rst(Rst { reflected: true, .. })))));
}
