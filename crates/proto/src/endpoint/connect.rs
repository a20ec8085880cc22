//! Starts a connection as client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use manyway_wire::{ConnectionId, PathId};
use rustls::pki_types::ServerName;

use super::demux::Route;
use super::{ConnectionHandle, Endpoint};
use crate::connection::Connection;
use crate::mmsp2::tls::{Handshake, HandshakeError};
use crate::mmsp2::{Start, own_parameters};
use crate::path::manager::PathManager;
use crate::{ConnectionConfig, FourTuple, Instant, LocalCandidate};

/// Settings for a connection that this end opens.
#[derive(Clone)]
pub struct ClientConfig {
    /// Trusted servers and own identity; TLS 1.3 with ALPN `mmsp/2`.
    pub tls: Arc<rustls::ClientConfig>,
    /// The name that a certificate must have; without meaning for raw keys.
    pub server_name: ServerName<'static>,
    /// Settings of the connection.
    pub connection: Arc<ConnectionConfig>,
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("server_name", &self.server_name)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

/// Why a connection was not started.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ConnectError {
    /// No address of this host fits any address of the peer: none usable, or the families differ.
    NoAddressPair,
    /// The TLS configuration cannot be used.
    Tls(HandshakeError),
    /// Over MMSP/1 an endpoint opens at most 15 360 connections: each has a port of its own in its header.
    TooManyConnections,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddressPair => write!(f, "no address of this host can reach an address of the peer"),
            Self::TooManyConnections => write!(f, "this end has too many connections over MMSP/1"),
            Self::Tls(error) => write!(f, "TLS can not start: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl Endpoint {
    /// Starts a connection from `locals` to `remotes`, at most 8 of them;
    /// [`Event::Connected`](crate::Event::Connected) or [`Event::Closed`](crate::Event::Closed) follows.
    ///
    /// # Errors
    /// If no pair of addresses fits, or the TLS configuration cannot be used.
    pub fn connect(
        &mut self,
        now: Instant,
        client: &ClientConfig,
        locals: &[LocalCandidate],
        remotes: &[SocketAddr],
    ) -> Result<ConnectionHandle, ConnectError> {
        self.start(now, client, PathManager::new(locals, remotes), None)
    }

    /// Starts a connection over a stream carrier, such as a TCP connection, that the driver has connected. Paths over
    /// UDP join it once the connection has addresses for them
    /// ([`set_local_addresses`](crate::Connection::set_local_addresses),
    /// [`add_remote_addresses`](crate::Connection::add_remote_addresses)).
    ///
    /// # Errors
    /// If the carrier is none of streams, or the TLS configuration cannot be used.
    pub fn connect_over(
        &mut self,
        now: Instant,
        client: &ClientConfig,
        stream: FourTuple,
    ) -> Result<ConnectionHandle, ConnectError> {
        if stream.is_datagram() {
            return Err(ConnectError::NoAddressPair);
        }
        self.start(now, client, PathManager::default(), Some(stream))
    }

    fn start(
        &mut self,
        now: Instant,
        client: &ClientConfig,
        manager: PathManager,
        stream: Option<FourTuple>,
    ) -> Result<ConnectionHandle, ConnectError> {
        let config = Arc::clone(&client.connection);
        let local_id = self.reset_key.issue_id(&mut self.rng);
        let original_destination = ConnectionId::from_u64(self.rng.next_u64());
        let parameters = own_parameters(&config, local_id, None);
        let tls = Arc::clone(&client.tls);
        let handshake =
            Handshake::client(tls, client.server_name.clone(), &parameters).map_err(ConnectError::Tls)?;
        let start = Start {
            now,
            config,
            interfaces: self.interfaces.clone(),
            rng: self.rng.fork(),
            reset_key: Arc::clone(&self.reset_key),
            original_destination,
            local_id,
            tls: handshake,
        };
        let connection = Connection::client(start, manager, stream).ok_or(ConnectError::NoAddressPair)?;
        let handle = self.slots.insert(connection);
        self.demux.insert(local_id, Route { slot: handle.slot, path: PathId::FIRST });
        self.touch(handle);
        Ok(handle)
    }
}
