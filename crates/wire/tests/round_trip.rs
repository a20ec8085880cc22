//! Any encoded value decodes to itself.

use manyway_wire::mmsp2::{
    Block, Blocks, HeaderForm, LongHeader, LongKind, Parameters, VERSION, decode_protected, encode_short,
    encode_version_list, key_phase, number_length, packet_number, patch_length,
};
use manyway_wire::rendezvous::mailbox::{Ask, LETTER_LEN, State, Status};
use manyway_wire::rendezvous::{self, Body, Message};
use manyway_wire::{ConnectionId, Reader, Side, StreamId, Writer, varint_len};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    // spec 2.1 to 2.7, section 5
    #[test]
    fn any_packet_of_blocks_comes_back(samples in vec(crate::common::any_block(), 0..8)) {
        let payload = crate::common::payload_of(&samples);
        let expected: Vec<_> = samples.iter().map(crate::common::Sample::block).collect();
        let length: usize = expected.iter().map(Block::encoded_len).sum();
        prop_assert_eq!(payload.len(), length);
        let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
        prop_assert_eq!(blocks, Ok(expected));
    }

    // spec 2.4
    #[test]
    fn the_last_block_may_lack_its_padding(sample in crate::common::any_block()) {
        let mut payload = crate::common::payload_of(std::slice::from_ref(&sample));
        payload.truncate(usize::from(u16::from_be_bytes([payload[2], payload[3]])));
        let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
        prop_assert_eq!(blocks, Ok(vec![sample.block()]));
    }

    // spec 2.2, 2.7: a block with a cut body never decodes to the same value, unless its body is plain bytes or empty
    #[test]
    fn a_block_with_a_cut_body_never_decodes_to_the_same(sample in crate::common::any_block(), cut in 1_usize..40) {
        let mut payload = crate::common::payload_of(std::slice::from_ref(&sample));
        let length = usize::from(u16::from_be_bytes([payload[2], payload[3]]));
        let shorter = length.saturating_sub(cut).max(4);
        prop_assume!(shorter < length);
        payload.truncate(shorter);
        payload[2..4].copy_from_slice(&u16::try_from(shorter).unwrap().to_be_bytes());
        let blocks: Result<Vec<_>, _> = Blocks::new(&payload).collect();
        prop_assert_ne!(blocks, Ok(vec![sample.block()]));
    }

    // spec 5.80
    #[test]
    fn any_acknowledgement_comes_back(ack in crate::common::any_ack(), room in 0_usize..600) {
        let (written, payload) = ack.encoded(room);
        prop_assert!(payload.len() <= room);
        if written == 0 {
            prop_assert!(payload.is_empty());
            return Ok(());
        }
        let blocks: Vec<_> = Blocks::new(&payload).map(Result::unwrap).collect();
        let [Block::PathAck(read)] = blocks[..] else { panic!("{blocks:?}") };
        prop_assert_eq!(read.ranges.iter().collect::<Vec<_>>(), &ack.ranges[..written]);
        prop_assert_eq!(read.ranges.largest(), *ack.ranges[0].end());
        prop_assert_eq!((read.path, read.delay), (ack.path, ack.delay));
        prop_assert_eq!((read.receive_time_micros, read.ecn), (ack.receive_time, ack.ecn));
        prop_assert_eq!(read.encoded_len(), payload.len().next_multiple_of(4));
    }

    // spec 5.84
    #[test]
    fn any_skip_comes_back((payload, skipped) in crate::common::any_skip()) {
        let blocks: Vec<_> = Blocks::new(&payload).map(Result::unwrap).collect();
        let [block @ Block::Skip(skip)] = blocks[..] else { panic!("{blocks:?}") };
        prop_assert_eq!(skip.messages.into_iter().collect::<Vec<_>>(), skipped);
        let mut again = Vec::new();
        block.encode(&mut Writer::new(&mut again, 1200));
        prop_assert_eq!(again, payload);
    }

    // spec 10.2, 10.17, 10.25
    #[test]
    fn any_datagram_of_a_rendezvous_comes_back(
        (token, nonce, cookie, seen) in (any::<[u8; 16]>(), any::<u64>(), any::<[u8; 16]>(), crate::common::any_address()),
        (kind, fill) in (0..14_u8, any::<u8>()),
        (number, posted, is_long) in (any::<u32>(), any::<u8>(), any::<bool>()),
    ) {
        let sealed = &[fill; rendezvous::SEALED_LEN];
        let filled = [fill; LETTER_LEN];
        let (letter, taken) = (is_long.then_some(&filled), fill);
        let side = if kind == 5 { Side::Client } else { Side::Server };
        let status = [Status::Open, Status::Gone, Status::Taken, Status::Full][usize::from(fill % 4)];
        let body = match kind {
            0 => Body::Request { side: Side::Client, nonce, cookie, sealed },
            1 => Body::Request { side: Side::Server, nonce, cookie, sealed },
            2 => Body::Retry { nonce, cookie },
            3 => Body::Answer { nonce, seen, sealed: None },
            4 => Body::Answer { nonce, seen, sealed: Some(sealed) },
            5 | 6 => Body::Ask(Ask { side, nonce, cookie, number, posted, taken, letter }),
            7 | 8 => Body::State(State { nonce, number, status, held: taken, posted, letter }),
            9 => Body::Leave { nonce, cookie },
            10 => Body::Observe { nonce },
            11 => Body::Bind { nonce, cookie, number },
            12 => Body::Bound { nonce, is_bound: is_long },
            _ => Body::Knock,
        };
        let message = Message { token, body };
        let mut datagram = Vec::new();
        message.encode(&mut Writer::new(&mut datagram, 1200));
        prop_assert_eq!(Message::decode(&datagram), Ok(message));
    }

    // spec 4.17
    #[test]
    fn any_parameters_come_back(parameters in crate::common::any_parameters()) {
        prop_assert_eq!(Parameters::decode(&parameters.encode()), Ok(parameters));
    }

    #[test]
    fn any_varint_comes_back(value in crate::common::any_number()) {
        let mut buffer = Vec::new();
        Writer::new(&mut buffer, 8).varint(value);
        prop_assert_eq!(buffer.len(), varint_len(value));
        prop_assert_eq!(Reader::new(&buffer).varint(), Ok(value));
    }

    // spec 4.6
    #[test]
    fn any_packet_number_comes_back(acked in crate::common::any_number(), ahead in 1..1_u64 << 31, known in 0..=100_u64) {
        let next = acked / 2 + ahead;
        let length = packet_number::truncated_len(next, Some(acked / 2));
        let mut buffer = Vec::new();
        packet_number::encode(&mut Writer::new(&mut buffer, 4), next, length);
        prop_assert_eq!(buffer.len(), length);
        let truncated = buffer.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte));
        let expected = acked / 2 + 1 + (ahead - 1) * known / 100;
        prop_assert_eq!(packet_number::expand(truncated, length, expected), next);
    }

    // spec 4.4, 4.9
    #[test]
    fn any_long_header_comes_back(
        destination in crate::common::any_id(),
        source in crate::common::any_id(),
        is_handshake in any::<bool>(),
        (number, number_len) in (crate::common::any_number(), 1_usize..=4),
        sealed in 19_usize..1400,
    ) {
        let kind = if is_handshake { LongKind::Handshake } else { LongKind::Initial };
        let header = LongHeader { kind, destination, source };
        let mut packet = vec![0xaa; 3];
        let field = header.encode(&mut Writer::new(&mut packet, 3000), number, number_len);
        prop_assert_eq!(packet.len() - 3, header.encoded_len(number_len));
        let end = packet.len() + sealed;
        packet.resize(end + 5, 0);
        patch_length(&mut packet, field, end);
        let decoded = decode_protected(&packet[3..], 8).unwrap();
        prop_assert_eq!(decoded.length, end - 3);
        prop_assert_eq!(decoded.number_offset, field.number_offset() - 3);
        prop_assert_eq!(decoded.form, HeaderForm::Long { kind, version: VERSION, destination, source });
        prop_assert_eq!(number_length(packet[3]), number_len);
    }

    // spec 4.5
    #[test]
    fn any_short_header_comes_back(
        destination in crate::common::any_issued_id(),
        phase in any::<bool>(),
        number_len in 1_usize..=4,
    ) {
        let mut packet = Vec::new();
        let number_offset = encode_short(&mut Writer::new(&mut packet, 100), &destination, phase, 7, number_len);
        packet.resize(number_offset + 20, 0);
        let decoded = decode_protected(&packet, destination.as_slice().len()).unwrap();
        prop_assert_eq!(decoded.form, HeaderForm::Short { destination });
        prop_assert_eq!((decoded.number_offset, decoded.length), (number_offset, packet.len()));
        prop_assert_eq!((key_phase(packet[0]), number_length(packet[0])), (phase, number_len));
    }

    // spec 4.10
    #[test]
    fn any_version_list_comes_back(
        destination in crate::common::any_id(),
        source in crate::common::any_id(),
        versions in vec(any::<u32>(), 0..=32),
    ) {
        let mut packet = Vec::new();
        let mut writer = Writer::new(&mut packet, 1200);
        encode_version_list(&mut writer, destination.as_slice(), source.as_slice(), &versions);
        let decoded = decode_protected(&packet, 8).unwrap();
        prop_assert_eq!(decoded.length, packet.len());
        prop_assert_eq!(decoded.form, HeaderForm::VersionList { destination, source, versions });
    }

    // spec 4.9
    #[test]
    fn all_coalesced_packets_of_a_datagram_are_found(
        id in crate::common::any_id(),
        sealed in vec((any::<bool>(), 19_usize..300), 0..4),
        short in proptest::option::of(20_usize..300),
    ) {
        let mut datagram = Vec::new();
        let mut ends = Vec::new();
        for (is_handshake, length) in sealed {
            let kind = if is_handshake { LongKind::Handshake } else { LongKind::Initial };
            let header = LongHeader { kind, destination: id, source: id };
            let field = header.encode(&mut Writer::new(&mut datagram, 3000), 0, 1);
            datagram.resize(datagram.len() + length, 0);
            ends.push(datagram.len());
            patch_length(&mut datagram, field, *ends.last().unwrap());
        }
        if let Some(length) = short {
            encode_short(&mut Writer::new(&mut datagram, 3000), &ConnectionId::from_u64(1), false, 0, 1);
            datagram.resize(datagram.len() + length, 0);
            ends.push(datagram.len());
        }
        let mut walked = Vec::new();
        while let Ok(packet) = decode_protected(&datagram[walked.last().copied().unwrap_or(0)..], 8) {
            walked.push(walked.last().copied().unwrap_or(0) + packet.length);
        }
        prop_assert_eq!(walked, ends);
    }

    #[test]
    fn any_row_of_fields_comes_back(
        (byte, word, double, quad) in (any::<u8>(), any::<u16>(), any::<u32>(), any::<u64>()),
        number in crate::common::any_number(),
        rest in vec(any::<u8>(), 0..40),
    ) {
        let mut buffer = Vec::new();
        let mut writer = Writer::new(&mut buffer, 100);
        writer.u8(byte);
        writer.u16(word);
        writer.u32(double);
        writer.u64(quad);
        writer.varint(number);
        writer.bytes(&rest);
        let mut reader = Reader::new(&buffer);
        prop_assert_eq!((reader.u8(), reader.u16()), (Ok(byte), Ok(word)));
        prop_assert_eq!((reader.u32(), reader.u64(), reader.varint()), (Ok(double), Ok(quad), Ok(number)));
        prop_assert_eq!(reader.bytes(rest.len()), Ok(&rest[..]));
        prop_assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn any_id_comes_back(bytes in vec(any::<u8>(), 0..30), number in any::<u64>(), index in 0..1_u64 << 60) {
        let id = ConnectionId::from_slice(&bytes);
        prop_assert_eq!(id.is_some(), bytes.len() <= ConnectionId::MAX_LENGTH);
        prop_assert!(id.is_none_or(|id| id.as_slice() == bytes));
        prop_assert_eq!(ConnectionId::from_u64(number).leading_u64(), number);
        for initiator in [Side::Client, Side::Server] {
            let stream = StreamId::new(initiator, index);
            prop_assert_eq!((stream.initiator(), stream.index()), (initiator, index));
        }
    }
}
