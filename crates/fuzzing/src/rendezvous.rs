//! A rendezvous server and arbitrary senders: its memory is bounded, and no address gets more bytes than it sent.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{Instant, Relay, RelayCounters, RelayLimits, Rng, Side};
use manyway_wire::Writer;
use manyway_wire::rendezvous::{
    Body, Cookie, Message, REQUEST_LEN, SEALED_LEN, decode_addresses, encode_addresses,
};

use crate::script::Script;

const TOKENS: usize = 8;
const OF_NETWORK: usize = 3;
/// Offset of the cookie in a request.
const COOKIE_AT: usize = 28;

/// Reads the input as a datagram, as addresses, and as a script of senders and times.
pub fn run(data: &[u8]) {
    read(data);
    let mut limits = RelayLimits::default();
    (limits.tokens, limits.tokens_of_network) = (TOKENS, OF_NETWORK);
    let relay = Relay::new(limits, &mut Rng::from_seed([8; 32]));
    let mut play = Play { relay, now: Instant::from_nanos(0), cookie: [0; 16] };
    let mut script = Script::new(data);
    while let Some(step) = script.step() {
        match step % 4 {
            0 => play.now += Duration::from_millis(u64::from(script.u16()) * 10),
            1 => drop(play.say(from(&mut script), script.bytes())),
            2 => play.ask(&mut script),
            _ => {
                // A valid one with one byte changed.
                let mut datagram = question(&mut script, play.cookie);
                let at = usize::from(script.u8());
                datagram[at] ^= script.u8();
                play.say(from(&mut script), &datagram);
            }
        }
    }
}

/// Decoded datagrams encode to the same bytes, but for padding.
fn read(data: &[u8]) {
    if let Ok(message) = Message::decode(data) {
        let mut again = Vec::new();
        message.encode(&mut Writer::new(&mut again, REQUEST_LEN));
        assert!(Message::is_meant(data) && again.len() == data.len() && again.len() <= REQUEST_LEN);
        assert_eq!(Message::decode(&again), Ok(message));
    }
    if let Ok(addresses) = decode_addresses(data) {
        let mut again = Vec::new();
        encode_addresses(&mut Writer::new(&mut again, 1 << 10), &addresses);
        assert_eq!(decode_addresses(&again), Ok(addresses));
    }
}

struct Play {
    relay: Relay,
    now: Instant,
    cookie: Cookie,
}

impl Play {
    fn say(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        let (before, mut answer) = (self.relay.counters(), Vec::new());
        let answered = self.relay.handle_datagram(self.now, from, datagram, &mut answer);
        assert!(answer.len() <= datagram.len(), "an answer is no longer than the question");
        assert!(self.relay.tokens() <= TOKENS);
        let RelayCounters { answered: a, retried: b, refused: c, .. } = self.relay.counters();
        assert_eq!(a + b + c, before.answered + before.retried + before.refused + 1);
        assert_eq!(answered, !answer.is_empty());
        answered.then_some(answer)
    }

    /// Requests as a client that receives the answers: a returned cookie is valid.
    fn ask(&mut self, script: &mut Script<'_>) {
        let from = from(script);
        let mut datagram = question(script, self.cookie);
        let answer = self.say(from, &datagram).expect("a question is answered");
        if let Body::Retry { cookie, .. } = Message::decode(&answer).expect("an answer can be read").body {
            self.cookie = cookie;
            datagram[COOKIE_AT..COOKIE_AT + cookie.len()].copy_from_slice(&cookie);
        }
        let answer = self.say(from, &datagram).expect("a question is answered");
        let body = Message::decode(&answer).expect("an answer can be read").body;
        assert!(matches!(body, Body::Answer { seen, .. } if seen == from), "a cookie that came back is good");
    }
}

fn from(script: &mut Script<'_>) -> SocketAddr {
    ([10, 0, script.u8() % 4, 1], 1 + u16::from(script.u8() % 2)).into()
}

fn question(script: &mut Script<'_>, cookie: Cookie) -> Vec<u8> {
    let side = if script.u8().is_multiple_of(2) { Side::Client } else { Side::Server };
    let sealed = &[script.u8(); SEALED_LEN];
    let body = Body::Request { side, nonce: script.u64(), cookie, sealed };
    let mut datagram = Vec::new();
    Message { token: [script.u8() % 16; 16], body }.encode(&mut Writer::new(&mut datagram, REQUEST_LEN));
    datagram
}
