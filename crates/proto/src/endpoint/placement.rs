//! Which of several endpoints on one port gets a new client, and what is handed over to it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use manyway_wire::ConnectionId;

use super::recent::Recent;
use crate::mmsp2::Arrival;
use crate::shard::Shard;
use crate::{Ecn, FourTuple, Instant};

/// Most datagrams that wait until the driver passes them on; more are lost, and repeated by their senders.
const MOST_WAITING: usize = 256;

/// Chooses which of the endpoints on one port gets a new client.
pub trait Placer: fmt::Debug + Send + Sync {
    /// The index of the endpoint. Called for each new client, by the endpoint to which its random connection ID leads.
    fn place(&self) -> usize;
}

/// A datagram that another endpoint of the port has to handle ([`Endpoint::poll_hand_over`](super::Endpoint::poll_hand_over)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// The index of that endpoint.
    pub shard: usize,
    tuple: FourTuple,
    ecn: Ecn,
    datagram: Vec<u8>,
}

/// Where a datagram came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Network,
    /// Another endpoint of the port handed it over.
    OtherEndpoint,
}

/// Decides which endpoint gets a new client, and remembers it for the client's next datagrams.
#[derive(Debug, Default)]
pub(super) struct Placement {
    own: Shard,
    placer: Option<Arc<dyn Placer>>,
    /// The endpoints of clients that others got, by the id that this endpoint would have issued.
    placed: Recent<usize>,
    waiting: VecDeque<HandOver>,
}

impl Placement {
    pub(super) fn new(own: Shard, placer: Option<Arc<dyn Placer>>) -> Self {
        Self { own, placer, placed: Recent::default(), waiting: VecDeque::new() }
    }

    /// The other endpoint to which an ID leads. Its datagrams come here if the system divides by something else for a
    /// moment, or merges datagrams of several connections into one row.
    pub(super) fn owner_of(&self, id: &ConnectionId) -> Option<usize> {
        Some(self.own.of_id(id)).filter(|shard| *shard != self.own.index())
    }

    /// The other endpoint that got a client.
    pub(super) fn placed_at(&mut self, now: Instant, id: &ConnectionId) -> Option<usize> {
        self.placed.get(now, id)
    }

    /// Places a new client at another endpoint; `None` if it stays here. It does if so many were placed lately that one
    /// would have to be forgotten, whose next datagram would begin a second connection.
    pub(super) fn place(&mut self, now: Instant, id: ConnectionId) -> Option<usize> {
        let placer = self.placer.as_ref().filter(|_| !self.placed.is_full())?;
        let shard = placer.place();
        if shard == self.own.index() || shard >= self.own.count() {
            return None;
        }
        self.placed.note(now, id, shard);
        Some(shard)
    }

    pub(super) fn hand_over(&mut self, shard: usize, arrival: &Arrival<'_>) {
        if self.waiting.len() < MOST_WAITING {
            let Arrival { tuple, ecn, .. } = *arrival;
            let datagram = arrival.datagram.to_vec();
            self.waiting.push_back(HandOver { shard, tuple, ecn, datagram });
        }
    }

    pub(super) fn poll(&mut self) -> Option<HandOver> {
        self.waiting.pop_front()
    }
}

impl HandOver {
    pub(super) fn into_parts(self) -> (FourTuple, Ecn, Vec<u8>) {
        (self.tuple, self.ecn, self.datagram)
    }
}
