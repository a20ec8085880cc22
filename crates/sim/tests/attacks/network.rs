//! Unknown senders, attackers on the path, and peers that have lost their state.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};

use manyway_proto::{
    ByteCount, ConnectionConfig, ConnectionError, Ecn, Endpoint, EndpointConfig, LocalAddress,
    LocalCandidate, PathState, Rng, Role,
};
use manyway_sim::pair::Direction;
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{CLIENT_PORT, EndpointPair, InterfaceId, Packet, PairBuilder, Side, What, endpoint_pair};

fn one_path() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS)
}

fn unconnected() -> EndpointPair {
    endpoint_pair(one_path(), &ConnectionConfig::default())
}

/// Copies every datagram of one end, without changing anything.
fn sniff(pair: &mut EndpointPair, side: Side) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let seen = move |data: &[u8]| sender.send(data.to_vec()).is_err();
    let matching = Matching::all().from(pair.host(side)).content(seen);
    pair.world_mut().network_mut().add_rule(matching, Action::Drop);
    receiver
}

/// Sends a datagram to one end over the first path, with any source.
fn inject(pair: &mut EndpointPair, to: Side, source: SocketAddr, data: Vec<u8>) {
    let client = (pair.paths()[0].interface, SocketAddr::new(pair.paths()[0].address, CLIENT_PORT));
    let server = pair.servers()[0];
    let host = pair.host(Side::Server);
    let server = (InterfaceId { host, index: server.interface }, server.address);
    let (from, to) = if to == Side::Server { (client, server) } else { (server, client) };
    let now = pair.now();
    let packet = Packet { source, destination: to.1, ecn: Ecn::NotEct, data };
    pair.world_mut().network_mut().inject(now, (from.0, to.0), packet);
}

/// The first datagram of another client that the server would accept.
fn first_datagram(pair: &EndpointPair, number: u8) -> Vec<u8> {
    let client = pair.world().node(pair.host(Side::Client)).unwrap().client_config().unwrap().clone();
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed([number; 32]));
    let address = LocalAddress { interface: 1, address: stranger(number) };
    let locals = [LocalCandidate { address, role: Role::Primary }];
    endpoint.connect(pair.now(), &client, &locals, &[pair.servers()[0].address]).unwrap();
    let mut buffer = Vec::new();
    endpoint.poll_transmit(pair.now(), &mut buffer).unwrap();
    buffer
}

fn stranger(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 1234))
}

/// Bytes that an end sent to an address.
fn sent_to(pair: &EndpointPair, from: Side, address: SocketAddr) -> usize {
    let sender = pair.host(from);
    let sent = pair
        .world()
        .record()
        .entries()
        .filter(|entry| entry.host == sender)
        .filter(|entry| matches!(entry.what, What::Sent { tuple } if tuple.remote == address));
    sent.map(|entry| entry.size).sum()
}

#[test]
fn an_unvalidated_address_gets_at_most_three_bytes_for_one() {
    for copies in [1, 2, 5] {
        let mut pair = unconnected();
        pair.world_mut().record_mut().keep(100_000);
        let datagram = first_datagram(&pair, 7);
        for _ in 0..copies {
            inject(&mut pair, Side::Server, stranger(7), datagram.clone());
        }
        pair.run_for(MINUTE).unwrap();
        let sent = sent_to(&pair, Side::Server, stranger(7));
        assert!(sent > 0 && sent <= 3 * datagram.len() * copies, "{copies} {sent}");
        assert_eq!(pair.peer(Side::Server).unwrap().endpoint().connections(), 0, "forgotten in the end");
    }
}

#[test]
fn a_server_under_load_keeps_no_state_for_unknown_senders_and_honest_clients_connect() {
    let mut pair = unconnected();
    pair.world_mut().record_mut().keep(100_000);
    for number in 0..100 {
        let datagram = first_datagram(&pair, number);
        inject(&mut pair, Side::Server, stranger(number), datagram);
    }
    pair.run_for(200 * MS).unwrap();
    let kept = pair.peer(Side::Server).unwrap().endpoint().connections();
    assert!(kept <= 64, "{kept}");
    assert!(sent_to(&pair, Side::Server, stranger(99)) > 0, "the last stranger is answered all the same");
    let took = pair.connect(SECOND).unwrap();
    assert!(took > 40 * MS && took < 80 * MS, "{took:?}");
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();
}

#[test]
fn an_unknown_version_is_answered_by_a_list_and_a_list_ends_the_handshake() {
    let mut pair = unconnected();
    let seen = sniff(&mut pair, Side::Client);
    let answers = sniff(&mut pair, Side::Server);
    // The server cannot read this one: its version is another. Its answer is for the sender of that packet only.
    let mut other = first_datagram(&pair, 7);
    other[4] ^= 0x55;
    let client = SocketAddr::new(pair.paths()[0].address, 5);
    inject(&mut pair, Side::Server, client, other);
    pair.run_for(50 * MS).unwrap();
    let list = answers.try_iter().next().unwrap();
    assert_eq!(list[1..5], [0; 4], "version 0 is a version list");
    assert_eq!(list[list.len() - 4..], manyway_version());

    pair.cut(0, Direction::Up);
    pair.begin().unwrap();
    pair.run_for(MS).unwrap();
    let first = seen.try_iter().next().unwrap();
    let (destination, source) = (&first[6..14], &first[15..23]);
    let offer = |version: [u8; 4]| [&[0x80, 0, 0, 0, 0, 8], source, &[8], destination, &version].concat();
    let server = pair.servers()[0].address;
    // A list with our version in it is forged.
    inject(&mut pair, Side::Client, server, offer(manyway_version()));
    pair.run_for(50 * MS).unwrap();
    assert_eq!(pair.ended(), None);
    inject(&mut pair, Side::Client, server, offer([1, 2, 3, 4]));
    pair.run_for(50 * MS).unwrap();
    let expected = ConnectionError::VersionMismatch { offered: vec![0x0102_0304] };
    assert_eq!(pair.ended(), Some((Side::Client, expected)));
}

fn manyway_version() -> [u8; 4] {
    *b"MMS\x01"
}

#[test]
fn a_client_learns_that_the_server_was_restarted() {
    for idle in [false, true] {
        let mut pair = connected(one_path().path(mbit(20), 10 * MS)).unwrap();
        pair.run_for(SECOND).unwrap();
        let rng = pair.world_mut().fork_rng();
        pair.peer(Side::Server).unwrap().restart(rng);
        if !idle {
            let host = pair.host(Side::Client);
            pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(1))));
        }
        let restarted = pair.now();
        let result = pair.run_until(MINUTE, "ended", |_| false);
        let expected = if idle { ConnectionError::IdleTimeout } else { ConnectionError::Reset };
        assert_eq!(pair.ended(), Some((Side::Client, expected)), "{result:?}");
        assert!(idle || pair.now() - restarted < 100 * MS, "{:?}", pair.now() - restarted);
    }
}

#[test]
fn a_reset_without_the_token_is_ignored() {
    let mut pair = connected(one_path()).unwrap();
    let seen = sniff(&mut pair, Side::Server);
    pair.transfer(Side::Server, ByteCount(100_000), MINUTE).unwrap();
    let server = pair.servers()[0].address;
    let sample = seen.try_iter().last().unwrap();
    for number in 0..100 {
        let mut forged = sample.clone();
        let end = forged.len() - 1;
        forged[end] ^= number + 1;
        inject(&mut pair, Side::Client, server, forged);
    }
    pair.run_for(SECOND).unwrap();
    assert_eq!(pair.ended(), None);
    pair.transfer(Side::Server, ByteCount(100_000), MINUTE).unwrap();
}

#[test]
fn copies_from_elsewhere_move_no_path() {
    let mut pair = connected(one_path()).unwrap();
    let seen = sniff(&mut pair, Side::Client);
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(5))));
    let mut copies = 0;
    for _ in 0..100 {
        pair.run_for(20 * MS).unwrap();
        // Late: the original has arrived already.
        if let Some(data) = seen.try_iter().next() {
            inject(&mut pair, Side::Server, stranger(9), data);
            copies += 1;
        }
    }
    assert!(copies > 50, "{copies} copies");
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let moved =
        path_events(&mut pair, Side::Server).into_iter().any(|(_, event)| event.tuple.remote == stranger(9));
    assert!(!moved);
}

// spec 6.53
#[test]
fn copies_of_a_servers_packets_that_overtake_them_move_and_end_nothing() {
    let mut pair = connected(one_path()).unwrap();
    pair.world_mut().record_mut().keep(100_000);
    let seen = sniff(&mut pair, Side::Server);
    let now = pair.now();
    pair.with_links(0, Direction::Down, |_, link| {
        link.set_delay(now, manyway_sim::link::DelayModel::constant(30 * MS));
    });
    let attacker = stranger(9);
    let (client, server) = (pair.host(Side::Client), pair.host(Side::Server));
    let mut copies = 0;
    for _ in 0..60 {
        // Nothing was received for long, so packets from elsewhere may mean that the server moved.
        pair.start(Side::Server, Box::new(Exchange::new(server, ByteCount(20_000))));
        pair.run_for(10 * MS).unwrap();
        let local = path_figures(&mut pair, Side::Client)[0].tuple.local;
        for mut data in seen.try_iter() {
            let now = pair.now();
            let node = pair.world_mut().node_mut(client).unwrap();
            let tuple = manyway_proto::FourTuple::udp(local, attacker);
            manyway_sim::Node::handle_datagram(node, now, tuple, Ecn::NotEct, &mut data);
            copies += 1;
        }
        pair.run_for(SECOND).unwrap();
        assert!(pair.is_quiet());
    }
    assert!(copies >= 60, "{copies} copies");
    let events = path_events(&mut pair, Side::Client);
    assert!(events.iter().all(|(_, event)| event.state != PathState::Dead), "{events:?}");
    assert_eq!(sent_to(&pair, Side::Client, attacker), 0);
}

// spec 6.35, 6.106
#[test]
fn copies_from_elsewhere_while_a_server_is_gone_are_probed_within_the_budget_and_it_is_found_again() {
    let mut pair = connected(one_path()).unwrap();
    pair.world_mut().record_mut().keep(100_000);
    let seen = sniff(&mut pair, Side::Server);
    let (client, server) = (pair.host(Side::Client), pair.host(Side::Server));
    pair.start(Side::Server, Box::new(Exchange::new(server, megabytes(20))));
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(20))));
    pair.run_for(SECOND).unwrap();
    pair.cut(0, Direction::Both);
    let mut copies = 0;
    for number in 0..200_u8 {
        pair.run_for(100 * MS).unwrap();
        let local = path_figures(&mut pair, Side::Client)[0].tuple.local;
        // Packets that the client never got, each time from another address.
        if let Some(mut data) = seen.try_iter().last() {
            let now = pair.now();
            let node = pair.world_mut().node_mut(client).unwrap();
            let tuple = manyway_proto::FourTuple::udp(local, stranger(number));
            manyway_sim::Node::handle_datagram(node, now, tuple, Ecn::NotEct, &mut data);
            copies += 1;
        }
    }
    assert!(copies > 0);
    let asked: usize = (0..200).map(|number| sent_to(&pair, Side::Client, stranger(number))).sum();
    assert!((1..=20_000).contains(&asked), "{asked}");
    pair.restore(0, Direction::Both);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

#[test]
fn copies_that_overtake_the_originals_only_delay() {
    let mut pair = connected(one_path()).unwrap();
    pair.world_mut().record_mut().keep(100_000);
    let seen = sniff(&mut pair, Side::Client);
    let now = pair.now();
    let host = pair.host(Side::Client);
    // The attacker is faster than the path.
    pair.with_links(0, Direction::Up, |_, link| {
        link.set_delay(now, manyway_sim::link::DelayModel::constant(30 * MS));
    });
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(5))));
    let mut copied = 0;
    let attacker = stranger(9);
    for _ in 0..200 {
        pair.run_for(10 * MS).unwrap();
        for data in seen.try_iter().step_by(10) {
            copied += data.len();
            let server = pair.host(Side::Server);
            let local = pair.servers()[0];
            let tuple = manyway_proto::FourTuple::udp(local, attacker);
            let now = pair.now();
            let mut data = data;
            let node = pair.world_mut().node_mut(server).unwrap();
            manyway_sim::Node::handle_datagram(node, now, tuple, Ecn::NotEct, &mut data);
        }
    }
    assert!(copied > 0);
    let result = pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet());
    assert!(result.is_ok(), "{result:?}");
    let sent = sent_to(&pair, Side::Server, attacker);
    assert!(sent <= 3 * copied, "{sent} for {copied}");
}

// spec 6.53, 6.106
#[test]
fn a_server_that_moves_right_after_a_copied_packet_still_finds_its_client() {
    let mut pair = connected(one_path()).unwrap();
    let seen = sniff(&mut pair, Side::Client);
    let (client, server) = (pair.host(Side::Client), pair.host(Side::Server));
    let now = pair.now();
    pair.with_links(0, Direction::Up, |_, link| {
        link.set_delay(now, manyway_sim::link::DelayModel::constant(30 * MS));
    });
    pair.start(Side::Client, Box::new(Exchange::new(client, megabytes(20))));
    pair.run_for(SECOND).unwrap();
    let before = pair.servers()[0];
    let (now, tuple) = (pair.now(), manyway_proto::FourTuple::udp(before, stranger(9)));
    let mut copy = seen.try_iter().last().unwrap();
    let node = pair.world_mut().node_mut(server).unwrap();
    manyway_sim::Node::handle_datagram(node, now, tuple, Ecn::NotEct, &mut copy);
    assert_eq!(path_figures(&mut pair, Side::Server)[0].tuple.remote, stranger(9), "it is followed");
    let interface = InterfaceId { host: server, index: before.interface };
    let home = LocalAddress { address: "172.16.0.99:4433".parse().unwrap(), ..before };
    let network = pair.world_mut().network_mut();
    network.add_address(interface, home.address.ip());
    network.remove_address(interface, before.address.ip());
    let connection = pair.peer(Side::Server).unwrap().connection().unwrap();
    connection.relocate(now, &[home], |tuple| tuple.local.address == before.address);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    assert_eq!(path_figures(&mut pair, Side::Client)[0].tuple.remote, home.address);
}

#[test]
fn noise_is_neither_answered_nor_stored() {
    let mut pair = connected(one_path()).unwrap();
    pair.run_for(SECOND).unwrap();
    pair.world_mut().record_mut().keep(100_000);
    let mut rng = Rng::from_seed([5; 32]);
    for round in 0..2000_usize {
        let mut noise = vec![0; 1 + round % 1400];
        rng.fill(&mut noise);
        inject(&mut pair, Side::Server, stranger(9), noise.clone());
        let server = pair.servers()[0].address;
        inject(&mut pair, Side::Client, server, noise);
        pair.run_for(MS).unwrap();
    }
    assert_eq!(pair.ended(), None);
    // spec 4.10, 4.11: no resets, which are for bearers of issued ids; lists for those that look like other versions
    assert!(sent_to(&pair, Side::Server, stranger(9)) <= 200 * (2 * 256 + 11));
    assert_eq!(pair.peer(Side::Server).unwrap().endpoint().connections(), 1);
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
}
