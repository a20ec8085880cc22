//! No input makes the readers panic, hang or read beyond its end.

#![expect(clippy::indexing_slicing, reason = "a test may fail")]

use manyway_wire::mmsp2::{
    Block, Blocks, LongHeader, LongKind, Parameters, decode_protected, packet_number, patch_length,
};
use manyway_wire::rendezvous::{self, Message};
use manyway_wire::{ConnectionId, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

/// A mutation of valid bytes: position, kind, value.
pub(crate) type Change = (prop::sample::Index, u8, u8);

pub(crate) fn change(bytes: &mut Vec<u8>, changes: &[Change]) {
    for (place, how, value) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = place.index(bytes.len());
        match how % 5 {
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, *value),
            _ => drop(bytes.remove(at)),
        }
    }
}

pub(crate) fn any_changes() -> impl Strategy<Value = Vec<Change>> {
    vec(any::<Change>(), 1..6)
}

/// Decodes everything, including every range of every acknowledgement.
fn read_all(payload: &[u8]) -> usize {
    let mut seen = 0;
    for block in Blocks::new(payload) {
        seen += 1;
        match block {
            Ok(Block::PathAck(ack)) => seen += ack.ranges.iter().count(),
            Ok(Block::Skip(skip)) => seen += skip.messages.into_iter().count(),
            Ok(block) => seen += usize::from(block.kind()).min(1),
            Err(error) => seen += error.to_string().len().min(1),
        }
    }
    seen
}

fn check_header(datagram: &[u8]) {
    for id_length in 0..=21 {
        let Ok(packet) = decode_protected(datagram, id_length) else { continue };
        assert!(packet.number_offset <= packet.length && packet.length <= datagram.len());
        assert!(packet.length > 0, "the walk over a datagram has to advance");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn arbitrary_bytes_are_read_as_blocks(payload in vec(any::<u8>(), 0..400)) {
        read_all(&payload);
    }

    /// Arbitrary bodies in correct framing reach more code than arbitrary bytes.
    #[test]
    fn arbitrary_bodies_are_read_as_blocks(kind in any::<u8>(), flags in 0..8_u8, body in vec(any::<u8>(), 0..64)) {
        let mut payload = vec![kind, flags];
        payload.extend(u16::try_from(4 + body.len()).unwrap().to_be_bytes());
        payload.extend(body);
        prop_assert!(Blocks::new(&payload).count() == 1);
        read_all(&payload);
    }

    #[test]
    fn mutated_packets_are_read_as_blocks(
        samples in vec(crate::common::any_block(), 1..6),
        (ack, skip) in (crate::common::any_ack(), crate::common::any_skip()),
        changes in any_changes(),
    ) {
        let mut payload = ack.encoded(600).1;
        payload.extend(skip.0);
        payload.extend(crate::common::payload_of(&samples));
        change(&mut payload, &changes);
        read_all(&payload);
    }

    /// A decoded value can be encoded, and then decodes to the same.
    #[test]
    fn every_decoded_value_can_be_encoded_again(
        samples in vec(crate::common::any_block(), 1..4),
        (ack, skip) in (crate::common::any_ack(), crate::common::any_skip()),
        changes in any_changes(),
    ) {
        let mut payload = ack.encoded(600).1;
        payload.extend(skip.0);
        payload.extend(crate::common::payload_of(&samples));
        change(&mut payload, &changes);
        for block in Blocks::new(&payload).filter_map(Result::ok) {
            let mut again = Vec::new();
            block.encode(&mut Writer::new(&mut again, 1 << 20));
            prop_assert_eq!(again.len(), block.encoded_len());
            prop_assert_eq!(Blocks::new(&again).collect::<Vec<_>>(), vec![Ok(block)]);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_as_headers(datagram in vec(any::<u8>(), 0..400)) {
        check_header(&datagram);
    }

    #[test]
    fn mutated_packets_are_read_as_headers(
        (destination, source) in (crate::common::any_id(), crate::common::any_id()),
        sealed in 0_usize..200,
        changes in any_changes(),
    ) {
        let header = LongHeader { kind: LongKind::Initial, destination, source };
        let mut datagram = Vec::new();
        let field = header.encode(&mut Writer::new(&mut datagram, 1200), 0, 1);
        datagram.resize(datagram.len() + sealed, 0);
        let end = datagram.len();
        patch_length(&mut datagram, field, end);
        change(&mut datagram, &changes);
        check_header(&datagram);
    }

    /// Other versions and version lists have rules of their own.
    #[test]
    fn arbitrary_ids_of_any_version_are_read(version in 0..3_u32, tail in vec(any::<u8>(), 0..600)) {
        let mut datagram = vec![0x80];
        datagram.extend(version.to_be_bytes());
        datagram.extend(tail);
        check_header(&datagram);
    }

    #[test]
    fn arbitrary_bytes_are_read_as_parameters(bytes in vec(any::<u8>(), 0..400)) {
        drop(Parameters::decode(&bytes));
    }

    #[test]
    fn mutated_parameters_are_read(parameters in crate::common::any_parameters(), changes in any_changes()) {
        let mut bytes = parameters.encode();
        change(&mut bytes, &changes);
        if let Ok(read) = Parameters::decode(&bytes) {
            prop_assert_eq!(Parameters::decode(&read.encode()), Ok(read));
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_as_datagrams_of_a_rendezvous(kind in 0..14_u8, tail in vec(any::<u8>(), 0..500)) {
        let datagram = [&[0, 0, 1, kind], &tail[..]].concat();
        if let Ok(message) = Message::decode(&datagram) {
            let mut again = Vec::new();
            message.encode(&mut Writer::new(&mut again, 1200));
            prop_assert!(again.len() == datagram.len() && again.len() <= rendezvous::MAX_LEN);
            prop_assert_eq!(Message::decode(&again), Ok(message));
        }
        let _ = Message::decode(&tail);
        drop(rendezvous::decode_addresses(&tail));
    }

    #[test]
    fn any_truncated_number_expands(truncated in any::<u32>(), length in 0..9_usize, expected in any::<u64>()) {
        packet_number::expand(truncated, length, expected);
    }

    #[test]
    fn any_length_field_can_be_patched(end in any::<usize>(), cut in 0_usize..30) {
        let id = ConnectionId::from_u64(1);
        let mut buffer = Vec::new();
        let header = LongHeader { kind: LongKind::Handshake, destination: id, source: id };
        let field = header.encode(&mut Writer::new(&mut buffer, 100), 0, 4);
        buffer.truncate(cut);
        patch_length(&mut buffer, field, end);
    }
}
