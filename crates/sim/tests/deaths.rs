//! How a path dies after a liveness query, and that it carries nothing then.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, PathId, PathReason, PathState};
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
