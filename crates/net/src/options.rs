//! Settings of an endpoint.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::identity::{AuthorisedKeys, Authoriser, Identity, ServerCertificate};
use manyway_proto::{AddressFilter, ConfigError, ConnectionConfig, IdLayout, LocalAddress, Role, Shard};

use crate::carriers::CarrierOptions;
use crate::interfaces::InterfacePolicy;
use crate::ledger::Ledger;
use crate::resolve::Resolver;
use crate::tcp::Settings;
use crate::udp::BufferSizes;

/// The local addresses that a client uses.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Locals {
    /// Every interface that leads to the peer and that the policy allows, including those that appear later.
    Interfaces(InterfacePolicy),
    /// Exactly these addresses; for tests and emulations. With a [`Ledger`] an address is excluded while the quota of
    /// its interface is used up; an unspecified address has no known interface and is never excluded.
    Fixed(Vec<(LocalAddress, Role)>),
}

impl Default for Locals {
    fn default() -> Self {
        Self::Interfaces(InterfacePolicy::default())
    }
}

/// Settings of a server beside the common ones.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Addresses and ports to listen on. Empty: port 4455 on every address of both families, or of the only one that
    /// this host supports.
    pub listen: Vec<SocketAddr>,
    /// The identity of the server.
    pub identity: Identity,
    /// A certificate for clients that verify the server's name instead of its key; all others are shown the key.
    pub certificate: Option<ServerCertificate>,
    /// Decides which clients may connect.
    pub authoriser: Arc<dyn Authoriser>,
    /// Addresses advertised to clients beside the one they know; at most 8. Empty: those of
    /// [`reachable_addresses`](crate::reachable_addresses), kept up to date: one of each family and interface first,
    /// then the second ones, up to 8.
    pub advertise: Vec<SocketAddr>,
    /// How many threads serve its clients, from 1 to 64; each connection stays with one. Default 1. More need Linux, which
    /// divides the datagrams of a port among their sockets; where it refuses, and beside
    /// [`EndpointOptions::mmsp1`], there is one. [`Endpoint::thread_loads`](crate::Endpoint::thread_loads) tells how
    /// many there are.
    pub threads: usize,
    /// Length and first bytes of the connection IDs that the server issues, for a load balancer in front of several
    /// servers. Default 8 bytes without a prefix.
    pub ids: IdLayout,
}

impl ServerOptions {
    /// A server with `identity` that accepts every client with a ticket with `secret`.
    pub fn new(identity: Identity, secret: &[u8; 16]) -> Self {
        let client = Identity::from_ticket_secret(secret);
        let authoriser: AuthorisedKeys = std::iter::once(*client.public_key()).collect();
        Self::with_authoriser(identity, Arc::new(authoriser))
    }

    /// Checks every field against its range.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if (1..=Shard::MOST).contains(&self.threads) {
            return Ok(());
        }
        Err(ConfigError { field: "threads", reason: format!("must be from 1 to {}", Shard::MOST) })
    }

    /// A server with `identity` that accepts the clients that `authoriser` accepts.
    pub fn with_authoriser(identity: Identity, authoriser: Arc<dyn Authoriser>) -> Self {
        Self {
            listen: Vec::new(),
            identity,
            certificate: None,
            authoriser,
            advertise: Vec::new(),
            threads: 1,
            ids: IdLayout::default(),
        }
    }
}

/// Settings of a server for clients that come over MMSP/1. That protocol neither encrypts nor authenticates:
/// every host on the way can read, change and forge what is sent, and an address is no proof of identity.
///
/// ```
/// use manyway::{Endpoint, EndpointOptions, HostPort, Mmsp1Options, Wire};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = EndpointOptions::default();
/// let mut settings = Mmsp1Options::new("127.0.0.0/8,192.168.1.0/24".parse()?);
/// settings.listen = vec!["127.0.0.1:0".parse()?];
/// options.mmsp1 = Some(settings);
/// let server = Endpoint::bind(options)?;
///
/// let mut options = EndpointOptions::default();
/// options.connection = Wire::Mmsp1.config();
/// let client = Endpoint::bind(options)?;
/// let hosts = [HostPort::from(server.local_addresses()[0].address)];
/// let (connection, accepted) = tokio::join!(client.connect_mmsp1(&hosts), server.accept());
/// assert_eq!(connection?.wire(), Wire::Mmsp1);
/// assert_eq!(accepted.and_then(|client| client.peer_key()), None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Mmsp1Options {
    /// Addresses to listen on, all with one port, because MMSP/1 uses one port on all addresses. Empty: as of
    /// [`ServerOptions::listen`]. Without effect beside [`EndpointOptions::server`], whose addresses then serve both.
    pub listen: Vec<SocketAddr>,
    /// From where clients may come; packets from elsewhere are dropped without an answer.
    pub from: AddressFilter,
    /// Settings of each connection. Default [`ConnectionConfig::mmsp1`].
    pub connection: ConnectionConfig,
    /// Addresses that clients are told when they connect, at most 8, as of [`ServerOptions::advertise`]; their ports do
    /// not count. Without effect beside [`EndpointOptions::server`], whose addresses both use.
    pub advertise: Vec<SocketAddr>,
}

impl Mmsp1Options {
    /// Takes clients from these addresses.
    pub fn new(from: AddressFilter) -> Self {
        Self { listen: Vec::new(), from, connection: ConnectionConfig::mmsp1(), advertise: Vec::new() }
    }

    /// Checks every field against its range.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.connection.validate()?;
        if self.advertise.len() > 8 {
            return Err(ConfigError { field: "advertise", reason: "must be at most 8 addresses".to_owned() });
        }
        check_ports(&self.listen)
    }
}

/// Checks that the addresses have one port.
pub(crate) fn check_ports(addresses: &[SocketAddr]) -> Result<(), ConfigError> {
    let first = addresses.first().map(SocketAddr::port);
    match addresses.iter().find(|address| Some(address.port()) != first) {
        None => Ok(()),
        Some(other) => {
            let reason = format!("must have one port on all addresses for MMSP/1, and {other} has another");
            Err(ConfigError { field: "listen", reason })
        }
    }
}

/// Whether the packets of a UDP socket are sealed and sent by a thread of its own, a lane, while the thread of the endpoint
/// builds the next ones. What is sent is the same either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lanes {
    /// By load, on Linux: a socket that keeps the endpoint's thread busy at more than 2.5 Gbit/s gets one if another
    /// processor core is idle, and keeps it until it has sent less than 600 Mbit/s for a second.
    #[default]
    Auto,
    /// No socket has one.
    Never,
    /// Each socket has one at all times; for tests.
    Always,
}

/// Settings of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EndpointOptions {
    /// Settings of every connection, but for those of [`Mmsp1Options`].
    pub connection: ConnectionConfig,
    /// The local addresses that clients use, and both ends of a code for its exchange
    /// ([`Endpoint::offer_code`](crate::Endpoint::offer_code)). Beside that, only
    /// [`InterfacePolicy::without_own_tunnel`] counts for a server.
    pub locals: Locals,
    /// Settings of a server; `None` for an endpoint that only connects, or that only takes MMSP/1.
    pub server: Option<ServerOptions>,
    /// Settings for clients that come over MMSP/1, instead of a `server` or beside it. Default `None`: packets of MMSP/1
    /// are dropped.
    pub mmsp1: Option<Mmsp1Options>,
    /// The persistent key of stateless resets; `None` for a random one.
    pub reset_key: Option<[u8; 32]>,
    /// Whether the secrets of every connection are appended to the file that the environment variable `SSLKEYLOGFILE`
    /// names, if it is set. Default false. With them, anyone who captured the packets can decrypt them: for `manyway
    /// decode` and other diagnostic tools.
    pub key_log: bool,
    /// Buffer sizes that every socket requests from the system; [`Endpoint::advice`](crate::Endpoint::advice) reports
    /// if it granted less.
    pub buffers: BufferSizes,
    /// Which UDP sockets have a thread of their own that seals and sends. Beside a [`ledger`](Self::ledger) none has,
    /// because traffic is counted when it is sent.
    pub lanes: Lanes,
    /// Whether paths may go over TCP where UDP is blocked, and how.
    pub carriers: CarrierOptions,
    /// Counts the traffic of each interface and grants quota. Default `None`: no counting and no limit.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// Mark of the packets of every socket (`SO_MARK`), by which rules of this machine tell them from those of other
    /// programs; it needs Linux with `CAP_NET_ADMIN`. Names are looked up by [`Resolver::marked`] then. Default `None`.
    pub mark: Option<u32>,
}

impl EndpointOptions {
    /// What is set on TCP connections.
    pub(crate) fn tcp_settings(&self) -> Settings {
        let CarrierOptions { congestion, via, .. } = self.carriers.clone();
        Settings { congestion, via, mark: self.mark, resolver: self.resolver() }
    }

    /// Looks up the names of peers.
    pub(crate) fn resolver(&self) -> Resolver {
        let policy = match &self.locals {
            Locals::Interfaces(policy) => policy.clone(),
            Locals::Fixed(_) => InterfacePolicy::default(),
        };
        self.mark.map_or_else(Resolver::default, |mark| Resolver::marked(mark, policy))
    }
}
