//! Questions to rendezvous servers that belong to no connection: where they see a socket of this endpoint, and whether
//! they relay its packets to the other end of a code.

use std::collections::VecDeque;
use std::net::SocketAddr;

use manyway_wire::Writer;
use manyway_wire::rendezvous::mailbox::SHORT_LEN;
use manyway_wire::rendezvous::{Body, Cookie, Message, Token};

use crate::engine::single;
use crate::rendezvous::RelayKey;
use crate::{FourTuple, Rng, Transmit};

/// Most answers that wait; further ones are dropped.
const MOST_ANSWERS: usize = 64;
/// Most pairs of a socket and a relay that are bound.
const MOST_BINDINGS: usize = 16;

/// An answer of a rendezvous server that belongs to no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// It sees a socket of this endpoint there.
    At(SocketAddr),
    /// It relays: packets that the socket sends to the server's address go to the other end.
    Relayed(FourTuple),
}

/// The questions of an endpoint.
#[derive(Debug)]
pub(super) struct Observer {
    token: Token,
    bindings: Vec<Binding>,
    answers: VecDeque<Observed>,
}

/// A socket that is to be relayed.
#[derive(Debug)]
struct Binding {
    tuple: FourTuple,
    key: RelayKey,
    cookie: Cookie,
    /// Of the newest request; `None` once it was answered.
    nonce: Option<u64>,
    /// Whether another request may follow the answer at once.
    may_repeat: bool,
}

/// A datagram to be sent.
pub(super) type Outgoing = (Transmit, Vec<u8>);

impl Observer {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut token = [0; 16];
        rng.fill(&mut token);
        Self { token, bindings: Vec::new(), answers: VecDeque::new() }
    }

    /// Asks where the local address is seen.
    pub(super) fn observe(&self, tuple: FourTuple, nonce: u64) -> Outgoing {
        datagram(tuple, &Message { token: self.token, body: Body::Observe { nonce } })
    }

    /// Asks for a relay; `None` if too many sockets were bound.
    pub(super) fn bind(&mut self, tuple: FourTuple, key: RelayKey, nonce: u64) -> Option<Outgoing> {
        if let Some(binding) = self.bindings.iter_mut().find(|binding| binding.tuple == tuple) {
            (binding.key, binding.may_repeat) = (key, true);
            return Some(binding.ask(nonce));
        }
        if self.bindings.len() >= MOST_BINDINGS {
            return None;
        }
        let mut binding = Binding { tuple, key, cookie: [0; 16], nonce: None, may_repeat: true };
        let datagram = binding.ask(nonce);
        self.bindings.push(binding);
        Some(datagram)
    }

    /// The next answer.
    pub(super) fn poll(&mut self) -> Option<Observed> {
        self.answers.pop_front()
    }

    /// Takes an answer that belongs to no connection. May ask again, with this nonce.
    pub(super) fn on_message(
        &mut self,
        from: SocketAddr,
        message: &Message<'_>,
        next: u64,
    ) -> Option<Outgoing> {
        if let Body::Answer { seen, .. } = message.body
            && message.token == self.token
        {
            self.push(Observed::At(seen));
            return None;
        }
        let (Body::Retry { nonce, .. } | Body::Bound { nonce, .. }) = message.body else { return None };
        let is_asked = |binding: &&mut Binding| {
            binding.key.token == message.token && binding.nonce == Some(nonce) && binding.tuple.remote == from
        };
        let binding = self.bindings.iter_mut().find(is_asked)?;
        binding.nonce = None;
        let tuple = binding.tuple;
        match message.body {
            Body::Retry { cookie, .. } => {
                binding.cookie = cookie;
                // Once: a server may answer so each time.
                return std::mem::take(&mut binding.may_repeat).then(|| binding.ask(next));
            }
            Body::Bound { is_bound: true, .. } => self.push(Observed::Relayed(tuple)),
            Body::Bound { is_bound: false, .. }
            | Body::Request { .. }
            | Body::Answer { .. }
            | Body::Knock
            | Body::Ask(_)
            | Body::State(_)
            | Body::Leave { .. }
            | Body::Bind { .. }
            | Body::Observe { .. } => {}
        }
        None
    }

    fn push(&mut self, answer: Observed) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back(answer);
        }
    }
}

impl Binding {
    fn ask(&mut self, nonce: u64) -> Outgoing {
        self.nonce = Some(nonce);
        let RelayKey { token, number } = self.key;
        let body = Body::Bind { nonce, cookie: self.cookie, number };
        datagram(self.tuple, &Message { token, body })
    }
}

/// A knock, which the peer ignores.
pub(super) fn knock(tuple: FourTuple) -> Outgoing {
    datagram(tuple, &Message { token: [0; 16], body: Body::Knock })
}

fn datagram(tuple: FourTuple, message: &Message<'_>) -> Outgoing {
    let mut bytes = Vec::with_capacity(SHORT_LEN);
    message.encode(&mut Writer::new(&mut bytes, SHORT_LEN));
    (single(tuple, bytes.len()), bytes)
}
