//! Which clients a server accepts.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use super::key::PublicKey;

/// Decides which clients a server accepts.
///
/// It is called once in every handshake, before the client has proved that it owns the key; the proof is checked
/// next.
pub trait Authoriser: fmt::Debug + Send + Sync {
    /// Whether the client with this key is accepted. Must be quick: the connections of all others wait.
    fn is_authorised(&self, client: &PublicKey) -> bool;

    /// A client at this address was refused: its key was not accepted, or it did not own it. Must be quick, too.
    fn on_refused(&self, from: SocketAddr) {
        let _ = from;
    }
}

/// Accepts the clients with the keys of a fixed list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorisedKeys(BTreeSet<PublicKey>);

impl FromIterator<PublicKey> for AuthorisedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Authoriser for AuthorisedKeys {
    fn is_authorised(&self, client: &PublicKey) -> bool {
        self.0.contains(client)
    }
}
