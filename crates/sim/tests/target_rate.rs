//! Target rates: a receiver bounds what its peer has in flight, so that a stream arrives at the rate it wants.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{
    ByteCount, ConnectionConfig, Event, Instant, PathState, Rate, StreamId, TargetRate, TargetReport,
};
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

const WANTED: Rate = Rate::from_bits_per_second(800_000);

/// `from` sends without end, and the other end wants this rate.
fn streaming(builder: PairBuilder, from: Side, wanted: Rate) -> EndpointPair {
    let mut pair = connected_with(builder, &ConnectionConfig::default()).unwrap();
    pair.run_for(SECOND).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, megabytes(1 << 20))));
    pair.run_for(50 * MS).unwrap();
    set(&mut pair, from, Some(TargetRate::new(wanted)));
    pair
}

fn set(pair: &mut EndpointPair, from: Side, target: Option<TargetRate>) {
    let now = pair.now();
    let connection = pair.peer(other(from)).unwrap().connection().unwrap();
    connection.set_target_rate(now, StreamId::new(from, 0), target).unwrap();
}

fn other(side: Side) -> Side {
    if side == Side::Client { Side::Server } else { Side::Client }
}

/// The payload a second that arrives in a time.
fn rate_over(pair: &mut EndpointPair, from: Side, time: Duration) -> Rate {
    let before = pair.received(other(from)).total();
    pair.run_for(time).unwrap();
    (pair.received(other(from)).total() - before).per(time)
}

fn assert_held(rate: Rate, target: &TargetRate) {
    let wanted = target.rate.bytes_per_second();
    let range = wanted * 95 / 100..=wanted + target.guard().bytes_per_second();
    assert!(range.contains(&rate.bytes_per_second()), "{rate}");
}

fn reports(pair: &mut EndpointPair, side: Side) -> Vec<(Instant, TargetReport)> {
    let events = pair.peer(side).unwrap().events().iter();
    events
        .filter_map(
            |(at, event)| if let Event::TargetRate(report) = event { Some((*at, *report)) } else { None },
        )
        .collect()
}

// spec 6.83
#[test]
fn a_receiver_holds_its_target_over_one_path_and_over_three() {
    for from in [Side::Server, Side::Client] {
        for paths in 1..=3 {
            let mut builder = PairBuilder::new();
            for _ in 0..paths {
                builder = builder.path(mbit(6), 40 * MS);
            }
            let mut pair = streaming(builder, from, WANTED);
            pair.run_for(10 * SECOND).unwrap();
            let rate = rate_over(&mut pair, from, MINUTE);
            assert_held(rate, &TargetRate::new(WANTED));
            let reports = reports(&mut pair, other(from));
            assert!(reports.len() > 80, "{}", reports.len());
            let last = reports.last().unwrap().1;
            assert_eq!((last.target, last.paths), (WANTED, paths));
        }
    }
}

// spec 6.83
#[test]
fn a_new_target_takes_effect_and_its_end_frees_the_path() {
    let from = Side::Server;
    let mut pair = streaming(PairBuilder::new().path(mbit(20), 20 * MS), from, mbit(2));
    pair.run_for(10 * SECOND).unwrap();
    assert_held(rate_over(&mut pair, from, 30 * SECOND), &TargetRate::new(mbit(2)));
    set(&mut pair, from, Some(TargetRate::new(mbit(5))));
    pair.run_for(10 * SECOND).unwrap();
    assert_held(rate_over(&mut pair, from, 30 * SECOND), &TargetRate::new(mbit(5)));
    set(&mut pair, from, None);
    pair.run_for(5 * SECOND).unwrap();
    let rate = rate_over(&mut pair, from, 10 * SECOND);
    assert!(rate > mbit(18), "{rate}");
    assert_eq!(pair.peer(other(from)).unwrap().connection().unwrap().statistics().target, None);
}

#[test]
fn the_targets_of_two_streams_are_held_together() {
    let from = Side::Server;
    let mut pair = streaming(PairBuilder::new().path(mbit(20), 20 * MS), from, mbit(2));
    let (host, now) = (pair.host(from), pair.now());
    pair.start(from, Box::new(Exchange::new(host, megabytes(1 << 20))));
    pair.run_for(SECOND).unwrap();
    let connection = pair.peer(other(from)).unwrap().connection().unwrap();
    connection.set_target_rate(now, StreamId::new(from, 1), Some(TargetRate::new(mbit(3)))).unwrap();
    pair.run_for(10 * SECOND).unwrap();
    assert_held(rate_over(&mut pair, from, 30 * SECOND), &TargetRate::new(mbit(5)));
}

#[test]
fn the_target_holds_while_one_of_two_paths_is_lost() {
    let from = Side::Server;
    let builder = PairBuilder::new().path(mbit(6), 20 * MS).path(mbit(6), 40 * MS);
    let mut pair = streaming(builder, from, mbit(2));
    pair.run_for(10 * SECOND).unwrap();
    pair.cut(0, manyway_sim::pair::Direction::Both);
    pair.run_for(5 * SECOND).unwrap();
    assert_held(rate_over(&mut pair, from, 30 * SECOND), &TargetRate::new(mbit(2)));
    pair.restore(0, manyway_sim::pair::Direction::Both);
    pair.run_for(15 * SECOND).unwrap();
    let states: Vec<_> = path_figures(&mut pair, Side::Client).iter().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Active, PathState::Active]);
    assert_held(rate_over(&mut pair, from, 30 * SECOND), &TargetRate::new(mbit(2)));
}

#[test]
fn a_target_ends_with_its_stream() {
    let from = Side::Server;
    let mut pair =
        connected_with(PairBuilder::new().path(mbit(6), 20 * MS), &ConnectionConfig::default()).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, ByteCount(1_000_000))));
    pair.run_for(50 * MS).unwrap();
    set(&mut pair, from, Some(TargetRate::new(WANTED)));
    pair.run_until(MINUTE, "arrived", |pair| pair.is_quiet()).unwrap();
    pair.run_for(5 * SECOND).unwrap();
    let connection = pair.peer(other(from)).unwrap().connection().unwrap();
    assert_eq!(connection.statistics().target, None);
    let report = pair.transfer(from, megabytes(5), MINUTE).unwrap();
    assert!(report.goodput > mbit(4), "{}", report.goodput);
}

/// A day in the nightly run, and a quarter of an hour otherwise.
#[test]
fn a_target_is_held_all_day() {
    let from = Side::Server;
    let builder = PairBuilder::new().path(mbit(6), 40 * MS).path(mbit(6), 20 * MS);
    let mut pair = streaming(builder, from, Rate::from_bits_per_second(100_000));
    pair.run_for(MINUTE).unwrap();
    let quarters = few_or_many(1, 96);
    for _ in 0..quarters {
        assert_held(
            rate_over(&mut pair, from, 15 * MINUTE),
            &TargetRate::new(Rate::from_bits_per_second(100_000)),
        );
    }
    let paths = path_figures(&mut pair, Side::Client);
    assert_eq!(paths.len(), 2);
}
