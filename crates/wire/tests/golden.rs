//! Compares every block, header and the parameters with bytes written by hand: `docs/specification/golden`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use manyway_wire::mmsp2::{
    AddAddress, Block, Blocked, BlockedBy, Blocks, Close, CloseStep, Crypto, EcnCounts, ErrorCode,
    HeaderForm, Liveness, LongHeader, LongKind, MaxData, MaxStreamData, MaxStreams, MessageData, MessageId,
    MessagePlace, NewCid, Padding, Parameters, PathAvailability, PathClose, PathLimit, PathStatus, Ping,
    Probe, ProbeAck, ReceiveLimit, RemoveAddress, ResetStream, RetireCid, Skipped, StopSending, StreamData,
    Syn, SynAck, TcpConnections, VERSION, decode_protected, encode_path_ack, encode_short, encode_skip,
    encode_version_list, patch_length,
};
use manyway_wire::rendezvous::mailbox::{Ask, State, Status};
use manyway_wire::rendezvous::{Body, Message};
use manyway_wire::{ConnectionId, PathId, Side, StreamId, Writer};

const INFO: &[u8] = &[0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
const NONCE: u64 = 0x0102_0304_0506_0708;
const TOKEN: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const DESTINATION: u64 = 0x0102_0304_0506_0708;
const SOURCE: u64 = 0x1112_1314_1516_1718;
const LONGEST_ID: [u8; 20] = *b"!\"#$%&'()*+,-./01234";
const PATH: PathId = PathId(2);

/// Files that belong to no block.
const OTHERS: [&str; 14] = [
    "header_initial",
    "header_handshake",
    "header_short",
    "header_short_longest",
    "header_version_list",
    "padding",
    "parameters",
    "path_ack",
    "path_ack_ecn",
    "rendezvous_answer",
    "rendezvous_ask",
    "rendezvous_retry",
    "rendezvous_state",
    "skip",
];

#[test]
fn every_block_is_written_and_read_as_the_specification_shows() {
    for (name, block) in blocks() {
        let expected = golden(name);
        assert_eq!(hex(&written(|w| block.encode(w))), hex(&expected), "{name}");
        assert_eq!(block.encoded_len(), expected.len(), "{name}");
        assert_eq!(Blocks::new(&expected).collect::<Vec<_>>(), [Ok(block)], "{name}");
    }
}

// spec 5.80
#[test]
fn acknowledgements_are_written_and_read_as_the_specification_shows() {
    let delay = Duration::from_micros(2500);
    let ranges = [90..=100, 88..=88, 0..=3];
    let bytes = written(|w| {
        assert_eq!(encode_path_ack(w, PathId(1), delay, 77, ranges.iter().cloned(), None), 3);
    });
    check_ack("path_ack", &bytes, &ranges);

    let counts = EcnCounts { ect0: 1000, ect1: 0, ce: 3 };
    let ranges = [0..=0];
    let bytes = written(|w| {
        let ranges = ranges.iter().cloned();
        assert_eq!(encode_path_ack(w, PathId::FIRST, Duration::ZERO, u32::MAX, ranges, Some(counts)), 1);
    });
    check_ack("path_ack_ecn", &bytes, &ranges);
}

fn check_ack(name: &str, bytes: &[u8], ranges: &[std::ops::RangeInclusive<u64>]) {
    let expected = golden(name);
    assert_eq!(hex(bytes), hex(&expected), "{name}");
    let blocks: Vec<_> = Blocks::new(&expected).map(Result::unwrap).collect();
    let [Block::PathAck(ack)] = blocks[..] else { panic!("{name}: {blocks:?}") };
    assert_eq!(ack.ranges.iter().collect::<Vec<_>>(), ranges, "{name}");
    assert_eq!(hex(&written(|w| ack.encode(w))), hex(&expected), "{name}");
}

// spec 5.84
#[test]
fn skip_is_written_and_read_as_the_specification_shows() {
    let expected = golden("skip");
    let skipped = [Skipped { number: 300, reach: 1000 }, Skipped { number: 302, reach: 0 }];
    let bytes = written(|w| assert_eq!(encode_skip(w, StreamId(4), true, skipped.into_iter()), 2));
    assert_eq!(hex(&bytes), hex(&expected));
    let blocks: Vec<_> = Blocks::new(&expected).map(Result::unwrap).collect();
    let [Block::Skip(skip)] = blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((skip.stream, skip.unordered), (StreamId(4), true));
    assert!(skip.messages.into_iter().eq(skipped));
}

// spec 5.9d
#[test]
fn padding_is_written_and_read_as_the_specification_shows() {
    let expected = golden("padding");
    assert_eq!(hex(&written(|w| Padding { length: 10 }.encode(w))), hex(&expected));
    assert_eq!(Blocks::new(&expected).collect::<Vec<_>>(), [Ok(Block::Padding)]);
}

// spec 4.4
#[test]
fn long_headers_are_written_and_read_as_the_specification_shows() {
    let empty = ConnectionId::from_slice(&[]).unwrap();
    let cases = [
        ("header_initial", LongKind::Initial, ConnectionId::from_u64(SOURCE), 2, 1),
        ("header_handshake", LongKind::Handshake, empty, 0x0203, 2),
    ];
    for (name, kind, source, number, number_len) in cases {
        let header = LongHeader { kind, destination: ConnectionId::from_u64(DESTINATION), source };
        let mut packet = Vec::new();
        let field = header.encode(&mut Writer::new(&mut packet, 1200), number, number_len);
        let mut expected = golden(name);
        let end = expected.len() - number_len + 40;
        patch_length(&mut packet, field, end);
        assert_eq!(hex(&packet), hex(&expected), "{name}");

        let number_offset = expected.len() - number_len;
        expected.resize(end + 7, 0);
        let decoded = decode_protected(&expected, 8).unwrap();
        let form = HeaderForm::Long { kind, version: VERSION, destination: header.destination, source };
        assert_eq!(
            (decoded.form, decoded.number_offset, decoded.length),
            (form, number_offset, end),
            "{name}"
        );
    }
}

// spec 4.5
#[test]
fn the_short_header_is_written_and_read_as_the_specification_shows() {
    let destination = ConnectionId::from_u64(DESTINATION);
    let mut expected = golden("header_short");
    let bytes = written(|w| assert_eq!(encode_short(w, &destination, true, 0xff_0001_0203, 3), 9));
    assert_eq!(hex(&bytes), hex(&expected));
    expected.resize(60, 0);
    assert_eq!(decode_protected(&expected, 8).unwrap().form, HeaderForm::Short { destination });
}

// spec 4.2, 4.5
#[test]
fn a_short_header_with_the_longest_id_is_written_and_read_as_the_specification_shows() {
    let destination = ConnectionId::from_slice(&LONGEST_ID).unwrap();
    let mut expected = golden("header_short_longest");
    let bytes = written(|w| assert_eq!(encode_short(w, &destination, false, 5, 1), 21));
    assert_eq!(hex(&bytes), hex(&expected));
    expected.resize(60, 0);
    assert_eq!(decode_protected(&expected, 20).unwrap().form, HeaderForm::Short { destination });
}

// spec 4.10
#[test]
fn the_version_list_is_written_and_read_as_the_specification_shows() {
    let destination = ConnectionId::from_u64(DESTINATION);
    let source = ConnectionId::from_slice(&[0x11, 0x12, 0x13, 0x14, 0x15]).unwrap();
    let versions = vec![VERSION, 0x0a0a_0a0a];
    let expected = golden("header_version_list");
    let bytes = written(|w| encode_version_list(w, destination.as_slice(), source.as_slice(), &versions));
    assert_eq!(hex(&bytes), hex(&expected));
    let form = HeaderForm::VersionList { destination, source, versions };
    assert_eq!(decode_protected(&expected, 8).unwrap().form, form);
}

// spec 4.17
#[test]
fn parameters_are_written_and_read_as_the_specification_shows() {
    let mut parameters = Parameters::new(ConnectionId::from_u64(SOURCE));
    parameters.original_destination = Some(ConnectionId::from_u64(DESTINATION));
    parameters.idle_timeout = Duration::from_secs(30);
    parameters.initial_max_data = 1_572_864;
    parameters.initial_max_stream_data = 1 << 20;
    parameters.initial_max_streams = 256;
    parameters.max_datagram = 1472;
    parameters.reset_token = Some(TOKEN);
    parameters.application = b"copy".to_vec();
    parameters.max_message = 262_144;
    parameters.rendezvous = vec![address("192.0.2.7:4455")];
    parameters.rates = true;
    let expected = golden("parameters");
    assert_eq!(hex(&parameters.encode()), hex(&expected));
    assert_eq!(Parameters::decode(&expected), Ok(parameters));
}

// spec 10.2, 10.17
#[test]
fn datagrams_of_a_rendezvous_are_written_and_read_as_the_specification_shows() {
    let answer = Body::Answer { nonce: NONCE, seen: address("192.0.2.7:4433"), sealed: None };
    let (nonce, cookie, number) = (NONCE, TOKEN, 7);
    let ask = Ask { side: Side::Server, nonce, cookie, number, posted: 1, taken: 2, letter: None };
    let state = State { nonce, number, status: Status::Open, held: 1, posted: 2, letter: None };
    for (name, body) in [
        ("rendezvous_answer", answer),
        ("rendezvous_retry", Body::Retry { nonce, cookie }),
        ("rendezvous_ask", Body::Ask(ask)),
        ("rendezvous_state", Body::State(state)),
    ] {
        let message = Message { token: TOKEN, body };
        let expected = golden(name);
        assert_eq!(hex(&written(|w| message.encode(w))), hex(&expected), "{name}");
        assert_eq!(Message::decode(&expected), Ok(message), "{name}");
    }
}

#[test]
fn every_file_has_a_test_and_every_base_type_a_file() {
    let tested: BTreeSet<String> =
        blocks().iter().map(|(name, _)| *name).chain(OTHERS).map(String::from).collect();
    let files: BTreeSet<String> =
        names().into_iter().filter(|name| !name.starts_with(crate::mmsp1::PREFIX)).collect();
    assert_eq!(files, tested);

    let shown: BTreeSet<u8> = files
        .iter()
        .filter(|name| !["header", "parameters", "rendezvous"].iter().any(|other| name.starts_with(other)))
        .map(|name| golden(name)[0])
        .collect();
    let known: BTreeSet<u8> = (0..=u8::MAX).filter(|kind| is_known(*kind)).collect();
    assert_eq!(shown, known);
}

fn is_known(kind: u8) -> bool {
    let unknown = manyway_wire::DecodeError::UnknownBlock { kind, offset: 0 };
    Blocks::new(&[kind, 0, 0, 4]).next() != Some(Err(unknown))
}

fn blocks() -> Vec<(&'static str, Block<'static>)> {
    let mut all = control_blocks();
    all.extend(stream_blocks());
    all.extend(path_blocks());
    all
}

fn control_blocks() -> Vec<(&'static str, Block<'static>)> {
    let abort = Close { step: CloseStep::Abort, code: ErrorCode::from_alert(42).0, text: b"" };
    vec![
        ("syn", Block::Syn(Syn { info: &[] })),
        ("syn_ack", Block::SynAck(SynAck { info: INFO })),
        ("ping", Block::Ping(Ping { info: INFO })),
        ("ping_bare", Block::Ping(Ping { info: &[] })),
        ("pong", Block::Pong),
        ("probe", Block::Probe(Probe { nonce: NONCE })),
        ("probe_ack_ipv4", Block::ProbeAck(ProbeAck { nonce: NONCE, observed: address("192.0.2.7:4433") })),
        (
            "probe_ack_ipv6",
            Block::ProbeAck(ProbeAck { nonce: NONCE, observed: address("[2001:db8::1]:443") }),
        ),
        ("crypto", Block::Crypto(Crypto { offset: 300, data: b"hello" })),
        ("ack_now", Block::AckNow),
        ("close", Block::Close(Close { step: CloseStep::Fin, code: 0, text: b"bye" })),
        ("close_abort", Block::Close(abort)),
    ]
}

fn stream_blocks() -> Vec<(&'static str, Block<'static>)> {
    let (third, data) = (StreamId(4), b"abc");
    let connection = BlockedBy::Connection { limit: 63 };
    let stream = BlockedBy::Stream { stream: third, limit: 64 };
    let streams = BlockedBy::Streams { limit: 256 };
    vec![
        ("stream", Block::Stream(StreamData { stream: third, offset: 1_000_000, end: false, data })),
        ("stream_end", Block::Stream(StreamData { stream: StreamId(1), offset: 0, end: true, data: b"" })),
        (
            "message_begin",
            Block::Message(message(MessageId::ordered(2), MessagePlace::Begin { protocol: 51 })),
        ),
        ("message_end", Block::Message(message(MessageId::unordered(300), MessagePlace::At(1000)))),
        ("max_data", Block::MaxData(MaxData { credit: 1_572_864 })),
        ("max_stream_data", Block::MaxStreamData(MaxStreamData { stream: third, credit: 1 << 20 })),
        ("max_streams", Block::MaxStreams(MaxStreams { count: 256 })),
        (
            "reset_stream",
            Block::ResetStream(ResetStream { stream: StreamId(5), code: 9, final_size: 70_000 }),
        ),
        ("stop_sending", Block::StopSending(StopSending { stream: StreamId(5), code: 9 })),
        ("blocked_connection", Block::Blocked(Blocked { by: connection })),
        ("blocked_stream", Block::Blocked(Blocked { by: stream })),
        ("blocked_streams", Block::Blocked(Blocked { by: streams })),
    ]
}

/// A piece of a message of the client's third stream; one that does not begin the message ends it.
fn message(message: MessageId, place: MessagePlace) -> MessageData<'static> {
    MessageData { stream: StreamId(4), message, place, end: place.offset() > 0, data: b"abc" }
}

fn path_blocks() -> Vec<(&'static str, Block<'static>)> {
    let new_cid = NewCid {
        path: PathId(1),
        sequence: 2,
        retire_prior_to: 2,
        id: ConnectionId::from_u64(0x1122_3344_5566_7788),
        reset_token: TOKEN,
    };
    let added =
        AddAddress { id: 3, sequence: 0, priority: 200, cost: 1, address: address("198.51.100.9:4433") };
    let suspect =
        PathStatus { path: PATH, sequence: 7, state: PathAvailability::Suspect, cost: 10, rate: None };
    let available = PathAvailability::Available;
    let rate = Some(2_500_000);
    let fast = PathStatus { path: PATH, sequence: 8, state: available, cost: 0, rate };
    let age = Duration::from_millis(20);
    let answer = Liveness::Answer { path: PATH, largest: Some(500), age };
    let nothing = Liveness::Answer { path: PATH, largest: None, age: Duration::ZERO };
    let longest = NewCid { id: ConnectionId::from_slice(&LONGEST_ID).unwrap(), ..new_cid };
    vec![
        ("new_cid", Block::NewCid(new_cid)),
        ("new_cid_longest", Block::NewCid(longest)),
        ("retire_cid", Block::RetireCid(RetireCid { path: PathId(1), sequence: 1 })),
        ("add_address", Block::AddAddress(added)),
        ("remove_address", Block::RemoveAddress(RemoveAddress { id: 3, sequence: 1 })),
        ("path_status", Block::PathStatus(suspect)),
        ("path_status_rate", Block::PathStatus(fast)),
        ("path_close", Block::PathClose(PathClose { path: PATH, code: 0 })),
        ("liveness_query", Block::Liveness(Liveness::Query { path: PATH })),
        ("liveness_answer", Block::Liveness(answer)),
        ("liveness_nothing", Block::Liveness(nothing)),
        ("path_limit", Block::PathLimit(PathLimit { limit: 7 })),
        (
            "receive_limit",
            Block::ReceiveLimit(ReceiveLimit { path: PATH, sequence: 7, window: 8000, rate: None }),
        ),
        (
            "receive_limit_rate",
            Block::ReceiveLimit(ReceiveLimit { path: PATH, sequence: 8, window: 8000, rate: Some(100_000) }),
        ),
        ("tcp_connections", Block::TcpConnections(TcpConnections { sequence: 1, count: 5 })),
    ]
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    write(&mut Writer::new(&mut buffer, 1200));
    buffer
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/specification/golden")
}

/// The names of all files.
pub(crate) fn names() -> Vec<String> {
    fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect()
}

/// Reads a file of hex digits; `#` begins a comment.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(folder().join(name).with_extension("hex")).unwrap();
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().chars())
        .filter(|char| !char.is_whitespace())
        .map(|char| u8::try_from(char.to_digit(16).unwrap()).unwrap())
        .collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty(), "{name} has half a byte");
    pairs.iter().map(|[high, low]| (high << 4) | low).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(4)
        .map(|four| four.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + " ")
        .collect()
}
