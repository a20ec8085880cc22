//! Two things go wrong, one after the other.

use std::net::SocketAddr;

use bytes::Bytes;
use manyway_proto::{
    ByteCount, ConnectionConfig, Ecn, Endpoint, EndpointConfig, Event, FourTuple, LocalAddress,
    LocalCandidate, Rng, Role,
};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MS, SECOND, connected, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{PairBuilder, Side, endpoint_pair};

#[test]
fn a_returning_path_is_used_despite_an_outdated_path_status() {
    for (gap, both) in [(300, true), (300, false), (3000, true), (3000, false)] {
        let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 20 * MS)).unwrap();
        for side in [Side::Client, Side::Server] {
            if side == Side::Client || both {
                let host = pair.host(side);
                pair.start(side, Box::new(Exchange::new(host, megabytes(30))));
            }
        }
        pair.run_for(2 * SECOND).unwrap();
        pair.cut(0, Direction::Both);
        pair.run_for(gap * MS).unwrap();
        pair.cut(1, Direction::Both);
        pair.run_for(2 * SECOND).unwrap();
        let before = pair.delivered(Side::Client)[0];
        pair.restore(0, Direction::Both);
        pair.run_for(4 * SECOND).unwrap();
        let after = pair.delivered(Side::Client)[0];
        assert!(after > before + ByteCount(1_000_000), "gap {gap} both {both}: {before} then {after}");
    }
}

#[test]
fn a_close_waits_for_what_the_peer_still_flushes() {
    let mut pair = connected(PairBuilder::new().path(mbit(4), 10 * MS)).unwrap();
    let host = pair.host(Side::Server);
    pair.start(Side::Server, Box::new(Exchange::new(host, megabytes(4))));
    pair.run_for(500 * MS).unwrap();
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().close(now, 0, "done");
    // Four megabytes take eight seconds; an orderly end violates no law.
    let _ = pair.run_for(20 * SECOND);
    assert_eq!(pair.received(Side::Client).total(), megabytes(4));
}

#[test]
fn a_handshake_packet_from_a_foreign_address_does_not_validate_it() {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS);
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    let config = pair.world().node(pair.host(Side::Client)).unwrap().client_config().unwrap().clone();
    let remote: SocketAddr = "172.16.0.1:4433".parse().unwrap();
    let own: SocketAddr = "198.51.100.1:1000".parse().unwrap();
    let victim: SocketAddr = "203.0.113.9:53".parse().unwrap();
    let local = LocalAddress { interface: 1, address: own };
    let at_server = |from| FourTuple::udp(LocalAddress { interface: 1, address: remote }, from);
    let mut client = Endpoint::new(EndpointConfig::default(), Rng::from_seed([9; 32]));
    let mut now = pair.now();
    let locals = [LocalCandidate { address: local, role: Role::Primary }];
    client.connect(now, &config, &locals, &[remote]).unwrap();
    let server = pair.peer(Side::Server).unwrap().endpoint();
    let mut buffer = Vec::new();
    let (mut spoofed, mut to_victim) = (0, 0);
    for round in 0..400 {
        while let Some(transmit) = client.poll_transmit(now, &mut buffer) {
            for datagram in buffer.chunks_mut(transmit.segment) {
                if round == 0 {
                    server.handle_datagram(now, at_server(own), Ecn::NotEct, datagram);
                } else if spoofed == 0 {
                    spoofed += datagram.len();
                    server.handle_datagram(now, at_server(victim), Ecn::NotEct, datagram);
                }
            }
        }
        while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
            for datagram in buffer.chunks_mut(transmit.segment) {
                if transmit.tuple.remote == victim {
                    to_victim += datagram.len();
                } else if round < 2 {
                    client.handle_datagram(now, FourTuple::udp(local, remote), Ecn::NotEct, datagram);
                }
            }
        }
        while let Some((handle, event)) = server.poll_event() {
            if event == Event::Connected {
                let connection = server.connection(handle).unwrap();
                let stream = connection.open_stream().unwrap();
                connection.write(stream, Bytes::from(vec![0; 1 << 20])).unwrap();
            }
        }
        while client.poll_event().is_some() {}
        now += 10 * MS;
        server.handle_timeout(now);
        client.handle_timeout(now);
    }
    assert!(spoofed > 0 && to_victim <= 3 * spoofed, "{to_victim} bytes for {spoofed}");
}
