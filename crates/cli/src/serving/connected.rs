//! The connected clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use manyway::{Connection, PublicKey, Wire};

use super::authorised::{AuthorisedClient, AuthorisedClients};
use super::journal::Journal;
use super::limit::Limits;
use crate::command::error::REFUSED_BY_LIMIT;
use crate::home::Rights;
use crate::output::{address, count};

/// Every open connection with its client.
#[derive(Debug)]
pub struct ConnectedClients {
    most: Option<usize>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    clients: BTreeMap<u64, ConnectedClient>,
    /// Shared by all connections of a client, and kept while there is one.
    limits: BTreeMap<PublicKey, Weak<Limits>>,
}

#[derive(Debug)]
struct ConnectedClient {
    /// `None` over MMSP/1, which has no keys.
    key: Option<PublicKey>,
    client: AuthorisedClient,
    connection: Connection,
}

/// An admitted client; dropping it frees its place.
#[derive(Debug)]
pub struct AdmittedClient {
    connected: Arc<ConnectedClients>,
    number: u64,
    /// The client.
    pub client: AuthorisedClient,
    /// Its rate limits.
    pub limits: Option<Arc<Limits>>,
}

impl Drop for AdmittedClient {
    fn drop(&mut self) {
        let mut table = self.connected.lock();
        table.clients.remove(&self.number);
        self.limits = None;
        table.limits.retain(|_, limits| limits.strong_count() > 0);
    }
}

/// The address of the other end.
pub async fn remote_of(connection: &Connection) -> String {
    socket_of(connection).await.map_or_else(|| "an unknown address".to_owned(), address)
}

async fn socket_of(connection: &Connection) -> Option<SocketAddr> {
    let info = connection.info().await.ok()?;
    info.paths.first().map(|path| path.statistics.tuple.remote)
}

/// A client that only its address names.
async fn client_at(connection: &Connection) -> AuthorisedClient {
    let socket = socket_of(connection).await;
    let name = socket.map_or_else(|| "unknown".to_owned(), |socket| socket.ip().to_canonical().to_string());
    AuthorisedClient { name, noun: "address", rights: Rights::default() }
}

impl ConnectedClients {
    /// Starts without clients and with this limit on parallel connections.
    pub fn new(most: Option<usize>) -> Arc<Self> {
        Arc::new(Self { most, table: Mutex::new(Table::default()) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the client of a connection, or closes it with the reason.
    pub async fn admit(
        self: &Arc<Self>,
        authorised: &AuthorisedClients,
        journal: &Journal,
        connection: &Connection,
    ) -> Option<AdmittedClient> {
        let key = connection.peer_key();
        let client = match connection.wire() {
            Wire::Mmsp1 => Some(client_at(connection).await),
            Wire::Mmsp2 => key.and_then(|key| authorised.find(&key)),
        };
        let Some(client) = client else {
            // Revoked during the handshake.
            connection.revoke("this ticket or key was revoked or has expired");
            return None;
        };
        match self.enter(key, client, connection) {
            Ok(admitted) => Some(admitted),
            Err(reason) => {
                journal.refused(&remote_of(connection).await, &reason);
                connection.close(REFUSED_BY_LIMIT, &reason).await;
                None
            }
        }
    }

    fn enter(
        self: &Arc<Self>,
        key: Option<PublicKey>,
        client: AuthorisedClient,
        connection: &Connection,
    ) -> Result<AdmittedClient, String> {
        let mut table = self.lock();
        if let Some(most) = self.most.filter(|most| table.clients.len() >= *most) {
            let most = count(most, "connection");
            return Err(format!("it serves no more than {most} at once (--max-clients)"));
        }
        let own = table.clients.values().filter(|entry| entry.key.is_some() && entry.key == key).count();
        let most = client.rights.max_connections;
        if let Some(most) = most.filter(|most| own >= usize::try_from(*most).unwrap_or(usize::MAX)) {
            let AuthorisedClient { noun, name, .. } = &client;
            let most = count(most, "connection");
            return Err(format!("the {noun} {name} allows no more than {most} at once"));
        }
        let limits = key.zip(client.rights.max_rate).map(|(key, rate)| {
            let shared = table.limits.get(&key).and_then(Weak::upgrade);
            let limits = shared.unwrap_or_else(|| Arc::new(Limits::new(rate.0)));
            table.limits.insert(key, Arc::downgrade(&limits));
            limits
        });
        let number = table.next;
        table.next += 1;
        table
            .clients
            .insert(number, ConnectedClient { key, client: client.clone(), connection: connection.clone() });
        Ok(AdmittedClient { connected: Arc::clone(self), number, client, limits })
    }

    /// Ends the connections of clients whose rights have ended or changed.
    pub fn check(&self, authorised: &AuthorisedClients) {
        let table = self.lock();
        for entry in table.clients.values() {
            let Some(key) = &entry.key else { continue };
            let reason = match authorised.find(key) {
                Some(client) if client == entry.client => continue,
                Some(_) => "its rights were changed; connect again".to_owned(),
                None if entry.client.rights.are_over() => "it has expired".to_owned(),
                None => "it was revoked".to_owned(),
            };
            let AuthorisedClient { noun, name, .. } = &entry.client;
            tracing::info!(%noun, %name, %reason, "client disconnected: rights revoked");
            entry.connection.revoke(&format!("the {noun} {name} is no longer valid: {reason}"));
        }
    }

    /// Number of connections.
    pub fn count(&self) -> usize {
        self.lock().clients.len()
    }
}
