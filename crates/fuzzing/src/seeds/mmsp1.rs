//! Packets of MMSP/1: one with each block, one with several, and an INFO.

use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Addresses, Block, Cause, Data, ErrorCode, Fin, FinDone, Fragment, Header, Info, Opening, Ping, Probe,
    ProbeAck, ProbeData, Sseq, Syn, SynAck, Tag, Tseq, encode_error, encode_rst, encode_sack, seal,
};

const CLIENT: Opening = Opening { tag: Tag(7), window: 1 << 16, outgoing: 3, incoming: 4, tseq: Tseq(1000) };
const SERVER: Opening =
    Opening { tag: Tag(9), window: 1 << 16, outgoing: 2, incoming: 4, tseq: Tseq(u32::MAX) };
const V4: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];
const V6: [[u8; 16]; 1] = [[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];

/// Inputs with their names.
pub(super) fn inputs() -> Vec<(&'static str, Vec<u8>)> {
    let mut payloads = opening();
    payloads.extend(running());
    payloads.extend(reports());
    let several = ["pong", "sack", "data-first", "probe"];
    let together = several.iter().flat_map(|name| {
        payloads.iter().filter(move |(other, _)| other == name).flat_map(|(_, bytes)| bytes.clone())
    });
    let together = together.collect();
    payloads.push(("several", together));
    payloads.push(("unknown", [&[0xee, 0, 0, 5, 1, 0, 0, 0][..], &[0x2a, 0, 0, 4], &[5, 0, 0, 4]].concat()));
    let mut inputs: Vec<_> = payloads.into_iter().map(|(name, payload)| (name, packet(&payload))).collect();
    inputs.push(("info", info()));
    inputs
}

fn opening() -> Vec<(&'static str, Vec<u8>)> {
    let unrecognised = None;
    let none = Addresses { listed: &[], ipv4: &[], ipv6: &[] };
    let listed = Addresses { listed: &V4, ..none };
    let all = Addresses { listed: &V4, ipv4: &V4, ipv6: &V6 };
    let syn = |addresses| Block::Syn(Syn { opening: CLIENT, addresses, unrecognised });
    let syn_ack =
        |addresses| Block::SynAck(SynAck { opening: SERVER, addresses, info: b"some info", unrecognised });
    vec![
        ("syn", written(&syn(none))),
        ("syn-list", written(&syn(listed))),
        ("syn-parameters", written(&syn(all))),
        ("syn-ack", written(&syn_ack(none))),
        ("syn-ack-list", written(&syn_ack(listed))),
        ("syn-ack-parameters", written(&syn_ack(all))),
        ("ping", written(&Block::Ping(Ping { info: b"some info", unrecognised }))),
        ("pong", written(&Block::Pong)),
    ]
}

fn running() -> Vec<(&'static str, Vec<u8>)> {
    let unrecognised = None;
    let data = |fragment, unordered| {
        let (tseq, sseq) = (Tseq(1000), Sseq(1));
        Block::Data(Data { tseq, stream: 1, sseq, protocol: 51, unordered, fragment, data: b"hello" })
    };
    let probe = |address: &str| ProbeData {
        sent_micros: 1000,
        path: 1,
        address: address.parse().expect("an address"),
        nonce: 7,
        mac: 8,
    };
    let (v4, v6) = (probe("192.0.2.1"), probe("2001:db8::1"));
    let mut sack = Vec::new();
    let (ranges, duplicates) = ([2..=3, 7..=9], [Tseq(999), Tseq(1002)]);
    encode_sack(
        &mut Writer::new(&mut sack, 99),
        Tseq(1000),
        4096,
        ranges.into_iter(),
        duplicates.into_iter(),
    );
    vec![
        ("data", written(&data(Fragment::Whole, false))),
        ("data-first", written(&data(Fragment::First, true))),
        ("sack", sack),
        ("probe", written(&Block::Probe(Probe { data: v4, unrecognised }))),
        ("probe-ack", written(&Block::ProbeAck(ProbeAck { echo: v4, data: v6, unrecognised }))),
        ("fin", written(&Block::Fin(Fin { ack: Tseq(1000) }))),
        ("fin-ack", written(&Block::FinAck)),
        ("fin-done", written(&Block::FinDone(FinDone { reflected: true }))),
    ]
}

fn reports() -> Vec<(&'static str, Vec<u8>)> {
    let causes = [
        Cause { code: ErrorCode::STALE_INFO, information: &[0, 0, 1, 0] },
        Cause { code: ErrorCode::UNRECOGNISED_BLOCK, information: &[42] },
    ];
    let (mut rst, mut error) = (Vec::new(), Vec::new());
    encode_rst(&mut Writer::new(&mut rst, 99), true, causes.into_iter());
    encode_error(&mut Writer::new(&mut error, 99), causes.into_iter());
    vec![("rst", rst), ("error", error)]
}

fn info() -> Vec<u8> {
    let info = Info {
        key: 1,
        made_at_millis: 60_000,
        lifetime: Duration::from_secs(10),
        client: CLIENT,
        server: SERVER,
        ports: [5001, 5002],
        address: ([192, 0, 2, 1], 40_000).into(),
        ipv4: &V4,
        ipv6: &V6,
    };
    let mut bytes = Vec::new();
    info.encode_covered(&mut Writer::new(&mut bytes, 999));
    bytes.extend([0xee; Info::MAC_LEN]);
    bytes
}

fn written(block: &Block<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.encode(&mut Writer::new(&mut bytes, 1200));
    bytes
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header { source_port: 5001, destination_port: 5002, connection: CLIENT.tag };
    header.encode(&mut Writer::new(&mut bytes, 1200));
    bytes.extend_from_slice(payload);
    seal(&mut bytes);
    bytes
}
