//! An attacker that forges ICMP errors: at most a short suspicion, at a limited rate.

use std::net::SocketAddr;

use manyway_proto::{
    ByteCount, ConnectionConfig, ConnectionError, FourTuple, PathId, PathReason, PathState, Undelivered,
};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};

fn connected(paths: usize) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler("round-robin").unwrap();
    let builder = (0..paths).fold(PairBuilder::new(), |builder, _| builder.path(mbit(20), 20 * MS));
    let mut pair = connected_with(builder, &config).unwrap();
    pair.run_for(SECOND).unwrap();
    pair
}

fn start(pair: &mut EndpointPair, bytes: ByteCount) {
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, bytes)));
}

/// The first bytes of a packet of the client, and its destination, for each path.
fn quotes(pair: &mut EndpointPair) -> Vec<(SocketAddr, Vec<u8>)> {
    pair.peer(Side::Server).unwrap().take_arrivals();
    pair.run_for(200 * MS).unwrap();
    let arrivals = pair.peer(Side::Server).unwrap().take_arrivals();
    let paths = path_figures(pair, Side::Client);
    let quote = paths.iter().map(|path| {
        let own = path.tuple.local.address;
        let (_, packet) = arrivals.iter().rfind(|(tuple, _)| tuple.remote == own).unwrap();
        (path.tuple.remote, packet[..9].to_vec())
    });
    quote.collect()
}

/// Forges an ICMP error for the client; returns true if the client believes it.
fn tell(pair: &mut EndpointPair, (remote, quoted): &(SocketAddr, Vec<u8>)) -> bool {
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().on_unreachable(now, *remote, quoted)
}

/// Every change of a path of the client.
fn states(pair: &mut EndpointPair) -> Vec<(PathId, PathState, PathReason)> {
    let events = path_events(pair, Side::Client).into_iter();
    events.map(|(_, event)| (event.path, event.state, event.reason)).collect()
}

#[test]
fn continuous_forged_icmp_errors_with_valid_quotes_cost_a_few_copies_and_kill_no_path() {
    let mut pair = connected(2);
    start(&mut pair, megabytes(60));
    let quotes = quotes(&mut pair);
    let vain = |pair: &mut EndpointPair| {
        let figures = pair.peer(Side::Server).unwrap().connection().unwrap().statistics();
        figures.duplicate_bytes_received.get()
    };
    let before = vain(&mut pair);
    let mut believed = [0; 2];
    for _ in 0..1200 {
        pair.run_for(10 * MS).unwrap();
        for (quote, believed) in quotes.iter().zip(&mut believed) {
            *believed += u32::from(tell(&mut pair, quote));
        }
    }
    // 12 s: at the start, and after 5 s and 10 s.
    assert!(believed.iter().all(|times| (2..=3).contains(times)), "{believed:?}");
    let changes = states(&mut pair);
    assert!(changes.iter().all(|(_, state, _)| *state != PathState::Dead), "{changes:?}");
    let suspects = changes.iter().filter(|(_, state, _)| *state == PathState::Suspect);
    assert_eq!(suspects.count(), believed.iter().sum::<u32>() as usize, "{changes:?}");
    // 12 s at 40 Mbit/s are 60 MB; duplicates keep to their budget of 5 %.
    let more = vain(&mut pair) - before;
    assert!(more < 3_000_000, "{more}");
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

/// ICMP errors are believed rarely because they can be forged; a silence that ended does not count against that.
#[test]
fn a_path_that_was_silent_for_a_moment_can_still_be_reported_unreachable() {
    let mut pair = connected(2);
    start(&mut pair, megabytes(8));
    let quotes = quotes(&mut pair);
    pair.cut(0, Direction::Both);
    pair.run_for(40 * MS).unwrap();
    pair.restore(0, Direction::Both);
    let answered = |pair: &mut EndpointPair| {
        let first = path_figures(pair, Side::Client)[0];
        (first.state, first.reason) == (PathState::Active, PathReason::Answered)
    };
    pair.run_until(SECOND, "answered the suspicion", answered).unwrap();
    assert!(tell(&mut pair, &quotes[0]));
    pair.run_for(100 * MS).unwrap();
    assert!(!tell(&mut pair, &quotes[0]), "it was said a moment ago");
}

#[test]
fn icmp_errors_with_a_wrong_id_or_about_an_idle_path_are_ignored() {
    let mut pair = connected(2);
    start(&mut pair, megabytes(8));
    let quotes = quotes(&mut pair);
    let (remote, quoted) = quotes[0].clone();
    let mut wrong = quoted.clone();
    wrong[8] ^= 1;
    let elsewhere: SocketAddr = "192.0.2.1:4455".parse().unwrap();
    for lie in
        [(remote, wrong), (remote, quoted[..8].to_vec()), (remote, vec![]), (elsewhere, quoted.clone())]
    {
        assert!(!tell(&mut pair, &lie));
    }
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    pair.run_for(SECOND).unwrap();
    assert!(!tell(&mut pair, &quotes[0]), "nothing is in flight");

    let mut lone = connected(1);
    start(&mut lone, megabytes(8));
    let quotes = self::quotes(&mut lone);
    assert!(!tell(&mut lone, &quotes[0]), "no other path works");
}

#[test]
fn true_icmp_errors_let_the_other_paths_take_over_sooner() {
    let silence = |is_told: bool| {
        let mut pair = connected(2);
        start(&mut pair, megabytes(8));
        let quotes = quotes(&mut pair);
        pair.cut(0, Direction::Both);
        pair.run_for(15 * MS).unwrap();
        assert!(!is_told || tell(&mut pair, &quotes[0]));
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let of_first = states(&mut pair).into_iter().filter(|(path, ..)| *path == PathId(0));
        let last: Vec<_> = of_first.filter(|(_, state, _)| *state != PathState::Active).collect();
        assert_eq!(last[0].2 == PathReason::Unreachable, is_told, "{last:?}");
        assert_eq!(last.last().unwrap().1, PathState::Dead, "{last:?}");
        pair.received(Side::Server).longest_silence()
    };
    let (told, untold) = (silence(true), silence(false));
    assert!(told + 20 * MS < untold, "{told:?} {untold:?}");
}

fn lose_neighbour(pair: &mut EndpointPair, tuple: FourTuple) {
    let now = pair.now();
    pair.peer(Side::Client).unwrap().endpoint().on_neighbour_lost(now, tuple);
}

// spec 7.51
#[test]
fn an_attempt_ends_once_no_next_hop_answers_and_a_connection_does_not_hear_of_it() {
    let mut pair = connected(2);
    let tuples: Vec<_> = path_figures(&mut pair, Side::Client).iter().map(|path| path.tuple).collect();
    start(&mut pair, megabytes(8));
    tuples.iter().for_each(|tuple| lose_neighbour(&mut pair, *tuple));
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let changes = states(&mut pair);
    let is_harmed = |state| matches!(state, PathState::Suspect | PathState::Dead | PathState::Closed);
    assert!(!changes.iter().any(|(_, state, _)| is_harmed(*state)), "{changes:?}");

    let builder = PairBuilder::new().path(mbit(20), 20 * MS).path(mbit(20), 20 * MS);
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    [0, 1].into_iter().for_each(|path| pair.cut(path, Direction::Both));
    pair.begin().unwrap();
    pair.run_for(500 * MS).unwrap();
    lose_neighbour(&mut pair, tuples[0]);
    pair.run_for(500 * MS).unwrap();
    assert_eq!(pair.ended(), None, "the other pair may answer");
    lose_neighbour(&mut pair, tuples[1]);
    pair.run_for(MS).unwrap();
    let undelivered = Undelivered::NoNeighbour;
    let error = ConnectionError::Unreachable { remote: tuples[1].remote, undelivered };
    assert_eq!(pair.ended(), Some((Side::Client, error)));
}
