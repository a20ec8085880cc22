//! Whole connections of the simulator, decrypted from captures with a TLS key log.

use std::collections::{BTreeMap, BTreeSet};

use manyway_inspect::{Inside, Label, Level, Packet, Sealed};
use manyway_proto::{ByteCount, IdLayout, Side, StreamId};
use manyway_wire::PathId;
use manyway_wire::mmsp2::Block;

use crate::common::{connection, connection_with_ids, inspect, pcap, pcapng};

const TOTAL: ByteCount = ByteCount(15_000_000);

#[test]
fn every_packet_of_a_connection_over_two_paths_decrypts_through_key_updates() {
    let recorded = connection(1, TOTAL);
    let packets = inspect(&pcap(&recorded.seen), &recorded.key_log);
    assert!(packets.len() >= recorded.seen.len());
    check_all_opened(&packets);

    let mut seen = BTreeSet::new();
    for packet in &packets {
        let Inside::Opened(opened) = &packet.inside else { panic!("just checked") };
        seen.insert((packet.level(), packet.sender, packet.path, opened.key_phase));
        assert_eq!(packet.connection, Some(1));
    }
    for sender in [Side::Client, Side::Server].map(Some) {
        for level in [Level::Initial, Level::Handshake] {
            assert!(seen.contains(&(Some(level), sender, None, None)));
        }
        for path in [PathId(0), PathId(1)] {
            for phase in 0..3 {
                let wanted = (Some(Level::OneRtt), sender, Some(path), Some(phase));
                assert!(seen.contains(&wanted), "{wanted:?} of {seen:?}");
            }
        }
    }
    assert_eq!(client_stream(&packets), recorded.written.bytes(0, TOTAL.to_usize()));
}

// spec 4.2
#[test]
fn packets_decrypt_whatever_the_length_of_the_servers_ids() {
    for length in [9, 13, 20] {
        let ids = IdLayout::new(length, &[0x4c]).unwrap();
        let recorded = connection_with_ids(1, ByteCount(500_000), ids);
        let packets = inspect(&pcap(&recorded.seen), &recorded.key_log);
        check_all_opened(&packets);
        assert_eq!(client_stream(&packets), recorded.written.bytes(0, 500_000));
    }
}

/// What the client wrote to its first stream, from the blocks in the capture.
fn client_stream(packets: &[Packet]) -> Vec<u8> {
    let mut pieces = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.sender == Some(Side::Client)) {
        let Inside::Opened(opened) = &packet.inside else { continue };
        for block in opened.blocks() {
            if let Ok(Block::Stream(piece)) = block.block
                && piece.stream == StreamId::new(Side::Client, 0)
            {
                let known: &mut Vec<u8> = pieces.entry(piece.offset).or_default();
                // A repetition may have less.
                if known.len() < piece.data.len() {
                    *known = piece.data.to_vec();
                }
            }
        }
    }
    let mut bytes = Vec::new();
    for (offset, piece) in pieces {
        let known = bytes.len().checked_sub(usize::try_from(offset).unwrap()).unwrap();
        bytes.extend(piece.iter().skip(known));
    }
    bytes
}

fn check_all_opened(packets: &[Packet]) {
    for (number, packet) in packets.iter().enumerate() {
        assert!(matches!(packet.inside, Inside::Opened(_)), "{number}: {packet:?}");
        assert!(!packet.is_malformed(), "{number}: {packet:?}");
    }
}

#[test]
fn a_key_log_inside_of_a_pcapng_file_is_used() {
    let recorded = connection(2, ByteCount(20_000));
    check_all_opened(&inspect(&pcapng(&recorded.seen, &recorded.key_log), ""));
}

#[test]
fn without_keys_open_packets_decrypt_and_the_others_name_the_missing_secret() {
    let recorded = connection(3, ByteCount(20_000));
    let packets = inspect(&pcap(&recorded.seen), "");
    let mut missing = BTreeSet::new();
    for packet in &packets {
        match (packet.level(), &packet.inside) {
            (Some(Level::Initial), inside) => assert!(matches!(inside, Inside::Opened(_)), "{packet:?}"),
            (_, Inside::Sealed(Sealed::NoSecret(label))) => {
                missing.insert(*label);
            }
            // The IDs of other paths are in packets that cannot be decrypted.
            (_, inside) => {
                assert!(matches!(inside, Inside::Sealed(Sealed::UnknownConnection)), "{packet:?}");
            }
        }
    }
    for side in [Side::Client, Side::Server] {
        assert!(missing.contains(&Label::Handshake(side)) && missing.contains(&Label::Traffic(side)));
    }
    let only_data = recorded.key_log.lines().filter(|line| line.contains("_TRAFFIC_SECRET_0"));
    let only_data: String = only_data.map(|line| format!("{line}\n")).collect();
    let packets = inspect(&pcap(&recorded.seen), &only_data);
    let data = packets.iter().filter(|packet| packet.level() == Some(Level::OneRtt));
    assert!(data.map(|packet| &packet.inside).all(|inside| matches!(inside, Inside::Opened(_))));
}

#[test]
fn a_capture_that_begins_in_the_middle_is_not_decrypted() {
    let recorded = connection(4, ByteCount(20_000));
    let packets = inspect(&pcap(&recorded.seen[10..]), &recorded.key_log);
    assert!(packets.iter().all(|packet| {
        matches!(packet.inside, Inside::Sealed(Sealed::UnknownConnection | Sealed::NoHello))
    }));
}

#[test]
fn two_connections_in_one_capture_are_distinguished() {
    let (first, second) = (connection(5, ByteCount(20_000)), connection(6, ByteCount(20_000)));
    let mut seen = [first.seen, second.seen].concat();
    seen.sort_by_key(|datagram| datagram.at);
    let packets = inspect(&pcap(&seen), &(first.key_log + &second.key_log));
    check_all_opened(&packets);
    let numbers: BTreeSet<_> = packets.iter().map(|packet| packet.connection).collect();
    assert_eq!(numbers, BTreeSet::from([Some(1), Some(2)]));
}

#[test]
fn a_damaged_packet_is_refused_and_the_others_decrypt() {
    let mut recorded = connection(7, ByteCount(20_000));
    let middle = recorded.seen.len() / 2;
    *recorded.seen[middle].payload.last_mut().unwrap() ^= 1;
    let packets = inspect(&pcap(&recorded.seen), &recorded.key_log);
    let closed: Vec<_> =
        packets.iter().filter(|packet| !matches!(packet.inside, Inside::Opened(_))).collect();
    let [packet] = closed[..] else { panic!("{closed:?}") };
    assert!(matches!(packet.inside, Inside::Sealed(Sealed::Refused)));
}
