use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::mmsp2::tls::testing;
use crate::{LocalAddress, LocalCandidate, Role};

/// A server and its clients, whose datagrams arrive at once.
struct Host {
    now: Instant,
    server: Endpoint,
    clients: Endpoint,
    handles: Vec<ConnectionHandle>,
}

impl Host {
    fn with_connections(count: usize) -> Self {
        let connection = Arc::new(ConnectionConfig::default());
        let tls = testing::server_config(1, 2);
        let config = EndpointConfig {
            server: Some(ServerConfig { tls, certificate: None, connection: Arc::clone(&connection) }),
            ..EndpointConfig::default()
        };
        let mut host = Self {
            now: Instant::from_nanos(1),
            server: Endpoint::new(config, Rng::from_seed([1; 32])),
            clients: Endpoint::new(EndpointConfig::default(), Rng::from_seed([2; 32])),
            handles: Vec::new(),
        };
        let client = ClientConfig {
            tls: testing::client_config(2, 1),
            server_name: "manyway".try_into().unwrap(),
            connection,
        };
        let local = LocalCandidate { address: address("10.0.0.1:1"), role: Role::Primary };
        for _ in 0..count {
            let handle = host.clients.connect(host.now, &client, &[local], &[address("10.0.0.2:1").address]);
            host.handles.push(handle.unwrap());
            host.pass(Duration::from_millis(50));
        }
        host.pass(Duration::from_secs(5));
        assert_eq!(host.server.connections(), count);
        host
    }

    /// Passes datagrams and runs timers for this long.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let Self { clients, server, now, .. } = self;
            if hand_over(*now, clients, server) | hand_over(*now, server, clients) {
                continue;
            }
            let next = self.server.poll_timeout().into_iter().chain(self.clients.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.server.handle_timeout(self.now);
            self.clients.handle_timeout(self.now);
        }
        self.now = until;
    }

    /// How often the server accesses a connection while one client sends a little.
    fn looks_for_one_exchange(&mut self) -> u64 {
        let before = self.server.slots.looks.get();
        let connection = self.clients.connection(self.handles[0]).unwrap();
        let stream = connection.open_stream().unwrap();
        connection.write(stream, Bytes::from_static(b"hello")).unwrap();
        connection.finish(stream).unwrap();
        self.pass(Duration::from_millis(40));
        self.server.slots.looks.get() - before
    }
}

/// Passes the packets of one end to the other; returns whether there were any.
fn hand_over(now: Instant, from: &mut Endpoint, to: &mut Endpoint) -> bool {
    let (mut buffer, mut moved) = (Vec::new(), false);
    while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
        moved = true;
        let local = LocalAddress { interface: 1, address: transmit.tuple.remote };
        let tuple = FourTuple::udp(local, transmit.tuple.local.address);
        to.handle_datagrams(now, tuple, Ecn::NotEct, &mut buffer, transmit.segment);
    }
    while to.poll_event().is_some() {}
    moved
}

fn address(text: &str) -> LocalAddress {
    LocalAddress { interface: 1, address: text.parse().unwrap() }
}

#[test]
fn idle_connections_are_not_accessed_for_the_packets_of_others() {
    let looks = [1, 10, 60].map(|count| Host::with_connections(count).looks_for_one_exchange());
    assert!(looks[0] > 5, "{looks:?}");
    assert_eq!(looks, [looks[0]; 3]);
}

#[test]
fn datagrams_of_several_connections_in_one_row_reach_each_of_them() {
    let mut host = Host::with_connections(2);
    host.pass(Duration::from_secs(1));
    let mut row = Vec::new();
    let mut facts = Vec::new();
    for handle in host.handles.clone() {
        let connection = host.clients.connection(handle).unwrap();
        let stream = connection.open_stream().unwrap();
        connection.write(stream, Bytes::from_static(&[7; 500])).unwrap();
        let mut buffer = Vec::new();
        let transmit = host.clients.poll_transmit(host.now, &mut buffer).unwrap();
        facts.push((transmit.tuple, buffer.len()));
        row.extend_from_slice(&buffer);
        while host.clients.poll_transmit(host.now, &mut buffer).is_some() {}
    }
    let (tuple, size) = facts[0];
    assert_eq!(facts[1], facts[0], "a row has one address pair and one size");
    // Between the two stands one of a connection that does not exist.
    let mut unknown = row[..size].to_vec();
    unknown[1..9].fill(0xee);
    row.splice(size..size, unknown);
    let local = LocalAddress { interface: 1, address: tuple.remote };
    let arrived = FourTuple::udp(local, tuple.local.address);
    host.server.handle_datagrams(host.now, arrived, Ecn::NotEct, &mut row, size);
    let reached = std::iter::from_fn(|| host.server.poll_event())
        .filter(|(_, event)| matches!(event, Event::StreamOpened))
        .map(|(handle, _)| handle);
    assert_eq!(reached.collect::<std::collections::BTreeSet<_>>().len(), 2);
}

#[test]
fn a_handshake_stays_on_the_carrier_of_its_first_packet() {
    let mut host = Host::with_connections(0);
    let client = ClientConfig {
        tls: testing::client_config(2, 1),
        server_name: "manyway".try_into().unwrap(),
        connection: Arc::new(ConnectionConfig::default()),
    };
    let local = LocalCandidate { address: address("10.0.0.1:1"), role: Role::Primary };
    host.clients.connect(host.now, &client, &[local], &[address("10.0.0.2:1").address]).unwrap();
    let udp = FourTuple::udp(address("10.0.0.2:1"), local.address.address);
    let tcp = FourTuple::tcp(udp.local, ([192, 0, 2, 9], 9).into());
    let mut buffer = Vec::new();
    for tuple in [udp, tcp] {
        assert!(
            host.clients.poll_transmit(host.now, &mut buffer).is_some(),
            "an Initial packet, then its repetition"
        );
        host.server.handle_datagram(host.now, tuple, Ecn::NotEct, &mut buffer);
        while let Some(transmit) = host.server.poll_transmit(host.now, &mut buffer) {
            assert_eq!(transmit.tuple, udp);
        }
        while host.clients.poll_transmit(host.now, &mut buffer).is_some() {}
        host.now = host.clients.poll_timeout().unwrap();
        host.clients.handle_timeout(host.now);
    }
}

#[test]
fn a_postponed_deadline_is_respected() {
    let mut host = Host::with_connections(3);
    let first_deadline = host.server.poll_timeout().unwrap();
    // Exchanges of one connection postpone its idle timeout; the others end without it.
    for _ in 0..3 {
        host.pass(Duration::from_secs(9));
        host.looks_for_one_exchange();
    }
    host.pass(Duration::from_secs(10));
    assert!(host.now > first_deadline);
    assert_eq!(host.server.connections(), 1);
    host.pass(Duration::from_secs(40));
    assert_eq!(host.server.connections(), 0);
}
