//! Paths over TCP connections, alone and beside UDP: what a stream carrier does for a path is not done twice.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests fail as tests do, and look only at the events that they are about"
)]

use std::time::Duration;

use bytes::Bytes;
use manyway_proto::{
    ByteCount, CarrierFigures, ConnectionConfig, Ecn, EcnState, Event, FourTuple, LocalAddress, PathReason,
    PathState, PathStatistics, Rng, Role,
};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPeer, Pair, PairBuilder, Peer, Side, TcpPeer};

type TcpPair = Pair<TcpPeer>;

fn client(rng: Rng) -> TcpPeer {
    TcpPeer::new(EndpointPeer::client(ConnectionConfig::default().into(), rng))
}

fn server(rng: Rng) -> TcpPeer {
    TcpPeer::new(EndpointPeer::server(ConnectionConfig::default().into(), rng))
}

/// A client's interface, as the local address of a TCP connection.
fn local(pair: &TcpPair, path: usize) -> LocalAddress {
    let links = pair.paths()[path];
    LocalAddress { interface: links.interface.index, address: (links.address, 0).into() }
}

/// Opens a path over TCP from one of the client's interfaces.
fn open(pair: &mut TcpPair, path: usize) -> FourTuple {
    let (now, from, to) = (pair.now(), local(pair, path), pair.servers()[0].address);
    let client = pair.peer(Side::Client).unwrap();
    let tuple = client.open(now, from, to);
    assert!(client.peer().connection().unwrap().open_path(now, tuple).is_some());
    pair.run_for(SECOND / 2).unwrap();
    assert_eq!(figures(pair, tuple).unwrap().state, PathState::Active);
    tuple
}

/// Closes the UDP path of an interface, so that only TCP uses it.
fn close_udp(pair: &mut TcpPair, path: usize) {
    let (now, interface) = (pair.now(), local(pair, path).interface);
    let connection = pair.peer(Side::Client).unwrap().peer().connection().unwrap();
    let paths = connection.statistics().paths;
    let udp = paths.iter().find(|path| path.tuple.is_datagram() && path.tuple.local.interface == interface);
    connection.close_path(now, udp.unwrap().id).unwrap();
}

fn figures(pair: &mut TcpPair, tuple: FourTuple) -> Option<PathStatistics> {
    let connection = pair.peer(Side::Client)?.peer().connection()?;
    connection.statistics().paths.into_iter().find(|path| path.tuple == tuple)
}

/// Two interfaces of 20 Mbit/s and 10 ms: the first carries a path over UDP, the second one over TCP.
fn udp_and_tcp(seed: u64) -> (TcpPair, FourTuple) {
    let builder = PairBuilder::new().seed(seed).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = builder.build(client, server);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND / 2).unwrap();
    close_udp(&mut pair, 1);
    let tuple = open(&mut pair, 1);
    (pair, tuple)
}

/// A connection over one TCP connection and nothing else.
fn tcp_alone(up: LinkConfig, make: impl FnOnce(Rng) -> TcpPeer) -> (TcpPair, FourTuple) {
    let down = LinkConfig::new(mbit(20), 10 * MS);
    let mut pair = PairBuilder::new().seed(3).path_with(up, down).build(make, server);
    let (now, from, to) = (pair.now(), local(&pair, 0), pair.servers()[0].address);
    let client = pair.peer(Side::Client).unwrap();
    let tuple = client.open(now, from, to);
    client.peer().connect_over(now, tuple).unwrap();
    let connected = |pair: &mut TcpPair| {
        [Side::Client, Side::Server].into_iter().all(|side| pair.peer(side).unwrap().streams().is_some())
    };
    pair.run_until(SECOND, "connected", connected).unwrap();
    (pair, tuple)
}

#[test]
fn udp_and_tcp_carry_data_together_and_every_byte_arrives() {
    let (mut pair, tuple) = udp_and_tcp(1);
    let report = pair.transfer(Side::Client, megabytes(10), MINUTE).unwrap();
    // Of 40 Mbit/s.
    assert!(report.goodput > mbit(34), "{:?}", report.goodput);
    assert!(report.path_bytes.iter().all(|bytes| *bytes > megabytes(4)), "{:?}", report.path_bytes);
    let tcp = figures(&mut pair, tuple).unwrap();
    assert_eq!((tcp.packets_lost, tcp.ecn), (0, EcnState::Absent));
    assert!(
        tcp.bytes_sent / tcp.packets_sent > ByteCount(4096),
        "records are larger than datagrams: {tcp:?}"
    );
}

#[test]
fn a_server_sends_over_tcp_too() {
    let (mut pair, tuple) = udp_and_tcp(2);
    let report = pair.transfer(Side::Server, megabytes(10), MINUTE).unwrap();
    assert!(report.goodput > mbit(34), "{:?}", report.goodput);
    assert!(figures(&mut pair, tuple).unwrap().bytes_received > megabytes(4));
}

#[test]
fn a_handshake_over_tcp_is_neither_padded_nor_refused_for_its_size() {
    let mut pair = PairBuilder::new().path(mbit(20), 10 * MS).build(client, server);
    pair.peer(Side::Server).unwrap().peer().take_arrivals();
    let (now, from, to) = (pair.now(), local(&pair, 0), pair.servers()[0].address);
    let client = pair.peer(Side::Client).unwrap();
    let tuple = client.open(now, from, to);
    client.peer().connect_over(now, tuple).unwrap();
    pair.run_until(SECOND, "connected", |pair| pair.peer(Side::Server).unwrap().streams().is_some()).unwrap();
    let arrivals = pair.peer(Side::Server).unwrap().peer().take_arrivals();
    assert!(arrivals.iter().all(|(tuple, record)| !tuple.is_datagram() && record.len() < 1200));
    pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();

    // Paths over UDP join.
    let (now, local) = (pair.now(), LocalAddress { address: (from.address.ip(), 40_000).into(), ..from });
    let client = pair.peer(Side::Client).unwrap();
    client.set_addresses(now, &[local]);
    client.peer().connection().unwrap().add_remote_addresses(now, &[to]);
    pair.run_for(SECOND).unwrap();
    let udp = figures(&mut pair, FourTuple::udp(local, to)).unwrap();
    assert_eq!(udp.state, PathState::Active);
    assert_eq!(figures(&mut pair, tuple).unwrap().state, PathState::Active);
}

#[test]
fn several_tcp_paths_and_a_udp_path_join_the_same_two_hosts() {
    let mut pair = PairBuilder::new().path(mbit(20), 10 * MS).build(client, server);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND / 2).unwrap();
    let (first, second) = (open(&mut pair, 0), open(&mut pair, 0));
    assert_ne!(first, second);
    let connection = pair.peer(Side::Client).unwrap().peer().connection().unwrap();
    let paths = connection.statistics().paths;
    let host = |path: &PathStatistics| (path.tuple.local.interface, path.tuple.remote.ip());
    assert!(paths.len() == 3 && paths.iter().all(|path| host(path) == host(&paths[0])));
    pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
    let sent = [first, second].map(|tuple| figures(&mut pair, tuple).unwrap().bytes_sent);
    assert!(sent.iter().all(|sent| *sent > ByteCount(300_000)), "{sent:?}");
}

#[test]
fn losses_on_the_link_delay_a_stream_and_no_packet_counts_as_lost() {
    let loss = LossModel::Random(Probability::one_in(100));
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS).with_loss(loss), client);
    pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
    let tcp = figures(&mut pair, tuple).unwrap();
    assert_eq!((tcp.packets_lost, tcp.state), (0, PathState::Active));
}

// Otherwise the acknowledgement that ends the repair lets a whole window leave at once, and the queue drops half of it.
#[test]
fn a_stream_has_data_to_send_while_it_repairs_a_loss() {
    // Reno ends its slow start by a loss.
    let (mut pair, _) = tcp_alone(LinkConfig::new(mbit(40), 100 * MS), client);
    let report = pair.transfer(Side::Client, megabytes(30), MINUTE).unwrap();
    assert!(report.goodput > mbit(32), "{:?}", report.goodput);
}

#[test]
fn the_end_of_a_tcp_connection_loses_nothing() {
    for side in [Side::Client, Side::Server] {
        let (mut pair, tuple) = udp_and_tcp(4);
        pair.start(side, Box::new(Exchange::new(pair.host(side), megabytes(8))));
        pair.run_for(SECOND).unwrap();
        let now = pair.now();
        pair.peer(Side::Client).unwrap().reset(now, tuple);
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        assert_eq!(figures(&mut pair, tuple), None);
        let received = pair.received(side.other());
        assert_eq!(received.total(), megabytes(8));
        assert!(received.longest_silence() < 300 * MS, "{:?}", received.longest_silence());
        let events = pair.peer(Side::Client).unwrap().peer().events();
        let closes = |event: &Event| match event {
            Event::Path(path) => path.tuple == tuple && path.reason == PathReason::CarrierClosed,
            _ => false,
        };
        assert!(events.iter().any(|(_, event)| closes(event)));
    }
}

// spec 6.127
#[test]
fn a_retired_path_closes_within_two_seconds_from_use_and_from_reserve() {
    for role in [Role::Primary, Role::Backup] {
        let mut pair =
            PairBuilder::new().seed(8).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS).build(client, server);
        let (interface, from, to) =
            (pair.paths()[1].interface.index, local(&pair, 1), pair.servers()[0].address);
        pair.peer(Side::Client).unwrap().peer().set_role(interface, role);
        pair.connect(SECOND).unwrap();
        pair.run_for(SECOND / 2).unwrap();
        let now = pair.now();
        let client = pair.peer(Side::Client).unwrap();
        let tuple = client.open(now, from, to);
        let id = client.peer().connection().unwrap().open_path(now, tuple).unwrap();
        pair.run_for(SECOND / 2).unwrap();
        let working = if role == Role::Backup { PathState::Backup } else { PathState::Active };
        assert_eq!(figures(&mut pair, tuple).unwrap().state, working);
        let now = pair.now();
        pair.peer(Side::Client).unwrap().peer().connection().unwrap().retire_path(now, id).unwrap();
        assert_eq!(figures(&mut pair, tuple).unwrap().state, PathState::Backup);
        pair.run_for(2 * SECOND + 10 * MS).unwrap();
        assert_eq!(figures(&mut pair, tuple), None, "{role}");
    }
}

#[test]
fn a_silent_tcp_path_dies_and_returns_by_small_challenges() {
    let (mut pair, tuple) = udp_and_tcp(5);
    pair.start(Side::Client, Box::new(Exchange::new(pair.host(Side::Client), megabytes(8))));
    pair.run_for(SECOND).unwrap();
    pair.cut(1, Direction::Both);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let received = pair.received(Side::Server);
    assert!(received.longest_silence() < 300 * MS, "{:?}", received.longest_silence());
    assert_eq!(figures(&mut pair, tuple).unwrap().state, PathState::Dead);
    pair.restore(1, Direction::Both);
    pair.run_for(30 * SECOND).unwrap();
    assert_eq!(figures(&mut pair, tuple).unwrap().state, PathState::Active);
    // The records of a dead path are challenges: none is padded to a full datagram.
    pair.peer(Side::Server).unwrap().peer().take_arrivals();
    pair.cut(1, Direction::Both);
    pair.start(Side::Client, Box::new(Exchange::new(pair.host(Side::Client), megabytes(1))));
    pair.run_for(2 * SECOND).unwrap();
    pair.restore(1, Direction::Both);
    pair.run_for(30 * SECOND).unwrap();
    assert_eq!(figures(&mut pair, tuple).unwrap().state, PathState::Active);
    let arrivals = pair.peer(Side::Server).unwrap().peer().take_arrivals();
    let records = arrivals.iter().filter(|(tuple, _)| !tuple.is_datagram());
    assert!(records.clone().count() > 3 && records.clone().all(|(_, record)| record.len() != 1200));
}

#[test]
fn reported_figures_take_the_place_of_window_rate_and_round_trip() {
    let make = |rng| client(rng).without_figures();
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS), make);
    let now = pair.now();
    let mut reported = CarrierFigures::new(123 * MS, ByteCount(77_000));
    reported.delivery_rate = mbit(200);
    let connection = pair.peer(Side::Client).unwrap().peer().connection().unwrap();
    connection.on_carrier_figures(now, tuple, reported);
    let tcp = figures(&mut pair, tuple).unwrap();
    assert_eq!((tcp.smoothed_rtt, tcp.window, tcp.delivery_rate), (123 * MS, ByteCount(77_000), mbit(200)));
    assert_eq!(tcp.datagram, 65_000);
    // A slow one gets small records.
    reported.delivery_rate = mbit(1);
    let connection = pair.peer(Side::Client).unwrap().peer().connection().unwrap();
    connection.on_carrier_figures(now, tuple, reported);
    assert_eq!(figures(&mut pair, tuple).unwrap().datagram, 4096);
}

/// Polls the packets of the client without sending them, and returns the sizes of the records.
fn poll_records(pair: &mut TcpPair, tuple: FourTuple) -> Vec<usize> {
    let (now, mut buffer) = (pair.now(), Vec::new());
    let endpoint = pair.peer(Side::Client).unwrap().peer().endpoint();
    let mut records = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer) {
        if transmit.tuple == tuple {
            assert_eq!((transmit.segment, transmit.ecn), (transmit.length, Ecn::NotEct));
            records.push(transmit.length);
        }
    }
    records
}

#[test]
fn a_report_bounds_what_is_given_to_the_carrier() {
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS), client);
    let now = pair.now();
    let connection = pair.peer(Side::Client).unwrap().peer().connection().unwrap();
    let stream = connection.open_stream().unwrap();
    connection.write(stream, Bytes::from(vec![7; 900_000])).unwrap();
    connection.on_carrier_figures(now, tuple, CarrierFigures::new(20 * MS, ByteCount(100_000)));
    let given: usize = poll_records(&mut pair, tuple).iter().sum();
    // The window and 16 KiB ahead, in whole records of 16 KiB.
    assert!((100_000 - 16_384..=100_000 + 16_384).contains(&given), "{given}");
}

#[test]
fn nothing_is_built_for_a_blocked_path_while_others_go_on() {
    let (mut pair, tcp) = udp_and_tcp(6);
    let udp = FourTuple::udp(
        LocalAddress { address: (local(&pair, 0).address.ip(), 40_000).into(), ..local(&pair, 0) },
        pair.servers()[0].address,
    );
    for (blocked, at, other) in [(udp, 0, 1), (tcp, 1, 0)] {
        pair.start(Side::Client, Box::new(Exchange::new(pair.host(Side::Client), megabytes(4))));
        pair.run_for(SECOND / 2).unwrap();
        let before = figures(&mut pair, blocked).unwrap().packets_sent;
        let now = pair.now();
        pair.peer(Side::Client).unwrap().peer().endpoint().on_blocked(now, blocked);
        let (carried, end) = (pair.delivered(Side::Client), now + SECOND / 5);
        while pair.now() < end {
            pair.run_for(MS).unwrap();
            // The model reports that its socket has room again; here it has not.
            let now = pair.now();
            pair.peer(Side::Client).unwrap().peer().endpoint().on_blocked(now, blocked);
        }
        let after = figures(&mut pair, blocked).unwrap().packets_sent;
        assert!(after - before <= 1, "{} packets left over {blocked}", after - before);
        let moved = pair.delivered(Side::Client)[other] - carried[other];
        assert!(moved > ByteCount(150_000), "{moved} over path {other}");
        pair.peer(Side::Client).unwrap().peer().endpoint().on_writable(blocked);
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
        assert!(figures(&mut pair, blocked).unwrap().packets_sent > after, "path {at} goes on");
    }
}

#[test]
fn a_full_send_buffer_alone_holds_a_stream_back_without_loss() {
    let make = |rng| client(rng).without_figures();
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS), make);
    let report = pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    assert!(report.elapsed < Duration::from_secs(4), "{:?}", report.elapsed);
    assert_eq!(figures(&mut pair, tuple).unwrap().packets_lost, 0);
}

#[test]
fn a_tcp_path_moves_to_no_address_from_which_copies_of_its_records_come() {
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS), client);
    let (now, mut buffer) = (pair.now(), Vec::new());
    let client = pair.peer(Side::Client).unwrap().peer();
    let stream = client.connection().unwrap().open_stream().unwrap();
    client.connection().unwrap().write(stream, Bytes::from_static(&[7; 100])).unwrap();
    let transmit = client.endpoint().poll_transmit(now, &mut buffer).unwrap();
    assert_eq!(transmit.tuple, tuple);
    let server = pair.servers()[0];
    let elsewhere = ([192, 0, 2, 7], 7).into();
    let server_peer = pair.peer(Side::Server).unwrap().peer();
    server_peer.endpoint().handle_datagram(now, FourTuple::udp(server, elsewhere), Ecn::NotEct, &mut buffer);
    let path = server_peer.connection().unwrap().statistics().paths[0];
    assert_eq!((path.tuple.remote, path.tuple.is_datagram()), (tuple.local.address, false));
}

#[test]
fn a_record_that_the_peer_discards_is_sent_again_long_before_the_path_would_die() {
    let (mut pair, tuple) = tcp_alone(LinkConfig::new(mbit(20), 10 * MS), client);
    pair.start(Side::Client, Box::new(Exchange::new(pair.host(Side::Client), megabytes(2))));
    pair.run_for(SECOND / 5).unwrap();
    // A record that never reaches the stream is one that the peer reads and discards. A larger window makes one more.
    let now = pair.now();
    let client = pair.peer(Side::Client).unwrap().peer();
    client.connection().unwrap().on_carrier_figures(now, tuple, CarrierFigures::new(20 * MS, megabytes(1)));
    let discarded = client.endpoint().poll_transmit(now, &mut Vec::new()).unwrap();
    assert!(discarded.tuple == tuple && discarded.length > 1000, "{discarded:?}");
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let tcp = figures(&mut pair, tuple).unwrap();
    assert!(tcp.packets_lost >= 1 && tcp.state == PathState::Active, "{tcp:?}");
    let received = pair.received(Side::Server);
    assert!(received.longest_silence() < 300 * MS, "{:?}", received.longest_silence());
    assert_eq!(received.total(), megabytes(2));
}

/// The server's path over the client's second interface.
fn at_server(pair: &mut TcpPair, tuple: FourTuple) -> PathStatistics {
    let connection = pair.peer(Side::Server).unwrap().peer().connection().unwrap();
    let paths = connection.statistics().paths;
    *paths.iter().find(|path| path.tuple.remote == tuple.local.address).unwrap()
}

/// The server gets a copy of the first packet of a new path over another carrier, and the original never or too late.
fn copy_first_packet(
    pair: &mut TcpPair,
    original: FourTuple,
    make: fn(LocalAddress, std::net::SocketAddr) -> FourTuple,
) {
    let (now, mut buffer) = (pair.now(), Vec::new());
    let client = pair.peer(Side::Client).unwrap().peer();
    let mut is_first =
        |buffer: &mut Vec<u8>| client.endpoint().poll_transmit(now, buffer).unwrap().tuple == original;
    while !is_first(&mut buffer) {}
    let server = pair.servers()[0];
    let elsewhere = make(server, ([192, 0, 2, 7], 7).into());
    let endpoint = pair.peer(Side::Server).unwrap().peer().endpoint();
    endpoint.handle_datagram(now, elsewhere, Ecn::NotEct, &mut buffer.clone());
    let path =
        pair.peer(Side::Server).unwrap().peer().connection().unwrap().statistics().paths.pop().unwrap();
    assert_eq!((path.tuple, path.state), (elsewhere, PathState::Validating));
    let here = FourTuple { local: server, remote: original.local.address, ..original };
    let endpoint = pair.peer(Side::Server).unwrap().peer().endpoint();
    endpoint.handle_datagram(now, here, Ecn::NotEct, &mut buffer);
    pair.run_for(2 * SECOND).unwrap();
}

#[test]
fn a_udp_path_whose_first_packet_was_copied_to_tcp_is_a_path_of_datagrams() {
    let builder = PairBuilder::new().seed(7).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = builder.build(client, server);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND / 2).unwrap();
    let both = [0, 1].map(|path| LocalAddress {
        address: (local(&pair, path).address.ip(), 40_000).into(),
        ..local(&pair, path)
    });
    let now = pair.now();
    pair.peer(Side::Client).unwrap().set_addresses(now, &both[..1]);
    pair.run_for(SECOND).unwrap();
    let now = pair.now();
    pair.peer(Side::Client).unwrap().set_addresses(now, &both);
    let tuple = FourTuple::udp(both[1], pair.servers()[0].address);
    copy_first_packet(&mut pair, tuple, FourTuple::tcp);
    pair.transfer(Side::Server, megabytes(8), MINUTE).unwrap();
    let path = at_server(&mut pair, tuple);
    assert!(path.tuple.is_datagram() && path.state == PathState::Active, "{path:?}");
    assert!(
        path.datagram < 1500 && path.ecn != EcnState::Absent && path.bytes_sent > megabytes(1),
        "{path:?}"
    );
}

#[test]
fn a_tcp_path_whose_first_packet_was_copied_to_udp_is_a_path_over_a_stream() {
    let mut pair =
        PairBuilder::new().seed(8).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS).build(client, server);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND / 2).unwrap();
    close_udp(&mut pair, 1);
    pair.run_for(SECOND / 2).unwrap();
    let (now, from, to) = (pair.now(), local(&pair, 1), pair.servers()[0].address);
    let client = pair.peer(Side::Client).unwrap();
    let tuple = client.open(now, from, to);
    assert!(client.peer().connection().unwrap().open_path(now, tuple).is_some());
    copy_first_packet(&mut pair, tuple, FourTuple::udp);
    pair.transfer(Side::Server, megabytes(8), MINUTE).unwrap();
    let path = at_server(&mut pair, tuple);
    assert!(!path.tuple.is_datagram() && path.state == PathState::Active, "{path:?}");
    assert!(
        path.datagram >= 4096 && path.ecn == EcnState::Absent && path.bytes_sent > megabytes(1),
        "{path:?}"
    );
    assert_eq!(path.packets_lost, 0);
}
