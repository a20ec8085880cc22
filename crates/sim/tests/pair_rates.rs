//! Address pairs by their rate: a disjoint choice on whole connections whose near pairs are slow.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{ConnectionConfig, PairMode, PathReason, PathState, Rate};
use manyway_sim::link::{LinkConfig, LinkState};
use manyway_sim::nightly::{few_or_many, is_nightly};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes, path_events, path_figures, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, InterfaceId, PairBuilder, Side, endpoint_pair};

const CONTROLS: [&str; 2] = ["bbr", "cubic"];

fn disjoint(congestion: &str) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.pairs = PairMode::Disjoint;
    config.set_congestion(congestion).unwrap();
    config
}

/// A link with this rate and round-trip time, with a queue of 100 ms.
fn link(rate: Rate, rtt: Duration) -> LinkConfig {
    LinkConfig::new(rate, rtt / 2).with_queue_time(100 * MS)
}

/// One address at the client, two at the server with a link each, both known from the start.
fn fork(links: &[LinkConfig; 2], congestion: &str, seed: u64) -> EndpointPair {
    let builder = PairBuilder::new().seed(seed).server_interfaces(2);
    fork_of(builder.path_with(links[0].clone(), links[0].clone()), &links[1], congestion)
}

/// The same with the first link in the builder.
fn fork_of(builder: PairBuilder, second: &LinkConfig, congestion: &str) -> EndpointPair {
    let mut pair = endpoint_pair(builder, &disjoint(congestion));
    let near = pair.paths()[0].interface;
    let far = InterfaceId { host: pair.host(Side::Server), index: pair.servers()[1].interface };
    let now = pair.now();
    pair.world_mut().network_mut().connect(now, (near, far), second.clone(), second.clone());
    pair.connect(10 * SECOND).unwrap();
    pair
}

/// Arrivals in a minute from when `sender` starts to send, and paths that came into use.
fn minute(pair: &mut EndpointPair, sender: Side) -> (Rate, usize) {
    let host = pair.host(sender);
    pair.start(sender, Box::new(Exchange::new(host, megabytes(400))));
    let (begin, before) = (pair.now(), path_events(pair, Side::Client).len());
    pair.run_for(MINUTE).unwrap();
    let events = path_events(pair, Side::Client).split_off(before);
    let comes = |reason: PathReason| matches!(reason, PathReason::Validated | PathReason::TriedAgain);
    let changes = events.iter().filter(|(_, event)| comes(event.reason)).count();
    (pair.received(sender.other()).rate(begin, pair.now()), changes)
}

fn remotes(pair: &mut EndpointPair) -> Vec<SocketAddr> {
    let paths = path_figures(pair, Side::Client);
    let used = paths.iter().filter(|path| path.state == PathState::Active);
    used.map(|path| path.tuple.remote).collect()
}

// spec 6.48, 6.54, 6.67
#[test]
fn a_near_pair_that_proves_slow_is_replaced_by_a_farther_one_and_the_choice_settles() {
    let senders = [Side::Client, Side::Server];
    let cases = senders.into_iter().flat_map(|sender| [1, 2].map(|slow| (sender, slow)));
    let cases = (0..).zip(cases.flat_map(|case| CONTROLS.map(|name| (case, name))));
    let chosen = |seed: u64| is_nightly() || seed == 4;
    for (seed, ((sender, slow), congestion)) in cases.filter(|(seed, _)| chosen(*seed)) {
        let links = [link(mbit(slow), 20 * MS), link(mbit(20), 30 * MS)];
        let mut pair = fork(&links, congestion, seed);
        let (rate, changes) = minute(&mut pair, sender);
        let case = format!("{sender:?}, {slow} Mbit/s, {congestion}, {seed}: {rate}, {changes} changes");
        assert!(percent(rate, mbit(20)) >= 90, "{case}");
        assert!(changes <= 4, "{case}");
        assert_eq!(remotes(&mut pair), [pair.servers()[1].address], "{case}");
        // Then it is stable, but for the slow one that is tried again after one minute and after two.
        let (rate, changes) = minute(&mut pair, sender);
        assert!(percent(rate, mbit(20)) >= 90 && changes <= 1, "{case}, {rate}, {changes} changes");
        assert_eq!(remotes(&mut pair), [pair.servers()[1].address], "{case}");
    }
}

// spec 6.121
#[test]
fn a_pair_that_won_its_trial_stays_where_the_rate_hardly_matters() {
    // One of the slower ones: for the night.
    if !is_nightly() {
        return;
    }
    for sender in few_or_many(vec![Side::Client], vec![Side::Client, Side::Server]) {
        let mut pair = fork(&[link(mbit(40), 100 * MS), link(mbit(100), 95 * MS)], "bbr", 1);
        let (_, changes) = minute(&mut pair, sender);
        assert!(changes <= 3, "{sender:?}: {changes}");
        assert_eq!(remotes(&mut pair), [pair.servers()[1].address], "{sender:?}");
        for _ in 0..few_or_many(1, 2) {
            let (_, changes) = minute(&mut pair, sender);
            assert!(changes <= 1, "{sender:?}: {changes}");
            assert_eq!(remotes(&mut pair), [pair.servers()[1].address], "{sender:?}");
        }
    }
}

// spec 6.68
#[test]
fn a_pair_that_was_slow_for_a_while_is_tried_again() {
    for (sender, congestion) in [Side::Client, Side::Server].into_iter().zip(CONTROLS).take(few_or_many(1, 2))
    {
        let mut pair = fork(&[link(mbit(20), 20 * MS), link(mbit(6), 30 * MS)], congestion, 1);
        let host = pair.host(sender);
        pair.start(sender, Box::new(Exchange::new(host, megabytes(1000))));
        pair.run_for(20 * SECOND).unwrap();
        let [near, far] = [0, 1].map(|place| pair.servers()[place].address);
        assert_eq!(remotes(&mut pair), [near], "{sender:?}");
        pair.set_rate(0, Direction::Both, mbit(1));
        pair.run_for(20 * SECOND).unwrap();
        assert_eq!(remotes(&mut pair), [far], "{sender:?}");
        pair.set_rate(0, Direction::Both, mbit(20));
        pair.run_for(2 * MINUTE).unwrap();
        assert_eq!(remotes(&mut pair), [near], "{sender:?}");
    }
}

// spec 6.48
#[test]
fn a_pair_that_is_slow_in_one_direction_is_used_for_the_other() {
    // One of the slower ones: for the night.
    if !is_nightly() {
        return;
    }
    // Ten times as fast down as up, and symmetric.
    let builder = PairBuilder::new().seed(1).server_interfaces(2);
    let builder = builder.path_with(link(mbit(2), 20 * MS), link(mbit(40), 20 * MS));
    let mut pair = fork_of(builder, &link(mbit(10), 30 * MS), "bbr");
    let [uneven, even] = [0, 1].map(|place| pair.servers()[place].address);
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(20))));
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    assert_eq!(remotes(&mut pair), [even]);
    // Its rate up is known, and dropped after a minute.
    minute(&mut pair, Side::Server);
    let (rate, changes) = minute(&mut pair, Side::Server);
    assert_eq!(remotes(&mut pair), [uneven]);
    assert!(percent(rate, mbit(40)) >= 85 && changes <= 1, "{rate}, {changes} changes");
    // Alternating directions do not make the choice oscillate.
    let mut swings = 0;
    for turn in 0..20 {
        let sender = if turn % 2 == 0 { Side::Client } else { Side::Server };
        let before = path_events(&mut pair, Side::Client).len();
        let host = pair.host(sender);
        pair.start(sender, Box::new(Exchange::new(host, megabytes(2))));
        pair.run_for(3 * SECOND).unwrap();
        swings += path_events(&mut pair, Side::Client).split_off(before).len() / 4;
    }
    assert!(swings <= 4, "{swings}");
}

// spec 6.71
#[test]
fn a_connection_whose_first_pair_dies_before_ids_arrive_continues_on_the_other() {
    for cut in [0, 5, 15, 25, 35, 50, 80, 150] {
        let links = [link(mbit(10), 20 * MS), link(mbit(10), 30 * MS)];
        let mut pair = fork(&links, "bbr", 1);
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(2))));
        pair.run_for(cut * MS).unwrap();
        let far = InterfaceId { host: pair.host(Side::Server), index: pair.servers()[0].interface };
        pair.world_mut().network_mut().set_interface_state(far, LinkState::Down);
        pair.run_until(10 * SECOND, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = pair.received(Side::Server).longest_silence();
        // A lone path is given up at the first probe timeout after a second (spec 6.74).
        assert!(silence < 2 * SECOND, "after {cut} ms: {silence:?}");
        assert_eq!(remotes(&mut pair), [pair.servers()[1].address], "after {cut} ms");
    }
}
