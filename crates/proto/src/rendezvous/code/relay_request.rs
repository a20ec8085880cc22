//! What an end says over a TCP connection to a rendezvous server, so that this relays the records behind it.

use manyway_wire::Writer;
use manyway_wire::rendezvous::mailbox::SHORT_LEN;
use manyway_wire::rendezvous::{Body, Cookie, Message};

use super::RelayKey;

/// What a record from a rendezvous server means to an end that asked for a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayAnswer {
    /// The request is to be repeated at once.
    AskAgain,
    /// The server does not relay, or the other end is not there yet.
    NotYet,
    /// From now on the connection carries the packets of both ends.
    Relayed,
    /// A packet of the other end, which knows already that the server relays.
    Packet,
}

/// Asks for a relay over TCP (spec 10.49).
#[derive(Debug)]
pub struct RelayRequest {
    key: RelayKey,
    cookie: Cookie,
    /// No secret: nobody else can answer on a TCP connection.
    nonce: u64,
}

impl RelayRequest {
    /// Asks for the pair of a code.
    pub fn new(key: RelayKey) -> Self {
        Self { key, cookie: [0; 16], nonce: 0 }
    }

    /// The record to send.
    pub fn request(&mut self) -> Vec<u8> {
        self.nonce += 1;
        let RelayKey { token, number } = self.key;
        let body = Body::Bind { nonce: self.nonce, cookie: self.cookie, number };
        let mut record = Vec::with_capacity(SHORT_LEN);
        Message { token, body }.encode(&mut Writer::new(&mut record, SHORT_LEN));
        record
    }

    /// Reads a record of the server.
    pub fn handle_record(&mut self, record: &[u8]) -> RelayAnswer {
        if !Message::is_meant(record) {
            return RelayAnswer::Packet;
        }
        match Message::decode(record) {
            Ok(Message { body: Body::Retry { nonce, cookie }, .. }) if nonce == self.nonce => {
                self.cookie = cookie;
                RelayAnswer::AskAgain
            }
            Ok(Message { body: Body::Bound { is_bound: true, .. }, .. }) => RelayAnswer::Relayed,
            Ok(_) | Err(_) => RelayAnswer::NotYet,
        }
    }
}
