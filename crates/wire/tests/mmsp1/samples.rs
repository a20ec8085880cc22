//! Generators for every block of MMSP/1.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::IpAddr;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Addresses, Block, Cause, Data, ErrorCode, Fin, FinDone, Fragment, Header, MAX_PORT, Opening, Ping, Probe,
    ProbeAck, ProbeData, Sack, Sseq, Syn, SynAck, Tag, Tseq, encode_error, encode_rst, encode_sack,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A block as bytes, and as it must print: values that borrow cannot leave a generator.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) words: String,
}

impl Sample {
    fn of(block: &Block<'_>) -> Self {
        let mut bytes = Vec::new();
        block.encode(&mut Writer::new(&mut bytes, 1 << 20));
        assert_eq!(bytes.len(), block.encoded_len());
        Self { bytes, kind: block.kind(), words: block.to_string() }
    }
}

/// Any packet header.
pub(crate) fn any_header() -> impl Strategy<Value = Header> {
    (1..=MAX_PORT, 1..=MAX_PORT, any::<u32>()).prop_map(|(source_port, destination_port, tag)| Header {
        source_port,
        destination_port,
        connection: Tag(tag),
    })
}

/// Any block.
pub(crate) fn any_block() -> impl Strategy<Value = Sample> {
    prop_oneof![any_message_block(), any_opening_block(), any_control_block()]
}

/// The blocks as the inside of a packet.
pub(crate) fn payload_of(samples: &[Sample]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.bytes.clone()).collect()
}

fn any_message_block() -> impl Strategy<Value = Sample> {
    let fragments = [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last];
    let fields = (any::<(u32, u16, u16, u32, bool)>(), proptest::sample::select(fragments.to_vec()));
    let data = (fields, vec(any::<u8>(), 0..300)).prop_map(|((numbers, fragment), data)| {
        let (tseq, stream, sseq, protocol, unordered) = numbers;
        let (tseq, sseq) = (Tseq(tseq), Sseq(sseq));
        Sample::of(&Block::Data(Data { tseq, stream, sseq, protocol, unordered, fragment, data: &data }))
    });
    let sack = any_sack().prop_map(|(bytes, sack)| {
        let words = format!("SACK ack {}, window {}", sack.ack, sack.window);
        Sample { bytes, kind: Sack::KIND, words }
    });
    prop_oneof![data, sack]
}

/// What went into a SACK.
#[derive(Debug, Clone)]
pub(crate) struct SackContent {
    pub(crate) ack: Tseq,
    pub(crate) window: u32,
    pub(crate) ranges: Vec<(u16, u16)>,
    pub(crate) duplicates: Vec<Tseq>,
}

/// Any SACK with as much as one can hold, and what went into it.
pub(crate) fn any_sack() -> impl Strategy<Value = (Vec<u8>, SackContent)> {
    let range = any::<(u16, u16)>().prop_map(|(a, b)| (a.min(b).max(1), a.max(b).max(1)));
    let lists =
        (vec(range, 0..=Sack::MAX_RANGES), vec(any::<u32>().prop_map(Tseq), 0..=Sack::MAX_DUPLICATES));
    (any::<(u32, u32)>(), lists).prop_map(|((ack, window), (ranges, duplicates))| {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, 1200);
        let offsets = ranges.iter().map(|(start, end)| *start..=*end);
        let counts = encode_sack(&mut w, Tseq(ack), window, offsets, duplicates.iter().copied());
        assert_eq!(counts, Some((ranges.len(), duplicates.len())));
        (bytes, SackContent { ack: Tseq(ack), window, ranges, duplicates })
    })
}

fn any_opening() -> impl Strategy<Value = Opening> {
    let streams = prop_oneof![1..=6_u16, 250..=260_u16, 1..=u16::MAX];
    (1..=u32::MAX, any::<u32>(), streams, 1..=u16::MAX, any::<u32>()).prop_map(
        |(tag, window, outgoing, incoming, tseq)| Opening {
            tag: Tag(tag),
            window,
            outgoing,
            incoming,
            tseq: Tseq(tseq),
        },
    )
}

fn any_opening_block() -> impl Strategy<Value = Sample> {
    let v4 = || vec(any::<[u8; 4]>().prop_map(|[a, b, c, d]| [a.max(1), b, c, d]), 0..6);
    let lists = (v4(), v4(), vec(any::<[u8; 16]>(), 0..3));
    let info = vec(any::<u8>(), 0..120);
    (any_opening(), lists, info, any::<bool>()).prop_map(|(opening, (listed, ipv4, ipv6), info, is_syn)| {
        // More than the list has room for is not sent.
        let room = if opening.outgoing > 256 { 0 } else { usize::from(opening.outgoing) };
        let listed = listed.get(..room).unwrap_or(&listed);
        let addresses = Addresses { listed, ipv4: &ipv4, ipv6: &ipv6 };
        let unrecognised = None;
        Sample::of(&if is_syn {
            Block::Syn(Syn { opening, addresses, unrecognised })
        } else {
            Block::SynAck(SynAck { opening, addresses, info: &info, unrecognised })
        })
    })
}

fn any_probe_data() -> impl Strategy<Value = ProbeData> {
    let address =
        prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
    (any::<(u64, u16, u64, u64)>(), address).prop_map(|((sent_micros, path, nonce, mac), address)| {
        ProbeData { sent_micros, path, address, nonce, mac }
    })
}

fn any_control_block() -> impl Strategy<Value = Sample> {
    let unrecognised = None;
    let ping = vec(any::<u8>(), 0..200)
        .prop_map(move |info| Sample::of(&Block::Ping(Ping { info: &info, unrecognised })));
    let fin = any::<u32>().prop_map(|ack| Sample::of(&Block::Fin(Fin { ack: Tseq(ack) })));
    let done = any::<bool>().prop_map(|reflected| Sample::of(&Block::FinDone(FinDone { reflected })));
    let probe =
        any_probe_data().prop_map(move |data| Sample::of(&Block::Probe(Probe { data, unrecognised })));
    let ack = (any_probe_data(), any_probe_data())
        .prop_map(move |(echo, data)| Sample::of(&Block::ProbeAck(ProbeAck { echo, data, unrecognised })));
    let empty = prop_oneof![Just(Block::Pong), Just(Block::FinAck)].prop_map(|block| Sample::of(&block));
    prop_oneof![ping, fin, done, probe, ack, empty, any_report()]
}

/// Any RST or ERROR.
fn any_report() -> impl Strategy<Value = Sample> {
    let causes = vec((any::<u16>(), vec(any::<u8>(), 0..20)), 1..5);
    (causes, 0..3_u8).prop_map(|(causes, kind)| {
        let list = causes.iter().map(|(code, information)| Cause { code: ErrorCode(*code), information });
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, 1200);
        let written = match kind {
            0 => encode_error(&mut w, list),
            reflected => encode_rst(&mut w, reflected == 1, list),
        };
        assert_eq!(written, causes.len());
        let kind = *bytes.first().unwrap();
        let words = if kind == 10 { "ERROR" } else { "RST" }.to_owned();
        Sample { bytes, kind, words }
    })
}
