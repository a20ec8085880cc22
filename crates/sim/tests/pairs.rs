//! The address pairs of a connection, and addresses that come and go at either end.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::{
    ByteCount, ConnectionConfig, Instant, LocalAddress, PairMode, PairUse, PathReason, PathState,
    PathStatistics, Rate,
};
use manyway_sim::link::{LinkConfig, LinkState, LossModel, Probability};
use manyway_sim::nightly::{for_each_seed, rotating_seeds};
use manyway_sim::pair::{Chaos, Direction, Family};
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected_with, count_in, mbit, megabytes, path_events, path_figures, percent,
};
use manyway_sim::traffic::{Exchange, Scribbler};
use manyway_sim::{
    CLIENT_PORT, EndpointPair, InterfaceId, LinkId, PairBuilder, Side, What, endpoint_pair_with,
};

fn with_mode(pairs: PairMode) -> ConnectionConfig {
    let mut config = ConnectionConfig::default();
    config.pairs = pairs;
    config
}

fn link(kilobits: u64, delay: Duration) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_second(kilobits * 1000), delay).with_queue_time(100 * MS)
}

/// Addresses A and B at the client, C and D at the server. The pairs A-C and B-D are slow and far, A-D and B-C fast and
/// near (seed AMS, section 5.3). The connection begins on A-C: B comes up later, and the server advertises D then.
fn mesh(mode: PairMode, seed: u64) -> EndpointPair {
    let (slow, fast) = (link(250, 40 * MS), link(1000, 10 * MS));
    let builder = PairBuilder::new().seed(seed).server_interfaces(2).known_servers(1);
    let builder = builder.path_with(slow.clone(), slow.clone()).path_with(slow.clone(), slow);
    let mut pair = endpoint_pair_with(builder, &with_mode(mode), &ConnectionConfig::default());
    cross(&mut pair, (0, 1), &fast);
    cross(&mut pair, (1, 0), &fast);
    pair.set_interface(1, LinkState::Down);
    pair.connect(10 * SECOND).unwrap();
    assert_eq!(used(&mut pair), ["A-C"]);
    pair.set_interface(1, LinkState::Up);
    announce_all(&mut pair);
    pair
}

/// Joins an interface of the client and one of the server.
fn cross(pair: &mut EndpointPair, (client, server): (usize, usize), link: &LinkConfig) -> (LinkId, LinkId) {
    let near = pair.paths()[client].interface;
    let far = InterfaceId { host: pair.host(Side::Server), index: pair.servers()[server].interface };
    let now = pair.now();
    pair.world_mut().network_mut().connect(now, (near, far), link.clone(), link.clone())
}

fn announce(pair: &mut EndpointPair, addresses: &[SocketAddr]) {
    pair.peer(Side::Server).unwrap().connection().unwrap().set_advertised_addresses(addresses);
}

fn announce_all(pair: &mut EndpointPair) {
    let all: Vec<_> = pair.servers().iter().map(|local| local.address).collect();
    announce(pair, &all);
}

/// Sets the addresses of the client.
fn tell(pair: &mut EndpointPair) {
    let (now, host) = (pair.now(), pair.host(Side::Client));
    let addresses = pair.world().network().addresses(host);
    let local = |(id, address): (InterfaceId, IpAddr)| LocalAddress {
        interface: id.index,
        address: (address, CLIENT_PORT).into(),
    };
    let locals: Vec<_> = addresses.into_iter().map(local).collect();
    let connection = pair.peer(Side::Client).unwrap();
    manyway_sim::Peer::set_addresses(connection, now, &locals);
}

fn is_used(path: &PathStatistics) -> bool {
    path.state == PathState::Active
}

/// The pairs whose paths carry data, by letters: A, B and so on for the interfaces of the client, C, D for those of the
/// server.
fn used(pair: &mut EndpointPair) -> Vec<String> {
    let servers: Vec<_> = pair.servers().iter().map(|local| local.address).collect();
    let name = |path: &PathStatistics| {
        let near = ["A", "B", "E", "F"][usize::try_from(path.tuple.local.interface).unwrap() - 1];
        let place = servers.iter().position(|server| *server == path.tuple.remote).unwrap();
        format!("{near}-{}", ["C", "D", "G", "H"][place])
    };
    let mut names: Vec<_> =
        path_figures(pair, Side::Client).iter().filter(|path| is_used(path)).map(name).collect();
    names.sort();
    names
}

fn start(pair: &mut EndpointPair, from: Side, bytes: ByteCount) {
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, bytes)));
}

fn complete(pair: &mut EndpointPair) {
    pair.run_until(5 * MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

/// Arrivals in half a minute, from five seconds after the addresses are known.
fn goodput(mode: PairMode, from: Side) -> (Rate, Vec<String>) {
    let mut pair = mesh(mode, 1);
    start(&mut pair, from, megabytes(20));
    pair.run_for(5 * SECOND).unwrap();
    let begin = pair.now();
    pair.run_for(30 * SECOND).unwrap();
    let rate = pair.received(from.other()).rate(begin, pair.now());
    (rate, used(&mut pair))
}

// spec 6.47; seed AMS, section 5.3
#[test]
fn the_cheapest_set_of_disjoint_pairs_is_used_and_the_first_path_is_replaced() {
    for from in [Side::Client, Side::Server] {
        let (rate, used) = goodput(PairMode::Disjoint, from);
        assert_eq!(used, ["A-D", "B-C"]);
        // Headers of 28 bytes and about 37 of the protocol in 1500.
        assert!(percent(rate, mbit(2)) >= 95, "{from:?} {rate}");
    }
    let mut pair = mesh(PairMode::Disjoint, 1);
    pair.run_for(2 * SECOND).unwrap();
    let events = path_events(&mut pair, Side::Client);
    let at = |id: u32, state: PathState| {
        let found = events.iter().find(|(_, event)| event.path.0 == id && event.state == state);
        found.map(|(at, event)| (*at, event.reason))
    };
    let (closed, reason) = at(0, PathState::Closed).unwrap();
    assert_eq!(reason, PathReason::Replaced);
    assert!(at(1, PathState::Active).unwrap().0 <= closed, "made before broken");
    assert_eq!(path_figures(&mut pair, Side::Server).len(), 2);
}

#[test]
fn a_full_mesh_uses_all_four_pairs_and_carries_more_than_one_path_for_each_interface() {
    let (one_each, pairs) = goodput(PairMode::LocalDisjoint, Side::Client);
    assert_eq!(pairs.len(), 2, "{pairs:?}");
    let (disjoint, _) = goodput(PairMode::Disjoint, Side::Client);
    let (mesh, pairs) = goodput(PairMode::FullMesh, Side::Client);
    assert_eq!(pairs, ["A-C", "A-D", "B-C", "B-D"]);
    assert!(mesh > disjoint && disjoint > one_each, "{mesh} {disjoint} {one_each}");
    assert!(percent(mesh, Rate::from_bits_per_second(2_500_000)) >= 90, "{mesh}");
}

#[test]
fn the_choice_is_stable_while_nothing_changes() {
    for mode in [PairMode::Disjoint, PairMode::FullMesh] {
        let mut pair = mesh(mode, 2);
        start(&mut pair, Side::Client, megabytes(20));
        pair.run_for(5 * SECOND).unwrap();
        let before = path_events(&mut pair, Side::Client).len();
        pair.run_for(MINUTE).unwrap();
        let events = path_events(&mut pair, Side::Client).split_off(before);
        let moves: Vec<_> = events
            .iter()
            .filter(|(_, event)| matches!(event.state, PathState::Validating | PathState::Closed))
            .collect();
        assert!(moves.is_empty(), "{mode}: {moves:?}");
    }
}

#[test]
fn probes_beside_the_paths_are_few_and_none_while_no_data_is_carried() {
    let mut pair = mesh(PairMode::Disjoint, 3);
    pair.run_for(10 * SECOND).unwrap();
    let sent = |pair: &mut EndpointPair| -> u64 {
        path_figures(pair, Side::Client).iter().map(|path| path.packets_sent).sum()
    };
    let before = sent(&mut pair);
    pair.run_for(20 * SECOND).unwrap();
    assert_eq!(sent(&mut pair), before);
    let uses: Vec<_> = {
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        connection.address_pairs().iter().map(|pair| pair.usage).collect()
    };
    let measured =
        uses.iter().filter(|usage| matches!(usage, PairUse::Measured { rtt: Some(rtt) } if *rtt >= 80 * MS));
    assert_eq!(measured.count(), 2, "{uses:?}");
}

/// The longest time without bytes from a moment on, in whole bins.
fn silence_after(pair: &EndpointPair, receiver: Side, from: Instant) -> Duration {
    let series = pair.received(receiver);
    let mut silence = Duration::ZERO;
    let mut at = from;
    while let Some(next) = series.first_bin_with_bytes_after(at) {
        silence = silence.max(next - at);
        at = next + 10 * MS;
    }
    silence.max(pair.now() - at)
}

#[test]
fn a_pair_that_dies_is_replaced_by_those_that_are_left() {
    for from in [Side::Client, Side::Server] {
        let mut pair = mesh(PairMode::Disjoint, 4);
        start(&mut pair, from, megabytes(20));
        pair.run_for(3 * SECOND).unwrap();
        assert_eq!(used(&mut pair), ["A-D", "B-C"]);
        // A-D and B-C are the third and the fourth pair of links.
        let now = pair.now();
        for link in pair.world().network().links().len() - 4..pair.world().network().links().len() - 2 {
            pair.world_mut().network_mut().link_mut(LinkId(link)).unwrap().set_state(now, LinkState::Down);
        }
        // Until it counts as lost, the other carries everything.
        pair.run_for(5 * SECOND).unwrap();
        assert_eq!(used(&mut pair), ["B-C"]);
        let silence = silence_after(&pair, from.other(), now);
        assert!(silence < 200 * MS, "{from:?} {silence:?}");
        pair.run_for(10 * SECOND).unwrap();
        assert_eq!(used(&mut pair), ["A-C", "B-D"], "{from:?}");
    }
}

fn set_all(pair: &mut EndpointPair, state: LinkState) {
    let now = pair.now();
    for link in 0..pair.world().network().links().len() {
        pair.world_mut().network_mut().link_mut(LinkId(link)).unwrap().set_state(now, state);
    }
}

/// A path that waits for its first answer probes no pair of another one.
#[test]
fn no_two_paths_use_the_same_addresses() {
    for (seed, cut) in (1..8).flat_map(|seed| [30, 60, 90, 120].map(|cut| (seed, cut * MS))) {
        let lossy = link(10_000, 10 * MS).with_loss(LossModel::Random(Probability::from_percent(30.0)));
        let builder = PairBuilder::new().seed(seed).server_interfaces(3).known_servers(1);
        let builder = builder.path_with(lossy.clone(), lossy.clone());
        let config = with_mode(PairMode::FullMesh);
        let mut pair = endpoint_pair_with(builder, &config, &ConnectionConfig::default());
        cross(&mut pair, (0, 1), &lossy);
        cross(&mut pair, (0, 2), &lossy);
        pair.connect(10 * SECOND).unwrap();
        announce_all(&mut pair);
        start(&mut pair, Side::Client, megabytes(1));
        pair.run_for(cut).unwrap();
        set_all(&mut pair, LinkState::Down);
        pair.run_for(3 * SECOND).unwrap();
        set_all(&mut pair, LinkState::Up);
        for _ in 0..500 {
            pair.run_for(10 * MS).unwrap();
            let paths = path_figures(&mut pair, Side::Client);
            let mut live: Vec<_> = paths.iter().filter(|path| path.state.carries_data()).collect();
            live.sort_by_key(|path| path.tuple.remote);
            let is_twice = |two: &[&PathStatistics]| two[0].tuple == two[1].tuple;
            assert!(!live.windows(2).any(is_twice), "{seed}, {cut:?}: {live:#?}");
        }
    }
}

/// The server has one address: a disjoint choice is one path.
#[test]
fn towards_one_address_disjoint_is_one_path_and_another_interface_takes_over_without_waiting() {
    let builder = PairBuilder::new().path(mbit(5), 10 * MS).path(mbit(5), 30 * MS);
    let mut pair = connected_with(builder, &with_mode(PairMode::Disjoint)).unwrap();
    start(&mut pair, Side::Client, megabytes(5));
    pair.run_for(2 * SECOND).unwrap();
    assert_eq!(used(&mut pair), ["A-C"]);
    pair.cut(0, Direction::Both);
    let cut = pair.now();
    pair.run_for(3 * SECOND).unwrap();
    assert_eq!(used(&mut pair), ["B-C"]);
    let (_, dead) = path_events(&mut pair, Side::Client)
        .into_iter()
        .map(|(at, event)| (event.state, at))
        .find(|(state, _)| *state == PathState::Dead)
        .unwrap();
    let back = pair.received(Side::Server).first_bin_with_bytes_after(dead).unwrap();
    // A lone path is given up after a second of silence; then it is a round trip, and half of one for the data.
    assert!(back - dead < 60 * MS + 30 * MS + 40 * MS, "{:?} {:?}", dead - cut, back - dead);
    complete(&mut pair);
}

/// A new address of an end is advertised, and the old one is removed half a second later.
#[test]
fn an_end_that_adds_an_address_before_it_deletes_the_old_one_is_hardly_silent() {
    for mode in PairMode::ALL {
        for from in [Side::Client, Side::Server] {
            for mover in [Side::Client, Side::Server] {
                let rtt = 40 * MS;
                let builder = PairBuilder::new().server_interfaces(2).known_servers(1);
                let mut pair = connected_with(builder.path(mbit(10), rtt / 2), &with_mode(mode)).unwrap();
                cross(&mut pair, (0, 1), &LinkConfig::new(mbit(10), rtt / 2));
                start(&mut pair, from, megabytes(8));
                pair.run_for(2 * SECOND).unwrap();
                match mover {
                    Side::Client => move_client(&mut pair, mode),
                    Side::Server => move_server(&mut pair),
                }
                complete(&mut pair);
                let silence = pair.received(from.other()).longest_silence();
                // Both addresses of the client share a link: data in flight from the old one is resent at half of the
                // rate that the path of the new one has found.
                let shares = mode == PairMode::FullMesh && [mover, from] == [Side::Client; 2];
                let most = if shares { rtt + 250 * MS } else { rtt + 100 * MS };
                assert!(silence <= most, "{mode} {mover:?} moves, {from:?} sends: {silence:?}");
            }
        }
    }
}

fn move_client(pair: &mut EndpointPair, mode: PairMode) {
    let (interface, old) = (pair.paths()[0].interface, pair.paths()[0].address);
    let new: IpAddr = "10.0.0.77".parse().unwrap();
    pair.world_mut().network_mut().add_address(interface, new);
    tell(pair);
    pair.run_for(500 * MS).unwrap();
    // The others have no second address of the server to use with it.
    if mode == PairMode::FullMesh {
        let carries =
            |path: &PathStatistics| path.tuple.local.address.ip() == new && path.state.carries_data();
        assert!(
            path_figures(pair, Side::Client).iter().any(carries),
            "the new address carries before the old goes"
        );
    }
    pair.world_mut().network_mut().remove_address(interface, old);
    tell(pair);
    pair.run_for(500 * MS).unwrap();
    assert!(path_figures(pair, Side::Client).iter().all(|path| path.tuple.local.address.ip() == new));
}

fn move_server(pair: &mut EndpointPair) {
    announce_all(pair);
    pair.run_for(500 * MS).unwrap();
    let (old, new) = (pair.servers()[0], pair.servers()[1]);
    announce(pair, &[new.address]);
    // Announced while it still exists, as in a planned move.
    pair.run_for(200 * MS).unwrap();
    let carries = |path: &PathStatistics| path.tuple.remote == new.address && path.state.carries_data();
    assert!(
        path_figures(pair, Side::Client).iter().any(carries),
        "the new address carries before the old goes"
    );
    let far = InterfaceId { host: pair.host(Side::Server), index: old.interface };
    pair.world_mut().network_mut().remove_address(far, old.address.ip());
    pair.run_for(500 * MS).unwrap();
    assert!(path_figures(pair, Side::Client).iter().all(|path| path.tuple.remote == new.address));
}

#[test]
fn a_server_that_withdraws_one_of_two_addresses_is_not_used_there_any_more() {
    let modes = [(PairMode::Disjoint, vec!["A-D"]), (PairMode::FullMesh, vec!["A-D", "B-D"])];
    for ((mode, rest), seed) in modes.iter().flat_map(|mode| (0..6).map(move |seed| (mode, seed))) {
        let mut pair = mesh(*mode, seed);
        start(&mut pair, Side::Client, megabytes(4));
        pair.run_for(3 * SECOND).unwrap();
        let second = pair.servers()[1].address;
        announce(&mut pair, &[second]);
        for _ in 0..4 {
            let before = pair.received(Side::Server).total();
            pair.run_for(250 * MS).unwrap();
            assert!(pair.received(Side::Server).total() > before, "{mode}, {seed}: silent for 250 ms");
        }
        assert_eq!(used(&mut pair), *rest, "{mode}");
        announce_all(&mut pair);
        pair.run_for(2 * SECOND).unwrap();
        let all =
            if *mode == PairMode::Disjoint { vec!["A-D", "B-C"] } else { vec!["A-C", "A-D", "B-C", "B-D"] };
        assert_eq!(used(&mut pair), all, "{mode}");
        complete(&mut pair);
    }
}

#[test]
fn a_server_that_withdraws_its_only_address_is_used_there_as_long_as_it_answers() {
    for mode in PairMode::ALL {
        let builder = PairBuilder::new().path(mbit(10), 10 * MS);
        let mut pair = connected_with(builder, &with_mode(mode)).unwrap();
        announce_all(&mut pair);
        pair.run_for(SECOND).unwrap();
        announce(&mut pair, &[]);
        pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
        pair.transfer(Side::Server, megabytes(2), MINUTE).unwrap();
    }
}

#[test]
fn two_ipv6_addresses_of_an_interface_are_two_addresses() {
    for (mode, expected) in [(PairMode::LocalDisjoint, 1), (PairMode::Disjoint, 2), (PairMode::FullMesh, 4)] {
        let link = LinkConfig::new(mbit(10), 10 * MS);
        let builder = PairBuilder::new().family(Family::V6).path_with(link.clone(), link);
        let mut pair = connected_with(builder, &with_mode(mode)).unwrap();
        let interface = pair.paths()[0].interface;
        let far = InterfaceId { host: pair.host(Side::Server), index: pair.servers()[0].interface };
        let network = pair.world_mut().network_mut();
        network.add_address(interface, "fd00::77".parse().unwrap());
        network.add_address(far, "2001:db8::77".parse().unwrap());
        tell(&mut pair);
        let first = pair.servers()[0].address;
        let second = SocketAddr::new("2001:db8::77".parse().unwrap(), first.port());
        announce(&mut pair, &[first, second]);
        pair.run_for(2 * SECOND).unwrap();
        assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), expected, "{mode}");
        pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
        // The first address goes; the rest continues at the second.
        let old = pair.paths()[0].address;
        pair.world_mut().network_mut().remove_address(interface, old);
        tell(&mut pair);
        let report = pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
        assert!(report.longest_silence < 200 * MS, "{mode} {:?}", report.longest_silence);
        let near: IpAddr = "fd00::77".parse().unwrap();
        assert!(
            path_figures(&mut pair, Side::Client).iter().all(|path| path.tuple.local.address.ip() == near)
        );
    }
}

/// One interface at each end with two prefixes, of which one dies in silence, at the client only or at both ends.
fn lose_a_prefix(mode: PairMode, paths: usize, dying: usize, at: &[Side]) -> Duration {
    let link = LinkConfig::new(mbit(10), 10 * MS);
    let builder = PairBuilder::new().family(Family::V6).path_with(link.clone(), link);
    let mut pair = connected_with(builder, &with_mode(mode)).unwrap();
    let interface = pair.paths()[0].interface;
    let far = InterfaceId { host: pair.host(Side::Server), index: pair.servers()[0].interface };
    let first = pair.servers()[0].address;
    let prefixes: [[IpAddr; 2]; 2] = [
        [pair.paths()[0].address, first.ip()],
        ["fd00::77".parse().unwrap(), "2001:db8::77".parse().unwrap()],
    ];
    let network = pair.world_mut().network_mut();
    network.add_address(interface, prefixes[1][0]);
    network.add_address(far, prefixes[1][1]);
    tell(&mut pair);
    announce(&mut pair, &[first, SocketAddr::new(prefixes[1][1], first.port())]);
    pair.run_for(2 * SECOND).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), paths, "{mode}");
    start(&mut pair, Side::Client, megabytes(6));
    pair.run_for(SECOND).unwrap();
    let gone = &prefixes[dying][..at.len()];
    for address in gone {
        pair.world_mut().network_mut().add_rule(Matching::all().address(*address), Action::Drop);
    }
    complete(&mut pair);
    let figures = path_figures(&mut pair, Side::Client);
    let active: Vec<_> = figures.iter().filter(|path| is_used(path)).collect();
    let lives = |path: &PathStatistics| {
        let tuple = path.tuple;
        !gone.contains(&tuple.local.address.ip()) && !gone.contains(&tuple.remote.ip())
    };
    assert!(!active.is_empty() && active.iter().all(|path| lives(path)), "{mode} {dying} {at:?}");
    pair.received(Side::Server).longest_silence()
}

#[test]
fn a_prefix_that_dies_silently_is_replaced_by_the_other_one_of_the_interface_in_every_mode() {
    for (mode, paths) in [(PairMode::LocalDisjoint, 1), (PairMode::Disjoint, 2), (PairMode::FullMesh, 4)] {
        for dying in 0..2 {
            let silence = lose_a_prefix(mode, paths, dying, &[Side::Client]);
            // The only path dies after a second at the earliest (spec 6.74).
            let limit = if paths == 1 { 2 * SECOND } else { 200 * MS };
            assert!(silence < limit, "{mode} {dying}: {silence:?}");
            // The two pairs of a disjoint choice may both have an address of it.
            let silence = lose_a_prefix(mode, paths, dying, &[Side::Client, Side::Server]);
            assert!(silence < 2 * SECOND, "{mode} {dying} at both ends: {silence:?}");
        }
    }
}

/// A server with far more addresses than needed, most of which do not exist.
#[test]
fn however_many_addresses_a_server_advertises_paths_and_probes_stay_within_their_limits() {
    let builder = PairBuilder::new().path(mbit(10), 10 * MS).path(mbit(10), 10 * MS).path(mbit(10), 10 * MS);
    let mut pair = connected_with(builder.server_interfaces(1), &with_mode(PairMode::FullMesh)).unwrap();
    pair.run_for(SECOND).unwrap();
    let real = pair.servers()[0];
    let far = InterfaceId { host: pair.host(Side::Server), index: real.interface };
    for host in 2..=6 {
        let address = format!("172.16.0.{host}").parse().unwrap();
        pair.world_mut().network_mut().add_address(far, address);
    }
    pair.world_mut().record_mut().keep(1 << 20);
    let named: Vec<_> = (2..=40)
        .map(|host| SocketAddr::new(format!("172.16.0.{host}").parse().unwrap(), real.address.port()))
        .collect();
    // A hostile server would advertise more than its limit; ours advertises eight.
    announce(&mut pair, &named);
    let told = pair.now();
    pair.run_for(30 * SECOND).unwrap();
    let paths = path_figures(&mut pair, Side::Client);
    assert_eq!(paths.iter().filter(|path| is_used(path)).count(), 8, "3 x 6 pairs work");
    assert!(path_figures(&mut pair, Side::Server).len() <= 8);
    // Of the eight, three do not exist: 172.16.0.7 to 9.
    let mut asked = Vec::new();
    for entry in pair.world().record().entries().filter(|entry| entry.at >= told) {
        if let What::Sent { tuple } = entry.what
            && named[5..].iter().any(|address| address.ip() == tuple.remote.ip())
        {
            asked.push((entry.at - told, tuple.remote.ip()));
        }
    }
    let strangers: std::collections::BTreeSet<_> = asked.iter().map(|(_, remote)| *remote).collect();
    assert_eq!(strangers.len(), 3, "{strangers:?}");
    // Three probes to each of nine pairs, and no second round while no data is carried.
    assert!(asked.len() <= 27, "{}", asked.len());
    let first = |address: &IpAddr| asked.iter().find(|(_, remote)| remote == address).unwrap().0;
    let mut firsts: Vec<_> = strangers.iter().map(first).collect();
    firsts.sort();
    assert!(firsts.windows(2).all(|two| two[1] - two[0] >= 50 * MS), "{firsts:?}");
}

#[test]
fn a_pair_that_the_application_closes_is_not_selected_again() {
    let mut pair = mesh(PairMode::Disjoint, 6);
    pair.run_for(2 * SECOND).unwrap();
    let now = pair.now();
    let fast = path_figures(&mut pair, Side::Client)[0];
    pair.peer(Side::Client).unwrap().connection().unwrap().close_path(now, fast.id).unwrap();
    pair.run_for(2 * SECOND).unwrap();
    assert_eq!(used(&mut pair), ["A-C", "B-D"]);
    pair.transfer(Side::Client, ByteCount(200_000), MINUTE).unwrap();
}

/// Whatever happens to interfaces, links and addresses, every byte arrives, and at the end the pairs are those of the
/// mode.
#[test]
fn pairs_survive_random_operations() {
    for_each_seed(rotating_seeds(4, 24), |seed| {
        for mode in [PairMode::Disjoint, PairMode::FullMesh] {
            let builder = PairBuilder::new().seed(seed).server_interfaces(2);
            let builder = builder.path(mbit(10), 15 * MS).path(mbit(10), 25 * MS).path(mbit(5), 40 * MS);
            let mut pair = connected_with(builder.behind_nat(5 * SECOND), &with_mode(mode)).unwrap();
            for ends in [(0, 1), (1, 0), (2, 1)] {
                cross(&mut pair, ends, &LinkConfig::new(mbit(10), 20 * MS));
            }
            for side in [Side::Client, Side::Server] {
                let (host, now, rng) = (pair.host(side), pair.now(), pair.world_mut().fork_rng());
                pair.start(side, Box::new(Scribbler::new(host, megabytes(2), now, rng)));
            }
            let mut chaos = Chaos::new(pair.world_mut().fork_rng(), 150 * MS);
            let chaos_ran = chaos.run(&mut pair, 8 * SECOND);
            chaos.heal(&mut pair);
            let end = chaos_ran.and_then(|()| pair.run_until(2 * MINUTE, "settled", |pair| pair.is_quiet()));
            assert!(end.is_ok(), "{mode}: {end:?} after {:?}", chaos.done());
            // Those that were replaced last close, and a dead one answers again.
            start(&mut pair, Side::Client, megabytes(20));
            pair.run_for(20 * SECOND).unwrap();
            let paths = path_figures(&mut pair, Side::Client);
            let working: Vec<_> = paths.iter().filter(|path| path.state.carries_data()).collect();
            for (place, path) in working.iter().enumerate() {
                for other in &working[..place] {
                    assert_ne!(path.tuple, other.tuple, "{mode}");
                    let shares =
                        path.tuple.local == other.tuple.local || path.tuple.remote == other.tuple.remote;
                    assert!(mode == PairMode::FullMesh || !shares, "{mode}: {working:?}");
                }
            }
            let expected = if mode == PairMode::Disjoint { 2 } else { 6 };
            assert_eq!(working.len(), expected, "{mode}: {paths:?}");
        }
    });
}
