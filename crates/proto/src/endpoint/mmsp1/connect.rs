//! Starts a connection over MMSP/1 as client.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Live, Mmsp1Endpoint};
use crate::connection::Connection;
use crate::endpoint::{ConnectError, ConnectionHandle, Endpoint};
use crate::mmsp1::Start;
use crate::path::manager::PathManager;
use crate::{ConnectionConfig, Instant, LocalCandidate};

impl Endpoint {
    /// Starts a connection over MMSP/1 from `locals` to `remotes`, at most 8 of them; [`Event::Connected`] or
    /// [`Event::Closed`] follows. MMSP/1 neither encrypts nor authenticates: every host on the way can read and
    /// change what is sent. [`ConnectionConfig::mmsp1`] has the settings of its thesis.
    ///
    /// # Errors
    /// If no pair of addresses fits, or 15 360 connections of this end exist already.
    ///
    /// [`Event::Connected`]: crate::Event::Connected
    /// [`Event::Closed`]: crate::Event::Closed
    pub fn connect_mmsp1(
        &mut self,
        now: Instant,
        config: &Arc<ConnectionConfig>,
        locals: &[LocalCandidate],
        remotes: &[SocketAddr],
    ) -> Result<ConnectionHandle, ConnectError> {
        let start = self.mmsp1_start(now, config);
        let rng = &mut self.rng;
        let mmsp1 = self.mmsp1.get_or_insert_with(|| Box::new(Mmsp1Endpoint::new(now, rng)));
        let tag = mmsp1.unused_tag(now, &mut self.rng);
        let port = mmsp1.unused_port(&mut self.rng).ok_or(ConnectError::TooManyConnections)?;
        let connection = Connection::mmsp1_client(start, (tag, port), PathManager::new(locals, remotes));
        let handle = self.slots.insert(connection.ok_or(ConnectError::NoAddressPair)?);
        mmsp1.live.insert(tag, Live { handle, client: None, port: Some(port) });
        mmsp1.ports.insert(port);
        mmsp1.attempts.insert(handle);
        self.touch(handle);
        Ok(handle)
    }

    /// Sets the addresses that a server names to clients of MMSP/1 that connect from now on, at most 8; they replace those
    /// of [`EndpointConfig::mmsp1`](crate::EndpointConfig::mmsp1). Connections that exist keep theirs. Costs one copy of
    /// the settings.
    pub fn set_mmsp1_addresses(&mut self, addresses: &[SocketAddr]) {
        if let Some(server) = &mut self.config.mmsp1 {
            Arc::make_mut(&mut server.connection).advertised = addresses.to_vec();
        }
    }

    pub(super) fn mmsp1_start(&mut self, now: Instant, config: &Arc<ConnectionConfig>) -> Start {
        let (config, interfaces) = (Arc::clone(config), self.interfaces.clone());
        Start { now, config, interfaces, rng: self.rng.fork() }
    }
}
