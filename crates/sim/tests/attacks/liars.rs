//! A peer that lies about received packets, credit and issued IDs.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_proto::{ConnectionConfig, ConnectionError, PathId, Side, StreamId, Violation};
use manyway_sim::forger::Duel;
use manyway_wire::ConnectionId;
use manyway_wire::mmsp2::{
    Block, ErrorCode, MaxData, MaxStreamData, MaxStreams, NewCid, ResetStream, RetireCid, StopSending,
    StreamData,
};

const MS: Duration = Duration::from_millis(1);
const MIB: u64 = 1 << 20;

fn duel(victim: Side) -> Duel {
    Duel::new(victim, &ConnectionConfig::default())
}

/// The forger's `index`-th stream.
fn stream(index: u64) -> StreamId {
    StreamId::new(Side::Client, index)
}

/// A duel in which the victim, a server, wants to send this many bytes.
fn sending(bytes: usize) -> Duel {
    let mut duel = duel(Side::Server);
    let open = Block::Stream(StreamData { stream: stream(0), offset: 0, end: false, data: b"get" });
    let credit = u64::MAX >> 2;
    let window = Block::MaxStreamData(MaxStreamData { stream: stream(0), credit });
    duel.send(&[open, window, Block::MaxData(MaxData { credit })]);
    let accepted = duel.connection().accept_stream().unwrap();
    let taken = duel.connection().write(accepted, vec![7; bytes].into()).unwrap();
    assert!(taken > 0);
    duel
}

fn violation(duel: &mut Duel) -> Option<ErrorCode> {
    match duel.ended() {
        Some(ConnectionError::Violation(violation)) => Some(violation.code()),
        _ => None,
    }
}

// spec 9.8, 9.29
#[test]
fn an_optimistic_acker_is_caught_within_260_packets() {
    let mut duel = sending(4 << 20);
    let mut sent = Vec::new();
    for _ in 0..1000 {
        sent.extend(duel.run_for(5 * MS));
        let Some(largest) = duel.heard(PathId::FIRST).first().map(|range| *range.end()) else { continue };
        let packet = duel.acknowledgement(PathId::FIRST, &[0..=largest]);
        duel.deliver(duel.source, packet);
        if duel.ended().is_some() {
            break;
        }
    }
    let ended = duel.ended();
    assert!(
        matches!(ended, Some(ConnectionError::Violation(Violation::AckOfUnsent { path: PathId(0), .. }))),
        "{ended:?}"
    );
    // The first flight doubles: at the time of the lie at most twice as much was sent as it covers.
    assert!(sent.len() <= 2 * 260, "{}", sent.len());
}

// spec 9.29
#[test]
fn an_honest_acker_meets_about_one_skipped_number_in_a_thousand_and_nothing_is_lost() {
    let mut duel = sending(4 << 20);
    let stream = stream(0);
    for _ in 0..400 {
        duel.converse_for(20 * MS);
        let _ = duel.connection().write(stream, vec![7; 1 << 20].into());
    }
    assert_eq!(duel.ended(), None);
    let heard = duel.heard(PathId::FIRST);
    let largest = usize::try_from(*heard[0].end()).unwrap();
    assert!(largest > 3000, "{largest}");
    let gaps = heard.len() - 1;
    assert!(gaps >= largest / 1700 && gaps <= largest / 512 + 1, "{gaps} in {largest}");
    let path = duel.connection().statistics().paths[0];
    assert_eq!(path.packets_lost, 0, "a number that was left out is no lost packet");
}

// spec 9.8
#[test]
fn an_acknowledgement_of_unsent_packets_ends_the_connection() {
    let future: [&[RangeInclusive<u64>]; 3] =
        [&[1 << 20..=1 << 20], &[(1 << 62) - 1..=(1 << 62) - 1], &[500..=600, 0..=3]];
    for ranges in future {
        let mut duel = sending(100);
        duel.run_for(5 * MS);
        let packet = duel.acknowledgement(PathId::FIRST, ranges);
        duel.deliver(duel.source, packet);
        assert_eq!(violation(&mut duel), Some(ErrorCode::PROTOCOL), "{ranges:?}");
        // One close, and one more for the 1st, 2nd, 4th, 8th… packet that still arrives.
        let mut words = duel.poll().len();
        for _ in 0..1000 {
            words += duel.send(&[Block::AckNow]).len();
        }
        assert!((1..=11).contains(&words), "{words}");
    }
}

// spec 8.1 to 8.6, 8.16
#[test]
fn false_credit_ends_and_stream_numbers_are_refused() {
    let data = |index, offset, length: usize, end| {
        let data = &[7; 1000][..length];
        Block::Stream(StreamData { stream: stream(index), offset, end, data })
    };
    let reset =
        |index, final_size| Block::ResetStream(ResetStream { stream: stream(index), code: 0, final_size });
    let of_victim = StreamId::new(Side::Server, 0);
    let cases: [(&str, Vec<Block<'_>>, ErrorCode); 14] = [
        ("behind the stream's credit", vec![data(0, MIB - 9, 10, false)], ErrorCode::FLOW_CONTROL),
        ("far behind it", vec![data(0, (1 << 62) - 11, 10, false)], ErrorCode::FLOW_CONTROL),
        (
            "behind the connection's credit",
            vec![data(0, MIB - 10, 10, false), data(1, MIB / 2 - 9, 10, false)],
            ErrorCode::FLOW_CONTROL,
        ),
        ("a reset behind the credit", vec![reset(0, MIB + 1)], ErrorCode::FLOW_CONTROL),
        (
            "resets behind the connection's credit",
            vec![reset(0, MIB), reset(1, MIB / 2 + 1)],
            ErrorCode::FLOW_CONTROL,
        ),
        ("two ends", vec![data(0, 0, 10, true), data(0, 0, 9, true)], ErrorCode::FINAL_SIZE),
        ("an end below", vec![data(0, 90, 10, false), data(0, 0, 9, true)], ErrorCode::FINAL_SIZE),
        ("bytes behind the end", vec![data(0, 0, 10, true), data(0, 10, 1, false)], ErrorCode::FINAL_SIZE),
        ("a reset elsewhere", vec![data(0, 0, 10, true), reset(0, 11)], ErrorCode::FINAL_SIZE),
        ("a reset below", vec![data(0, 90, 10, false), reset(0, 99)], ErrorCode::FINAL_SIZE),
        ("a stream too many", vec![data(320, 0, 1, false)], ErrorCode::STREAM_LIMIT),
        ("the last stream of all", vec![data((1 << 61) - 1, 0, 1, false)], ErrorCode::STREAM_LIMIT),
        (
            "bytes of a stream that the victim never opened",
            vec![Block::Stream(StreamData { stream: of_victim, offset: 0, end: false, data: b"x" })],
            ErrorCode::STREAM_STATE,
        ),
        (
            "a stop of such a stream",
            vec![Block::StopSending(StopSending { stream: of_victim, code: 0 })],
            ErrorCode::STREAM_STATE,
        ),
    ];
    for (name, blocks, code) in cases {
        let mut duel = duel(Side::Server);
        let words = duel.send(&blocks);
        assert_eq!(violation(&mut duel), Some(code), "{name}");
        assert_eq!((words.len(), words[0].count(|block| matches!(block, Block::Close(_)))), (1, 1), "{name}");
    }
}

// spec 5.85
#[test]
fn credit_that_goes_back_has_no_effect() {
    let mut duel = sending(4 << 20);
    let back = [
        Block::MaxData(MaxData { credit: 0 }),
        Block::MaxStreamData(MaxStreamData { stream: stream(0), credit: 0 }),
        Block::MaxStreams(MaxStreams { count: 0 }),
    ];
    let mut bytes = 0;
    for _ in 0..600 {
        bytes += duel.converse_for(5 * MS).iter().map(|sent| sent.bytes.len()).sum::<usize>();
        duel.send(&back);
    }
    assert_eq!(duel.ended(), None);
    assert!(bytes > 4 << 20, "everything is sent: {bytes}");
}

// spec 6.117, 6.118
#[test]
fn ids_beyond_the_limit_out_of_order_or_never_issued_are_refused() {
    let id = |path: u32, sequence: u64, value: u64| {
        Block::NewCid(NewCid {
            path: PathId(path),
            sequence,
            retire_prior_to: 0,
            id: ConnectionId::from_u64(value),
            reset_token: [7; 16],
        })
    };
    let back = |path: u32, sequence| Block::RetireCid(RetireCid { path: PathId(path), sequence });
    let cases = [
        ("a fifth id", (2..6).map(|n| id(1, n, n)).collect::<Vec<_>>()),
        ("two ids with one number", vec![id(1, 7, 1), id(1, 7, 2)]),
        ("an id for a path beyond the limit", vec![id(8, 0, 1)]),
        ("an id for the last path of all", vec![id(u32::MAX, 0, 1)]),
        ("an id that was never issued", vec![back(0, 9)]),
        // The victim replaces the first by number 2, and has not yet announced it.
        ("an id that was never told", vec![back(1, 0), back(1, 2)]),
    ];
    for (name, blocks) in cases {
        let mut duel = duel(Side::Server);
        duel.send(&blocks);
        assert_eq!(violation(&mut duel), Some(ErrorCode::CONNECTION_ID), "{name}");
    }
}

// spec 8.5, 9.26
#[test]
fn a_peer_that_accepts_nothing_costs_at_most_the_send_buffer_and_gets_at_most_the_first_window() {
    // It gives no credit at all, or all of it and no acknowledgement.
    for credit in [0, u64::MAX >> 2] {
        let mut duel = duel(Side::Server);
        let open = Block::Stream(StreamData { stream: stream(0), offset: 0, end: false, data: b"get" });
        let more = Block::MaxStreamData(MaxStreamData { stream: stream(0), credit });
        duel.send(&[open, more, Block::MaxData(MaxData { credit })]);
        let accepted = duel.connection().accept_stream().unwrap();
        let (mut taken, mut bytes) = (0, 0);
        for _ in 0..2000 {
            taken += duel.connection().write(accepted, vec![7; 1 << 16].into()).unwrap_or(0);
            bytes += duel.run_for(5 * MS).iter().map(|sent| sent.bytes.len()).sum::<usize>();
            // It is alive, but acknowledges nothing.
            duel.send(&[Block::Padding]);
        }
        assert!(taken <= 4 << 20, "{taken}");
        // Ten datagrams, and probes at growing intervals.
        assert!(bytes <= 60_000, "{bytes} with credit {credit}");
    }
}

// spec 7.27
#[test]
fn a_key_at_its_aead_limit_ends_the_connection_and_the_peer_is_told() {
    let mut config = ConnectionConfig::default();
    config.key_limits.max_sealed = 500;
    let mut duel = Duel::new(Side::Server, &config);
    // Requests acknowledgements and sends none: the victim updates keys at the limit, and then cannot any more.
    let (mut sent, mut last) = (0, Vec::new());
    while duel.ended().is_none() && sent < 2000 {
        last = duel.send(&[Block::AckNow]);
        sent += last.len();
    }
    assert_eq!(violation(&mut duel), Some(ErrorCode::AEAD_LIMIT));
    assert!((700..1000).contains(&sent), "{sent}");
    // The last acknowledgement, and a close in one of the packets reserved for it.
    assert_eq!(last.len(), 2);
}
