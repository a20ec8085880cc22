//! The datagram size: the limit of each path is found, used, and given up when the path carries less.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, ConnectionError, PathReason, PathState};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::nightly::seeds;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, connected_with, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};

fn link(mtu: u16) -> LinkConfig {
    LinkConfig::new(mbit(50), 10 * MS).with_mtu(mtu)
}

/// A pair over links that carry IP packets of these sizes, all of whose interfaces carry `interface`.
fn pair_over(links: &[u16], interface: u32) -> EndpointPair {
    let builder =
        links.iter().fold(PairBuilder::new(), |builder, mtu| builder.path_with(link(*mtu), link(*mtu)));
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    set_interfaces(&mut pair, interface);
    pair.connect(10 * SECOND).unwrap();
    pair
}

/// Sets the MTU of both hosts' interfaces from now on.
fn set_interfaces(pair: &mut EndpointPair, mtu: u32) {
    let client = pair.paths().iter().map(|path| path.address).collect::<Vec<_>>();
    let server = pair.servers().iter().map(|server| server.address.ip()).collect::<Vec<_>>();
    let now = pair.now();
    for side in [Side::Client, Side::Server] {
        let known: Vec<(IpAddr, u32)> = client.iter().chain(&server).map(|address| (*address, mtu)).collect();
        pair.peer(side).unwrap().endpoint().set_interface_mtus(now, &known);
    }
}

fn sizes(pair: &mut EndpointPair, side: Side) -> Vec<u16> {
    path_figures(pair, side).iter().map(|path| path.datagram).collect()
}

/// Keeps `side` sending during the test.
fn keep_sending(pair: &mut EndpointPair, side: Side) {
    let host = pair.host(side);
    pair.start(side, Box::new(Exchange::new(host, megabytes(2000))));
}

/// Runs until every path of `side` has one of these sizes; returns how long that took.
fn until_sizes(
    pair: &mut EndpointPair,
    side: Side,
    wanted: &[std::ops::RangeInclusive<u16>],
    most: Duration,
) -> Duration {
    let since = pair.now();
    loop {
        let sizes = sizes(pair, side);
        if sizes.len() == wanted.len() && sizes.iter().zip(wanted).all(|(size, wanted)| wanted.contains(size))
        {
            return pair.now() - since;
        }
        assert!(pair.now() - since < most, "{side:?} {sizes:?} after {most:?}");
        pair.run_for(10 * MS).unwrap();
    }
}

// spec 6.61
#[test]
fn what_the_interface_carries_is_in_use_after_two_round_trips_up_to_65_000_bytes() {
    for (mtu, payload) in [(1500, 1472), (9000, 8972), (65_100, 65_000)] {
        let mut pair = pair_over(&[mtu], u32::from(mtu));
        for side in [Side::Client, Side::Server] {
            let took = until_sizes(&mut pair, side, &[payload..=payload], SECOND);
            // 65 KB take 10 ms on this link.
            assert!(took < 100 * MS, "{mtu} {side:?} {took:?}");
            let report = pair.transfer(side, megabytes(5), MINUTE).unwrap();
            assert!(report.goodput >= mbit(43), "{mtu} {side:?} {:?}", report.goodput);
        }
    }
}

#[test]
fn each_path_finds_its_own_size() {
    let links = [9000, 1280, 1420, 1500];
    let mut pair = pair_over(&links, 9000);
    for side in [Side::Client, Side::Server] {
        keep_sending(&mut pair, side);
        until_sizes(&mut pair, side, &[8972..=8972, 1236..=1252, 1376..=1392, 1472..=1472], 10 * SECOND);
    }
    assert!(path_events(&mut pair, Side::Client).iter().all(|(_, event)| event.state != PathState::Dead));
}

// spec 6.34
#[test]
fn a_lost_probe_is_no_sign_of_congestion_and_makes_no_path_suspect() {
    let mut pair = pair_over(&[1500, 1500], 65_536);
    // Only the search itself is in flight.
    pair.run_for(20 * SECOND).unwrap();
    for side in [Side::Client, Side::Server] {
        assert_eq!(sizes(&mut pair, side), [1472, 1472]);
        let states: Vec<_> = path_events(&mut pair, side).iter().map(|(_, event)| event.state).collect();
        assert!(!states.contains(&PathState::Suspect), "{states:?}");
        for path in path_figures(&mut pair, side) {
            assert!(path.window >= ByteCount(12_000), "{:?}", path.window);
        }
    }
}

// spec 6.125
#[test]
fn a_transfer_survives_a_path_that_silently_carries_less() {
    for (before, after, side) in [
        (9000, 1500, Side::Client),
        (9000, 1400, Side::Server),
        (65_100, 1500, Side::Client),
        (1500, 1280, Side::Server),
    ] {
        let mut pair = pair_over(&[before], u32::from(before));
        keep_sending(&mut pair, side);
        pair.run_for(2 * SECOND).unwrap();
        assert!(sizes(&mut pair, side)[0] >= before - 100);
        pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, after));
        let cut_at = pair.now();
        let reach = after - 44..=after - 28;
        let took = until_sizes(&mut pair, side, &[reach], 70 * SECOND);
        let delivered = pair.delivered(side)[0];
        pair.run_for(2 * SECOND).unwrap();
        let rate = (pair.delivered(side)[0] - delivered).get() * 8 / 2_000_000;
        assert!(rate >= 40, "{before} {after} {side:?}: {rate} Mbit/s after {took:?}");
        let dead =
            path_events(&mut pair, side).iter().any(|(at, e)| *at >= cut_at && e.state == PathState::Dead);
        assert!(!dead, "{before} {after} {side:?}");
        let back =
            pair.received(side.other()).first_bin_with_bytes_after(cut_at + 100 * MS).unwrap() - cut_at;
        assert!(back < 3 * SECOND, "{before} {after} {side:?} {back:?}");
    }
}

// spec 6.125
#[test]
fn a_path_beside_another_that_silently_carries_less_goes_on_at_its_size() {
    let mut pair = pair_over(&[9000, 1500], 9000);
    keep_sending(&mut pair, Side::Client);
    pair.run_for(2 * SECOND).unwrap();
    pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1500));
    until_sizes(&mut pair, Side::Client, &[1200..=1472, 1472..=1472], 3 * SECOND);
    until_sizes(&mut pair, Side::Client, &[1472..=1472, 1472..=1472], 65 * SECOND);
    let before = pair.delivered(Side::Client)[0];
    pair.run_for(2 * SECOND).unwrap();
    assert!(pair.delivered(Side::Client)[0] - before > megabytes(10));
}

// spec 6.125
#[test]
fn a_message_of_three_packets_is_enough_to_detect_that_the_only_path_carries_less() {
    for request in [0, 100] {
        let mut pair = pair_over(&[1500], 1500);
        let exchange = |pair: &mut EndpointPair| {
            let since = pair.now();
            pair.transfer(Side::Client, ByteCount(request), SECOND).unwrap();
            pair.transfer(Side::Server, ByteCount(4300), SECOND).unwrap();
            let took = pair.now() - since;
            pair.run_for(100 * MS).unwrap();
            took
        };
        (0..20).for_each(|_| assert!(exchange(&mut pair) < 60 * MS));
        pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1300));
        let longest = (0..20).map(|_| exchange(&mut pair)).max().unwrap();
        assert!(longest <= 160 * MS, "{request} {longest:?}");
    }
}

// spec 6.125
#[test]
fn a_path_that_merely_looks_smaller_loses_large_datagrams_only_briefly() {
    for seed in seeds(2, 10) {
        let builder = PairBuilder::new().seed(seed).path_with(link(1500), link(1500));
        let mut pair = connected(builder).unwrap();
        // Acknowledgements without data are the small packets that arrive between the large ones.
        keep_sending(&mut pair, Side::Client);
        keep_sending(&mut pair, Side::Server);
        pair.run_for(SECOND).unwrap();
        for _ in 0..5 {
            pair.cut(0, Direction::Both);
            pair.run_for(120 * MS).unwrap();
            pair.restore(0, Direction::Both);
            pair.run_for(SECOND).unwrap();
            for side in [Side::Client, Side::Server] {
                assert_eq!(sizes(&mut pair, side), [1472], "{seed} {side:?}");
            }
        }
    }
}

// spec 6.125
#[test]
fn random_loss_of_short_flights_leaves_large_datagrams_in_use() {
    for percent in [2.0, 3.0, 5.0] {
        for seed in 0..20 {
            let lossy = link(1500).with_loss(LossModel::Random(Probability::from_percent(percent)));
            let builder = PairBuilder::new().seed(seed).path_with(lossy.clone(), lossy);
            let mut pair = connected(builder.path(mbit(5), 30 * MS)).unwrap();
            pair.run_for(SECOND).unwrap();
            let mut reduced = 0;
            for _ in 0..100 {
                pair.transfer(Side::Client, ByteCount(600), MINUTE).unwrap();
                pair.transfer(Side::Server, ByteCount(4300), MINUTE).unwrap();
                for side in [Side::Client, Side::Server] {
                    reduced += usize::from(sizes(&mut pair, side)[0] < 1472);
                }
            }
            assert!(reduced <= 1, "{percent} % seed {seed}: {reduced} of 200");
        }
    }
}

// spec 6.126
#[test]
fn a_path_that_carries_more_than_before_is_detected_after_ten_minutes() {
    let mut pair = pair_over(&[1400], 1500);
    pair.run_for(5 * SECOND).unwrap();
    assert_eq!(sizes(&mut pair, Side::Client), [1372]);
    pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1500));
    // Kept open by an occasional byte.
    for _ in 0..31 {
        pair.run_for(20 * SECOND).unwrap();
        pair.transfer(Side::Client, ByteCount(1), SECOND).unwrap();
    }
    assert_eq!(sizes(&mut pair, Side::Client), [1472]);
}

// spec 6.125
#[test]
fn an_outage_reduces_the_size_of_a_lone_path_no_longer_than_it_lasts() {
    for side in [Side::Client, Side::Server] {
        let mut pair = pair_over(&[9000], 9000);
        keep_sending(&mut pair, side);
        pair.run_for(SECOND).unwrap();
        for lasts in [300 * MS, 800 * MS, 3 * SECOND] {
            pair.cut(0, Direction::Both);
            pair.run_for(lasts).unwrap();
            pair.restore(0, Direction::Both);
            until_sizes(&mut pair, side, &[8972..=8972], 3 * SECOND);
        }
    }
}

// spec 6.125
#[test]
fn random_loss_leaves_large_datagrams_in_use() {
    for (mtu, percent) in [(9000, 1.0), (9000, 3.0), (65_100, 1.0)] {
        let lossy = link(mtu).with_loss(LossModel::Random(Probability::from_percent(percent)));
        let builder = PairBuilder::new().path_with(lossy.clone(), lossy);
        let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
        set_interfaces(&mut pair, u32::from(mtu));
        pair.connect(10 * SECOND).unwrap();
        keep_sending(&mut pair, Side::Client);
        let mut at_full_size = 0;
        for _ in 0..100 {
            pair.run_for(200 * MS).unwrap();
            at_full_size += usize::from(sizes(&mut pair, Side::Client)[0] >= mtu - 100);
        }
        assert!(at_full_size >= 90, "{mtu} {percent} % {at_full_size}");
    }
}

#[test]
fn a_change_of_the_interface_is_followed_at_once() {
    let mut pair = pair_over(&[9000], 1500);
    pair.run_for(SECOND).unwrap();
    assert_eq!(sizes(&mut pair, Side::Client), [1472]);
    set_interfaces(&mut pair, 9000);
    for side in [Side::Client, Side::Server] {
        until_sizes(&mut pair, side, &[8972..=8972], SECOND);
    }
    set_interfaces(&mut pair, 1400);
    for side in [Side::Client, Side::Server] {
        assert!(sizes(&mut pair, side)[0] <= 1372);
        until_sizes(&mut pair, side, &[1372..=1372], SECOND);
    }
}

#[test]
fn a_size_that_the_system_refuses_is_given_up_at_once() {
    let mut pair = pair_over(&[1500], 9000);
    until_sizes(&mut pair, Side::Client, &[1472..=1472], 5 * SECOND);
    let now = pair.now();
    let tuple = path_figures(&mut pair, Side::Client)[0].tuple;
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    connection.on_datagram_too_large(now, tuple, 1472);
    assert_eq!(sizes(&mut pair, Side::Client), [1200]);
    until_sizes(&mut pair, Side::Client, &[1420..=1471], 5 * SECOND);
}

#[test]
fn the_smaller_limit_of_both_ends_applies() {
    let mut config = ConnectionConfig::default();
    config.max_datagram = 1300;
    let mut pair = connected_with(PairBuilder::new().path(mbit(20), 10 * MS), &config).unwrap();
    pair.run_for(SECOND).unwrap();
    for side in [Side::Client, Side::Server] {
        assert_eq!(sizes(&mut pair, side), [1300]);
    }
    config.max_datagram = 65_001;
    assert!(config.validate().is_err());
}

#[test]
fn a_path_whose_port_a_nat_changes_keeps_its_size() {
    for seed in [1, 2] {
        let builder = PairBuilder::new().seed(seed).path(mbit(20), 10 * MS).behind_nat(300 * SECOND);
        let mut pair = connected(builder).unwrap();
        keep_sending(&mut pair, Side::Server);
        pair.run_for(SECOND).unwrap();
        assert_eq!(sizes(&mut pair, Side::Server), [1472]);
        pair.rebind(0);
        let moved = |pair: &mut EndpointPair| {
            path_events(pair, Side::Server).iter().any(|(_, event)| event.reason == PathReason::Moved)
        };
        pair.run_until(SECOND, "the path has moved", moved).unwrap();
        // A sender that heard nothing for two probe timeouts sends small packets until one is acknowledged.
        pair.run_for(50 * MS).unwrap();
        for _ in 0..20 {
            pair.run_for(50 * MS).unwrap();
            assert_eq!(sizes(&mut pair, Side::Server), [1472], "seed {seed}");
        }
    }
}

// spec 6.33
#[test]
fn a_lone_path_that_drops_1200_bytes_stays_dead_although_it_answers_and_the_connection_ends_in_time() {
    for side in [Side::Client, Side::Server] {
        let mut pair = pair_over(&[1500], 1500);
        keep_sending(&mut pair, side);
        pair.run_for(1500 * MS).unwrap();
        pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1000));
        let cut_at = pair.now();
        let ended = |pair: &mut EndpointPair| pair.ended().is_some();
        pair.run_until(2 * MINUTE, "the end", ended).unwrap();
        assert_eq!(pair.ended().map(|(_, error)| error), Some(ConnectionError::NoPath), "{side:?}");
        let later = path_events(&mut pair, side).into_iter().filter(|(at, _)| *at >= cut_at);
        let later: Vec<_> = later.map(|(_, event)| (event.state, event.reason)).collect();
        let back = [PathState::Probation, PathState::Active];
        assert!(!later.iter().any(|(state, _)| back.contains(state)), "{side:?} {later:?}");
        assert!(later.contains(&(PathState::Dead, PathReason::OnlySmall)), "{side:?} {later:?}");
    }
}

// spec 6.33, 6.77
#[test]
fn a_path_that_carries_1200_bytes_again_returns_soon_however_long_it_did_not() {
    for outage in [2 * SECOND, 30 * SECOND] {
        let mut pair = pair_over(&[1500], 1500);
        keep_sending(&mut pair, Side::Client);
        pair.run_for(SECOND).unwrap();
        pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1000));
        pair.run_for(outage).unwrap();
        pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1500));
        let (whole_at, delivered) = (pair.now(), pair.delivered(Side::Client)[0]);
        let moves = |pair: &mut EndpointPair| pair.delivered(Side::Client)[0] > delivered + megabytes(1);
        pair.run_until(10 * SECOND, "data moves", moves).unwrap();
        assert!(pair.now() - whole_at < 3 * SECOND, "{outage:?}: {:?}", pair.now() - whole_at);
    }
}
