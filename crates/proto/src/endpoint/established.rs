//! Connections that start with a complete handshake.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_wire::{ConnectionId, PathId, Side};

use super::demux::Route;
use super::{ConnectError, ConnectionHandle, Endpoint};
use crate::connection::Connection;
use crate::fuzzing::SharedKeys;
use crate::mmsp2::reset_token::ResetKey;
use crate::mmsp2::tls::{Handshake, NewKeys};
use crate::mmsp2::{Start, own_parameters};
use crate::path::manager::PathManager;
use crate::{ConnectionConfig, FourTuple, IdLayout, Instant, LocalCandidate, Shard};

/// The ids of both ends; every connection created here has the same.
const ORIGINAL_DESTINATION: u64 = 0xF1F1_F1F1_F1F1_F1F1;
const CLIENT: u64 = 0xC1C1_C1C1_C1C1_C1C1;
const SERVER: u64 = 0x5151_5151_5151_5151;

/// One end of an established connection.
#[derive(Debug)]
pub struct EstablishedEnd<'a> {
    /// The side of this end.
    pub side: Side,
    /// Its settings.
    pub config: Arc<ConnectionConfig>,
    /// Settings of the other end.
    pub peer: Arc<ConnectionConfig>,
    /// Its addresses.
    pub locals: &'a [LocalCandidate],
    /// The other end's addresses.
    pub remotes: &'a [SocketAddr],
    /// The other end's permanent reset key.
    pub peer_reset_key: [u8; 32],
}

impl Endpoint {
    /// Adds a connection in the state after TLS is complete, before any packet is sent. Both ends need the same
    /// `keys`, and there can be one such connection at a time.
    ///
    /// # Errors
    /// If no pair of addresses fits, or TLS does not start.
    pub fn add_established(
        &mut self,
        now: Instant,
        end: &EstablishedEnd<'_>,
        keys: &SharedKeys,
    ) -> Result<ConnectionHandle, ConnectError> {
        let no_pair = ConnectError::NoAddressPair;
        let original_destination = ConnectionId::from_u64(ORIGINAL_DESTINATION);
        let (local_id, remote_id) = match end.side {
            Side::Client => (CLIENT, SERVER),
            Side::Server => (SERVER, CLIENT),
        };
        let (local_id, remote_id) = (ConnectionId::from_u64(local_id), ConnectionId::from_u64(remote_id));
        let peer_reset_key = ResetKey::new(&end.peer_reset_key, Shard::ALONE, IdLayout::default());
        let answered = (end.side == Side::Client).then_some((original_destination, &peer_reset_key));
        let parameters = own_parameters(&end.peer, remote_id, answered);
        // The handshake is discarded unused: a server's costs least.
        let handshake = Handshake::server(keys.server_config(), &parameters).map_err(ConnectError::Tls)?;
        let start = Start {
            now,
            config: Arc::clone(&end.config),
            interfaces: self.interfaces.clone(),
            rng: self.rng.fork(),
            reset_key: Arc::clone(&self.reset_key),
            original_destination,
            local_id,
            tls: handshake,
        };
        let mut connection = match end.side {
            Side::Client => {
                Connection::client(start, PathManager::new(end.locals, end.remotes), None).ok_or(no_pair)?
            }
            Side::Server => {
                let local = end.locals.first().ok_or_else(|| no_pair.clone())?.address;
                let tuple = FourTuple::udp(local, *end.remotes.first().ok_or(no_pair)?);
                Connection::server(start, tuple, remote_id, Vec::new(), true)
            }
        };
        let (data, secrets) = keys.of(end.side);
        let established = connection.establish_with(now, NewKeys::OneRtt(data, secrets), parameters);
        debug_assert_eq!(established, Ok(()), "the parameters are those of a configuration");
        let handle = self.slots.insert(connection);
        self.demux.insert(local_id, Route { slot: handle.slot, path: PathId::FIRST });
        self.touch(handle);
        Ok(handle)
    }
}
