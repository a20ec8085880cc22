//! Packets and blocks that cannot be read or do not belong: dropped, skipped, or answered by the right ERROR.
//!
//! Each error code is provoked by a test: 0x0001, 0x0004, 0x0007 and 0x000A in `fragments.rs`, 0x0002, 0x0003, 0x0004,
//! 0x0006 and 0x0008 here, 0x0005, 0x0008 and 0x0009 in `handshake.rs`.

use std::time::Duration;

use manyway_proto::ConnectionConfig;
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Block, Cause, ErrorCode, Fin, FinDone, HEADER_LEN, Header, Probe, ProbeData, Tag, encode_error,
    encode_rst, seal,
};

use super::tester::{PEER, Sent, Tester, packet};

/// A block with these bytes behind its header.
fn block(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + body.len()).unwrap();
    let mut bytes = vec![kind, 0];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn parameter(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend_from_slice(&u16::try_from(4 + value.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// DATA with one whole message on stream 0 as bytes.
fn data(tester: &Tester, number: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    tester.data(number.into(), 0, number, b"text").encode(&mut Writer::new(&mut bytes, 100));
    bytes
}

/// Codes and information of all causes that the endpoint reported.
fn causes(tester: &mut Tester) -> Vec<(u16, Vec<u8>)> {
    let sent = tester.take_all();
    let blocks = sent.iter().flat_map(Sent::blocks);
    let reports =
        blocks.filter_map(|block| if let Block::Error(report) = block { Some(report) } else { None });
    let causes = reports.flat_map(|report| report.causes.iter().collect::<Vec<_>>());
    causes.map(|cause| (cause.code.0, cause.information.to_vec())).collect()
}

// spec 3.10
#[test]
fn an_unknown_block_with_the_high_bit_is_skipped() {
    let mut tester = Tester::accepted();
    let payload = [data(&tester, 0), block(0x80, b"what?"), block(0xff, b""), data(&tester, 1)].concat();
    tester.send_raw(&payload);
    assert_eq!(tester.texts().len(), 2);
    assert_eq!(causes(&mut tester), []);
}

// spec 3.10
#[test]
fn an_unknown_block_without_the_high_bit_ends_the_reading_and_earns_error_0x0003() {
    for kind in [13, 0x7f] {
        let mut tester = Tester::accepted();
        let payload = [data(&tester, 0), block(kind, b"what?"), data(&tester, 1)].concat();
        tester.send_raw(&payload);
        assert_eq!(tester.texts().len(), 1, "blocks before it count");
        assert_eq!(causes(&mut tester), [(3, vec![kind])]);
    }
}

// spec 3.11
#[test]
fn a_length_that_cannot_be_ends_the_reading_without_an_answer() {
    for wrong in [[0, 0, 0, 3], [0, 0, 0xff, 0xff], [11, 0, 0, 0]] {
        let mut tester = Tester::accepted();
        let payload = [data(&tester, 0), wrong.to_vec(), data(&tester, 1)].concat();
        tester.send_raw(&payload);
        assert_eq!(tester.texts().len(), 1, "{wrong:?}");
        assert_eq!(causes(&mut tester), [], "{wrong:?}");
    }
}

// spec 3.12, 3.73
#[test]
fn a_block_that_cannot_be_read_is_ignored_and_earns_error_0x0004() {
    let sack = |counts: u32, rest: &[u32]| block(1, &[words(&[0, 0, counts]), words(rest)].concat());
    let mut probe =
        ProbeData { sent_micros: 1, path: 1, address: "10.0.0.1".parse().unwrap(), nonce: 1, mac: 1 }
            .to_bytes();
    let echo = parameter(0x10, &probe);
    probe[ProbeData::LEN - 17] = 1;
    let cases: [(&str, u8, Vec<u8>); 14] = [
        ("DATA without its fields", 0, block(0, &[0; 8])),
        ("SACK without its fields", 1, block(1, &[0; 8])),
        ("SACK with fewer ranges than it says", 1, sack(2 << 16, &[(1 << 16) | 1])),
        ("SACK with more entries than it says", 1, sack(0, &[(1 << 16) | 1])),
        ("SACK with a start of 0", 1, sack(1 << 16, &[5])),
        ("SACK with an end before its start", 1, sack(1 << 16, &[(5 << 16) | 4])),
        ("PONG with a body", 5, block(5, &[0; 4])),
        ("PROBE without its parameter", 11, block(11, &[])),
        ("PROBE with an IPv4 address and more than zeros behind it", 11, block(11, &parameter(0x10, &probe))),
        ("PROBE-ACK without its echo", 12, block(12, &echo)),
        ("FIN without its field", 6, block(6, &[])),
        ("FIN with another field", 6, block(6, &[0; 8])),
        ("FIN-ACK with a body", 7, block(7, &[0; 4])),
        ("FIN-DONE with a body", 8, block(8, &[0; 4])),
    ];
    for (name, kind, bytes) in cases {
        let mut tester = Tester::accepted();
        // Blocks of the close travel alone.
        let is_alone = (6..=8).contains(&kind);
        let payload = if is_alone { bytes } else { [bytes, data(&tester, 0)].concat() };
        tester.send_raw(&payload);
        let texts = tester.texts().len();
        assert_eq!(texts, usize::from(!is_alone), "{name}: the reading goes on with the next block");
        assert_eq!(causes(&mut tester), [(4, vec![kind])], "{name}");
    }
}

// spec 3.45
#[test]
fn a_sack_of_what_was_never_sent_is_ignored_as_a_whole_and_earns_error_0x0004() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    for message in 0..3 {
        tester.send_message(stream, &[message; 900], manyway_proto::MessageOptions::default());
    }
    assert_eq!(tester.take_data().concat().len(), 3);
    let lies: [(u32, &[(u16, u16)]); 4] =
        [(4, &[]), (1, &[(1, 3)]), (0, &[(1, 1), (200, 200)]), (0x8000_0000, &[])];
    for (blocks, ranges) in lies {
        tester.sack_ranges(blocks, ranges, 0);
        assert_eq!(causes(&mut tester), [(4, vec![1])], "{blocks} {ranges:?}");
        assert_eq!(tester.connection().unacknowledged().get(), 2700, "{blocks} {ranges:?}");
    }
    tester.sack(2, 100_000);
    assert_eq!(tester.connection().unacknowledged().get(), 0);
}

// spec 3.41
#[test]
fn ranges_in_any_order_that_overlap_count() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    for message in 0..9 {
        tester.send_message(stream, &[message; 100], manyway_proto::MessageOptions::default());
    }
    assert_eq!(tester.take_data().concat().len(), 9);
    tester.sack_ranges(0, &[(7, 9), (2, 4), (3, 5), (8, 8)], 100_000);
    assert_eq!(causes(&mut tester), []);
    assert_eq!(tester.connection().unacknowledged().get(), 200, "the first and the sixth");
}

fn probe() -> Vec<u8> {
    let data =
        ProbeData { sent_micros: 1, path: 9, address: "10.0.0.1".parse().unwrap(), nonce: 77, mac: 78 };
    let mut bytes = Vec::new();
    Probe { data, unrecognised: None }.encode(&mut Writer::new(&mut bytes, 200));
    bytes
}

// spec 3.16
#[test]
fn an_unknown_parameter_earns_error_0x0006_unless_its_high_bit_is_set_and_the_block_counts() {
    for (kind, expected) in
        [(0x0099, vec![(6, vec![0x00, 0x99])]), (0x8099, vec![]), (0x0011, vec![(6, vec![0x00, 0x11])])]
    {
        let mut tester = Tester::accepted();
        let body = [probe()[4..].to_vec(), parameter(kind, b"new")].concat();
        tester.send_raw(&block(11, &body));
        let sent = tester.take_all();
        assert!(sent.iter().any(|sent| sent.names().contains(&"PROBE-ACK")), "{kind:#06x}: {sent:?}");
        let codes: Vec<_> = sent.iter().flat_map(Sent::codes).collect();
        assert_eq!(codes, expected.iter().map(|(code, _)| *code).collect::<Vec<_>>(), "{kind:#06x}");
    }
}

// spec 3.15
#[test]
fn a_second_parameter_of_the_same_type_makes_the_block_unreadable() {
    let mut tester = Tester::accepted();
    let once = probe()[4..].to_vec();
    tester.send_raw(&block(11, &[once.clone(), once].concat()));
    assert_eq!(causes(&mut tester), [(4, vec![11])]);
}

// spec 3.73
#[test]
fn an_address_family_other_than_4_and_6_earns_error_0x0002() {
    let mut tester = Tester::accepted();
    let mut bytes = probe();
    // header of the block, header of the parameter, time, path
    bytes[4 + 4 + 8 + 3] = 5;
    tester.send_raw(&bytes);
    assert_eq!(causes(&mut tester), [(2, vec![0, 5])]);
}

// spec 3.56
#[test]
fn a_ping_without_info_for_a_live_connection_earns_error_0x0008() {
    let mut tester = Tester::accepted();
    tester.send_raw(&block(4, &[]));
    assert_eq!(causes(&mut tester), [(8, vec![])]);
    assert_eq!(tester.ended(), None);
}

// spec 3.3, 3.4
#[test]
fn packets_with_a_wrong_checksum_or_impossible_ports_are_dropped() {
    let mut tester = Tester::accepted();
    let good = packet(tester.header(), |w| w.bytes(&data(&tester, 0)));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        tester.deliver_bytes(PEER, bad);
    }
    let refused = tester.connection().statistics().packets_refused;
    assert_eq!(refused, good.len() as u64 - 4, "all are counted but those whose tag was damaged");
    for ports in [[0, 5001], [2000, 0], [16_384, 5001], [2000, 16_384], [65_535, 65_535]] {
        let header = Header { source_port: ports[0], destination_port: ports[1], ..tester.header() };
        let mut bytes = good.clone();
        bytes[..2].copy_from_slice(&header.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
        seal(&mut bytes);
        tester.deliver_bytes(PEER, bytes);
    }
    for length in 0..HEADER_LEN {
        tester.deliver_bytes(PEER, good[..length].to_vec());
    }
    assert_eq!((tester.texts().len(), tester.take_names()), (0, vec![]));
    let other_ports = Header { source_port: 1, destination_port: 16_383, ..tester.header() };
    let bytes = data(&tester, 0);
    tester.deliver_from(PEER, other_ports, |w| w.bytes(&bytes));
    assert_eq!(tester.texts().len(), 1, "ports do not identify the connection");
}

// spec 3.5, 3.81
#[test]
fn packets_with_another_tag_or_from_another_address_do_not_count() {
    let mut tester = Tester::accepted();
    let bytes = data(&tester, 0);
    let wrong = Tag(tester.header().connection.0 ^ 1);
    tester.deliver_from(PEER, tester.header_with(wrong), |w| w.bytes(&bytes));
    let answer = tester.take();
    assert_eq!((answer.names(), answer.header().connection), (vec!["RST"], wrong));
    tester.deliver_from("10.0.0.3:4000", tester.header(), |w| w.bytes(&bytes));
    assert_eq!(tester.take_names(), [""; 0]);
    assert_eq!((tester.texts().len(), tester.ended()), (0, None));
}

// spec 3.7
#[test]
fn a_packet_in_which_a_block_is_bundled_that_travels_alone_is_dropped() {
    let mut tester = Tester::accepted();
    let ack = tester.told.unwrap().tseq.minus(1);
    let alone: [(&str, Vec<u8>); 6] = [
        ("SYN", block(2, &words(&[77, 100_000, (10 << 16) | 10, 1000]))),
        ("SYN-ACK", block(3, &words(&[77, 100_000, (10 << 16) | 10, 1000]))),
        ("FIN", encoded(|w| Fin { ack }.encode(w))),
        ("FIN-ACK", encoded(|w| Block::FinAck.encode(w))),
        ("FIN-DONE", encoded(|w| FinDone { reflected: false }.encode(w))),
        (
            "RST",
            encoded(|w| {
                encode_rst(w, false, std::iter::empty());
            }),
        ),
    ];
    for (name, bytes) in alone {
        for other in [data(&tester, 0), block(0x80, b"unknown"), block(5, b"")] {
            for payload in [[bytes.clone(), other.clone()].concat(), [other, bytes.clone()].concat()] {
                tester.send_raw(&payload);
                assert_eq!((tester.take_names(), tester.ended()), (vec![], None), "{name}");
            }
        }
    }
    assert!(tester.texts().is_empty());
}

fn encoded(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes, 200));
    bytes
}

// spec 3.28, 3.70, 3.72
#[test]
fn an_error_of_the_peer_ends_nothing_and_nothing_answers_it() {
    let mut tester = Tester::accepted();
    for code in [0, 1, 5, 10, 11, 0x8000, u16::MAX] {
        for information in [&b""[..], b"any length of information"] {
            let cause = Cause { code: ErrorCode(code), information };
            tester.deliver(|w| {
                encode_error(w, std::iter::once(cause));
            });
        }
    }
    // One without causes, and one whose cause is cut, cannot be read.
    tester.send_raw(&block(10, &[]));
    tester.send_raw(&block(10, &[0, 1, 0, 60]));
    tester.send_raw(&block(9, &[0, 1, 0, 60]));
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

/// The causes of an endpoint in a second in which something happens each 10 ms.
fn causes_in_a_second(tester: &mut Tester, payload: &[u8]) -> usize {
    let mut found = 0;
    for _ in 0..100 {
        tester.send_raw(payload);
        found += causes(tester).len();
        tester.run_for(10 * MS);
        found += causes(tester).len();
    }
    found
}

// spec 3.74
#[test]
fn errors_of_each_code_go_ten_times_a_second_and_0x0003_once() {
    let mut tester = Tester::accepted();
    for _ in 0..3 {
        assert_eq!(causes_in_a_second(&mut tester, &block(1, &[0; 8])), 10, "0x0004");
        assert_eq!(causes_in_a_second(&mut tester, &block(13, &[])), 1, "0x0003");
        assert_eq!(causes_in_a_second(&mut tester, &block(4, &[])), 10, "0x0008");
    }
    assert_eq!(tester.ended(), None);
}

// spec 3.74
#[test]
fn answers_to_packets_of_no_connection_go_fifty_times_a_second() {
    let mut tester = Tester::server(ConnectionConfig::mmsp1());
    // The seconds of the limit are those of the clock.
    let mut answers = |payload: &[u8], header: Header| {
        tester.now += SECOND;
        let mut sent = 0;
        for _ in 0..500 {
            tester.deliver_from(PEER, header, |w| w.bytes(payload));
            let all = tester.take_all();
            assert!(all.iter().all(|answer| answer.bytes.len() <= 24));
            sent += all.len();
            tester.now += Duration::from_micros(100);
        }
        sent
    };
    let header = Header { source_port: 7, destination_port: 8, connection: Tag(99) };
    assert_eq!(answers(&block(7, &[]), header), 50, "FIN-DONE");
    assert_eq!(answers(&block(1, &words(&[1, 2, 0])), header), 50, "RST");
    assert_eq!(answers(&block(4, &[]), header), 50, "RST, without INFO");
    assert_eq!(answers(&block(4, &parameter(0, b"")), header), 50, "RST, with an INFO of another server");
    assert_eq!(answers(&block(2, &[]), header), 500, "RST to SYN has the limit of SYN-ACK");
    assert_eq!(answers(&block(9, &[]), header), 0, "RST is not answered");
    assert_eq!(answers(&block(10, &[0, 1, 0, 4]), header), 0, "nor is ERROR");
    assert_eq!(answers(&block(8, &[]), header), 0, "nor FIN-DONE");
    assert_eq!(answers(&block(5, &[]), header), 0, "nor PONG");
    for filler in [&[][..], &[7], &[1, 0], &[0, 0, 0]] {
        assert_eq!(answers(filler, header), 0, "nor a packet without blocks");
    }
    assert_eq!(answers(&[1, 0, 0, 3], header), 0, "nor one without a length that can be read");
    let skipped = [block(0x80, b""), vec![1, 0, 0, 3]].concat();
    assert_eq!(answers(&skipped, header), 50, "one that is skipped is a block");
}
