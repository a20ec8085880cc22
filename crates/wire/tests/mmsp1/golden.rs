//! Compares every block of MMSP/1, a packet and INFO with bytes written by hand: `docs/specification/golden/mmsp1_*`.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Addresses, BYTES_END, Block, Blocks, Cause, Data, ErrorCode, Fin, FinDone, Fragment, Header, Info,
    Opening, Packet, Ping, Probe, ProbeAck, ProbeData, Sseq, StreamEnd, Syn, SynAck, Tag, Tseq, encode_error,
    encode_rst, encode_sack, seal,
};

use super::PREFIX;
use crate::golden::{golden, hex, names, written};

const INFO: &[u8] = &[0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
const NO_ADDRESSES: Addresses<'static> = Addresses { listed: &[], ipv4: &[], ipv6: &[] };
const CLIENT: Opening =
    Opening { tag: Tag(0xa1b2_c3d4), window: 1 << 20, outgoing: 3, incoming: 8, tseq: Tseq(1000) };
const SERVER: Opening =
    Opening { tag: Tag(0x0bad_cafe), window: 1 << 20, outgoing: 1, incoming: 4, tseq: Tseq(2000) };
const WHOLE: Data<'static> = Data {
    tseq: Tseq(1000),
    stream: 1,
    sseq: Sseq(2),
    protocol: 51,
    unordered: false,
    fragment: Fragment::Whole,
    data: b"abc",
};

/// The content of the end of a byte stream.
const ABANDONED: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 100];

/// Files that [`blocks`] does not name.
const OTHERS: [&str; 5] = ["error", "info", "packet", "rst", "sack"];

fn file(name: &str) -> Vec<u8> {
    golden(&format!("{PREFIX}{name}"))
}

fn blocks() -> Vec<(&'static str, Block<'static>)> {
    let listed = &[[192, 0, 2, 1], [198, 51, 100, 1]];
    let ipv6 = &[[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];
    let last = Data {
        tseq: Tseq(0),
        sseq: Sseq(0),
        unordered: true,
        fragment: Fragment::Last,
        data: b"wxz\n",
        ..WHOLE
    };
    let end = Data { tseq: Tseq(1002), sseq: Sseq(3), protocol: BYTES_END, data: ABANDONED, ..WHOLE };
    let second = Opening { outgoing: 2, incoming: 2, tseq: Tseq(u32::MAX), ..CLIENT };
    let addresses = Addresses { listed: &[[192, 0, 2, 7]], ipv4: &[[198, 51, 100, 7]], ipv6: &[] };
    let unrecognised = None;
    let probe = ProbeData {
        sent_micros: 10_000_000,
        path: 1,
        address: "198.51.100.7".parse().unwrap(),
        nonce: 0x0102_0304_0506_0708,
        mac: 0x1112_1314_1516_1718,
    };
    let own = ProbeData {
        sent_micros: 1000,
        path: 0,
        address: "2001:db8::7".parse().unwrap(),
        nonce: 0x2122_2324_2526_2728,
        mac: 0x3132_3334_3536_3738,
    };
    let syn = |opening, addresses| Block::Syn(Syn { opening, addresses, unrecognised });
    vec![
        ("data", Block::Data(WHOLE)),
        ("data_last", Block::Data(last)),
        ("data_end", Block::Data(end)),
        ("syn", syn(CLIENT, Addresses { listed, ..NO_ADDRESSES })),
        ("syn_parameters", syn(second, Addresses { ipv6, ..NO_ADDRESSES })),
        ("syn_ack", Block::SynAck(SynAck { opening: SERVER, addresses, info: INFO, unrecognised })),
        ("ping", Block::Ping(Ping { info: INFO, unrecognised })),
        ("pong", Block::Pong),
        ("fin", Block::Fin(Fin { ack: Tseq(1000) })),
        ("fin_ack", Block::FinAck),
        ("fin_done", Block::FinDone(FinDone { reflected: false })),
        ("fin_done_reflected", Block::FinDone(FinDone { reflected: true })),
        ("probe", Block::Probe(Probe { data: probe, unrecognised })),
        ("probe_ack", Block::ProbeAck(ProbeAck { echo: probe, data: own, unrecognised })),
    ]
}

#[test]
fn every_block_is_written_and_read_as_the_specification_shows() {
    for (name, block) in blocks() {
        let expected = file(name);
        assert_eq!(hex(&written(|w| block.encode(w))), hex(&expected), "{name}");
        assert_eq!(block.encoded_len(), expected.len(), "{name}");
        assert_eq!(Blocks::new(&expected).collect::<Vec<_>>(), [Ok(block)], "{name}");
    }
}

// spec 3.92
#[test]
fn the_end_of_an_abandoned_byte_stream_is_written_and_read_as_the_specification_shows() {
    let end = StreamEnd { code: 7 + 1, total: 100 };
    assert_eq!(hex(&written(|w| end.encode(w))), hex(ABANDONED));
    assert_eq!(StreamEnd::decode(ABANDONED), Ok(end));
}

// spec 3.40
#[test]
fn sack_is_written_and_read_as_the_specification_shows() {
    let expected = file("sack");
    let (ranges, duplicates) = ([2..=3, 7..=7], [999, 999, 1002].map(Tseq));
    let bytes = written(|w| {
        let counts = encode_sack(w, Tseq(1000), 65_536, ranges.iter().cloned(), duplicates.into_iter());
        assert_eq!(counts, Some((2, 3)));
    });
    assert_eq!(hex(&bytes), hex(&expected));
    let [Ok(block @ Block::Sack(sack))] = Blocks::new(&expected).collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((sack.ack, sack.window, sack.highest()), (Tseq(1000), 65_536, Tseq(1007)));
    assert!(sack.ranges.iter().eq([(Tseq(1002), Tseq(1003)), (Tseq(1007), Tseq(1007))]));
    assert!(sack.duplicates.iter().eq(duplicates));
    assert_eq!(hex(&written(|w| block.encode(w))), hex(&expected));
}

// spec 3.27, 3.28
#[test]
fn rst_and_error_are_written_and_read_as_the_specification_shows() {
    let stale = Cause { code: ErrorCode::STALE_INFO, information: &[0; 4] };
    let field = Cause { code: ErrorCode::UNRECOGNISED_FIELD, information: &[0x7f, 1] };
    let block = Cause { code: ErrorCode::UNRECOGNISED_BLOCK, information: &[42] };

    let expected = file("rst");
    let bytes = written(|w| assert_eq!(encode_rst(w, true, [stale, field].into_iter()), 2));
    assert_eq!(hex(&bytes), hex(&expected));
    let [Ok(Block::Rst(rst))] = Blocks::new(&expected).collect::<Vec<_>>()[..] else { panic!() };
    assert!(rst.reflected && rst.causes.iter().eq([stale, field]));
    assert_eq!(hex(&written(|w| rst.encode(w))), hex(&expected));

    let expected = file("error");
    let bytes = written(|w| assert_eq!(encode_error(w, std::iter::once(block)), 1));
    assert_eq!(hex(&bytes), hex(&expected));
    let [Ok(Block::Error(error))] = Blocks::new(&expected).collect::<Vec<_>>()[..] else { panic!() };
    assert!(error.causes.iter().eq([block]));
    assert_eq!(hex(&written(|w| error.encode(w))), hex(&expected));
}

// spec 3.2, 3.3
#[test]
fn a_packet_is_written_and_read_as_the_specification_shows() {
    let expected = file("packet");
    let header = Header { source_port: 5001, destination_port: 4000, connection: CLIENT.tag };
    let data = Data { tseq: Tseq(2000), sseq: Sseq(0), ..WHOLE };
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, expected.len());
    header.encode(&mut w);
    Block::Pong.encode(&mut w);
    encode_sack(&mut w, Tseq(1000), 65_536, std::iter::empty(), std::iter::empty());
    data.encode(&mut w);
    seal(&mut bytes);
    assert_eq!(hex(&bytes), hex(&expected));
    let packet = Packet::decode(&expected).unwrap();
    assert_eq!(packet.header, header);
    let blocks: Vec<_> = packet.blocks().map(Result::unwrap).collect();
    assert!(matches!(blocks[..], [Block::Pong, Block::Sack(_), Block::Data(read)] if read == data));
}

// spec 3.59
#[test]
fn info_is_written_and_read_as_the_specification_shows() {
    let info = Info {
        key: 7,
        made_at_millis: 60_000,
        lifetime: Duration::from_secs(10),
        client: CLIENT,
        server: SERVER,
        ports: [4000, 5001],
        address: "192.0.2.1:40000".parse().unwrap(),
        ipv4: &[],
        ipv6: &[],
    };
    let expected = file("info");
    let (covered, mac) = expected.split_last_chunk().unwrap();
    assert_eq!(hex(&written(|w| info.encode_covered(w))), hex(covered));
    assert_eq!(Info::decode(&expected), Ok((info, covered, mac)));
}

#[test]
fn every_file_has_a_test_and_every_type_a_file() {
    let tested: BTreeSet<String> =
        blocks().iter().map(|(name, _)| *name).chain(OTHERS).map(String::from).collect();
    let files: BTreeSet<String> =
        names().iter().filter_map(|name| name.strip_prefix(PREFIX)).map(String::from).collect();
    assert_eq!(files, tested);

    let shown: BTreeSet<u8> = files
        .iter()
        .filter(|name| !["info", "packet"].contains(&name.as_str()))
        .map(|name| file(name)[0])
        .collect();
    assert_eq!(shown, (0..13).collect());
}
