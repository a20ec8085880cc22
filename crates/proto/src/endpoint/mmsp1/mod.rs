//! What an endpoint knows of MMSP/1 beside its connections: tags, tombstones, and the keys of INFO.

mod answers;
mod connect;
mod filter;
mod incoming;
mod info;
mod served;
mod tombstones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use manyway_wire::mmsp1::Tag;

pub use filter::AddressFilter;

use self::info::InfoKeys;
use self::served::{Client, Served};
use self::tombstones::{Tombstone, Tombstones};
use super::ConnectionHandle;
use crate::mmsp1::TagChange;
use crate::{ConnectionConfig, Instant, Rng};

/// The ports of clients in the header.
const CLIENT_PORTS: std::ops::Range<u16> = 1024..16_384;
/// RST and FIN-DONE that answer packets of no connection, in a second (spec 3.74).
const UNMATCHED_ANSWERS: u32 = 50;

/// Settings for connections that clients open over MMSP/1, which protects and authenticates nothing.
#[derive(Debug, Clone)]
pub struct Mmsp1Server {
    /// Settings of each connection. Its `advertised` addresses are named to clients; their ports do not count, because all
    /// addresses of an endpoint have the port of the connection.
    pub connection: Arc<ConnectionConfig>,
    /// From where clients may come.
    pub from: AddressFilter,
}

/// A connection by its own tag.
#[derive(Debug, Clone, Copy)]
struct Live {
    handle: ConnectionHandle,
    /// The client of a connection that this end serves.
    client: Option<Client>,
    /// The port in the header of a connection that this end opened.
    port: Option<u16>,
}

/// The state of an endpoint for MMSP/1.
#[derive(Debug)]
pub(super) struct Mmsp1Endpoint {
    /// Connections by their own tags.
    live: BTreeMap<Tag, Live>,
    /// Connections by their peers' tags, under which RST and FIN-DONE with T come.
    by_peer: BTreeMap<Tag, ConnectionHandle>,
    served: Served,
    /// Ports in the headers of the connections that this end opened: a server tells them apart by these (spec 3.4).
    ports: BTreeSet<u16>,
    /// Connections of this end whose handshake may be incomplete.
    attempts: BTreeSet<ConnectionHandle>,
    tombstones: Tombstones,
    keys: InfoKeys,
    /// The present second, and the answers to packets of no connection in it.
    unmatched: (u64, u32),
}

impl Mmsp1Endpoint {
    fn new(now: Instant, rng: &mut Rng) -> Self {
        Self {
            live: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            served: Served::default(),
            ports: BTreeSet::new(),
            attempts: BTreeSet::new(),
            tombstones: Tombstones::default(),
            keys: InfoKeys::new(now, rng),
            unmatched: (0, 0),
        }
    }

    /// A random tag that no connection has, nor had shortly before.
    fn unused_tag(&self, now: Instant, rng: &mut Rng) -> Tag {
        loop {
            let [.., a, b, c, d] = rng.next_u64().to_be_bytes();
            let tag = Tag(u32::from_be_bytes([a, b, c, d]));
            if tag.0 != 0 && !self.live.contains_key(&tag) && self.tombstones.get(now, tag).is_none() {
                return tag;
            }
        }
    }

    /// A random port that no connection of this end has; `None` if all are in use.
    fn unused_port(&self, rng: &mut Rng) -> Option<u16> {
        let count = CLIENT_PORTS.len();
        let start = usize::try_from(rng.next_u64() % count.max(1) as u64).unwrap_or(0);
        let ports = CLIENT_PORTS.clone().cycle().skip(start).take(count);
        ports.into_iter().find(|port| !self.ports.contains(port))
    }

    /// Follows a change of a connection's tags.
    pub(super) fn on_tag_change(&mut self, handle: ConnectionHandle, change: TagChange) {
        match change {
            TagChange::PeerKnown { peer } => {
                self.by_peer.insert(peer, handle);
            }
            TagChange::PeerLost { peer } => {
                self.forget_peer(handle, peer);
            }
            TagChange::Ended { own, peer, at, pto, is_orderly } => {
                self.attempts.remove(&handle);
                if let Some(live) = self.live.remove(&own) {
                    self.release(&live);
                }
                let Some(peer) = peer else { return };
                self.forget_peer(handle, peer);
                self.tombstones.insert(at, Tombstone::new(at, (own, peer), pto, is_orderly));
            }
        }
    }

    fn forget_peer(&mut self, handle: ConnectionHandle, peer: Tag) {
        if self.by_peer.get(&peer) == Some(&handle) {
            self.by_peer.remove(&peer);
        }
    }

    /// Frees what a connection kept from others.
    fn release(&mut self, live: &Live) {
        if let Some(port) = live.port {
            self.ports.remove(&port);
        }
        if let Some(client) = live.client {
            self.served.remove(&client, live.handle);
        }
    }

    /// Whether RST or FIN-DONE may answer a packet of no connection now; if so, counts it.
    fn may_answer_unmatched(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.unmatched.0 != second {
            self.unmatched = (second, 0);
        }
        let allowed = self.unmatched.1 < UNMATCHED_ANSWERS;
        self.unmatched.1 += u32::from(allowed);
        allowed
    }
}
