//! How a path dies after a liveness query, and that it carries nothing then.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, PathId, PathReason, PathState, SendRefusal};
use manyway_sim::nightly::seeds;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

// spec 6.27
#[test]
fn a_dead_path_has_nothing_in_flight_though_the_peer_suspects_it_too() {
    for from in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().seed(3).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
        let mut pair = connected(builder).unwrap();
        let host = pair.host(from);
        pair.start(from, Box::new(Exchange::new(host, megabytes(30))));
        pair.run_for(2 * SECOND).unwrap();
        pair.cut(0, Direction::Both);
        let state = |pair: &mut EndpointPair| {
            let path = path_figures(pair, from).into_iter().find(|path| path.id == PathId(0)).unwrap();
            (path.state, path.in_flight)
        };
        while state(&mut pair).0 != PathState::Dead {
            pair.run_for(10 * MS).unwrap();
        }
        for _ in 0..200 {
            pair.run_for(10 * MS).unwrap();
            assert_eq!(state(&mut pair), (PathState::Dead, ByteCount::ZERO), "{from:?}");
        }
    }
}

/// The events of two paths, of 50 ms and 10 ms each way, when the first was cut in both directions for this long.
fn story(seed: u64, from: Side, lasts: Duration) -> Vec<(Duration, PathState, PathReason)> {
    let builder = PairBuilder::new().seed(seed).path(mbit(20), 50 * MS).path(mbit(20), 10 * MS);
    let mut pair = connected(builder).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, megabytes(30))));
    pair.run_for(3 * SECOND + 37 * MS * u32::try_from(seed).unwrap()).unwrap();
    let cut_at = pair.now();
    pair.cut(0, Direction::Both);
    pair.run_for(lasts).unwrap();
    pair.restore(0, Direction::Both);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    path_events(&mut pair, from)
        .into_iter()
        .filter(|(at, _)| *at >= cut_at)
        .map(|(at, event)| (at - cut_at, event.state, event.reason))
        .collect()
}

// spec 6.59
#[test]
fn a_peer_that_received_nothing_on_a_path_is_believed_before_the_probes_time_out() {
    for from in [Side::Client, Side::Server] {
        for seed in seeds(2, 5) {
            let story = story(seed, from, SECOND);
            let [
                (suspected, PathState::Suspect, _),
                (died, PathState::Dead, PathReason::PeerReceivedNothing),
                ..,
            ] = story[..]
            else {
                panic!("seed {seed} {from:?}: {story:?}");
            };
            // A round trip of the other path, not of this one.
            assert!(died - suspected <= 40 * MS, "seed {seed} {from:?}: {story:?}");
        }
    }
}

// spec 6.24
#[test]
fn a_path_that_was_silent_is_dead_because_the_system_refuses_to_send_once_that_is_known() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS)).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(30))));
    pair.run_for(SECOND).unwrap();
    pair.cut(0, Direction::Both);
    let last = |pair: &mut EndpointPair| {
        path_events(pair, Side::Client).last().map(|(_, event)| (event.path, event.state, event.reason))
    };
    while !matches!(last(&mut pair), Some((PathId(0), PathState::Dead, _))) {
        pair.run_for(10 * MS).unwrap();
    }
    let (now, tuple) = (pair.now(), path_figures(&mut pair, Side::Client)[0].tuple);
    for _ in 0..2 {
        let client = pair.peer(Side::Client).unwrap();
        client.connection().unwrap().on_send_refused(now, tuple, SendRefusal::Denied);
    }
    pair.run_for(MS).unwrap();
    assert_eq!(last(&mut pair), Some((PathId(0), PathState::Dead, PathReason::SendDenied)));
    let told = path_events(&mut pair, Side::Client);
    let times = told.iter().filter(|(_, event)| event.reason == PathReason::SendDenied).count();
    assert_eq!(times, 1, "{told:?}");
}
