//! Two endpoints, and a network without jitter between them: the shortest way through all modules.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test may panic, and looks only at the events that it is about"
)]

mod shards;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_proto::identity::{self, AuthorisedKeys, Identity};
use manyway_proto::observe::{Fact, Observer};
use manyway_proto::{
    ClientConfig, ConnectionConfig, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, FourTuple,
    Instant, LocalAddress, LocalCandidate, PathId, PathState, ReadOutcome, Rng, Role, SealJobs, ServerConfig,
    Transmit,
};

const DELAY: Duration = Duration::from_millis(10);

struct Flight {
    at: Instant,
    to_server: bool,
    tuple: FourTuple,
    bytes: Vec<u8>,
}

struct Net {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    flights: Vec<Flight>,
    /// Whether each batch is sealed by a thread of its own.
    seals_elsewhere: bool,
    /// When what was sent: to the server or not, and its size.
    course: Vec<(Instant, bool, usize)>,
}

impl Net {
    fn new() -> (Self, ConnectionHandle) {
        let server_identity = Identity::from_seed(&[1; 32]);
        let client_identity = Identity::from_seed(&[2; 32]);
        let authorised: AuthorisedKeys = [*client_identity.public_key()].into_iter().collect();
        let connection = Arc::new(ConnectionConfig::default());
        let mut config = EndpointConfig::default();
        config.server = Some(ServerConfig {
            tls: identity::server_config(&server_identity, Arc::new(authorised)),
            certificate: None,
            connection: Arc::clone(&connection),
        });
        let server = Endpoint::new(config, Rng::from_seed([3; 32]));
        let mut client = Endpoint::new(EndpointConfig::default(), Rng::from_seed([4; 32]));
        let config = ClientConfig {
            tls: identity::client_config(server_identity.public_key().hash(), &client_identity),
            server_name: "manyway".try_into().unwrap(),
            connection,
        };
        let locals: Vec<_> = (1..=2_u8)
            .map(|n| LocalCandidate {
                address: LocalAddress {
                    interface: n.into(),
                    address: SocketAddr::from(([10, 0, 0, n], 1000)),
                },
                role: Role::Primary,
            })
            .collect();
        let remotes = ["10.9.0.1:4455".parse().unwrap()];
        let now = Instant::from_nanos(0);
        let handle = client.connect(now, &config, &locals, &remotes).unwrap();
        let (flights, course) = (Vec::new(), Vec::new());
        (Self { now, client, server, flights, seals_elsewhere: false, course }, handle)
    }

    fn collect(&mut self) {
        let mut buffer = Vec::new();
        for to_server in [true, false] {
            let from = if to_server { &mut self.client } else { &mut self.server };
            loop {
                let transmit = if self.seals_elsewhere {
                    sealed_elsewhere(from, self.now, &mut buffer)
                } else {
                    from.poll_transmit(self.now, &mut buffer)
                };
                let Some(transmit) = transmit else { break };
                self.course.push((self.now, to_server, transmit.length));
                let tuple = FourTuple::udp(
                    LocalAddress { interface: 0, address: transmit.tuple.remote },
                    transmit.tuple.local.address,
                );
                for bytes in buffer[..transmit.length].chunks(transmit.segment) {
                    self.flights.push(Flight {
                        at: self.now + DELAY,
                        to_server,
                        tuple,
                        bytes: bytes.to_vec(),
                    });
                }
            }
        }
    }

    fn step(&mut self) {
        self.collect();
        let arrival = self.flights.iter().map(|flight| flight.at).min();
        let next =
            [arrival, self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min();
        self.now = self.now.max(next.unwrap());
        let (due, rest) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.at <= self.now);
        self.flights = rest;
        let due: Vec<Flight> = due;
        for mut flight in due {
            if flight.to_server {
                self.server.handle_datagram(self.now, flight.tuple, Ecn::NotEct, &mut flight.bytes);
            } else {
                let mut tuple = flight.tuple;
                let SocketAddr::V4(local) = tuple.local.address else { unreachable!() };
                tuple.local.interface = u32::from(local.ip().octets()[3]);
                self.client.handle_datagram(self.now, tuple, Ecn::NotEct, &mut flight.bytes);
            }
        }
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
    }
}

/// The next batch, sealed by another thread.
fn sealed_elsewhere(endpoint: &mut Endpoint, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
    let mut jobs = SealJobs::default();
    let transmit = endpoint.poll_transmit_unsealed(now, buffer, &mut jobs)?;
    let mut batch = std::mem::take(buffer);
    *buffer = std::thread::spawn(move || jobs.run(&mut batch).then_some(batch)).join().ok()??;
    Some(transmit)
}

#[test]
fn a_stream_arrives_over_two_paths_and_the_connection_closes_in_order() {
    transfer(false);
}

#[test]
fn packets_that_another_thread_seals_take_the_same_course() {
    assert_eq!(transfer(true), transfer(false));
}

/// Sends a stream from the client to the server, then closes; returns what was sent when.
fn transfer(seals_elsewhere: bool) -> Vec<(Instant, bool, usize)> {
    let (mut net, client) = Net::new();
    net.seals_elsewhere = seals_elsewhere;
    let data: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut server = None;
    let mut got = Vec::new();
    let mut closed = (false, false);
    let mut active = 0;
    for _ in 0..100_000 {
        net.step();
        while let Some((handle, event)) = net.client.poll_event() {
            match event {
                Event::Connected => {
                    let connection = net.client.connection(client).unwrap();
                    let stream = connection.open_stream().unwrap();
                    assert_eq!(connection.write(stream, Bytes::from(data.clone())).unwrap(), data.len());
                    connection.finish(stream).unwrap();
                }
                Event::StreamFinished(_) => {
                    let now = net.now;
                    active = net.client.connection(handle).unwrap().statistics().paths.len();
                    net.client.connection(handle).unwrap().close(now, 7, "done");
                }
                Event::Closed(error) => {
                    assert_eq!(error.to_string(), "closed by this end");
                    closed.0 = true;
                }
                Event::Path(path) => assert_ne!(path.state, PathState::Dead),
                _ => {}
            }
        }
        while let Some((handle, event)) = net.server.poll_event() {
            match event {
                Event::Connected => server = Some(handle),
                Event::Closed(error) => {
                    assert_eq!(error.to_string(), "closed by the peer with code 7: done");
                    closed.1 = true;
                }
                _ => {}
            }
        }
        if let Some(connection) = server.and_then(|handle| net.server.connection(handle)) {
            if let Some(stream) = connection.accept_stream() {
                while let Ok(ReadOutcome::Data(bytes)) = connection.read(stream, usize::MAX) {
                    got.extend_from_slice(&bytes);
                }
            } else {
                let stream = manyway_proto::StreamId(0);
                while let Ok(ReadOutcome::Data(bytes)) = connection.read(stream, usize::MAX) {
                    got.extend_from_slice(&bytes);
                }
            }
        }
        if closed == (true, true) && net.client.connections() + net.server.connections() == 0 {
            break;
        }
    }
    assert_eq!(closed, (true, true));
    assert!(got == data);
    assert_eq!(active, 2);
    assert_eq!(net.client.connections() + net.server.connections(), 0);
    net.course
}

#[test]
fn a_late_copy_of_the_first_flight_starts_no_connection() {
    let (mut net, _) = Net::new();
    net.collect();
    let (tuple, mut copy) = (net.flights[0].tuple, net.flights[0].bytes.clone());
    while net.now < Instant::from_nanos(0) + 10 * DELAY {
        net.step();
    }
    let now = net.now;
    let server = net.server.handles();
    net.server.handle_datagram(now, tuple, Ecn::NotEct, &mut copy);
    net.collect();
    assert_eq!(net.server.handles(), server);
    assert!(net.server.connection(server[0]).unwrap().is_established());
}

#[derive(Debug, Clone, Default)]
struct Facts(Arc<std::sync::Mutex<Vec<Fact>>>);

impl Observer for Facts {
    fn on_fact(&mut self, _now: Instant, fact: &Fact) {
        self.0.lock().unwrap().push(*fact);
    }
}

#[test]
fn an_observer_receives_facts_of_paths_and_packets_with_their_figures() {
    let (mut net, client) = Net::new();
    let facts = Facts::default();
    net.client.connection(client).unwrap().set_observer(Box::new(facts.clone()));
    while net.now < Instant::from_nanos(0) + Duration::from_millis(200) {
        net.step();
    }
    let facts = facts.0.lock().unwrap();
    let became_active = |id| {
        facts.iter().any(
            |fact| matches!(fact, Fact::Path(event) if event.path == id && event.state == PathState::Active),
        )
    };
    assert!(became_active(PathId(0)) && became_active(PathId(1)), "{facts:?}");
    for id in [PathId(0), PathId(1)] {
        let numbers: Vec<_> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::PacketSent { path, packet_number, size, .. } if *path == id => {
                    assert!((20..=1472).contains(size), "{fact:?}");
                    Some(*packet_number)
                }
                _ => None,
            })
            .collect();
        assert!(!numbers.is_empty());
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "numbers only grow: {numbers:?}");
    }
    assert!(facts.iter().any(|fact| matches!(fact, Fact::DatagramSize { size: 1472, .. })), "{facts:?}");
}
