//! Several endpoints that serve one port together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use manyway_proto::identity::{self, AuthorisedKeys, Identity};
use manyway_proto::{
    ClientConfig, ConnectionConfig, ConnectionHandle, Ecn, Endpoint, EndpointConfig, Event, FourTuple,
    IdLayout, Instant, LocalAddress, LocalCandidate, Placer, ReadOutcome, Rng, Role, ServerConfig, Shard,
    StreamId,
};

const SHARDS: usize = 3;

/// Every endpoint in its turn.
#[derive(Debug, Default)]
struct Turns(AtomicUsize);

impl Placer for Turns {
    fn place(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) % SHARDS
    }
}

/// Endpoints behind one address, their clients, and a network without delay.
struct Port {
    now: Instant,
    servers: Vec<Endpoint>,
    clients: Endpoint,
    config: ClientConfig,
    /// Datagrams that one server handed over to another.
    handed_over: usize,
    /// Whether the clients receive nothing.
    is_mute: bool,
}

fn at(address: &str, interface: u32) -> LocalAddress {
    LocalAddress { interface, address: address.parse().unwrap() }
}

fn server_address() -> SocketAddr {
    at("10.9.0.1:4455", 0).address
}

/// The longest prefix, and the longest IDs.
fn layouts() -> [IdLayout; 3] {
    let layout = |length, prefix: &[u8]| IdLayout::new(length, prefix).unwrap();
    [IdLayout::default(), layout(13, &[0x4c, 1, 2, 3, 4]), layout(20, &[])]
}

impl Port {
    fn new() -> Self {
        Self::with_ids(IdLayout::default())
    }

    fn with_ids(ids: IdLayout) -> Self {
        let server = Identity::from_seed(&[1; 32]);
        let client = Identity::from_seed(&[2; 32]);
        let authorised: Arc<AuthorisedKeys> = Arc::new([*client.public_key()].into_iter().collect());
        let connection = Arc::new(ConnectionConfig::default());
        let placer: Arc<dyn Placer> = Arc::new(Turns::default());
        let servers = (0..SHARDS).map(|index| {
            let mut config = EndpointConfig::default();
            config.server = Some(ServerConfig {
                tls: identity::server_config(&server, authorised.clone()),
                certificate: None,
                connection: Arc::clone(&connection),
            });
            config.reset_key = Some([9; 32]);
            config.shard = Shard::new(index, SHARDS).unwrap();
            config.ids = ids;
            config.placer = Some(Arc::clone(&placer));
            Endpoint::new(config, Rng::from_seed([u8::try_from(index).unwrap(); 32]))
        });
        Self {
            now: Instant::from_nanos(1),
            servers: servers.collect(),
            clients: Endpoint::new(EndpointConfig::default(), Rng::from_seed([77; 32])),
            config: ClientConfig {
                tls: identity::client_config(server.public_key().hash(), &client),
                server_name: "manyway".try_into().unwrap(),
                connection,
            },
            handed_over: 0,
            is_mute: false,
        }
    }

    /// Starts a connection over two addresses of a client.
    fn connect(&mut self, port: u16) -> ConnectionHandle {
        let local = |n: u8| LocalCandidate {
            address: at(&format!("10.0.0.{n}:{port}"), n.into()),
            role: Role::Primary,
        };
        let remotes = [server_address()];
        self.clients.connect(self.now, &self.config, &[local(1), local(2)], &remotes).unwrap()
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            if self.pass_on() {
                continue;
            }
            let endpoints = self.servers.iter().chain([&self.clients]);
            let Some(next) = endpoints.filter_map(Endpoint::poll_timeout).min().filter(|at| *at <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            let now = self.now;
            self.servers.iter_mut().chain([&mut self.clients]).for_each(|it| it.handle_timeout(now));
        }
        self.now = until;
    }

    /// Delivers what all have to send; false if that is nothing.
    fn pass_on(&mut self) -> bool {
        let (now, mut buffer, mut any) = (self.now, Vec::new(), false);
        while let Some(transmit) = self.clients.poll_transmit(now, &mut buffer) {
            any = true;
            let tuple = FourTuple::udp(at("10.9.0.1:4455", 0), transmit.tuple.local.address);
            for datagram in buffer[..transmit.length].chunks_mut(transmit.segment) {
                let shard = Shard::new(0, SHARDS).unwrap().of_datagram(datagram);
                self.servers[shard].handle_datagram(now, tuple, Ecn::NotEct, datagram);
            }
        }
        for index in 0..SHARDS {
            while let Some(datagram) = self.servers[index].poll_hand_over() {
                assert_ne!(datagram.shard, index);
                self.handed_over += 1;
                self.servers[datagram.shard].take_over(now, datagram);
            }
        }
        for server in &mut self.servers {
            while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
                any = true;
                let SocketAddr::V4(client) = transmit.tuple.remote else { unreachable!() };
                let local = LocalAddress {
                    interface: client.ip().octets()[3].into(),
                    address: transmit.tuple.remote,
                };
                let tuple = FourTuple::udp(local, server_address());
                if self.is_mute {
                    continue;
                }
                for datagram in buffer[..transmit.length].chunks_mut(transmit.segment) {
                    self.clients.handle_datagram(now, tuple, Ecn::NotEct, datagram);
                }
            }
        }
        any
    }

    fn loads(&self) -> Vec<usize> {
        self.servers.iter().map(Endpoint::connections).collect()
    }

    fn is_established(&mut self, handle: ConnectionHandle) -> bool {
        self.clients.connection(handle).is_some_and(|connection| connection.is_established())
    }
}

#[test]
fn clients_are_placed_in_turn_and_all_their_paths_lead_to_the_endpoint_that_has_them() {
    layouts().into_iter().for_each(|ids| place_in_turn(Port::with_ids(ids)));
}

fn place_in_turn(mut port: Port) {
    let handles: Vec<_> = (0..9).map(|n| port.connect(1000 + n)).collect();
    port.run_for(Duration::from_secs(2));
    assert_eq!(port.loads(), [3; SHARDS]);
    let handed_over = port.handed_over;
    assert!((1..=4 * handles.len()).contains(&handed_over), "{handed_over}: only first flights are");
    for handle in &handles {
        let connection = port.clients.connection(*handle).unwrap();
        assert_eq!(connection.statistics().paths.len(), 2);
        let stream = connection.open_stream().unwrap();
        connection.write(stream, Bytes::from(vec![5; 100_000])).unwrap();
        connection.finish(stream).unwrap();
    }
    port.run_for(Duration::from_secs(2));
    assert_eq!(port.handed_over, handed_over, "established connections need no other endpoint");
    for server in &mut port.servers {
        for handle in server.handles() {
            let connection = server.connection(handle).unwrap();
            connection.accept_stream().unwrap();
            let mut got = 0;
            while let Ok(ReadOutcome::Data(bytes)) = connection.read(StreamId(0), usize::MAX) {
                got += bytes.len();
            }
            assert_eq!(got, 100_000);
        }
    }
}

#[test]
fn datagrams_in_a_row_of_another_endpoint_are_handed_over_and_not_answered() {
    let mut port = Port::new();
    let handles: Vec<_> = (0..SHARDS).map(|n| port.connect(1000 + u16::try_from(n).unwrap())).collect();
    port.run_for(Duration::from_secs(2));
    let (now, mut buffer, mut row) = (port.now, Vec::new(), Vec::new());
    for handle in &handles {
        port.clients.connection(*handle).unwrap().abort(now, 7, "");
    }
    let mut tuple = None;
    while let Some(transmit) = port.clients.poll_transmit(now, &mut buffer) {
        tuple = Some(FourTuple::udp(at("10.9.0.1:4455", 0), transmit.tuple.local.address));
        row.push(buffer.clone());
    }
    let size = row.iter().map(Vec::len).max().unwrap();
    assert!(row.len() >= SHARDS && row.iter().all(|datagram| datagram.len() == size), "{row:?}");
    port.servers[0].handle_datagrams(now, tuple.unwrap(), Ecn::NotEct, &mut row.concat(), size);
    let before = port.handed_over;
    port.pass_on();
    assert_eq!(port.handed_over - before, row.len() - 1, "all but its own");
    for server in &mut port.servers {
        let end = std::iter::from_fn(|| server.poll_event()).find_map(|(_, event)| match event {
            Event::Closed(error) => Some(error.to_string()),
            _ => None,
        });
        assert_eq!(end.as_deref(), Some("closed by the peer with code 0x1007"));
    }
}

#[test]
fn a_late_copy_of_a_first_flight_starts_no_second_connection_elsewhere() {
    let mut port = Port::new();
    port.connect(1000);
    let (mut buffer, mut flights) = (Vec::new(), Vec::new());
    while let Some(transmit) = port.clients.poll_transmit(port.now, &mut buffer) {
        flights.push((transmit.tuple.local.address, buffer.clone()));
    }
    for _ in 0..2 * SHARDS {
        for (from, flight) in &mut flights.clone() {
            let shard = Shard::new(0, SHARDS).unwrap().of_datagram(flight);
            let tuple = FourTuple::udp(at("10.9.0.1:4455", 0), *from);
            port.servers[shard].handle_datagram(port.now, tuple, Ecn::NotEct, flight);
        }
        port.pass_on();
    }
    assert_eq!(port.loads().iter().sum::<usize>(), 1, "{:?}", port.loads());
}

#[test]
fn a_client_under_load_returns_its_info_whichever_endpoint_made_it() {
    layouts().into_iter().for_each(|ids| return_infos(Port::with_ids(ids)));
}

fn return_infos(mut port: Port) {
    // So many half-open connections that every endpoint asks for INFO.
    port.is_mute = true;
    for n in 0..90 {
        port.connect(2000 + n);
        port.run_for(Duration::from_millis(1));
    }
    assert!(port.loads().iter().all(|load| (64 / SHARDS..=64).contains(load)), "{:?}", port.loads());
    port.is_mute = false;
    let handles: Vec<_> = (0..6).map(|n| port.connect(5000 + n)).collect();
    port.run_for(Duration::from_millis(500));
    assert!(handles.iter().all(|handle| port.is_established(*handle)));
    while let Some((handle, event)) = port.clients.poll_event() {
        assert!(!matches!(event, Event::Closed(_)), "{handle:?}: {event:?}");
    }
}
