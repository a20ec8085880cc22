//! Addresses that change under a path: NATs that drop or change their mappings, hosts that move.

use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, PathReason, PathState};
use manyway_sim::link::DelayModel;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, connected_with, count_in, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

fn behind_nat(timeout: Duration) -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).behind_nat(timeout)
}

fn start(pair: &mut EndpointPair, from: Side, bytes: ByteCount) {
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, bytes)));
}

#[test]
fn a_path_follows_a_nat_that_changes_the_port() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected(behind_nat(MINUTE)).unwrap();
        start(&mut pair, from, megabytes(5));
        for _ in 0..5 {
            pair.run_for(300 * MS).unwrap();
            pair.rebind(0);
        }
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence < 700 * MS, "{from:?} {silence:?}");
        let paths = path_figures(&mut pair, Side::Server);
        assert_eq!(paths.len(), 1, "the path stays the same");
        let moves = path_events(&mut pair, Side::Server).len() - 1;
        assert!(moves >= 4, "{from:?} {moves}");
    }
}

#[test]
fn one_of_two_paths_can_change_its_port_unnoticed() {
    for from in [Side::Client, Side::Server] {
        let builder = behind_nat(MINUTE).path(mbit(20), 10 * MS).behind_nat(MINUTE);
        let mut pair = connected(builder).unwrap();
        start(&mut pair, from, megabytes(10));
        for round in 0..6 {
            pair.run_for(300 * MS).unwrap();
            pair.rebind(round % 2);
        }
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence < 300 * MS, "{from:?} {silence:?}");
        pair.run_for(2 * SECOND).unwrap();
        assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2);
        assert_eq!(count_in(&mut pair, Side::Server, PathState::Active), 2);
    }
}

#[test]
fn the_clients_next_packet_passes_a_nat_that_forgot_an_idle_connection() {
    let mut pair = connected(behind_nat(5 * SECOND)).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.run_for(10 * SECOND).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();
}

#[test]
fn a_keep_alive_holds_a_nat_mapping_open_for_the_server() {
    let mut config = ConnectionConfig::default();
    config.keep_alive = Some(2 * SECOND);
    let mut pair =
        connected_with(behind_nat(5 * SECOND).path(mbit(5), 20 * MS).behind_nat(5 * SECOND), &config)
            .unwrap();
    pair.run_for(40 * SECOND).unwrap();
    let report = pair.transfer(Side::Server, megabytes(3), MINUTE).unwrap();
    assert!(report.path_bytes.iter().all(|bytes| *bytes > ByteCount(200_000)), "{:?}", report.path_bytes);
    assert!(report.elapsed < 3 * SECOND, "{:?}", report.elapsed);
}

#[test]
fn a_client_with_one_interface_moves_to_another_address() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS)).unwrap();
        start(&mut pair, from, megabytes(8));
        for _ in 0..4 {
            pair.run_for(500 * MS).unwrap();
            pair.change_address(0);
        }
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence < 400 * MS, "{from:?} {silence:?}");
        assert_eq!(path_figures(&mut pair, Side::Server).len(), 1);
    }
}

#[test]
fn a_move_while_the_path_is_cut_is_detected_afterwards() {
    let mut pair = connected(behind_nat(MINUTE)).unwrap();
    start(&mut pair, Side::Server, megabytes(5));
    pair.run_for(500 * MS).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(2 * SECOND).unwrap();
    pair.rebind(0);
    pair.restore(0, Direction::Both);
    let restored = pair.now();
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let back = pair.received(Side::Client).first_bin_with_bytes_after(restored).unwrap();
    assert!(back - restored < 3 * SECOND, "{:?}", back - restored);
}

// spec 6.73
#[test]
fn a_server_that_follows_its_client_to_another_network_resets_the_path() {
    let mut pair = connected(PairBuilder::new().path(mbit(200), MS)).unwrap();
    start(&mut pair, Side::Server, megabytes(200));
    pair.run_for(2 * SECOND).unwrap();
    let before = path_figures(&mut pair, Side::Server)[0].window;
    // From a cable to a cell.
    pair.change_address(0);
    pair.with_links(0, Direction::Both, |now, link| link.set_delay(now, DelayModel::constant(25 * MS)));
    pair.set_rate(0, Direction::Both, mbit(10));
    let moved = pair.now();
    while path_events(&mut pair, Side::Server).last().unwrap().1.reason != PathReason::Moved {
        pair.run_for(MS).unwrap();
    }
    pair.run_for(150 * MS).unwrap();
    let figures = path_figures(&mut pair, Side::Server);
    assert!(figures[0].window < before / 2, "{before:?} {figures:?}");
    assert!(figures[0].minimum_rtt >= 50 * MS, "{figures:?}");
    let soon = pair.received(Side::Client).total();
    pair.run_for(9 * SECOND).unwrap();
    let goodput = (pair.received(Side::Client).total() - soon).per(pair.now() - moved);
    assert!(goodput >= mbit(8), "{goodput}");
    assert_eq!(pair.ended(), None);
}
