//! One server and a crowd of clients, each datagram delivered at once: measures the cost of many connections at a
//! server, in any unit that can be read from outside, such as bytes allocated or time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use manyway_proto::identity::{AuthorisedKeys, client_config, server_config};
use manyway_proto::{
    ClientConfig, ConnectionConfig, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, FourTuple,
    Instant, LocalAddress, LocalCandidate, ReadOutcome, Rng, Role, ServerConfig, StreamId,
};
use rustls::pki_types::ServerName;

use crate::clock::Clock;
use crate::endpoint::{client_identity, server_identity};

/// Parallel handshakes: fewer than make the server require address validation.
const SET_UPS: usize = 32;

/// A server endpoint with many connections.
///
/// ```
/// use manyway_proto::{ByteCount, ConnectionConfig};
/// use manyway_sim::Crowd;
/// use std::time::Duration;
///
/// // What the server does adds to nothing here; a meter may read the bytes that are allocated, or a clock.
/// let mut crowd = Crowd::new(3, 2, &ConnectionConfig::default(), || 0);
/// crowd.exchange(1, ByteCount(100_000));
/// crowd.rest(Duration::from_secs(5));
/// assert_eq!((crowd.connections(), crowd.metered()), (3, 0));
/// assert!(crowd.packets() > 100);
/// ```
#[derive(Debug)]
pub struct Crowd {
    now: Instant,
    server: Endpoint,
    clients: Endpoint,
    handles: Vec<ConnectionHandle>,
    meter: fn() -> i64,
    metered: i64,
    metered_at_clients: i64,
    packets: u64,
    buffer: Vec<u8>,
    to_server: VecDeque<(FourTuple, Vec<u8>)>,
    to_clients: VecDeque<(FourTuple, Vec<u8>)>,
}

impl Crowd {
    /// Establishes this many connections over this many paths each, one after another. The server's work is counted by
    /// the progress of `meter`.
    ///
    /// # Panics
    /// If a connection cannot be established.
    #[expect(clippy::panic, clippy::expect_used, reason = "a crowd that does not gather is of no use")]
    pub fn new(connections: usize, paths: u8, config: &ConnectionConfig, meter: fn() -> i64) -> Self {
        let connection = Arc::new(config.clone());
        let authorised = AuthorisedKeys::from_iter([*client_identity().public_key()]);
        let mut config = EndpointConfig::default();
        let tls = server_config(&server_identity(), Arc::new(authorised));
        config.server = Some(ServerConfig { tls, certificate: None, connection: Arc::clone(&connection) });
        let before = meter();
        let server = Endpoint::new(config, Rng::from_seed([1; 32]));
        let metered = meter() - before;
        let mut crowd = Self {
            now: Clock::START,
            server,
            clients: Endpoint::new(EndpointConfig::default(), Rng::from_seed([2; 32])),
            handles: Vec::new(),
            meter,
            metered,
            metered_at_clients: 0,
            packets: 0,
            buffer: Vec::new(),
            to_server: VecDeque::new(),
            to_clients: VecDeque::new(),
        };
        let client = ClientConfig {
            tls: client_config(server_identity().public_key().hash(), &client_identity()),
            server_name: ServerName::try_from("server.invalid").expect("a domain name"),
            connection,
        };
        let locals: Vec<_> = (1..=paths).map(local).collect();
        while crowd.handles.len() < connections {
            for _ in 0..SET_UPS.min(connections - crowd.handles.len()) {
                let handle = crowd.clients.connect(crowd.now, &client, &locals, &[SERVER]);
                crowd.handles.push(handle.expect("the addresses fit"));
            }
            crowd.rest(Duration::from_millis(100));
        }
        let established = |handle: &ConnectionHandle| {
            crowd.clients.connection(*handle).is_some_and(|connection| connection.is_established())
        };
        if !crowd.handles.iter().all(established) {
            panic!("not every connection was set up");
        }
        crowd.rest(Duration::from_secs(1));
        crowd
    }

    /// How many connections the server has.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Total progress of the meter while the server worked.
    pub fn metered(&self) -> i64 {
        self.metered
    }

    /// The same while the clients worked, without the calls by which they began to connect.
    pub fn metered_at_clients(&self) -> i64 {
        self.metered_at_clients
    }

    /// Datagrams that the server received and sent.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The server.
    pub fn server(&self) -> &Endpoint {
        &self.server
    }

    /// Sends this many bytes from a client to the server on a new stream, and a byte in answer, at one instant.
    ///
    /// # Panics
    /// If there is no such client, or it can not open a stream.
    #[expect(clippy::expect_used, reason = "the caller names a connection that was set up")]
    pub fn exchange(&mut self, client: usize, bytes: manyway_proto::ByteCount) {
        let handle = *self.handles.get(client).expect("a client");
        let mut rest = Bytes::from(vec![0; bytes.to_usize()]);
        let stream = self.with_clients(|clients, _| {
            let connection = clients.connection(handle).expect("a connection");
            connection.open_stream().expect("the server allows many streams")
        });
        while !rest.is_empty() {
            self.with_clients(|clients, _| {
                let Some(connection) = clients.connection(handle) else { return rest.clear() };
                let taken = connection.write(stream, rest.clone()).unwrap_or(rest.len());
                rest.advance(taken);
                if rest.is_empty() {
                    // A stream that the server stopped needs no end.
                    let _ = connection.finish(stream);
                }
            });
            self.rest(Duration::from_millis(1));
        }
    }

    /// Lets time pass: packets arrive at once, timers fire when they are due.
    pub fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.server.poll_timeout().into_iter().chain(self.clients.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            self.with_clients(|clients, _| clients.handle_timeout(now));
            self.with_server(|server, _| server.handle_timeout(now));
        }
        self.now = until;
    }

    /// Delivers datagrams until no more are sent at this instant.
    fn settle(&mut self) {
        loop {
            self.run_server();
            self.run_clients();
            if self.to_server.is_empty() {
                return;
            }
        }
    }

    fn run_server(&mut self) {
        let now = self.now;
        while let Some((tuple, mut bytes)) = self.to_server.pop_front() {
            self.packets += 1;
            self.with_server(|server, _| server.handle_datagram(now, tuple, Ecn::NotEct, &mut bytes));
        }
        while let Some((handle, event)) = self.with_server(|server, _| server.poll_event()) {
            self.with_server(|server, _| serve(server, handle, &event));
        }
        while let Some(transmit) = self.with_server(|server, buffer| server.poll_transmit(now, buffer)) {
            let from = transmit.tuple.local;
            let local = LocalAddress {
                interface: interface_of(transmit.tuple.remote),
                address: transmit.tuple.remote,
            };
            for datagram in self.buffer.chunks(transmit.segment.max(1)) {
                self.packets += 1;
                self.to_clients.push_back((FourTuple::udp(local, from.address), datagram.to_vec()));
            }
        }
    }

    fn run_clients(&mut self) {
        let now = self.now;
        while let Some((tuple, mut bytes)) = self.to_clients.pop_front() {
            self.with_clients(|clients, _| clients.handle_datagram(now, tuple, Ecn::NotEct, &mut bytes));
        }
        while let Some((handle, event)) = self.with_clients(|clients, _| clients.poll_event()) {
            self.with_clients(|clients, _| serve(clients, handle, &event));
        }
        while let Some(transmit) = self.with_clients(|clients, buffer| clients.poll_transmit(now, buffer)) {
            let local = LocalAddress { interface: 0, address: transmit.tuple.remote };
            let tuple = FourTuple::udp(local, transmit.tuple.local.address);
            let datagrams = self.buffer.chunks(transmit.segment.max(1));
            self.to_server.extend(datagrams.map(|datagram| (tuple, datagram.to_vec())));
        }
    }

    fn with_clients<T>(&mut self, work: impl FnOnce(&mut Endpoint, &mut Vec<u8>) -> T) -> T {
        let before = (self.meter)();
        let result = work(&mut self.clients, &mut self.buffer);
        self.metered_at_clients += (self.meter)() - before;
        result
    }

    fn with_server<T>(&mut self, work: impl FnOnce(&mut Endpoint, &mut Vec<u8>) -> T) -> T {
        let before = (self.meter)();
        let result = work(&mut self.server, &mut self.buffer);
        self.metered += (self.meter)() - before;
        result
    }
}

const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(172, 16, 0, 1)), 4455);

fn local(number: u8) -> LocalCandidate {
    let address = SocketAddr::from(([10, 0, number, 2], 40_000));
    LocalCandidate { address: LocalAddress { interface: number.into(), address }, role: Role::Primary }
}

fn interface_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(v4) => u32::from(v4.ip().octets()[2]),
        SocketAddr::V6(_) => 0,
    }
}

/// Reads received data; answers each stream of the peer with a byte.
fn serve(endpoint: &mut Endpoint, handle: ConnectionHandle, event: &Event) {
    let Some(connection) = endpoint.connection(handle) else { return };
    let mut read = |stream: StreamId| {
        while let Ok(ReadOutcome::Data(_)) = connection.read(stream, usize::MAX) {}
    };
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the list of events is open, and others need no answer"
    )]
    match event {
        Event::StreamReadable(stream) => read(*stream),
        Event::StreamOpened => {
            while let Some(stream) = connection.accept_stream() {
                // The answer on a stream that was stopped meanwhile does not matter.
                let _ = connection.write(stream, Bytes::from_static(b"!"));
                let _ = connection.finish(stream);
                while let Ok(ReadOutcome::Data(_)) = connection.read(stream, usize::MAX) {}
            }
        }
        _ => {}
    }
}
