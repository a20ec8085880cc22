//! A peer that aims at memory or processor time: floods of every block, within the rules and beyond.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{ConnectionConfig, ConnectionError, Event, PathId, ReadOutcome, Side, StreamId};
use manyway_sim::forger::{CLIENT, Duel, Sent};
use manyway_wire::mmsp2::{
    Block, Blocked, BlockedBy, ErrorCode, Liveness, PathAvailability, PathClose, PathLimit, PathStatus,
    Probe, ResetStream, RetireCid, StopSending, StreamData,
};

const MS: Duration = Duration::from_millis(1);

fn duel() -> Duel {
    Duel::new(Side::Server, &ConnectionConfig::default())
}

fn stream(index: u64) -> StreamId {
    StreamId::new(Side::Client, index)
}

fn bytes(sent: &[Sent]) -> usize {
    sent.iter().map(|sent| sent.bytes.len()).sum()
}

fn count(sent: &[Sent], test: impl Fn(&Block<'_>) -> bool) -> usize {
    sent.iter().map(|sent| sent.count(|block| test(block))).sum()
}

fn violation(duel: &mut Duel) -> Option<ErrorCode> {
    match duel.ended() {
        Some(ConnectionError::Violation(violation)) => Some(violation.code()),
        _ => None,
    }
}

// spec 9.2
#[test]
fn gaps_without_end_leave_64_ranges_in_an_acknowledgement_of_400_bytes() {
    let mut duel = duel();
    let mut sent = Vec::new();
    for _ in 0..10_000 {
        duel.skip(PathId::FIRST, 1);
        sent.extend(duel.send(&[Block::AckNow]));
    }
    assert_eq!(duel.ended(), None);
    let mut most = 0;
    for sent in &sent {
        assert!(sent.bytes.len() <= 400, "{}", sent.bytes.len());
        sent.for_each_block(|block| {
            if let Block::PathAck(ack) = block {
                most = most.max(ack.ranges.iter().count());
            }
        });
    }
    assert_eq!(most, 64);
    assert!(sent.len() <= 10_000 + 10, "{}", sent.len());
}

// spec 9.68
#[test]
fn fragmented_acknowledgements_are_accepted_and_not_answered() {
    let mut duel = duel();
    let open = Block::Stream(StreamData { stream: stream(0), offset: 0, end: false, data: b"get" });
    duel.send(&[open]);
    let accepted = duel.connection().accept_stream().unwrap();
    duel.connection().write(accepted, vec![7; 1 << 20].into()).unwrap();
    let before = duel.converse_for(300 * MS);
    assert!(before.len() > 500, "{}", before.len());
    // Every second one of all received numbers, in 500 packets of some hundred ranges each.
    let heard: Vec<_> =
        duel.heard(PathId::FIRST).into_iter().flat_map(|range| range.rev()).step_by(2).collect();
    let crumbs: Vec<_> = heard.iter().map(|number| *number..=*number).collect();
    let mut answers = 0;
    for round in 0..500 {
        let from = round % 7;
        let packet = duel.acknowledgement(PathId::FIRST, &crumbs[from..]);
        assert!(packet.len() > 500);
        duel.deliver(CLIENT, packet);
        answers += count(&duel.poll(), |block| matches!(block, Block::PathAck(_)));
    }
    assert_eq!((duel.ended(), answers), (None, 0));
}

// spec 6.16, 6.36
#[test]
fn floods_of_probe_are_answered_once_a_datagram_without_amplification() {
    let mut duel = duel();
    let probes: Vec<_> = (0..90).map(|nonce| Block::Probe(Probe { nonce })).collect();
    let answers: usize = (0..100).map(|_| count(&duel.send(&probes), is_probe_ack)).sum();
    assert!(answers <= 100, "{answers}");
    // From a thousand forged addresses, in the smallest possible packets, singly and all before the first answer.
    for batch in [1, 50] {
        let (mut received, mut sent) = (0, Vec::new());
        for number in 0..1000_u16 {
            let from = SocketAddr::from(([192, 0, 2, 1], 1 + number));
            let packet = duel.packet(PathId::FIRST, &[Block::Probe(Probe { nonce: u64::from(number) })]);
            received += packet.len();
            duel.deliver(from, packet);
            if number % batch == 0 {
                sent.extend(duel.poll());
            }
        }
        sent.extend(duel.run_for(Duration::from_secs(20)));
        sent.retain(|sent| sent.to != CLIENT);
        assert!(bytes(&sent) <= 2 * received, "{} for {received}", bytes(&sent));
        assert!(sent.len() <= 1000, "{}", sent.len());
    }
    assert_eq!(duel.ended(), None);
}

fn is_probe_ack(block: &Block<'_>) -> bool {
    matches!(block, Block::ProbeAck(_))
}

// spec 6.22, 6.62
#[test]
fn liveness_queries_are_answered_16_at_a_time() {
    let mut duel = duel();
    let questions = vec![Block::Liveness(Liveness::Query { path: PathId::FIRST }); 140];
    for _ in 0..20 {
        let sent = duel.send(&questions);
        assert!(count(&sent, |block| matches!(block, Block::Liveness(_))) <= 16);
        assert!(bytes(&sent) <= 1200);
        // Nothing is reported about an unknown path.
        let unknown = duel.send(&vec![Block::Liveness(Liveness::Query { path: PathId(7) }); 140]);
        assert_eq!(count(&unknown, |block| matches!(block, Block::Liveness(_))), 0);
    }
    assert_eq!(duel.ended(), None);
}

// spec 6.9, 6.118
#[test]
fn a_retired_id_costs_one_other_id_and_only_issued_ids_can_be_retired() {
    let mut duel = duel();
    let mut given = 0;
    for round in 0..1000 {
        let path = PathId(1 + round % 7);
        let (_, sequence) = duel.victim_id(path).unwrap();
        let back = Block::RetireCid(RetireCid { path, sequence });
        given += count(&duel.send(&[back]), |block| matches!(block, Block::NewCid(_)));
        // Repeatedly: it is retired already.
        given += count(&duel.send(&vec![back; 100]), |block| matches!(block, Block::NewCid(_)));
        duel.acknowledge(PathId::FIRST);
    }
    assert_eq!((duel.ended(), given), (None, 1000));
}

// spec 6.10
#[test]
fn a_path_limit_of_all_ids_gets_ids_for_eight_paths() {
    let mut duel = duel();
    let limit = Block::PathLimit(PathLimit { limit: u32::MAX });
    let sent: Vec<_> = (0..100).flat_map(|_| duel.send(&[limit; 10])).collect();
    assert_eq!(count(&sent, |block| matches!(block, Block::NewCid(_))), 0, "they have ids already");
    assert_eq!(duel.ended(), None);
}

// spec 6.10
#[test]
fn paths_opened_and_closed_in_a_loop_cost_two_ids_and_a_limit_each_and_leave_eight() {
    let mut duel = duel();
    let (mut sent, rounds) = (Vec::new(), 2000);
    for round in 1..=rounds {
        let path = PathId(round);
        let hello = duel.packet(path, &[Block::AckNow]);
        duel.deliver(CLIENT, hello);
        sent.extend(duel.poll());
        let paths = duel.connection().statistics().paths.len();
        assert!(paths <= 2, "{paths}");
        sent.extend(duel.send(&[Block::PathClose(PathClose { path, code: 0 })]));
        sent.extend(duel.acknowledge(PathId::FIRST));
    }
    assert_eq!(duel.ended(), None);
    let rounds = usize::try_from(rounds).unwrap();
    assert!(count(&sent, |block| matches!(block, Block::NewCid(_))) <= 2 * rounds);
    assert!(count(&sent, |block| matches!(block, Block::PathLimit(_))) <= rounds);
    assert!(bytes(&sent) <= 400 * rounds, "{}", bytes(&sent) / rounds);
    // Without ever opening one: the same, and gaps in the numbers are remembered in eight ranges at most.
    let mut next = u32::try_from(rounds).unwrap();
    for _ in 0..rounds {
        next += 1;
        duel.send(&[Block::PathClose(PathClose { path: PathId(next), code: 0 })]);
        duel.acknowledge(PathId::FIRST);
    }
    // A path beyond the limit, or one closed before, is ignored.
    let closed = duel.packet(PathId(5), &[Block::AckNow]);
    duel.deliver(CLIENT, closed);
    duel.send(&[Block::PathClose(PathClose { path: PathId(u32::MAX), code: 0 })]);
    assert_eq!((duel.ended(), duel.connection().statistics().paths.len()), (None, 1));
}

// spec 8.4, 8.45
#[test]
fn streams_opened_and_reset_in_a_loop_stop_at_the_limit_until_the_application_has_seen_them() {
    let mut duel = duel();
    let both = |index: u64| {
        [
            Block::ResetStream(ResetStream { stream: stream(index), code: 1, final_size: 0 }),
            Block::StopSending(StopSending { stream: stream(index), code: 2 }),
        ]
    };
    let mut sent = Vec::new();
    for index in 0..320 {
        sent.extend(duel.send(&both(index)));
        sent.extend(duel.acknowledge(PathId::FIRST));
    }
    assert_eq!(duel.ended(), None);
    assert_eq!(
        count(&sent, |block| matches!(block, Block::MaxStreams(_))),
        0,
        "the application has seen none of them"
    );
    assert_eq!(count(&sent, |block| matches!(block, Block::ResetStream(_))), 320);
    assert!(duel.events.len() <= 364, "{}", duel.events.len());
    duel.send(&both(320));
    assert_eq!(violation(&mut duel), Some(ErrorCode::STREAM_LIMIT));
}

// spec 8.4, 8.45
#[test]
fn streams_opened_and_reset_in_a_loop_cost_one_reset_and_four_events_each() {
    let mut duel = duel();
    let (mut sent, streams) = (Vec::new(), 5000);
    for index in 0..streams {
        let reset = Block::ResetStream(ResetStream { stream: stream(index), code: 1, final_size: 0 });
        let stop = Block::StopSending(StopSending { stream: stream(index), code: 2 });
        // Repeated a hundred times.
        let blocks: Vec<_> = (0..50).flat_map(|_| [reset, stop]).collect();
        sent.extend(duel.send(&blocks[..40]));
        while let Some(accepted) = duel.connection().accept_stream() {
            assert!(matches!(duel.connection().read(accepted, 1), Ok(ReadOutcome::Reset(1))));
        }
        sent.extend(duel.poll());
        sent.extend(duel.acknowledge(PathId::FIRST));
    }
    assert_eq!(duel.ended(), None);
    let streams = usize::try_from(streams).unwrap();
    assert_eq!(count(&sent, |block| matches!(block, Block::ResetStream(_))), streams);
    assert!(duel.events.len() <= 4 * streams + 10, "{}", duel.events.len());
    assert!(bytes(&sent) <= 150 * streams, "{}", bytes(&sent) / streams);
}

// spec 8.19
#[test]
fn fragments_over_all_streams_are_refused_at_half_a_window_of_overhead() {
    let mut duel = duel();
    let mut crumbs = 0;
    'flood: for offset in 0..10_000 {
        for index in 0..256 {
            let crumb = StreamData { stream: stream(index), offset: 2 * offset + 1, end: false, data: b"x" };
            duel.send(&[Block::Stream(crumb)]);
            if duel.ended().is_some() {
                break 'flood;
            }
            crumbs += 1;
        }
    }
    assert_eq!(violation(&mut duel), Some(ErrorCode::PROTOCOL));
    assert_eq!(crumbs, 3 * (1 << 20) / 2 / 2 / 128);
}

// spec 5.8a, 5.94
#[test]
fn floods_of_blocks_without_effect_are_acknowledged_and_cost_nothing_else() {
    let status = |sequence, state| {
        let cost = u8::try_from(sequence % 256).unwrap();
        Block::PathStatus(PathStatus { path: PathId::FIRST, sequence, state, cost, rate: None })
    };
    let blocked = [
        Block::Blocked(Blocked { by: BlockedBy::Connection { limit: 0 } }),
        Block::Blocked(Blocked { by: BlockedBy::Streams { limit: 0 } }),
        Block::Blocked(Blocked { by: BlockedBy::Stream { stream: stream(0), limit: 0 } }),
    ];
    let mut duel = duel();
    let mut sent = Vec::new();
    for round in 0..1000 {
        sent.extend(duel.send(&blocked));
        sent.extend(duel.send(&[status(2 * round + 1, PathAvailability::Backup)]));
        sent.extend(duel.send(&[status(2 * round + 2, PathAvailability::Available)]));
        sent.extend(duel.run_for(MS));
        if round % 20 == 0 {
            sent.extend(duel.acknowledge(PathId::FIRST));
        }
    }
    assert_eq!(duel.ended(), None);
    assert!(bytes(&sent) <= 3000 * 60, "{}", bytes(&sent));
    assert!(duel.events.iter().filter(|event| matches!(event, Event::Path(_))).count() <= 10);
}

// spec 2.6, 2.12
#[test]
fn blocks_outside_the_agreed_set_end_the_connection_with_one_close() {
    for kind in [0, 1, 6, 7, 8, 9, 0x0a, 0x60, 0x97, 0x99, 0x9a, 0x9c, 0x9f, 0xff] {
        let mut duel = duel();
        let packet = duel.packet_of(PathId::FIRST, &[kind, 0, 0, 8, 1, 2, 3, 4]);
        duel.deliver(CLIENT, packet);
        let words = duel.poll();
        assert_eq!((violation(&mut duel), words.len()), (Some(ErrorCode::MALFORMED), 1), "{kind:#04x}");
    }
}

// spec 2.12
#[test]
fn messages_without_agreement_end_the_connection_with_one_close() {
    let mut config = ConnectionConfig::default();
    config.streams.max_message = 0;
    for kind in [0x83, 0x84] {
        let mut duel = Duel::new(Side::Server, &config);
        let packet = duel.packet_of(PathId::FIRST, &[kind, 0, 0, 7, 0, 2, 3, 0]);
        duel.deliver(CLIENT, packet);
        let words = duel.poll();
        assert_eq!((violation(&mut duel), words.len()), (Some(ErrorCode::PROTOCOL), 1), "{kind:#04x}");
    }
}
