//! The connected clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use manyway::{Connection, PublicKey, Wire};

use super::guests::{Guest, Guests};
use super::journal::Journal;
use super::limit::Limits;
use crate::command::error::REFUSED_BY_LIMIT;
use crate::home::Rights;
use crate::output::{address, count};

/// Every open connection with its client.
#[derive(Debug)]
pub struct Visitors {
    most: Option<usize>,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    visits: BTreeMap<u64, Visit>,
    /// Shared by all connections of a client, and kept while there is one.
    limits: BTreeMap<PublicKey, Weak<Limits>>,
}

#[derive(Debug)]
struct Visit {
    /// `None` over MMSP/1, which has no keys.
    key: Option<PublicKey>,
    guest: Guest,
    connection: Connection,
}

/// An admitted client; dropping it frees its place.
#[derive(Debug)]
pub struct Pass {
    visitors: Arc<Visitors>,
    number: u64,
    /// The client.
    pub guest: Guest,
    /// Its rate limits.
    pub limits: Option<Arc<Limits>>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut inside = self.visitors.lock();
        inside.visits.remove(&self.number);
        self.limits = None;
        inside.limits.retain(|_, limits| limits.strong_count() > 0);
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
async fn guest_at(connection: &Connection) -> Guest {
    let socket = socket_of(connection).await;
    let name = socket.map_or_else(|| "unknown".to_owned(), |socket| socket.ip().to_canonical().to_string());
    Guest { name, noun: "address", rights: Rights::default() }
}

impl Visitors {
    /// Starts without clients and with this limit on parallel connections.
    pub fn new(most: Option<usize>) -> Arc<Self> {
        Arc::new(Self { most, inside: Mutex::new(Inside::default()) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits the client of a connection, or closes it with the reason.
    pub async fn admit(
        self: &Arc<Self>,
        guests: &Guests,
        journal: &Journal,
        connection: &Connection,
    ) -> Option<Pass> {
        let key = connection.peer_key();
        let guest = match connection.wire() {
            Wire::Mmsp1 => Some(guest_at(connection).await),
            Wire::Mmsp2 => key.and_then(|key| guests.find(&key)),
        };
        let Some(guest) = guest else {
            // Revoked during the handshake.
            connection.revoke("this ticket or key was revoked or has expired");
            return None;
        };
        match self.enter(key, guest, connection) {
            Ok(pass) => Some(pass),
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
        guest: Guest,
        connection: &Connection,
    ) -> Result<Pass, String> {
        let mut inside = self.lock();
        if let Some(most) = self.most.filter(|most| inside.visits.len() >= *most) {
            let most = count(most, "connection");
            return Err(format!("it serves no more than {most} at once (--max-clients)"));
        }
        let own = inside.visits.values().filter(|visit| visit.key.is_some() && visit.key == key).count();
        let most = guest.rights.max_connections;
        if let Some(most) = most.filter(|most| own >= usize::try_from(*most).unwrap_or(usize::MAX)) {
            let Guest { noun, name, .. } = &guest;
            let most = count(most, "connection");
            return Err(format!("the {noun} {name} allows no more than {most} at once"));
        }
        let limits = key.zip(guest.rights.max_rate).map(|(key, rate)| {
            let shared = inside.limits.get(&key).and_then(Weak::upgrade);
            let limits = shared.unwrap_or_else(|| Arc::new(Limits::new(rate.0)));
            inside.limits.insert(key, Arc::downgrade(&limits));
            limits
        });
        let number = inside.next;
        inside.next += 1;
        inside.visits.insert(number, Visit { key, guest: guest.clone(), connection: connection.clone() });
        Ok(Pass { visitors: Arc::clone(self), number, guest, limits })
    }

    /// Ends the connections of clients whose rights have ended or changed.
    pub fn check(&self, guests: &Guests) {
        let inside = self.lock();
        for visit in inside.visits.values() {
            let Some(key) = &visit.key else { continue };
            let reason = match guests.find(key) {
                Some(guest) if guest == visit.guest => continue,
                Some(_) => "its rights were changed; connect again".to_owned(),
                None if visit.guest.rights.are_over() => "it has expired".to_owned(),
                None => "it was revoked".to_owned(),
            };
            let Guest { noun, name, .. } = &visit.guest;
            tracing::info!(%noun, %name, %reason, "client disconnected: rights revoked");
            visit.connection.revoke(&format!("the {noun} {name} is no longer valid: {reason}"));
        }
    }

    /// Number of connections.
    pub fn count(&self) -> usize {
        self.lock().visits.len()
    }
}
