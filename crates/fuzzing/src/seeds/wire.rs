//! Blocks, headers, parameters, cookies and tickets.

use std::time::Duration;

use manyway_wire::mmsp2::{
    AddAddress, Block, Blocked, BlockedBy, Close, CloseStep, Crypto, EcnCounts, Liveness, MaxData,
    MaxStreamData, MaxStreams, MessageData, MessageId, MessagePlace, NewCid, Parameters, PathAvailability,
    PathClose, PathLimit, PathStatus, Ping, Probe, ProbeAck, ReceiveLimit, RemoveAddress, ResetStream,
    RetireCid, Skipped, StopSending, StreamData, Syn, SynAck, TcpConnections, encode_path_ack, encode_skip,
    encode_version_list,
};
use manyway_wire::rendezvous::mailbox::{Ask, LETTER_LEN, State, Status};
use manyway_wire::rendezvous::{Body, Message, SEALED_LEN, encode_addresses};
use manyway_wire::{ConnectionId, PathId, Side, StreamId, Writer};

use super::seed::Seed;
use crate::lab::Lab;
use crate::script::Steps;

pub(super) fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut all = Vec::new();
    for (name, bytes) in blocks() {
        all.extend_from_slice(&bytes);
        seeds.push(Seed::new("blocks", name, bytes));
    }
    seeds.push(Seed::new("blocks", "all", all));
    for (number, datagram) in Lab::connecting().flying.into_iter().enumerate() {
        seeds.push(Seed::new("headers", format!("first-flight-{number}"), datagram.data));
    }
    for (number, datagram) in Lab::established().flying.into_iter().take(2).enumerate() {
        seeds.push(Seed::new("headers", format!("data-{number}"), datagram.data));
    }
    let first_flight = Lab::connecting().flying.into_iter().map(|datagram| datagram.data).collect::<Vec<_>>();
    seeds.push(Seed::new("decode", "hex", hex(&first_flight)));
    seeds.push(Seed::new("decode", "pcap", pcap(&first_flight)));
    let mut list = Vec::new();
    encode_version_list(&mut Writer::new(&mut list, 1200), &[1; 8], &[2; 8], &[1, 2, 3]);
    seeds.push(Seed::new("headers", "version-list", list));
    for (name, parameters) in [("client", parameters(None)), ("server", parameters(Some([7; 16])))] {
        seeds.push(Seed::new("parameters", name, parameters.encode()));
    }
    let cookies = Steps::new().u8(1).u16(80).bytes(&[1; 8]).bytes(&[2; 8]);
    let cookies = cookies.u8(0).u8(1).u16(500).u8(4).u8(0).u8(2).u16(11).u8(4).u8(0).u8(5).u8(9).u8(1);
    let cookies = cookies.u8(2).u16(3700).u8(0).u8(4).u8(0).u8(4).u8(1).u8(3).bytes(&[0; 37]);
    seeds.push(Seed::new("cookies", "ages", cookies.into_bytes()));
    seeds.extend(rendezvous());
    for (number, text) in TEXTS.iter().enumerate() {
        seeds.push(Seed::new("ticket", format!("text-{number}"), text.as_bytes().to_vec()));
    }
    let fields = Steps::new().u8(1).u8(2).u8(0).u16(1).u16(2).u16(80).u8(2).bytes(b"example.org").u16(5000);
    seeds.push(Seed::new("ticket", "fields", fields.into_bytes()));
    seeds
}

/// Datagrams of a rendezvous, and two crowds at its server.
fn rendezvous() -> Vec<Seed> {
    let sealed = &[3; SEALED_LEN];
    let seen = ([192, 0, 2, 1], 4455).into();
    let letter = Some(&[4; LETTER_LEN]);
    let ask = Ask { side: Side::Server, nonce: 1, cookie: [2; 16], number: 7, posted: 1, taken: 0, letter };
    let state = State { nonce: 1, number: 7, status: Status::Open, held: 1, posted: 2, letter };
    let bodies = [
        ("request", Body::Request { side: Side::Server, nonce: 1, cookie: [2; 16], sealed }),
        ("retry", Body::Retry { nonce: 1, cookie: [2; 16] }),
        ("answer", Body::Answer { nonce: 1, seen, sealed: None }),
        ("answer-sealed", Body::Answer { nonce: 1, seen, sealed: Some(sealed) }),
        ("knock", Body::Knock),
        ("ask", Body::Ask(Ask { letter: None, ..ask })),
        ("ask-letter", Body::Ask(ask)),
        ("state", Body::State(State { letter: None, ..state })),
        ("state-letter", Body::State(state)),
        ("leave", Body::Leave { nonce: 1, cookie: [2; 16] }),
        ("observe", Body::Observe { nonce: 1 }),
        ("bind", Body::Bind { nonce: 1, cookie: [2; 16], number: 7 }),
        ("bound", Body::Bound { nonce: 1, is_bound: true }),
    ];
    let mut seeds: Vec<_> = bodies
        .into_iter()
        .map(|(name, body)| {
            let mut bytes = Vec::new();
            Message { token: [7; 16], body }.encode(&mut Writer::new(&mut bytes, 1200));
            Seed::new("rendezvous", name, bytes)
        })
        .collect();
    let mut addresses = Vec::new();
    encode_addresses(&mut Writer::new(&mut addresses, 1200), &[seen; 3]);
    seeds.push(Seed::new("rendezvous", "addresses", addresses));
    for (name, networks) in [("crowd-of-one-network", 1), ("crowd-of-four", 4)] {
        let mut steps = Steps::new();
        for token in 0..16 {
            let asks = Steps::new().u8(2).u8(token % networks).u8(0).u8(token).u8(1).raw(&[0; 8]).u8(token);
            let waits = asks.u8(0).u16(u16::from(token) * 200);
            let damaged = waits.u8(5).u8(0).u8(1).raw(&[0; 8]).u8(token).u8(token * 16).u8(0x55).u8(0).u8(0);
            steps = steps.raw(&damaged.u8(1).u8(0).u8(0).bytes(b"garbage").into_bytes());
        }
        seeds.push(Seed::new("rendezvous", name, steps.into_bytes()));
    }
    let mut steps = Steps::new();
    for step in 0..40_u8 {
        let network = step % 4;
        let asks =
            Steps::new().u8(3).u8(network).u8(0).u8(step).u8(step).u8(step % 3).u8(step % 4).u8(step % 2);
        let asks = asks.u8(step).u8(step).u8(step + 1).raw(&[0; 8]);
        // An end is answered with a letter of the other.
        let answers =
            Steps::new().u8(4).u8(step % 2).u8(0).u8(1 - step % 2).u8(200).u8(0).u8(1).u8(1 + step / 8);
        steps = steps.raw(&asks.u8(0).u16(30).raw(&answers.u8(step / 20).u8(1).into_bytes()).into_bytes());
    }
    seeds.push(Seed::new("rendezvous", "mailboxes", steps.into_bytes()));
    seeds
}

/// A datagram a line.
fn hex(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let line = |datagram: &Vec<u8>| datagram.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    datagrams.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes()
}

/// A capture of IPv4 packets without link headers.
fn pcap(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101];
    head.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    for datagram in datagrams {
        let length = u16::try_from(datagram.len()).unwrap();
        let frame = [1, 0, u32::from(length) + 28, u32::from(length) + 28];
        frame.iter().for_each(|word: &u32| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&[0x45, 0]);
        bytes.extend_from_slice(&(length + 28).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        for field in [40_000, 4455, length + 8, 0] {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
        bytes.extend_from_slice(datagram);
    }
    bytes
}

const TEXTS: [&str; 8] = [
    "mw1aeaqcaibaeaqcaibaeaqcaibaeaqeaqcaibaeaqcaibaeaqcaibaeaqaiaya",
    "192.0.2.7",
    "192.0.2.7:5000",
    "2001:db8::1",
    "[2001:db8::1]:5000",
    "example.org:5000",
    "Home_Server.example.",
    "mw2abc",
];

/// A block of each kind, with its name.
pub(super) fn blocks() -> Vec<(&'static str, Vec<u8>)> {
    let id = ConnectionId::from_u64(0x0102_0304_0506_0708);
    let longest = ConnectionId::from_slice(&[0x4c; 20]).unwrap_or(id);
    let (path, stream) = (PathId(1), StreamId(4));
    let mut blocks: Vec<(&'static str, Vec<u8>)> = handshake_blocks();
    let address = ([10, 0, 0, 2], 4455).into();
    let rate = Some(2_500_000);
    let known = [
        ("probe", Block::Probe(Probe { nonce: 7 })),
        ("probe-ack", Block::ProbeAck(ProbeAck { nonce: 7, observed: address })),
        ("stream", Block::Stream(StreamData { stream, offset: 0, end: true, data: b"hello" })),
        ("stream-later", Block::Stream(StreamData { stream, offset: 9000, end: false, data: &[1; 40] })),
        ("max-data", Block::MaxData(MaxData { credit: 1 << 20 })),
        ("max-stream-data", Block::MaxStreamData(MaxStreamData { stream, credit: 1 << 20 })),
        ("max-streams", Block::MaxStreams(MaxStreams { count: 32 })),
        ("reset-stream", Block::ResetStream(ResetStream { stream, code: 1, final_size: 100 })),
        ("stop-sending", Block::StopSending(StopSending { stream, code: 1 })),
        ("blocked", Block::Blocked(Blocked { by: BlockedBy::Connection { limit: 100 } })),
        ("blocked-stream", Block::Blocked(Blocked { by: BlockedBy::Stream { stream, limit: 100 } })),
        ("blocked-streams", Block::Blocked(Blocked { by: BlockedBy::Streams { limit: 8 } })),
        (
            "new-cid",
            Block::NewCid(NewCid { path, sequence: 2, retire_prior_to: 1, id, reset_token: [3; 16] }),
        ),
        (
            "new-cid-longest",
            Block::NewCid(NewCid {
                path,
                sequence: 2,
                retire_prior_to: 1,
                id: longest,
                reset_token: [3; 16],
            }),
        ),
        ("retire-cid", Block::RetireCid(RetireCid { path, sequence: 0 })),
        ("add-address", Block::AddAddress(AddAddress { id: 1, sequence: 1, priority: 1, cost: 1, address })),
        ("remove-address", Block::RemoveAddress(RemoveAddress { id: 1, sequence: 2 })),
        (
            "path-status",
            Block::PathStatus(PathStatus {
                path,
                sequence: 1,
                state: PathAvailability::Dead,
                cost: 0,
                rate: None,
            }),
        ),
        (
            "path-status-rate",
            Block::PathStatus(PathStatus {
                path,
                sequence: 1,
                state: PathAvailability::Available,
                cost: 0,
                rate,
            }),
        ),
        ("path-close", Block::PathClose(PathClose { path, code: 1 })),
        ("path-limit", Block::PathLimit(PathLimit { limit: 5 })),
        (
            "receive-limit",
            Block::ReceiveLimit(ReceiveLimit { path, sequence: 1, window: 8000, rate: Some(100_000) }),
        ),
        ("tcp-connections", Block::TcpConnections(TcpConnections { sequence: 1, count: 5 })),
        ("liveness", Block::Liveness(Liveness::Query { path })),
        (
            "liveness-answer",
            Block::Liveness(Liveness::Answer { path, largest: Some(7), age: Duration::from_millis(3) }),
        ),
        ("ack-now", Block::AckNow),
        ("close-fin", Block::Close(Close { step: CloseStep::Fin, code: 0, text: b"done" })),
        ("close-abort", Block::Close(Close { step: CloseStep::Abort, code: 5, text: b"" })),
        ("padding", Block::Padding),
    ];
    blocks.extend(known.iter().map(|(name, block)| (*name, encoded(block))));
    blocks.extend(message_blocks());
    blocks.push(("path-ack", path_ack(&[9..=12, 2..=4], None)));
    let ecn = EcnCounts { ect0: 3, ect1: 0, ce: 1 };
    blocks.push(("path-ack-ecn", path_ack(&[0..=0], Some(ecn))));
    blocks
}

fn handshake_blocks() -> Vec<(&'static str, Vec<u8>)> {
    let known = [
        ("syn", Block::Syn(Syn { info: b"x" })),
        ("syn-ack", Block::SynAck(SynAck { info: b"info" })),
        ("ping", Block::Ping(Ping { info: b"info" })),
        ("pong", Block::Pong),
        ("crypto", Block::Crypto(Crypto { offset: 3, data: &[1, 0, 0, 4] })),
    ];
    known.iter().map(|(name, block)| (*name, encoded(block))).collect()
}

fn message_blocks() -> Vec<(&'static str, Vec<u8>)> {
    let stream = StreamId(8);
    let piece = |message, place, end, data| MessageData { stream, message, place, end, data };
    let begin = MessagePlace::Begin { protocol: 51 };
    let known = [
        ("message", Block::Message(piece(MessageId::ordered(0), begin, true, b"hello"))),
        ("message-empty", Block::Message(piece(MessageId::unordered(0), begin, true, b""))),
        ("message-begin", Block::Message(piece(MessageId::ordered(1), begin, false, &[2; 40]))),
        ("message-end", Block::Message(piece(MessageId::ordered(1), MessagePlace::At(40), true, &[3; 9]))),
        ("message-far", Block::Message(piece(MessageId::unordered(9), MessagePlace::At(900), false, b"x"))),
    ];
    let mut blocks: Vec<_> = known.iter().map(|(name, block)| (*name, encoded(block))).collect();
    for (name, unordered) in [("skip", false), ("skip-unordered", true)] {
        let mut bytes = Vec::new();
        let skipped = [Skipped { number: 1, reach: 40 }, Skipped { number: 2, reach: 0 }];
        encode_skip(&mut Writer::new(&mut bytes, 1200), stream, unordered, skipped.into_iter());
        blocks.push((name, bytes));
    }
    blocks
}

fn encoded(block: &Block<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    block.encode(&mut Writer::new(&mut bytes, 1200));
    bytes
}

fn path_ack(ranges: &[std::ops::RangeInclusive<u64>], ecn: Option<EcnCounts>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 1200);
    encode_path_ack(&mut writer, PathId::FIRST, Duration::from_millis(2), 77, ranges.iter().cloned(), ecn);
    bytes
}

fn parameters(reset_token: Option<[u8; 16]>) -> Parameters {
    Parameters {
        version: manyway_wire::mmsp2::VERSION,
        original_destination: reset_token.map(|_| ConnectionId::from_u64(1)),
        source: ConnectionId::from_u64(2),
        idle_timeout: Duration::from_secs(30),
        initial_max_data: 3 << 19,
        initial_max_stream_data: 1 << 20,
        initial_max_streams: 256,
        path_limit: 7,
        max_ack_delay: Duration::from_millis(25),
        max_datagram: 1472,
        reset_token,
        application: b"files".to_vec(),
        max_message: 1 << 13,
        rendezvous: reset_token.map(|_| ([192, 0, 2, 9], 4455).into()).into_iter().collect(),
        rates: reset_token.is_none(),
    }
}
