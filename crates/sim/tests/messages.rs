//! Messages over whole connections: order, boundaries, lifetimes, credit, urgency, and peers that violate the protocol.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use bytes::Bytes;
use manyway_proto::{
    ByteCount, Class, Connection, ConnectionConfig, ConnectionError, Event, Instant, MessageOptions,
    MessageStatistics, MessageToken, Order, SendError, StreamId, Violation,
};
use manyway_sim::forger::Duel;
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, connected_with, mbit, megabytes, path_figures};
use manyway_sim::traffic::{Delivery, Exchange};
use manyway_sim::{EndpointPair, PairBuilder, Side};
use manyway_wire::mmsp2::{Block, ErrorCode, MessageData, MessageId, MessagePlace, StreamData};

fn two_paths() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(10), 30 * MS)
}

fn lossy(percent: f64) -> PairBuilder {
    let link = |rate, delay| {
        LinkConfig::new(mbit(rate), delay).with_loss(LossModel::Random(Probability::from_percent(percent)))
    };
    let (fast, slow) = (link(20, 10 * MS), link(10, 30 * MS));
    PairBuilder::new().path_with(fast.clone(), fast).path_with(slow.clone(), slow)
}

fn connection(pair: &mut EndpointPair, side: Side) -> &mut Connection {
    pair.peer(side).unwrap().connection().unwrap()
}

fn open(pair: &mut EndpointPair) -> StreamId {
    connection(pair, Side::Client).open_stream().unwrap()
}

fn send(pair: &mut EndpointPair, stream: StreamId, data: Bytes, options: MessageOptions) -> MessageToken {
    let now = pair.now();
    connection(pair, Side::Client).send_message(now, stream, data, options).unwrap()
}

fn unordered() -> MessageOptions {
    MessageOptions::default().order(Order::Unordered)
}

/// The figures of the client's messages.
fn figures(pair: &mut EndpointPair) -> MessageStatistics {
    connection(pair, Side::Client).statistics().messages
}

/// A message that names itself by its first bytes and fills the rest with them.
fn named(name: u32, size: usize) -> Bytes {
    name.to_be_bytes().into_iter().cycle().take(size.max(4)).collect()
}

fn name_of(delivery: &Delivery) -> u32 {
    let (head, _) = delivery.message.data.split_first_chunk().unwrap();
    let name = u32::from_be_bytes(*head);
    assert_eq!(delivery.message.data, named(name, delivery.message.data.len()), "it came as it was sent");
    name
}

fn names(pair: &EndpointPair) -> Vec<u32> {
    pair.messages(Side::Server).iter().map(name_of).collect()
}

fn bulk(pair: &mut EndpointPair) {
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(500))));
}

// spec 8.29
#[test]
fn ordered_messages_of_any_size_arrive_complete_and_in_order_despite_losses() {
    let mut pair = connected(lossy(3.0)).unwrap();
    let stream = open(&mut pair);
    let most = usize::try_from(connection(&mut pair, Side::Client).max_message().unwrap()).unwrap();
    let sizes = [0, 1, 100, 1_199, 1_200, 1_201, 65_535, 65_536, most - 1, most];
    for (name, size) in (0_u32..).zip(sizes) {
        send(&mut pair, stream, named(name, size), MessageOptions::default().protocol(name));
    }
    send(&mut pair, stream, Bytes::new(), MessageOptions::default());
    pair.run_for(10 * SECOND).unwrap();
    let (last, named) = pair.messages(Side::Server).split_last().unwrap();
    assert!(last.message.data.is_empty());
    assert_eq!(named.iter().map(name_of).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let kept = |delivery: &Delivery| (delivery.message.protocol, delivery.message.data.len());
    let sent: Vec<_> = (0_u32..).zip(sizes.map(|size| size.max(4))).collect();
    assert_eq!(named.iter().map(kept).collect::<Vec<_>>(), sent);
    assert_eq!(figures(&mut pair).delivered, 11);
}

// spec 8.29
#[test]
fn an_unordered_message_does_not_wait_and_an_ordered_one_waits_for_those_before_it() {
    let mut pair = connected(two_paths()).unwrap();
    let stream = open(&mut pair);
    for order in [Order::Ordered, Order::Unordered] {
        let before = pair.messages(Side::Server).len();
        let options = MessageOptions::default().order(order);
        // The first one is lost with everything for 5 ms, so that only the retransmission delivers it.
        (0..2).for_each(|path| pair.cut(path, Direction::Up));
        send(&mut pair, stream, named(1, 100), options);
        pair.run_for(5 * MS).unwrap();
        (0..2).for_each(|path| pair.restore(path, Direction::Up));
        send(&mut pair, stream, named(2, 100), options);
        pair.run_for(SECOND).unwrap();
        let expected = if order == Order::Ordered { [1, 2] } else { [2, 1] };
        assert_eq!(names(&pair)[before..], expected, "{order:?}");
    }
}

// spec 8.29
#[test]
fn a_stream_with_a_missing_message_blocks_no_other() {
    let mut pair = connected(two_paths()).unwrap();
    let (first, second) = (open(&mut pair), open(&mut pair));
    (0..2).for_each(|path| pair.cut(path, Direction::Up));
    send(&mut pair, first, named(1, 100), MessageOptions::default());
    pair.run_for(5 * MS).unwrap();
    (0..2).for_each(|path| pair.restore(path, Direction::Up));
    send(&mut pair, first, named(2, 100), MessageOptions::default());
    send(&mut pair, second, named(3, 100), MessageOptions::default());
    pair.run_for(SECOND).unwrap();
    assert_eq!(names(&pair), [3, 1, 2]);
}

#[test]
fn a_path_that_dies_in_the_middle_of_messages_loses_none_of_them() {
    let mut pair = connected(two_paths()).unwrap();
    let stream = open(&mut pair);
    for name in 0..40 {
        send(&mut pair, stream, named(name, 60_000), MessageOptions::default());
    }
    pair.run_for(200 * MS).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(10 * SECOND).unwrap();
    assert_eq!(names(&pair), (0..40).collect::<Vec<_>>());
}

#[test]
fn a_fragment_is_cut_again_for_a_path_that_carries_less() {
    let wide = LinkConfig::new(mbit(20), 10 * MS);
    let narrow = LinkConfig::new(mbit(20), 30 * MS).with_mtu(1_280);
    let builder = PairBuilder::new().path_with(wide.clone(), wide).path_with(narrow.clone(), narrow);
    let mut pair = connected(builder).unwrap();
    pair.run_for(2 * SECOND).unwrap();
    let stream = open(&mut pair);
    for name in 0..20 {
        send(&mut pair, stream, named(name, 1_400), unordered());
    }
    pair.run_for(MS).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(5 * SECOND).unwrap();
    let mut arrived = names(&pair);
    arrived.sort_unstable();
    assert_eq!(arrived, (0..20).collect::<Vec<_>>());
}

// spec 8.31
#[test]
fn a_message_above_the_agreed_size_is_refused_when_it_is_sent() {
    let mut config = ConnectionConfig::default();
    config.streams.max_message = 5_000;
    let mut pair = connected_with(two_paths(), &config).unwrap();
    let stream = open(&mut pair);
    let now = pair.now();
    let client = connection(&mut pair, Side::Client);
    assert_eq!(client.max_message(), Some(5_000));
    let refused = client.send_message(now, stream, vec![0; 5_001].into(), unordered());
    assert_eq!(refused, Err(SendError::TooLarge { size: 5_001, most: 5_000 }));
    assert!(client.send_message(now, stream, vec![0; 5_000].into(), unordered()).is_ok());
}

// spec 2.12
#[test]
fn an_end_that_takes_no_messages_is_sent_none() {
    let mut none = ConnectionConfig::default();
    none.streams.max_message = 0;
    let mut pair = manyway_sim::endpoint_pair_with(two_paths(), &ConnectionConfig::default(), &none);
    pair.connect(SECOND).unwrap();
    let stream = open(&mut pair);
    let now = pair.now();
    let client = connection(&mut pair, Side::Client);
    assert_eq!(client.max_message(), None);
    assert_eq!(client.send_message(now, stream, Bytes::new(), unordered()), Err(SendError::NotAgreed));
}

// spec 8.49
#[test]
fn a_message_that_cannot_arrive_in_its_lifetime_is_dropped_before_it_is_sent() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 30 * MS)).unwrap();
    pair.run_for(SECOND).unwrap();
    let stream = open(&mut pair);
    let lost = send(&mut pair, stream, named(1, 100), MessageOptions::default().lifetime(20 * MS));
    send(&mut pair, stream, named(2, 100), MessageOptions::default().lifetime(50 * MS));
    pair.run_for(SECOND).unwrap();
    assert_eq!(names(&pair), [2]);
    let figures = figures(&mut pair);
    assert_eq!((figures.sent, figures.delivered, figures.abandoned, figures.dropped), (1, 1, 1, 1));
    let events = pair.peer(Side::Client).unwrap().events();
    let told = Event::MessageAbandoned { stream, message: lost };
    assert!(events.iter().any(|(_, event)| *event == told));
}

// spec 8.34, 8.49
#[test]
fn an_expired_message_is_skipped_and_does_not_block_later_ones() {
    let mut pair = connected(two_paths()).unwrap();
    let stream = open(&mut pair);
    (0..2).for_each(|path| pair.cut(path, Direction::Both));
    send(&mut pair, stream, named(1, 3_000), MessageOptions::default().lifetime(60 * MS));
    send(&mut pair, stream, named(2, 100), MessageOptions::default());
    pair.run_for(500 * MS).unwrap();
    (0..2).for_each(|path| pair.restore(path, Direction::Both));
    pair.run_for(3 * SECOND).unwrap();
    assert_eq!(names(&pair), [2]);
    let figures = figures(&mut pair);
    assert_eq!((figures.delivered, figures.abandoned), (1, 1));
}

// spec 8.59
#[test]
fn messages_that_are_sent_once_are_lost_as_often_as_packets_and_none_comes_late() {
    let mut pair = connected(lossy(10.0)).unwrap();
    let stream = open(&mut pair);
    let begin = pair.now();
    for name in 0..1_000 {
        send(&mut pair, stream, named(name, 200), unordered().transmissions(1));
        pair.run_for(5 * MS).unwrap();
    }
    pair.run_for(2 * SECOND).unwrap();
    let figures = figures(&mut pair);
    let arrived = pair.messages(Side::Server);
    assert_eq!(figures.delivered + figures.abandoned, 1_000);
    assert!((850..950).contains(&arrived.len()), "{}", arrived.len());
    // One-way delay and a nearly empty queue.
    let slowest = arrived.iter().map(|one| one.at - (begin + 5 * MS * name_of(one))).max().unwrap();
    assert!(slowest < 40 * MS, "{slowest:?}");
}

// spec 8.32, 8.34
#[test]
fn the_credit_of_abandoned_messages_returns_to_both_ends() {
    let mut config = ConnectionConfig::default();
    config.streams.stream_receive_window = 64 << 10;
    config.streams.connection_receive_window = 64 << 10;
    config.streams.max_window = 64 << 10;
    let mut pair = connected_with(lossy(20.0), &config).unwrap();
    let stream = open(&mut pair);
    // Many times the windows, nearly all of it abandoned: any leak would stop the rest.
    for name in 0..600 {
        let options = unordered().transmissions(1 + name % 2).lifetime(200 * MS);
        let now = pair.now();
        let _full =
            connection(&mut pair, Side::Client).send_message(now, stream, named(name, 9_000), options);
        pair.run_for(10 * MS).unwrap();
    }
    pair.run_for(5 * SECOND).unwrap();
    let before = figures(&mut pair);
    assert!(before.abandoned > 100, "{before:?}");
    for name in 1_000..1_020 {
        send(&mut pair, stream, named(name, 2_000), MessageOptions::default());
    }
    pair.run_for(20 * SECOND).unwrap();
    let reliable: Vec<_> = names(&pair).into_iter().filter(|name| *name >= 1_000).collect();
    assert_eq!(reliable, (1_000..1_020).collect::<Vec<_>>());
    // A message of the largest size still fits: no credit is missing. (A thirty-second is reserved, spec 8.42.)
    let most = usize::try_from(connection(&mut pair, Side::Client).max_message().unwrap()).unwrap();
    assert_eq!(most, (62 << 10) - 128);
    send(&mut pair, stream, named(2_000, most), MessageOptions::default());
    pair.run_for(20 * SECOND).unwrap();
    assert_eq!(names(&pair).last(), Some(&2_000));
}

#[test]
fn a_stream_of_messages_ends_and_both_ends_drop_it() {
    let mut pair = connected(lossy(5.0)).unwrap();
    let stream = open(&mut pair);
    for name in 0..50 {
        send(&mut pair, stream, named(name, 5_000), unordered().transmissions(2));
    }
    connection(&mut pair, Side::Client).finish(stream).unwrap();
    let client = pair.host(Side::Client);
    pair.reference_mut().on_finish(client, stream);
    pair.run_for(10 * SECOND).unwrap();
    let events = pair.peer(Side::Client).unwrap().events();
    assert!(events.iter().any(|(_, event)| *event == Event::StreamFinished(stream)));
    let now = pair.now();
    let client = connection(&mut pair, Side::Client);
    assert!(client.send_message(now, stream, Bytes::new(), unordered()).is_err());
}

#[test]
fn closing_waits_for_messages_in_flight() {
    let mut pair = connected(two_paths()).unwrap();
    let stream = open(&mut pair);
    for name in 0..20 {
        send(&mut pair, stream, named(name, 50_000), MessageOptions::default());
    }
    let now = pair.now();
    connection(&mut pair, Side::Client).close(now, 0, "done");
    let ended = pair.run_until(MINUTE, "closed", |pair| pair.messages(Side::Server).len() == 20);
    assert!(ended.is_ok(), "{ended:?}");
}

/// Latencies of messages of 100 bytes beside bulk, sorted, and how many were sent.
fn latencies_beside_bulk(builder: PairBuilder, options: MessageOptions) -> (Vec<Duration>, usize) {
    let mut pair = connected(builder).unwrap();
    bulk(&mut pair);
    pair.run_for(2 * SECOND).unwrap();
    let stream = open(&mut pair);
    let (begin, count) = (pair.now(), 500);
    for name in 0..count {
        send(&mut pair, stream, named(name, 100), options);
        pair.run_for(10 * MS).unwrap();
    }
    pair.run_for(2 * SECOND).unwrap();
    let messages = pair.messages(Side::Server).iter();
    let mut latencies: Vec<_> = messages.map(|one| one.at - (begin + 10 * MS * name_of(one))).collect();
    latencies.sort_unstable();
    (latencies, usize::try_from(count).unwrap())
}

// spec 8.36
#[test]
fn interactive_messages_beside_bulk_use_the_fast_path() {
    // Round trips of 10 and 100 ms; queues that are no longer than necessary, since they delay everything.
    let link = |delay| LinkConfig::new(mbit(20), delay).with_queue_time(10 * MS);
    let (fast, slow) = (link(5 * MS), link(50 * MS));
    let builder = PairBuilder::new().path_with(fast.clone(), fast).path_with(slow.clone(), slow);
    let (latencies, sent) = latencies_beside_bulk(builder, unordered().class(Class::Interactive));
    assert_eq!(latencies.len(), sent);
    let at = |permille: usize| latencies[sent * permille / 1_000];
    println!("p50 {:?} p99 {:?} max {:?}", at(500), at(990), latencies[sent - 1]);
    assert!(at(990) <= 20 * MS, "p50 {:?} p99 {:?}", at(500), at(990));
}

// spec 8.36, 8.39
#[test]
fn messages_with_a_deadline_that_are_sent_twice_survive_losses_and_an_outage_in_time() {
    // 30 kB/s for a minute; each path loses 2 %, and the fast one everything for 300 ms.
    let link =
        |delay| LinkConfig::new(mbit(20), delay).with_loss(LossModel::Random(Probability::from_percent(2.0)));
    let (fast, slow) = (link(10 * MS), link(15 * MS));
    let figures = |scheduler: &str| {
        let mut config = ConnectionConfig::default();
        config.set_scheduler(scheduler).unwrap();
        let builder = PairBuilder::new().path_with(fast.clone(), fast.clone());
        let mut pair = connected_with(builder.path_with(slow.clone(), slow.clone()), &config).unwrap();
        pair.run_for(SECOND).unwrap();
        let stream = open(&mut pair);
        let deadline = unordered().class(Class::Deadline).lifetime(200 * MS);
        let (begin, count) = (pair.now(), 6_000);
        for name in 0..count {
            match name {
                1_000 => pair.cut(0, Direction::Both),
                1_030 => pair.restore(0, Direction::Both),
                _ => {}
            }
            send(&mut pair, stream, named(name, 300), deadline);
            pair.run_for(10 * MS).unwrap();
        }
        pair.run_for(SECOND).unwrap();
        let messages = pair.messages(Side::Server).iter();
        let mut latencies: Vec<_> = messages.map(|one| one.at - (begin + 10 * MS * name_of(one))).collect();
        // A missing message counts as the latest.
        latencies.resize(usize::try_from(count).unwrap(), MINUTE);
        latencies.sort_unstable();
        let sent: ByteCount = path_figures(&mut pair, Side::Client).iter().map(|path| path.bytes_sent).sum();
        println!("{scheduler}: the latest {:?}", &latencies[latencies.len() - 12..]);
        (latencies[latencies.len() * 999 / 1_000], sent)
    };
    let (once, sent_once) = figures("earliest");
    let (twice, sent_twice) = figures("redundant=late");
    assert!(twice <= 25 * MS && once > 25 * MS, "{once:?} {twice:?}");
    assert!(sent_twice * 100 <= sent_once * 210, "{sent_once} {sent_twice}");
}

// spec 8.43
#[test]
fn a_message_without_time_for_a_retransmission_is_sent_twice_on_a_lossy_path() {
    let figures = |scheduler: &str, percent: f64, lifetime: Duration| {
        let loss = LossModel::Random(Probability::from_percent(percent));
        let link = |delay| LinkConfig::new(mbit(20), delay).with_loss(loss.clone());
        let (fast, slow) = (link(10 * MS), link(15 * MS));
        let mut config = ConnectionConfig::default();
        config.set_scheduler(scheduler).unwrap();
        let builder = PairBuilder::new().path_with(fast.clone(), fast);
        let mut pair = connected_with(builder.path_with(slow.clone(), slow), &config).unwrap();
        pair.run_for(SECOND).unwrap();
        let stream = open(&mut pair);
        let deadline = unordered().class(Class::Deadline).lifetime(lifetime);
        let count = 3_000;
        for name in 0..count {
            send(&mut pair, stream, named(name, 300), deadline);
            pair.run_for(10 * MS).unwrap();
        }
        pair.run_for(SECOND).unwrap();
        let arrived = u32::try_from(pair.messages(Side::Server).len()).unwrap();
        let sent: ByteCount = path_figures(&mut pair, Side::Client).iter().map(|path| path.bytes_sent).sum();
        println!("{scheduler}, {percent} % lost, {lifetime:?}: {arrived} of {count}, {sent}");
        (count - arrived, sent)
    };
    // A loss may be detected after 45 ms and repaired after 55.
    let (missing_once, once) = figures("min-rtt", 2.0, 40 * MS);
    let (missing, twice) = figures("earliest", 2.0, 40 * MS);
    assert!(missing_once >= 30 && missing <= 9, "{missing_once} {missing}");
    assert!(twice * 10 > once * 15 && twice * 10 < once * 21, "{once} {twice}");
    // With time, or without loss, it is sent once.
    let (missing, patient) = figures("earliest", 2.0, 200 * MS);
    let (.., safe) = figures("earliest", 0.0, 40 * MS);
    assert!(missing == 0 && patient * 10 < once * 11 && safe * 10 < once * 11, "{missing} {patient} {safe}");
}

#[test]
fn background_bytes_wait_for_bulk_and_use_the_rest() {
    let mut pair = connected(two_paths()).unwrap();
    let (background, plain) = (open(&mut pair), open(&mut pair));
    connection(&mut pair, Side::Client).set_class(background, Class::Background).unwrap();
    for name in 0..10 {
        send(&mut pair, background, named(name, 50_000), MessageOptions::default());
        send(&mut pair, plain, named(100 + name, 50_000), MessageOptions::default());
    }
    pair.run_for(5 * SECOND).unwrap();
    let order = names(&pair);
    assert_eq!(order.len(), 20);
    let last_plain = order.iter().rposition(|name| *name >= 100).unwrap();
    assert!(last_plain < 12, "{order:?}");
}

/// A server as the victim of a client that violates the protocol.
fn duel() -> Duel {
    Duel::new(Side::Server, &ConnectionConfig::default())
}

fn stream(index: u64) -> StreamId {
    StreamId::new(Side::Client, index)
}

fn piece<'a>(message: MessageId, offset: u32, end: bool, data: &'a [u8]) -> Block<'a> {
    let place = MessagePlace::new(offset, 7);
    Block::Message(MessageData { stream: stream(0), message, place, end, data })
}

fn violation(duel: &mut Duel) -> Option<ErrorCode> {
    match duel.ended() {
        Some(ConnectionError::Violation(violation)) => Some(violation.code()),
        _ => None,
    }
}

// spec 8.30, 8.31, 8.35
#[test]
fn a_peer_that_contradicts_itself_is_refused() {
    let first = MessageId::unordered(0);
    let cases: [(&str, Vec<Block<'_>>, ErrorCode); 7] = [
        ("two ends", vec![piece(first, 5, true, b"end"), piece(first, 3, true, b"x")], ErrorCode::PROTOCOL),
        (
            "behind its end",
            vec![piece(first, 5, true, b"end"), piece(first, 8, false, b"x")],
            ErrorCode::PROTOCOL,
        ),
        ("larger than agreed", vec![piece(first, 262_143, false, b"xy")], ErrorCode::PROTOCOL),
        ("far larger than agreed", vec![piece(first, u32::MAX - 9, false, b"xy")], ErrorCode::PROTOCOL),
        (
            "bytes and messages",
            vec![
                piece(first, 0, true, b"message"),
                Block::Stream(StreamData { stream: stream(0), offset: 0, end: false, data: b"bytes" }),
            ],
            ErrorCode::STREAM_STATE,
        ),
        (
            "messages and bytes",
            vec![
                Block::Stream(StreamData { stream: stream(0), offset: 0, end: false, data: b"bytes" }),
                piece(first, 0, true, b"message"),
            ],
            ErrorCode::STREAM_STATE,
        ),
        (
            "an end before what it counts",
            vec![
                piece(first, 0, true, b"message"),
                Block::Stream(StreamData { stream: stream(0), offset: 100, end: true, data: b"" }),
            ],
            ErrorCode::FINAL_SIZE,
        ),
    ];
    for (name, blocks, code) in cases {
        let mut duel = duel();
        duel.send(&blocks);
        assert_eq!(violation(&mut duel), Some(code), "{name}");
    }
}

// spec 8.35
#[test]
fn a_peer_that_completes_no_message_is_refused_after_1024() {
    let mut duel = duel();
    for number in 0..1_024 {
        duel.send(&[piece(MessageId::ordered(number), 0, false, b"x")]);
    }
    assert_eq!(duel.ended(), None);
    duel.send(&[piece(MessageId::ordered(5_000), 0, false, b"x")]);
    let ended = duel.ended();
    assert!(
        matches!(ended, Some(ConnectionError::Violation(Violation::Message { number: 5_000, .. }))),
        "{ended:?}"
    );
}

// spec 8.32
#[test]
fn a_peer_uses_credit_for_every_unread_message_however_small() {
    let mut duel = duel();
    // The stream's credit is 1 MiB, and an empty message costs 128 of it.
    let mut sent = 0_u64;
    while duel.ended().is_none() && sent < 10_000 {
        let blocks: Vec<_> = (0..40).map(|n| piece(MessageId::unordered(sent + n), 0, true, b"")).collect();
        duel.send(&blocks);
        sent += 40;
    }
    assert_eq!(violation(&mut duel), Some(ErrorCode::FLOW_CONTROL));
    assert!((8_192..8_192 + 40).contains(&(sent - 1)), "{sent}");
}

// spec 8.35
#[test]
fn a_peer_that_skips_every_second_number_for_ever_is_refused() {
    let mut duel = duel();
    let mut skipped = 0_u64;
    while duel.ended().is_none() && skipped < 1 << 20 {
        let mut payload = Vec::new();
        let entries =
            (0..100).map(|n| manyway_wire::mmsp2::Skipped { number: 2 * (skipped + n) + 1, reach: 0 });
        manyway_wire::mmsp2::encode_skip(
            &mut manyway_wire::Writer::new(&mut payload, 1_200),
            stream(0),
            true,
            entries,
        );
        let packet = duel.packet_of(manyway_proto::PathId::FIRST, &payload);
        duel.deliver(duel.source, packet);
        duel.poll();
        skipped += 100;
    }
    assert_eq!(violation(&mut duel), Some(ErrorCode::PROTOCOL));
    // Half of a window of 1.5 MiB, 64 bytes each.
    assert!(skipped <= (3 << 18) / 64 + 200, "{skipped}");
}

#[test]
fn overlapping_fragments_that_disagree_do_not_change_received_data() {
    let mut duel = duel();
    let id = MessageId::ordered(0);
    duel.send(&[piece(id, 4, true, b"56789")]);
    duel.send(&[piece(id, 2, false, b"34!!!!")]);
    duel.send(&[piece(id, 0, false, b"12??")]);
    let accepted = duel.connection().accept_stream().unwrap();
    let outcome = duel.connection().receive_message(accepted).unwrap();
    let manyway_proto::MessageOutcome::Message(message) = outcome else { panic!("{outcome:?}") };
    assert_eq!(message.data, Bytes::from_static(b"123456789"));
}

/// The start of a test, to which its times are relative.
#[test]
fn an_interactive_message_leaves_an_idle_connection_at_once() {
    let mut pair = connected(two_paths()).unwrap();
    pair.run_for(10 * SECOND).unwrap();
    let stream = open(&mut pair);
    let sent: Instant = pair.now();
    send(&mut pair, stream, named(1, 100), unordered().class(Class::Interactive));
    pair.run_for(SECOND).unwrap();
    let arrived = pair.messages(Side::Server)[0].at;
    assert!(arrived - sent < 11 * MS, "{:?}", arrived - sent);
    assert_eq!(connection(&mut pair, Side::Client).statistics().backlog, ByteCount::ZERO);
}
