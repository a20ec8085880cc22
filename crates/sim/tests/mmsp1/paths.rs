//! Paths over MMSP/1: PROBE, failure and return, the primary, and which addresses count.

use std::time::Duration;

use manyway_proto::scheduler::Binding;
use manyway_proto::{ByteCount, ConnectionConfig, Event, PathId, PathReason, PathState, StreamId};
use manyway_sim::pair::{Direction, Family};
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes, path_events, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};
use manyway_wire::mmsp1::{Block, Header, Probe, ProbeAck, ProbeData};

use super::tester::{PEER, Tester};
use super::{connected, connected_with, modern};

fn two_paths() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(10), 20 * MS)
}

/// The states that a client's path went through after a time, with their times since then.
fn states_since(
    pair: &mut EndpointPair,
    side: Side,
    path: u32,
    since: manyway_proto::Instant,
) -> Vec<(Duration, PathState)> {
    let events = path_events(pair, side);
    let of_path = events.into_iter().filter(|(at, event)| event.path.0 == path && *at >= since);
    of_path.map(|(at, event)| (at - since, event.state)).collect()
}

#[test]
fn every_interface_becomes_a_path_at_both_ends_over_ipv4_and_ipv6() {
    for family in [Family::V4, Family::V6] {
        let builder = two_paths().path(mbit(20), 30 * MS).family(family);
        let mut pair = connected_with(builder, &modern("earliest", "cubic"));
        pair.run_for(500 * MS).unwrap();
        for side in [Side::Client, Side::Server] {
            let paths = pair.peer(side).unwrap().connection().unwrap().statistics().paths;
            let active = paths.iter().filter(|path| path.state == PathState::Active).count();
            assert_eq!(active, 3, "{family:?} {side:?}: {paths:?}");
            let report = pair.transfer(side, megabytes(3), MINUTE).unwrap();
            assert!(report.path_bytes.iter().all(|bytes| bytes.get() > 0), "{:?}", report.path_bytes);
        }
    }
}

#[test]
fn the_addresses_of_a_server_become_paths_though_the_client_knew_one() {
    let mut config = ConnectionConfig::mmsp1();
    config.set_pairs("full-mesh").unwrap();
    let mut server = config.clone();
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS).server_interfaces(2);
    let probe = manyway_sim::mmsp1_pair(builder.clone(), &config, &server);
    server.advertised = probe.servers().iter().map(|local| local.address).collect();
    let mut pair = manyway_sim::mmsp1_pair(builder.known_servers(1), &config, &server);
    pair.connect(5 * SECOND).unwrap();
    pair.run_for(2 * SECOND).unwrap();
    let paths = pair.peer(Side::Client).unwrap().connection().unwrap().statistics().paths;
    let active: Vec<_> = paths.iter().filter(|path| path.state == PathState::Active).collect();
    assert_eq!(active.len(), 2, "{paths:?}");
    assert_ne!(active[0].tuple.remote, active[1].tuple.remote);
}

#[test]
fn new_data_goes_on_the_primary_alone_and_what_was_lost_on_the_other_path() {
    let mut pair = connected(two_paths());
    pair.run_for(500 * MS).unwrap();
    let report = pair.transfer(Side::Client, megabytes(5), MINUTE).unwrap();
    assert!(percent(report.goodput, mbit(20)) >= 90, "{}", report.goodput);
    // The queue of the primary overflows.
    let paths = pair.peer(Side::Client).unwrap().connection().unwrap().statistics().paths;
    let (lost, on_other) = (paths[0].packets_lost, report.path_bytes[1].get());
    assert!(lost > 20 && paths[1].packets_lost == 0, "{paths:?}");
    assert!((lost * 1000..lost * 1400 + 5000).contains(&on_other), "{on_other} bytes for {lost} packets");
}

#[test]
fn three_unanswered_probes_make_a_path_unreachable_and_an_answer_brings_it_back() {
    let mut pair = connected(two_paths());
    pair.run_for(500 * MS).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(30))));
    pair.run_for(500 * MS).unwrap();
    let cut = pair.now();
    pair.cut(0, Direction::Both);
    pair.run_for(5 * SECOND).unwrap();
    let states = states_since(&mut pair, Side::Client, 0, cut);
    let [(at, PathState::Dead)] = states[..] else { panic!("{states:?}") };
    assert!(at >= 3 * SECOND && at < 3500 * MS, "after {at:?}");
    let before = pair.received(Side::Server).total();
    pair.run_for(SECOND).unwrap();
    let rate = pair.received(Side::Server).total().get() - before.get();
    assert!(rate > 1_000_000, "the other path carries the data: {rate} bytes a second");
    let restored = pair.now();
    pair.restore(0, Direction::Both);
    pair.run_for(4 * SECOND).unwrap();
    let states = states_since(&mut pair, Side::Client, 0, restored);
    assert_eq!(states.last().map(|(_, state)| *state), Some(PathState::Active), "{states:?}");
    let before = pair.received(Side::Server).total();
    pair.run_for(SECOND).unwrap();
    let rate = pair.received(Side::Server).total().get() - before.get();
    assert!(rate > 2_000_000, "the primary carries them again: {rate} bytes a second");
    let events = pair.peer(Side::Client).unwrap().events().to_vec();
    let primary = |(_, event)| if let Event::PrimaryPath(path) = event { Some(path.0) } else { None };
    let primaries: Vec<u32> = events.into_iter().filter_map(primary).collect();
    assert_eq!(primaries, [0, 1, 0], "the application is told of each change");
}

#[test]
fn fast_detection_moves_the_data_within_150_milliseconds() {
    for side in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
        let mut pair = connected_with(builder, &modern("earliest", "bbr"));
        pair.run_for(500 * MS).unwrap();
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(6))));
        pair.run_for(800 * MS).unwrap();
        pair.cut(0, Direction::Both);
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        let silence = pair.received(side.other()).longest_silence();
        assert!(silence <= 150 * MS, "{side:?}: {silence:?}");
    }
}

#[test]
fn a_quiet_path_is_asked_after_15_seconds() {
    let mut tester = Tester::accepted();
    let probes = |tester: &mut Tester| {
        let sent = tester.take_all();
        sent.into_iter().filter(|sent| sent.names() == ["PROBE"]).collect::<Vec<_>>()
    };
    tester.run_for(14 * SECOND);
    assert!(probes(&mut tester).is_empty());
    tester.run_for(1100 * MS);
    let asked = probes(&mut tester);
    assert_eq!(asked.len(), 1);
    tester.answer_probe(&asked[0]);
    tester.run_for(14 * SECOND);
    assert!(probes(&mut tester).is_empty());
    tester.run_for(30 * SECOND);
    assert!(
        tester.events.iter().any(|event| matches!(event, Event::Path(path)
            if path.state == PathState::Dead && path.reason == PathReason::NoAnswer)),
        "{:?}",
        tester.events
    );
}

#[test]
fn each_probe_is_answered_to_its_source_with_its_content_unchanged() {
    let mut tester = Tester::accepted();
    tester.discard();
    let data = ProbeData {
        sent_micros: 0x0102_0304_0506_0708,
        path: 9,
        address: "10.0.0.1".parse().unwrap(),
        nonce: 77,
        mac: 78,
    };
    let header = tester.header();
    for from in [PEER, "10.0.0.2:9999"] {
        tester.deliver_from(from, header, |w| Probe { data, unrecognised: None }.encode(w));
        let sent = tester.take_all();
        let mut answers: Vec<ProbeAck> = Vec::new();
        for packet in sent.iter().filter(|sent| sent.tuple.remote.to_string() == from) {
            for block in packet.blocks() {
                if let Block::ProbeAck(answer) = block {
                    answers.push(answer);
                }
            }
        }
        assert_eq!(answers.len(), 1, "{from}: {sent:?}");
        assert_eq!(answers[0].echo, data);
    }
    tester.deliver_from("10.9.9.9:4000", header, |w| Probe { data, unrecognised: None }.encode(w));
    assert_eq!(tester.take_names(), [""; 0], "not an address of the peer");
}

#[test]
fn an_echo_counts_only_if_nonce_and_mac_are_of_a_probe_without_an_answer() {
    let mut tester = Tester::accepted();
    tester.run_for(16 * SECOND);
    let asked = tester.take_all().into_iter().find(|sent| sent.names() == ["PROBE"]).unwrap();
    let [Block::Probe(probe)] = asked.blocks()[..] else { panic!("{:?}", asked.names()) };
    let header: Header = tester.header();
    let mut answer = |echo: ProbeData| {
        let data = ProbeData { nonce: 1, ..probe.data };
        tester.deliver_from(PEER, header, |w| ProbeAck { echo, data, unrecognised: None }.encode(w));
    };
    answer(ProbeData { nonce: probe.data.nonce ^ 1, ..probe.data });
    answer(ProbeData { mac: probe.data.mac ^ 1, ..probe.data });
    answer(ProbeData { path: probe.data.path ^ 1, ..probe.data });
    tester.run_for(1100 * MS);
    assert!(tester.take_all().iter().any(|sent| sent.names() == ["PROBE"]), "it still counts as unanswered");
}

#[test]
fn the_application_may_change_the_primary_during_the_connection() {
    let mut pair = connected(two_paths());
    pair.run_for(500 * MS).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    let second = pair.peer(Side::Client).unwrap().connection().unwrap().statistics().paths[1].id;
    pair.peer(Side::Client).unwrap().connection().unwrap().set_primary(Some(second)).unwrap();
    let report = pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    assert!(report.path_bytes[1] > ByteCount(2_000_000), "{:?}", report.path_bytes);
    assert!(report.path_bytes[0] < ByteCount(50_000), "{:?}", report.path_bytes);
}

#[test]
fn a_nat_that_changes_the_port_keeps_the_connection() {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).behind_nat(2 * SECOND);
    let mut pair = connected(builder);
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.rebind(0);
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.rebind(0);
    pair.transfer(Side::Server, megabytes(1), 2 * MINUTE).unwrap();
}

#[test]
fn an_application_binds_a_stream_to_a_path_or_an_interface() {
    let mut pair = connected_with(two_paths(), &modern("stream-bound", "cubic"));
    pair.run_for(SECOND).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(12))));
    pair.run_for(500 * MS).unwrap();
    let client = pair.peer(Side::Client).unwrap().connection().unwrap();
    let interface = client.statistics().paths[1].tuple.local.interface;
    let places =
        [(1, Binding::Path(PathId(1))), (0, Binding::Path(PathId(0))), (1, Binding::Interface(interface))];
    for (path, place) in places {
        let client = pair.peer(Side::Client).unwrap().connection().unwrap();
        client.bind_stream(StreamId(0), Some(place)).unwrap();
        pair.run_for(SECOND).unwrap();
        let before = pair.delivered(Side::Client);
        pair.run_for(SECOND).unwrap();
        let delivered: Vec<u64> = pair
            .delivered(Side::Client)
            .iter()
            .zip(before)
            .map(|(after, before)| (*after - before).get())
            .collect();
        let [on, off] = if path == 0 { [0, 1] } else { [1, 0] };
        assert!(delivered[on] > 100 * delivered[off].max(1_000), "{delivered:?} with {place:?}");
    }
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

// spec 3.123
#[test]
fn a_path_that_is_not_verified_gets_a_probe_a_second_at_most() {
    let mut tester = Tester::accepted();
    let header = tester.header();
    let data =
        ProbeData { sent_micros: 0, path: 9, address: "10.0.0.1".parse().unwrap(), nonce: 77, mac: 78 };
    let mut probes = 0;
    for second in 0..10 {
        let data = ProbeData { nonce: second, ..data };
        tester.deliver_from("10.0.0.2:9999", header, |w| Probe { data, unrecognised: None }.encode(w));
        tester.run_for(SECOND);
        let sent = tester.take_all();
        let there = sent.iter().filter(|sent| sent.tuple.remote.port() == 9999);
        probes += there.filter(|sent| sent.names().contains(&"PROBE")).count();
    }
    assert!((5..=11).contains(&probes), "{probes} in 10 s");
}

// spec 3.39
#[test]
fn an_echo_that_comes_again_does_not_count() {
    let mut tester = Tester::accepted();
    tester.run_for(16 * SECOND);
    let asked = tester.take_all().into_iter().find(|sent| sent.names() == ["PROBE"]).unwrap();
    tester.answer_probe(&asked);
    tester.run_for(16 * SECOND);
    assert!(tester.take_all().iter().any(|sent| sent.names() == ["PROBE"]));
    tester.answer_probe(&asked);
    tester.run_for(1100 * MS);
    assert!(tester.take_all().iter().any(|sent| sent.names() == ["PROBE"]), "the one before still waits");
}

#[test]
fn a_server_makes_room_for_new_paths_when_old_ones_have_failed() {
    let mut config = ConnectionConfig::mmsp1();
    config.path_limit = 3;
    let mut tester = Tester::accepted_with(config);
    let header = tester.header();
    for path in 1..10_u16 {
        let from = format!("10.0.0.2:{}", 9000 + path);
        let data = ProbeData {
            sent_micros: 0,
            path,
            address: "10.0.0.1".parse().unwrap(),
            nonce: path.into(),
            mac: 0,
        };
        tester.deliver_from(&from, header, |w| Probe { data, unrecognised: None }.encode(w));
        let sent = tester.take_all();
        let there = sent.iter().filter(|sent| sent.tuple.remote.to_string() == from);
        assert!(there.clone().any(|sent| sent.names().contains(&"PROBE-ACK")), "path {path}");
        assert!(there.clone().any(|sent| sent.names().contains(&"PROBE")), "path {path} is taken");
        tester.run_for(SECOND);
        tester.discard();
    }
    assert!(tester.is_established());
}
