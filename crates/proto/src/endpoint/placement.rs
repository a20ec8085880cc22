//! Which of several endpoints on one port gets a new client, and what is handed over to it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use manyway_wire::ConnectionId;

use super::recent::Recent;
use super::shard::Shard;
use crate::mmsp2::Arrival;
use crate::{Ecn, FourTuple, Instant};

/// Most datagrams that wait until the driver passes them on; more are lost, and repeated by their senders.
const MOST_WAITING: usize = 256;

/// Chooses which of the endpoints on one port gets a new client.
pub trait Placer: fmt::Debug + Send + Sync {
    /// The index of the endpoint. Called once for each client, by the endpoint that its first datagram came to.
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

/// How a datagram came to this endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the network.
    Direct,
    /// From the endpoint to which the client's random connection ID leads.
    HandedOver,
}

/// Decides which endpoint gets a new client, and remembers it for the client's next datagrams.
#[derive(Debug, Default)]
pub(super) struct Placement {
    own: Shard,
    placer: Option<Arc<dyn Placer>>,
    /// The endpoints of clients that were given away, by the id that this endpoint would have issued.
    given: Recent<usize>,
    waiting: VecDeque<HandOver>,
}

impl Placement {
    pub(super) fn new(own: Shard, placer: Option<Arc<dyn Placer>>) -> Self {
        Self { own, placer, given: Recent::default(), waiting: VecDeque::new() }
    }

    /// The endpoint to which a client was given.
    pub(super) fn given_to(&mut self, now: Instant, id: &ConnectionId) -> Option<usize> {
        self.given.get(now, id)
    }

    /// The other endpoint that gets a new client; `None` if this one does.
    pub(super) fn give(&mut self, now: Instant, id: ConnectionId) -> Option<usize> {
        let shard = self.placer.as_ref()?.place();
        if shard == self.own.index() || shard >= self.own.count() {
            return None;
        }
        self.given.note(now, id, shard);
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
