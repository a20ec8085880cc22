//! The entries of the files.

use std::fmt::Debug;

use manyway::{HostPort, Identity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{HostText, KeyHash, NetPortsText, RateText, Secret, Timestamp};

/// A kind of entries, with a file of its own.
pub trait Entry: Clone + Debug + PartialEq + Serialize + DeserializeOwned {
    /// The name of the file.
    const FILE: &'static str;
    /// Its first line.
    const TITLE: &'static str;
    /// Its name for people.
    const NOUN: &'static str;
}

/// The rights of a client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rights {
    /// When they end; `None` never.
    pub expires: Option<Timestamp>,
    /// Whether it may only fetch.
    pub read_only: bool,
    /// Rate limit in each direction, over all its connections; `None` without limit.
    pub max_rate: Option<RateText>,
    /// Limit on parallel connections, at least 1; `None` without limit.
    pub max_connections: Option<u32>,
    /// Addresses and ports of the server at which it may listen (`forward -R`).
    pub listen: Vec<NetPortsText>,
}

impl Rights {
    /// Whether they have ended.
    pub fn are_over(&self) -> bool {
        self.expires.is_some_and(Timestamp::is_past)
    }
}

/// A ticket that this server gave out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TicketEntry {
    /// The secret that the bearer proves to have.
    pub secret: Secret,
    /// When it was made.
    pub created: Timestamp,
    /// See [`Rights::expires`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// See [`Rights::read_only`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// See [`Rights::max_rate`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<RateText>,
    /// See [`Rights::max_connections`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// See [`Rights::listen`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<NetPortsText>,
    /// Its addresses; empty: those of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<HostText>,
}

/// A client that authenticates with a key of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientEntry {
    /// Its key.
    pub key: KeyHash,
    /// When it was authorised.
    pub created: Timestamp,
    /// See [`Rights::expires`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// See [`Rights::read_only`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// See [`Rights::max_rate`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<RateText>,
    /// See [`Rights::max_connections`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// See [`Rights::listen`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<NetPortsText>,
}

/// A server that this user knows, by its name or by `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServerEntry {
    /// Its key.
    pub key: KeyHash,
    /// Its addresses; at least one.
    pub hosts: Vec<HostText>,
    /// Since when it is known.
    pub created: Timestamp,
    /// The secret of its ticket; without one, this user's own key authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
}

impl TicketEntry {
    /// A ticket made now.
    pub fn new(secret: Secret, rights: Rights, advertise: Vec<HostText>) -> Self {
        let Rights { expires, read_only, max_rate, max_connections, listen } = rights;
        Self {
            secret,
            created: Timestamp::now(),
            expires,
            read_only,
            max_rate,
            max_connections,
            listen,
            advertise,
        }
    }

    /// The rights of the bearer.
    pub fn rights(&self) -> Rights {
        let Self { expires, read_only, max_rate, max_connections, .. } = *self;
        Rights { expires, read_only, max_rate, max_connections, listen: self.listen.clone() }
    }

    /// The key by which a bearer proves that it has the ticket.
    pub fn client_key(&self) -> KeyHash {
        KeyHash::from(Identity::from_ticket_secret(&self.secret.0).public_key())
    }
}

impl ClientEntry {
    /// A client authorised now.
    pub fn new(key: KeyHash, rights: Rights) -> Self {
        let Rights { expires, read_only, max_rate, max_connections, listen } = rights;
        Self { key, created: Timestamp::now(), expires, read_only, max_rate, max_connections, listen }
    }

    /// Its rights.
    pub fn rights(&self) -> Rights {
        let Self { expires, read_only, max_rate, max_connections, .. } = *self;
        Rights { expires, read_only, max_rate, max_connections, listen: self.listen.clone() }
    }
}

impl ServerEntry {
    /// A server known from now on.
    pub fn new(key: KeyHash, hosts: Vec<HostPort>, secret: Option<Secret>) -> Self {
        let hosts = hosts.into_iter().map(HostText).collect();
        Self { key, hosts, created: Timestamp::now(), secret }
    }
}

impl Entry for TicketEntry {
    const FILE: &'static str = "tickets.toml";
    const TITLE: &'static str = "tickets that open this server; `manyway keys` changes them";
    const NOUN: &'static str = "ticket";
}

impl Entry for ClientEntry {
    const FILE: &'static str = "clients.toml";
    const TITLE: &'static str = "clients that may connect to this server; `manyway keys` changes them";
    const NOUN: &'static str = "client";
}

impl Entry for ServerEntry {
    const FILE: &'static str = "servers.toml";
    const TITLE: &'static str = "servers that this user knows; `manyway keys` changes them";
    const NOUN: &'static str = "server";
}
