//! Two endpoints on this host, and a relay between them that can fail.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(unreachable_pub, reason = "each test program has its own copy")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "these are tests")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manyway::{
    Connection, ConnectionConfig, Endpoint, EndpointOptions, HostPort, Identity, Lanes, LocalAddress, Locals,
    ReceiveStream, Role, SendStream, ServerOptions, Ticket,
};
use tokio::net::UdpSocket;

pub const SECRET: [u8; 16] = [9; 16];

pub fn identity() -> Identity {
    Identity::from_seed(&[7; 32])
}

/// Fails the test after a timeout instead of hanging it.
pub async fn soon<F: IntoFuture>(what: F) -> F::Output {
    within(20, what).await
}

pub async fn within<F: IntoFuture>(seconds: u64, what: F) -> F::Output {
    let limit = Duration::from_secs(seconds);
    tokio::time::timeout(limit, what.into_future()).await.expect("it takes too long")
}

pub fn server(connection: ConnectionConfig) -> Endpoint {
    server_with(connection, Lanes::Auto)
}

pub fn server_with(connection: ConnectionConfig, lanes: Lanes) -> Endpoint {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.connection = connection;
    options.lanes = lanes;
    Endpoint::bind(options).unwrap()
}

pub fn client(connection: ConnectionConfig) -> Endpoint {
    client_from(connection, &[[127, 0, 0, 1]])
}

/// A client that uses exactly these addresses.
pub fn client_from(connection: ConnectionConfig, locals: &[[u8; 4]]) -> Endpoint {
    client_with(connection, locals, Lanes::Auto)
}

pub fn client_with(connection: ConnectionConfig, locals: &[[u8; 4]], lanes: Lanes) -> Endpoint {
    let mut options = EndpointOptions::default();
    options.lanes = lanes;
    options.connection = connection;
    let local = |ip: &[u8; 4]| LocalAddress { interface: 0, address: SocketAddr::from((*ip, 0)) };
    options.locals = Locals::Fixed(locals.iter().map(|ip| (local(ip), Role::Primary)).collect());
    Endpoint::bind(options).unwrap()
}

pub fn address(endpoint: &Endpoint) -> SocketAddr {
    endpoint.local_addresses()[0].address
}

pub fn ticket(hosts: &[SocketAddr]) -> Ticket {
    let hosts = hosts.iter().map(|host| HostPort::from(*host)).collect();
    Ticket::new(identity().public_key().hash(), SECRET, hosts).unwrap()
}

/// Both ends of a connection, and their endpoints.
pub struct Pair {
    pub server: Endpoint,
    pub client: Endpoint,
    /// The server's handle.
    pub accepted: Connection,
    /// The client's handle.
    pub connected: Connection,
}

impl Pair {
    pub async fn new() -> Self {
        Self::with(ConnectionConfig::default(), ConnectionConfig::default()).await
    }

    pub async fn with(server_config: ConnectionConfig, client_config: ConnectionConfig) -> Self {
        Self::of(server(server_config), client(client_config)).await
    }

    pub async fn of(server: Endpoint, client: Endpoint) -> Self {
        let ticket = ticket(&[address(&server)]);
        let (connected, accepted) =
            soon(async { tokio::join!(client.connect(&ticket), server.accept()) }).await;
        Self { connected: connected.unwrap(), accepted: accepted.unwrap(), server, client }
    }

    /// A stream that the client opened, with its first byte read.
    pub async fn stream(&self) -> ((SendStream, ReceiveStream), (SendStream, ReceiveStream)) {
        let (mut send, receive) = soon(self.connected.open()).await.unwrap();
        soon(send.write_chunk("!".into())).await.unwrap();
        let (peer_send, mut peer_receive) = soon(self.accepted.accept()).await.unwrap();
        assert_eq!(soon(peer_receive.read_chunk(1)).await.unwrap().unwrap(), "!");
        ((send, receive), (peer_send, peer_receive))
    }
}

/// A byte pattern without repetition at short distance.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x1234_5678_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Reads to the end.
pub async fn read_all(receive: &mut ReceiveStream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = receive.read_chunk(usize::MAX).await.unwrap() {
        all.extend_from_slice(&chunk);
    }
    all
}

/// A server with a persistent key for resets, as one that keeps its keys in files.
pub fn lasting_server(listen: SocketAddr) -> Endpoint {
    let mut server = ServerOptions::new(identity(), &SECRET);
    server.listen = vec![listen];
    let mut options = EndpointOptions::default();
    options.server = Some(server);
    options.reset_key = Some([5; 32]);
    Endpoint::bind(options).unwrap()
}

/// Forwards datagrams between clients and a server, until it is told not to.
pub struct Relay {
    pub address: SocketAddr,
    server: Arc<Mutex<SocketAddr>>,
    pub passes: Arc<AtomicBool>,
    /// Bytes from clients.
    pub upward: Arc<AtomicU64>,
    moves: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    pub async fn new(server: SocketAddr) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), server).await
    }

    pub async fn at(own: SocketAddr, server: SocketAddr) -> Self {
        let socket = Arc::new(UdpSocket::bind(own).await.unwrap());
        let address = socket.local_addr().unwrap();
        let (passes, upward) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let (server, moves) = (Arc::new(Mutex::new(server)), Arc::new(AtomicU64::new(0)));
        let figures = (Arc::clone(&upward), Arc::clone(&moves));
        let task = tokio::spawn(relay(socket, Arc::clone(&server), Arc::clone(&passes), figures));
        Self { address, server, passes, upward, moves, task }
    }

    /// From now on the server sees clients at other ports, as behind a NAT that was restarted.
    pub fn change_ports(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// Another server replaces the one before.
    pub fn redirect(&self, server: SocketAddr) {
        *self.server.lock().unwrap() = server;
    }

    pub fn set_passing(&self, passes: bool) {
        self.passes.store(passes, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    inner: Arc<UdpSocket>,
    server: Arc<Mutex<SocketAddr>>,
    passes: Arc<AtomicBool>,
    (upward, moves): (Arc<AtomicU64>, Arc<AtomicU64>),
) {
    let mut moved = 0;
    let mut legs = std::collections::BTreeMap::<SocketAddr, Leg>::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((length, from)) = inner.recv_from(&mut buffer).await else { continue };
        if !passes.load(Ordering::Relaxed) {
            continue;
        }
        if std::mem::replace(&mut moved, moves.load(Ordering::Relaxed)) != moved {
            legs.clear();
        }
        if let std::collections::btree_map::Entry::Vacant(vacant) = legs.entry(from) {
            let outer = Arc::new(UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).await.unwrap());
            let back =
                tokio::spawn(pass_back(Arc::clone(&outer), Arc::clone(&inner), from, Arc::clone(&passes)));
            vacant.insert(Leg { outer, back });
        }
        upward.fetch_add(length as u64, Ordering::Relaxed);
        let server = *server.lock().unwrap();
        let _ = legs[&from].outer.send_to(&buffer[..length], server).await;
    }
}

struct Leg {
    outer: Arc<UdpSocket>,
    back: tokio::task::JoinHandle<()>,
}

impl Drop for Leg {
    fn drop(&mut self) {
        self.back.abort();
    }
}

async fn pass_back(
    outer: Arc<UdpSocket>,
    inner: Arc<UdpSocket>,
    client: SocketAddr,
    passes: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((length, _)) = outer.recv_from(&mut buffer).await else { continue };
        if passes.load(Ordering::Relaxed) {
            let _ = inner.send_to(&buffer[..length], client).await;
        }
    }
}
