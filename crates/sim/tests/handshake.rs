//! Handshakes: over bad links, several at once, with the right and the wrong peers.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use manyway_proto::identity::Identity;
use manyway_proto::{ByteCount, ConnectionConfig, ConnectionError};
use manyway_sim::link::{Jitter, LinkConfig, LossModel, Order, Probability};
use manyway_sim::pair::{Direction, Family};
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::{
    EndpointPair, EndpointPeer, PairBuilder, Side, client_identity, endpoint_pair, server_identity,
};

fn one_path() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS)
}

fn pair(builder: PairBuilder) -> EndpointPair {
    endpoint_pair(builder, &ConnectionConfig::default())
}

/// Connects and transfers a little both ways.
fn works(pair: &mut EndpointPair, within: Duration) -> Duration {
    let took = pair.connect(within).unwrap();
    for from in [Side::Client, Side::Server] {
        pair.transfer(from, ByteCount(50_000), MINUTE).unwrap();
    }
    took
}

#[test]
fn the_client_is_connected_after_one_round_trip_and_the_server_half_a_round_trip_later() {
    for family in [Family::V4, Family::V6] {
        let mut pair = pair(one_path().family(family));
        assert!(works(&mut pair, SECOND) < 35 * MS);
    }
}

#[test]
fn the_loss_of_any_flight_delays_the_handshake_by_a_few_timeouts_at_most() {
    for side in [Side::Client, Side::Server] {
        for first in 0..6 {
            for length in 1..=3 {
                let mut pair = pair(one_path());
                let host = pair.host(side);
                let matching = Matching::all().from(host).index(first..=first + length - 1);
                pair.world_mut().network_mut().add_rule(matching, Action::Drop);
                let took = works(&mut pair, 10 * SECOND);
                assert!(took < 2500 * MS, "{side:?} {first} {length} {took:?}");
            }
        }
    }
}

#[test]
fn flights_can_be_reordered_and_duplicated() {
    for action in
        [Action::Delay(7 * MS), Action::Delay(150 * MS), Action::Copy(3 * MS), Action::Copy(300 * MS)]
    {
        for side in [Side::Client, Side::Server] {
            for first in 0..5 {
                let mut pair = pair(one_path());
                let host = pair.host(side);
                let matching = Matching::all().from(host).index(first..=first);
                pair.world_mut().network_mut().add_rule(matching, action);
                works(&mut pair, 2 * SECOND);
            }
        }
    }
}

#[test]
fn the_handshake_survives_a_link_with_every_fault() {
    let bad = LinkConfig::new(mbit(5), 30 * MS)
        .with_jitter(Jitter::Normal(15 * MS), Order::Free)
        .with_loss(LossModel::Random(Probability::from_percent(20.0)))
        .with_corruption(Probability::from_percent(2.0))
        .with_duplication(Probability::from_percent(5.0));
    for seed in 0..100 {
        let mut pair = pair(PairBuilder::new().seed(seed).path_with(bad.clone(), bad.clone()));
        let took = pair.connect(MINUTE);
        assert!(took.is_ok(), "seed {seed} {took:?}");
    }
}

#[test]
fn the_second_interface_wins_if_the_first_is_dead() {
    for direction in [Direction::Both, Direction::Up, Direction::Down] {
        let mut pair = pair(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 20 * MS));
        pair.cut(0, direction);
        // 50 ms of head start, a round trip of 40 ms, and half a one for the server.
        let took = pair.connect(SECOND).unwrap();
        assert!(took < 115 * MS, "{direction:?} {took:?}");
        let report = pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
        assert!(report.path_bytes[1] > megabytes(1), "{:?}", report.path_bytes);
        // The dead candidate is validated when it works again.
        pair.restore(0, Direction::Both);
        pair.run_for(2 * SECOND).unwrap();
        let report = pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
        assert!(report.path_bytes[0] > ByteCount(500_000), "{:?}", report.path_bytes);
    }
}

#[test]
fn a_candidate_that_dies_between_the_flights_does_not_stop_the_handshake() {
    for after in [5, 12, 15, 21, 25, 29, 35] {
        let mut pair = pair(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 20 * MS));
        pair.begin().unwrap();
        pair.run_for(after * MS).unwrap();
        pair.cut(0, Direction::Both);
        let both = |pair: &mut EndpointPair| {
            [Side::Client, Side::Server].into_iter().all(|side| {
                pair.peer(side).unwrap().connection().is_some_and(|connection| connection.is_established())
            })
        };
        let result = pair.run_until(8 * SECOND, "connected", both);
        assert!(result.is_ok(), "after {after} ms: {result:?}");
        let result = pair.transfer(Side::Client, megabytes(1), MINUTE);
        assert!(result.is_ok(), "after {after} ms: {result:?}");
        pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();
    }
}

fn fails(client: &Identity, server: [u8; 16]) -> ConnectionError {
    let config = Arc::new(ConnectionConfig::default());
    let mut pair: EndpointPair = one_path().build(
        |rng| EndpointPeer::client_as(client, server, Arc::clone(&config), rng),
        |rng| EndpointPeer::server(Arc::clone(&config), rng),
    );
    pair.begin().unwrap();
    pair.run_for(5 * SECOND).unwrap();
    let (_, error) = pair.ended().unwrap();
    error
}

#[test]
fn a_server_with_another_key_is_refused() {
    let error = fails(&client_identity(), [9; 16]);
    assert!(matches!(error, ConnectionError::Authentication { .. }), "{error:?}");
}

#[test]
fn a_client_that_the_server_does_not_know_learns_that_it_is_refused() {
    let error = fails(&Identity::from_seed(&[9; 32]), server_identity().public_key().hash());
    assert!(matches!(error, ConnectionError::Authentication { .. }), "{error:?}");
}

#[test]
fn the_handshake_times_out_without_a_server() {
    let mut pair = pair(one_path());
    pair.cut(0, Direction::Both);
    pair.begin().unwrap();
    pair.run_for(9900 * MS).unwrap();
    assert_eq!(pair.ended(), None);
    pair.run_for(200 * MS).unwrap();
    assert_eq!(pair.ended(), Some((Side::Client, ConnectionError::ConnectTimeout)));
}

#[test]
fn both_ends_must_use_the_same_application_protocol() {
    let with = |name: &[u8]| {
        let mut config = ConnectionConfig::default();
        config.application = name.to_vec();
        Arc::new(config)
    };
    let mut pair: EndpointPair = one_path()
        .build(|rng| EndpointPeer::client(with(b"one"), rng), |rng| EndpointPeer::server(with(b"two"), rng));
    pair.begin().unwrap();
    pair.run_for(2 * SECOND).unwrap();
    assert!(matches!(pair.ended(), Some((_, ConnectionError::Violation(_)))), "{:?}", pair.ended());
}

#[test]
fn an_interface_that_appears_during_the_handshake_joins_it() {
    let mut pair = pair(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS));
    pair.cut(0, Direction::Both);
    pair.set_interface(1, manyway_sim::link::LinkState::Down);
    pair.begin().unwrap();
    pair.run_for(SECOND).unwrap();
    pair.set_interface(1, manyway_sim::link::LinkState::Up);
    let start = pair.now();
    pair.run_until(5 * SECOND, "connected", |pair| {
        pair.peer(Side::Server).unwrap().connection().is_some_and(|connection| connection.is_established())
    })
    .unwrap();
    assert!(pair.now() - start < 200 * MS, "{:?}", pair.now() - start);
}
