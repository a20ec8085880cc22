//! Settings of an endpoint.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_proto::identity::{AuthorisedKeys, Authoriser, Identity, ServerCertificate};
use manyway_proto::{ConnectionConfig, LocalAddress, Role};

use crate::interfaces::InterfacePolicy;
use crate::ledger::Ledger;
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
}

impl ServerOptions {
    /// A server with `identity` that accepts every client with a ticket with `secret`.
    pub fn new(identity: Identity, secret: &[u8; 16]) -> Self {
        let client = Identity::from_ticket_secret(secret);
        let authoriser: AuthorisedKeys = std::iter::once(*client.public_key()).collect();
        Self::with_authoriser(identity, Arc::new(authoriser))
    }

    /// A server with `identity` that accepts the clients that `authoriser` accepts.
    pub fn with_authoriser(identity: Identity, authoriser: Arc<dyn Authoriser>) -> Self {
        Self { listen: Vec::new(), identity, certificate: None, authoriser, advertise: Vec::new() }
    }
}

/// Settings of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EndpointOptions {
    /// Settings of every connection.
    pub connection: ConnectionConfig,
    /// The local addresses that clients use.
    pub locals: Locals,
    /// Settings of a server; `None` for an endpoint that only connects.
    pub server: Option<ServerOptions>,
    /// The persistent key of stateless resets; `None` for a random one.
    pub reset_key: Option<[u8; 32]>,
    /// Whether the secrets of every connection are appended to the file that the environment variable `SSLKEYLOGFILE`
    /// names, if it is set. Default false. With them, anyone who captured the packets can decrypt them: for `manyway
    /// decode` and other diagnostic tools.
    pub key_log: bool,
    /// Buffer sizes that every socket requests from the system; [`Endpoint::advice`](crate::Endpoint::advice) reports
    /// if it granted less.
    pub buffers: BufferSizes,
    /// Counts the traffic of each interface and grants quota. Default `None`: no counting and no limit.
    pub ledger: Option<Arc<dyn Ledger>>,
}
