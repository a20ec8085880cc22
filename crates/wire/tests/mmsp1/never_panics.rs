//! No input makes the readers of MMSP/1 panic, hang or read beyond its end.

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Block, Blocks, Header, Info, Packet, Response, StreamEnd, checksum, seal};
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{any_block, any_header, payload_of};
use crate::never_panics::{any_changes, change};

/// Decodes everything, prints it, and checks that what is written again reads the same.
fn read_all(payload: &[u8]) {
    let mut count = 0;
    for block in Blocks::new(payload) {
        count += 1;
        match block {
            Ok(block) => write_again(&block),
            Err(error) => {
                let _ = Response::to(&error);
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(count <= payload.len() / 4, "every block has a header of its own");
}

fn write_again(block: &Block<'_>) {
    let mut bytes = Vec::new();
    block.encode(&mut Writer::new(&mut bytes, 1 << 20));
    assert_eq!(bytes.len(), block.encoded_len());
    let read: Vec<_> = Blocks::new(&bytes).map(Result::unwrap).collect();
    if block.unrecognised().is_none() {
        assert_eq!(read, [*block]);
    }
    assert!(read.first().is_some_and(|read| read.kind() == block.kind() && read.unrecognised().is_none()));
    assert!(!block.to_string().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_bytes_are_read_as_packets(datagram in vec(any::<u8>(), 0..400)) {
        let _ = Packet::decode(&datagram);
        let _ = Header::decode(&datagram);
        checksum(&datagram);
        read_all(&datagram);
    }

    /// Arbitrary bodies in correct framing reach more code than arbitrary bytes.
    #[test]
    fn arbitrary_bodies_are_read_as_blocks(kind in 0..16_u8, flags in any::<u8>(), body in vec(any::<u8>(), 0..128)) {
        let mut payload = vec![kind, flags];
        payload.extend(u16::try_from(4 + body.len()).unwrap().to_be_bytes());
        payload.extend(body);
        prop_assert_eq!(Blocks::new(&payload).count(), 1);
        read_all(&payload);
    }

    #[test]
    fn mutated_packets_are_read(
        header in any_header(),
        samples in vec(any_block(), 1..6),
        changes in any_changes(),
    ) {
        let mut packet = Vec::new();
        header.encode(&mut Writer::new(&mut packet, 12));
        packet.extend(payload_of(&samples));
        change(&mut packet, &changes);
        // A right checksum leads further.
        seal(&mut packet);
        if let Ok(read) = Packet::decode(&packet) {
            read_all(read.payload);
        }
        read_all(packet.get(12..).unwrap_or_default());
    }

    #[test]
    fn arbitrary_bytes_are_read_as_info(bytes in vec(any::<u8>(), 0..200), counts in any::<[bool; 2]>()) {
        let mut bytes = bytes;
        if let Some([version, _, ipv4, ipv6]) = bytes.first_chunk_mut() {
            *version = 1;
            (*ipv4, *ipv6) = (u8::from(counts[0]), u8::from(counts[1]));
        }
        if let Ok((info, covered, mac)) = Info::decode(&bytes) {
            let mut again = Vec::new();
            info.encode_covered(&mut Writer::new(&mut again, 1 << 16));
            prop_assert_eq!(again.len(), covered.len());
            again.extend(mac);
            prop_assert_eq!(Info::decode(&again).map(|read| read.0), Ok(info));
        }
        let _ = StreamEnd::decode(&bytes);
    }
}
