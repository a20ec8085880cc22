//! Target rates over TCP: the receive windows of the system bound what the peer has in flight, on one TCP connection or on
//! several between the same addresses.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, FourTuple, RateAlgorithm, TargetRate};
use manyway_sim::Side;
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit};

use crate::wanted_over_tcp::{TcpPair, WANTED, paths, streaming};

/// Over so many TCP connections, always.
fn over(connections: u8) -> TargetRate {
    let mut target = TargetRate::new(WANTED);
    target.connections = connections;
    target
}

fn assert_held(pair: &mut TcpPair, time: Duration) {
    let before = pair.received(Side::Client).total();
    pair.run_for(time).unwrap();
    let rate = (pair.received(Side::Client).total() - before).per(time);
    let wanted = WANTED.bytes_per_second();
    let range = wanted * 95 / 100..=wanted + TargetRate::new(WANTED).guard().bytes_per_second() + 1_000;
    assert!(range.contains(&rate.bytes_per_second()), "{rate}");
}

// spec 6.83
#[test]
fn a_target_is_held_over_one_tcp_connection_and_over_five_without_a_queue() {
    for connections in [1, 5] {
        let down = LinkConfig::new(mbit(6), 40 * MS);
        let mut pair = streaming(down, connections, over(connections));
        assert_held(&mut pair, MINUTE);
        let paths = paths(&mut pair);
        assert_eq!(paths.len(), usize::from(connections));
        assert!(paths.iter().all(|path| path.smoothed_rtt < 130 * MS && !path.tuple.is_datagram()));
        let link = pair.paths()[0].down;
        let dropped =
            |pair: &TcpPair| pair.world().network().link(link).unwrap().counters().queue_full.packets;
        let before = dropped(&pair);
        pair.run_for(MINUTE).unwrap();
        assert_eq!(dropped(&pair), before);
    }
}

// spec 6.92
#[test]
fn connections_whose_windows_are_bounded_reach_the_target_by_their_number() {
    let rate = |connections| {
        let mut bounded = over(connections);
        bounded.most_receive_window = Some(ByteCount(3000));
        let mut pair = streaming(LinkConfig::new(mbit(6), 40 * MS), connections, bounded);
        let before = pair.received(Side::Client).total();
        pair.run_for(MINUTE).unwrap();
        (pair.received(Side::Client).total() - before).per(MINUTE).bytes_per_second() * 8
    };
    // 3000 bytes in 80 ms are 300 kbit/s.
    assert!((200_000..=300_000).contains(&rate(1)));
    assert!(rate(5) >= 760_000);
}

// spec 6.84
#[test]
fn the_advanced_algorithm_opens_connections_while_losses_hold_one_back() {
    let mut target = TargetRate::new(WANTED);
    target.algorithm = RateAlgorithm::Advanced;
    let clean = LinkConfig::new(mbit(6), 40 * MS);
    assert_eq!(paths(&mut streaming(clean.clone(), 1, target)).len(), 1);
    let lossy = clean.with_loss(LossModel::Random(Probability::from_percent(10.0)));
    let mut pair = streaming(lossy, 1, target);
    pair.run_for(30 * SECOND).unwrap();
    let count = paths(&mut pair).len();
    assert!((2..=5).contains(&count), "{count}");
}

#[test]
fn a_tcp_connection_that_is_reset_is_replaced_and_the_target_held() {
    let mut pair = streaming(LinkConfig::new(mbit(6), 40 * MS), 3, over(3));
    let tuples: Vec<FourTuple> = paths(&mut pair).iter().map(|path| path.tuple).collect();
    for tuple in &tuples {
        let now = pair.now();
        pair.peer(Side::Client).unwrap().reset(now, *tuple);
        pair.run_for(5 * SECOND).unwrap();
        let after = paths(&mut pair);
        assert_eq!(after.len(), 3);
        assert!(after.iter().all(|path| path.tuple != *tuple));
    }
    assert_held(&mut pair, 30 * SECOND);
    assert!(pair.received(Side::Client).total() > ByteCount(4_000_000));
}

/// A day in the nightly run, and half an hour otherwise.
#[test]
fn connections_may_break_all_day_and_the_target_is_held() {
    let mut pair = streaming(LinkConfig::new(mbit(6), 40 * MS), 3, over(3));
    for _ in 0..few_or_many(3, 144) {
        let (now, broken) = (pair.now(), paths(&mut pair)[0].tuple);
        pair.peer(Side::Client).unwrap().reset(now, broken);
        pair.run_for(5 * SECOND).unwrap();
        assert_held(&mut pair, 10 * MINUTE);
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        assert_eq!(connection.statistics().paths.len(), 3);
    }
}
