//! A server whose own links go down and come back, as its system reports.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{Instant, LinkNews, PathId, PathReason, PathState};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

/// The server sends over two paths of 20 Mbit/s and 20 ms to different addresses of its own.
fn sending() -> EndpointPair {
    let builder = PairBuilder::new().server_interfaces(2).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = connected(builder).unwrap();
    pair.run_for(SECOND).unwrap();
    let host = pair.host(Side::Server);
    pair.start(Side::Server, Box::new(Exchange::new(host, megabytes(100))));
    pair.run_for(2 * SECOND).unwrap();
    pair
}

fn own_address(pair: &mut EndpointPair, path: usize) -> IpAddr {
    path_figures(pair, Side::Server)[path].tuple.local.address.ip()
}

fn tell(pair: &mut EndpointPair, paths: &[usize], news: LinkNews) {
    let addresses: Vec<_> = paths.iter().map(|path| own_address(pair, *path)).collect();
    let now = pair.now();
    let connection = pair.peer(Side::Server).unwrap().connection().unwrap();
    connection.on_links_changed(now, |tuple| addresses.contains(&tuple.local.address.ip()).then_some(news));
}

/// Cuts links and reports it to the server.
fn lose(pair: &mut EndpointPair, paths: &[usize]) {
    paths.iter().for_each(|path| pair.cut(*path, Direction::Both));
    tell(pair, paths, LinkNews::Lost);
}

/// The state changes of the server's first path since a time, and how long each took.
fn since(pair: &mut EndpointPair, moment: Instant) -> Vec<(Duration, PathState, PathReason)> {
    let events = path_events(pair, Side::Server).into_iter();
    let events = events.filter(|(at, event)| *at >= moment && event.path == PathId(0));
    events.map(|(at, event)| (at - moment, event.state, event.reason)).collect()
}

// spec 6.129
#[test]
fn a_path_of_a_server_whose_own_link_is_lost_is_dead_at_once() {
    let mut pair = sending();
    assert_ne!(own_address(&mut pair, 0), own_address(&mut pair, 1));
    let cut_at = pair.now();
    lose(&mut pair, &[0]);
    pair.run_for(SECOND).unwrap();
    assert_eq!(since(&mut pair, cut_at), [(Duration::ZERO, PathState::Dead, PathReason::AddressGone)]);
    // One-way delay and a queue, and no silence timeout.
    assert!(pair.received(Side::Client).longest_silence() < 50 * MS);
}

// spec 6.130, 6.131
#[test]
fn a_path_of_a_server_is_probed_as_soon_as_its_link_is_back() {
    let mut pair = sending();
    lose(&mut pair, &[0]);
    // By then it is probed once a second.
    pair.run_for(15 * SECOND + 100 * MS).unwrap();
    pair.restore(0, Direction::Both);
    let back_at = pair.now();
    tell(&mut pair, &[0], LinkNews::Back);
    pair.run_for(SECOND).unwrap();
    let events = since(&mut pair, back_at);
    let first = events.first().filter(|(_, state, _)| *state == PathState::Probation);
    // spec 6.77: two round trips, since the answer to a small probe makes one in a full datagram due.
    assert!(first.is_some_and(|(after, ..)| *after < 60 * MS), "{events:?}");
}

// spec 6.129: then the fault may lie elsewhere, or the reports are wrong.
#[test]
fn no_path_of_a_server_is_given_up_for_its_link_if_all_links_are_lost() {
    let mut pair = sending();
    let told_at = pair.now();
    tell(&mut pair, &[0, 1], LinkNews::Lost);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    assert_eq!(since(&mut pair, told_at), []);
}

// spec 6.65
#[test]
fn links_of_a_server_that_come_and_go_make_no_path_flap() {
    let mut pair = sending();
    let begin = pair.now();
    for _ in 0..4 {
        lose(&mut pair, &[0]);
        pair.run_for(200 * MS).unwrap();
        pair.restore(0, Direction::Both);
        tell(&mut pair, &[0], LinkNews::Back);
        pair.run_for(500 * MS).unwrap();
    }
    let events = since(&mut pair, begin);
    let returns = events.iter().filter(|(_, state, _)| *state == PathState::Active).count();
    assert_eq!(returns, 4, "{events:?}");
    let flaps = |reason: &PathReason| matches!(reason, PathReason::Flaps { .. });
    assert!(!events.iter().any(|(.., reason)| flaps(reason)), "{events:?}");
}
