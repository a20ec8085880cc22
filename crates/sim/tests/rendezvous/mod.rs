//! Both ends move at the same moment, without names: they find each other at a rendezvous server, or not at all.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]

mod host;

use std::net::SocketAddr;

use manyway_proto::{ConnectionError, Ecn, PathState};
use manyway_sim::nat::{Nat, NatConfig};
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MINUTE, MS, SECOND, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{Node, PairError, Side};

use host::{Host, RELAY, SERVER, Scene};

fn start(scene: &mut Scene, from: Side) {
    let host = scene.pair.host(from);
    scene.pair.start(from, Box::new(Exchange::new(host, megabytes(5))));
}

// spec 10.4, 10.8
#[test]
fn a_transfer_goes_on_when_both_ends_move_at_the_same_moment() {
    for from in [Side::Client, Side::Server] {
        let mut scene = Scene::connected(&[RELAY]);
        start(&mut scene, from);
        for _ in 0..3 {
            scene.pair.run_for(900 * MS).unwrap();
            scene.move_both();
        }
        scene.pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = scene.pair.received(from.other()).longest_silence();
        println!("{from:?}: silence {silence:?}");
        assert!(silence < 900 * MS, "{from:?} {silence:?}");
    }
}

#[test]
fn without_a_rendezvous_it_does_not() {
    let mut scene = Scene::connected(&[]);
    start(&mut scene, Side::Client);
    scene.pair.run_for(500 * MS).unwrap();
    scene.move_both();
    let end = scene.pair.run_until(2 * MINUTE, "transferred", |pair| pair.is_quiet());
    assert!(matches!(end, Err(PairError::Ended { error: ConnectionError::NoPath, .. })), "{end:?}");
    assert_eq!(scene.relay().counters().answered, 0);
}

// spec 10.5, 10.9
#[test]
fn both_can_move_behind_nats() {
    for from in [Side::Client, Side::Server] {
        let mut scene = Scene::connected(&[RELAY]);
        start(&mut scene, from);
        scene.pair.run_for(500 * MS).unwrap();
        scene.move_both();
        let network = scene.pair.world_mut().network_mut();
        for (interface, outer) in scene.interfaces.into_iter().zip([[100, 64, 0, 1], [100, 64, 0, 2]]) {
            network.set_nat(interface, Nat::new(NatConfig::new(outer.into())));
        }
        scene.pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = scene.pair.received(from.other()).longest_silence();
        println!("{from:?}: silence {silence:?} behind translators");
        assert!(silence < 3 * SECOND, "{from:?} {silence:?}");
    }
}

/// The server alone moves, without notice from the old address: it sends to its client from the new one.
// spec 6.53
#[test]
fn a_server_that_moved_alone_is_found_without_a_rendezvous_too() {
    for rendezvous in [&[RELAY][..], &[]] {
        for from in [Side::Client, Side::Server] {
            let mut scene = Scene::connected(rendezvous);
            start(&mut scene, from);
            for _ in 0..3 {
                scene.pair.run_for(500 * MS).unwrap();
                scene.move_server();
            }
            scene.pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
            let silence = scene.pair.received(from.other()).longest_silence();
            println!("{from:?}: silence {silence:?} after the server moved");
            assert!(silence < 3 * SECOND, "{from:?} {silence:?}");
        }
    }
}

// spec 6.53, 6.105
#[test]
fn a_server_that_moves_while_nothing_is_sent_is_found_before_there_is_something() {
    let mut scene = Scene::connected(&[]);
    scene.pair.run_for(5 * SECOND).unwrap();
    scene.move_server();
    scene.pair.run_for(5 * SECOND).unwrap();
    let report = scene.pair.transfer(Side::Client, megabytes(1), 2 * SECOND).unwrap();
    assert!(report.elapsed < SECOND, "{:?}", report.elapsed);
}

// spec 10.16
#[test]
fn requests_that_the_relay_loses_are_repeated() {
    let mut scene = Scene::connected(&[RELAY]);
    start(&mut scene, Side::Client);
    scene.pair.run_for(500 * MS).unwrap();
    let relay = scene.relay;
    let rule = scene.pair.world_mut().network_mut().add_rule(Matching::all().from(relay), Action::Drop);
    scene.move_both();
    scene.pair.run_for(2 * SECOND).unwrap();
    scene.pair.world_mut().network_mut().remove_rule(rule);
    scene.pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let silence = scene.pair.received(Side::Server).longest_silence();
    // After 0.5, 1 and 2 s without success, 4 s after the move, or 9 s if both ask at the same moment then.
    assert!(silence < 10 * SECOND, "{silence:?}");
}

// spec 10.4
#[test]
fn a_dead_rendezvous_does_no_harm_to_a_healthy_connection() {
    let elapsed = |rendezvous: &[&str]| {
        let mut scene = Scene::connected(rendezvous);
        let report = scene.pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
        scene.pair.run_for(5 * MINUTE).unwrap();
        scene.pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();
        report.elapsed
    };
    // That address does not exist.
    let (without, with) = (elapsed(&[]), elapsed(&["198.51.100.2:4455"]));
    println!("20 MB in {without:?} without and {with:?} with a dead rendezvous");
    assert!(with < without + without / 100, "{with:?} {without:?}");
}

// spec 10.15
#[test]
fn forged_and_repeated_datagrams_of_a_relay_change_nothing() {
    let mut scene = Scene::connected(&[RELAY]);
    scene.pair.peer(Side::Client).and_then(Host::end).unwrap().take_arrivals();
    scene.pair.run_for(40 * SECOND).unwrap();
    scene.move_server();
    scene.pair.run_for(SECOND).unwrap();
    let client = scene.pair.peer(Side::Client).and_then(Host::end).unwrap();
    let heard: Vec<_> = client
        .take_arrivals()
        .into_iter()
        .filter(|(tuple, _)| tuple.remote == RELAY.parse::<SocketAddr>().unwrap())
        .collect();
    assert!(!heard.is_empty(), "the client asked the relay");
    let before = client.connection().unwrap().remote_addresses();
    // Every datagram once more, unchanged and with each byte changed, from the relay's own address.
    let now = scene.pair.now();
    let client = scene.pair.peer(Side::Client).and_then(Host::end).unwrap();
    for (tuple, datagram) in &heard {
        for at in 0..=datagram.len() {
            let mut bytes = datagram.clone();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 0x55;
            }
            client.handle_datagram(now, *tuple, Ecn::NotEct, &mut bytes);
        }
    }
    assert_eq!(client.connection().unwrap().remote_addresses(), before);
    scene.pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
}

fn remotes(scene: &mut Scene) -> Vec<SocketAddr> {
    let client = scene.pair.peer(Side::Client).and_then(Host::end).unwrap();
    client.connection().unwrap().remote_addresses()
}

/// The client's request brings it the server's old list once more.
// spec 10.8, 10.15
#[test]
fn an_address_that_the_server_withdrew_stays_away_although_a_rendezvous_still_has_it() {
    let mut scene = Scene::connected(&[RELAY]);
    let [first, second] = [SERVER, "172.16.9.9:4433"].map(|address| address.parse().unwrap());
    let advertise = |scene: &mut Scene, addresses: &[SocketAddr]| {
        let server = scene.pair.peer(Side::Server).and_then(Host::end).unwrap();
        server.connection().unwrap().set_advertised_addresses(addresses);
    };
    advertise(&mut scene, &[first, second]);
    scene.pair.run_for(40 * SECOND).unwrap();
    assert!(remotes(&mut scene).contains(&second));
    let (server, relay) = (scene.pair.host(Side::Server), RELAY.parse::<SocketAddr>().unwrap());
    let to_relay = Matching::all().from(server).address(relay.ip());
    scene.pair.world_mut().network_mut().add_rule(to_relay, Action::Drop);
    advertise(&mut scene, &[first]);
    scene.pair.run_for(SECOND).unwrap();
    assert!(!remotes(&mut scene).contains(&second));
    let matched = scene.relay().counters().matched;
    scene.pair.run_for(MINUTE).unwrap();
    assert!(scene.relay().counters().matched > matched, "the client has asked again");
    assert!(!remotes(&mut scene).contains(&second));
}

/// The server's first address stands for a relay.
// spec 10.45, 10.46, 10.47
#[test]
fn a_connection_leaves_a_relay_each_time_when_a_direct_path_works() {
    let (relay, direct) = (SERVER, "172.16.9.9:4433".parse::<SocketAddr>().unwrap());
    let mut scene = Scene::connected(&[relay]);
    let relay = relay.parse().unwrap();
    scene.add_server_address(direct);
    let at = |scene: &mut Scene| {
        let client = scene.pair.peer(Side::Client).and_then(Host::end).unwrap();
        let paths = client.connection().unwrap().statistics().paths;
        let live = paths.iter().filter(|path| path.state == PathState::Active);
        live.map(|path| path.tuple.remote).collect::<Vec<_>>()
    };
    for time in 0..3 {
        scene.pair.run_for(10 * SECOND).unwrap();
        assert_eq!(at(&mut scene), [direct], "{time}");
        let rule = Matching::all().address(direct.ip());
        let rule = scene.pair.world_mut().network_mut().add_rule(rule, Action::Drop);
        scene.pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
        assert_eq!(at(&mut scene), [relay], "{time}");
        scene.pair.world_mut().network_mut().remove_rule(rule);
    }
}
