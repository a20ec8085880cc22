//! Questions to rendezvous servers that belong to no connection: where they see a socket of this endpoint.

use std::collections::VecDeque;
use std::net::SocketAddr;

use manyway_wire::Writer;
use manyway_wire::rendezvous::mailbox::SHORT_LEN;
use manyway_wire::rendezvous::{Body, Message, Token};

use super::Endpoint;
use crate::FourTuple;
use crate::engine::single;

/// Most answers that wait; further ones are dropped.
const MOST_ANSWERS: usize = 64;

/// The questions of an endpoint, all with one token.
#[derive(Debug)]
pub(super) struct Observer {
    token: Token,
    answers: VecDeque<SocketAddr>,
}

impl Endpoint {
    /// Asks the rendezvous server at the remote address where it sees the local one.
    /// [`poll_observed`](Self::poll_observed) has the answer, if one comes.
    pub fn observe(&mut self, tuple: FourTuple) {
        let Self { observer, rng, .. } = self;
        let observer = observer.get_or_insert_with(|| {
            let mut token = [0; 16];
            rng.fill(&mut token);
            Box::new(Observer { token, answers: VecDeque::new() })
        });
        let token = observer.token;
        let mut nonce = rng.next_u64().to_be_bytes();
        // The answer has the nonce, so the system can tell whose it is.
        self.config.shard.mark(&mut nonce);
        let nonce = u64::from_be_bytes(nonce);
        self.send_rendezvous(tuple, &Message { token, body: Body::Observe { nonce } });
    }

    /// Sends a knock, which the peer ignores: it makes a NAT on the way accept packets from there (spec 10.26).
    pub fn knock(&mut self, tuple: FourTuple) {
        self.send_rendezvous(tuple, &Message { token: [0; 16], body: Body::Knock });
    }

    fn send_rendezvous(&mut self, tuple: FourTuple, message: &Message<'_>) {
        let mut bytes = Vec::with_capacity(SHORT_LEN);
        message.encode(&mut Writer::new(&mut bytes, SHORT_LEN));
        self.outbox.push_back((single(tuple, bytes.len()), bytes));
    }

    /// The next address at which a rendezvous server sees this endpoint. At most 64 wait.
    pub fn poll_observed(&mut self) -> Option<SocketAddr> {
        self.observer.as_mut()?.answers.pop_front()
    }

    /// Takes an answer that belongs to no connection.
    pub(super) fn on_observed(&mut self, message: &Message<'_>) {
        let Some(observer) = self.observer.as_mut().filter(|observer| observer.token == message.token) else {
            return;
        };
        if let Body::Answer { seen, .. } = message.body
            && observer.answers.len() < MOST_ANSWERS
        {
            observer.answers.push_back(seen);
        }
    }
}
