//! Costs of paths that the client sets and the server, which sends, goes by (spec 5.94, 6.128).
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::scheduler::{PathTerms, Purpose};
use manyway_proto::{ByteCount, Class, ConnectionConfig, Event, LocalAddress, PathId};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MS, SECOND, mbit, megabytes, path_figures};
use manyway_sim::traffic::{Exchange, Requests};
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};

/// Two equal paths, not connected yet.
fn pair_of(scheduler: &str) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    endpoint_pair(PairBuilder::new().path(mbit(10), 10 * MS).path(mbit(10), 10 * MS), &config)
}

fn connected(scheduler: &str) -> EndpointPair {
    let mut pair = pair_of(scheduler);
    pair.connect(SECOND).unwrap();
    pair.run_for(500 * MS).unwrap();
    pair
}

fn set_cost(pair: &mut EndpointPair, side: Side, local: LocalAddress, cost: u8) {
    let mut terms = PathTerms::default();
    terms.cost = cost;
    pair.peer(side).unwrap().connection().unwrap().set_terms(local, terms);
}

/// The client's costs of its two paths from now on; the server knows them a little later.
fn set_costs(pair: &mut EndpointPair, costs: [u8; 2]) {
    for (path, cost) in path_figures(pair, Side::Client).into_iter().zip(costs) {
        set_cost(pair, Side::Client, path.tuple.local, cost);
    }
    pair.run_for(100 * MS).unwrap();
}

/// Bytes of the server that each path delivers within a time.
fn delivered_in(pair: &mut EndpointPair, time: Duration) -> Vec<u64> {
    let before = pair.delivered(Side::Server);
    pair.run_for(time).unwrap();
    pair.delivered(Side::Server).iter().zip(before).map(|(after, before)| (*after - before).get()).collect()
}

fn start(pair: &mut EndpointPair, class: Class) {
    let host = pair.host(Side::Server);
    pair.start(Side::Server, Box::new(Exchange::new(host, megabytes(20)).class(class)));
}

/// Whether the server leaves each path to what cheaper ones cannot carry.
fn spared(pair: &mut EndpointPair) -> Vec<bool> {
    let now = pair.now();
    let purposes = pair.peer(Side::Server).unwrap().connection().unwrap().purposes(now);
    purposes.iter().map(|(_, purpose)| *purpose == Purpose::MoreCostly).collect()
}

fn was_asked(pair: &mut EndpointPair) -> bool {
    let events = pair.peer(Side::Server).unwrap().events();
    events.iter().any(|(_, event)| matches!(event, Event::CostlyPathNeeded(_)))
}

#[test]
fn a_server_with_the_scheduler_cost_spares_the_path_that_costs_its_client() {
    let mut pair = connected("cost");
    set_costs(&mut pair, [0, 1]);
    // 4 Mbit/s in pieces, of which one path carries each within 200 ms.
    let (host, now) = (pair.host(Side::Server), pair.now());
    let requests = Requests::new(host, ByteCount(200_000), now, 400 * MS, 10);
    pair.start(Side::Server, Box::new(requests));
    let bytes = delivered_in(&mut pair, 1500 * MS);
    assert!(bytes[0] > 600_000 && bytes[1] < 20_000, "{bytes:?}");
    set_costs(&mut pair, [255, 0]);
    pair.run_for(400 * MS).unwrap();
    let bytes = delivered_in(&mut pair, 1500 * MS);
    assert!(bytes[0] < 20_000 && bytes[1] > 600_000, "{bytes:?}");
}

#[test]
fn a_server_of_any_scheduler_sends_background_data_on_paths_that_cost_its_client_nothing() {
    let mut pair = connected("earliest");
    set_costs(&mut pair, [0, 1]);
    start(&mut pair, Class::Background);
    let bytes = delivered_in(&mut pair, SECOND);
    assert!(bytes[0] > 500_000 && bytes[1] < 20_000, "{bytes:?}");
    set_costs(&mut pair, [0, 0]);
    let bytes = delivered_in(&mut pair, SECOND);
    assert!(bytes[0] > 500_000 && bytes[1] > 500_000, "{bytes:?}");
}

#[test]
fn a_path_that_costs_the_client_replaces_the_primary_of_a_server_without_a_question_and_only_while_needed() {
    let mut pair = connected("primary");
    // The path that the server prefers without costs.
    set_costs(&mut pair, [1, 0]);
    start(&mut pair, Class::Bulk);
    pair.run_for(500 * MS).unwrap();
    let bytes = delivered_in(&mut pair, SECOND);
    assert!(bytes[0] < 20_000 && bytes[1] > 1_000_000, "{bytes:?}");
    pair.cut(1, Direction::Both);
    pair.run_for(SECOND).unwrap();
    let bytes = delivered_in(&mut pair, SECOND);
    assert!(bytes[0] > 1_000_000, "{bytes:?}");
    pair.restore(1, Direction::Both);
    pair.run_for(3 * SECOND).unwrap();
    let bytes = delivered_in(&mut pair, SECOND);
    assert!(bytes[0] < 20_000 && bytes[1] > 1_000_000, "{bytes:?}");
    assert!(!was_asked(&mut pair));
}

#[test]
fn costs_set_before_the_handshake_arrive_with_each_path() {
    for costs in [[1, 0], [0, 1]] {
        let mut pair = pair_of("cost");
        pair.begin().unwrap();
        let locals = pair.peer(Side::Client).unwrap().connection().unwrap().local_candidates();
        for (local, cost) in locals.iter().zip(costs) {
            set_cost(&mut pair, Side::Client, local.address, cost);
        }
        pair.run_for(500 * MS).unwrap();
        assert_eq!(spared(&mut pair), costs.map(|cost| cost == 1));
    }
}

#[test]
fn a_cost_that_an_end_set_itself_goes_before_that_of_its_peer() {
    let mut pair = connected("cost");
    set_costs(&mut pair, [0, 1]);
    assert_eq!(spared(&mut pair), [false, true]);
    // Both paths reach one interface of the server, so they cost the same.
    let local = path_figures(&mut pair, Side::Server).iter().map(|path| path.tuple.local).next().unwrap();
    set_cost(&mut pair, Side::Server, local, 2);
    assert_eq!(spared(&mut pair), [false, false]);
    set_cost(&mut pair, Side::Server, local, 0);
    assert_eq!(spared(&mut pair), [false, true]);
}

#[test]
fn a_lost_report_of_a_cost_is_sent_again() {
    let mut pair = connected("cost");
    for path in [0, 1] {
        pair.cut(path, Direction::Up);
    }
    set_costs(&mut pair, [0, 1]);
    assert_eq!(spared(&mut pair), [false, false]);
    for path in [0, 1] {
        pair.restore(path, Direction::Up);
    }
    pair.run_for(3 * SECOND).unwrap();
    let now = pair.now();
    let purposes = pair.peer(Side::Server).unwrap().connection().unwrap().purposes(now);
    assert!(purposes.contains(&(PathId(1), Purpose::MoreCostly)), "{purposes:?}");
}
