//! A rendezvous server and arbitrary senders: its memory is bounded, and no address gets more bytes than it sent. Both
//! ends of a code and an arbitrary server: no content but the right one arrives.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{
    CodeReceiver, CodeReceiverEvent, CodeSender, CodeSenderEvent, ForwardLimits, Forwarding, FourTuple,
    Instant, LocalAddress, Relay, RelayCounters, RelayLimits, Rng, Side,
};
use manyway_wire::Writer;
use manyway_wire::rendezvous::mailbox::{Ask, LETTER_LEN, State, Status};
use manyway_wire::rendezvous::{
    Body, Cookie, MAX_LEN, Message, REQUEST_LEN, SEALED_LEN, decode_addresses, encode_addresses,
};

use crate::script::Script;

const TOKENS: usize = 8;
const OF_NETWORK: usize = 3;
const MAILBOXES: usize = 6;
const PAIRS: usize = 2;
const MAILBOXES_OF_NETWORK: usize = 2;
/// Offset of the cookie in a request.
const COOKIE_AT: usize = 28;

/// Reads the input as a datagram, as addresses, and as a script of senders and times.
pub fn run(data: &[u8]) {
    read(data);
    let mut limits = RelayLimits::default();
    (limits.tokens, limits.tokens_of_network) = (TOKENS, OF_NETWORK);
    (limits.mailboxes, limits.mailboxes_of_network) = (MAILBOXES, MAILBOXES_OF_NETWORK);
    let mut forwarding = ForwardLimits::default();
    forwarding.pairs = PAIRS;
    limits.forwarding = Some(forwarding);
    let relay = Relay::new(limits, &mut Rng::from_seed([8; 32]));
    let mut play =
        Play { relay, now: Instant::from_nanos(0), cookie: [0; 16], code: None, bound: BTreeSet::new() };
    let mut script = Script::new(data);
    while let Some(step) = script.step() {
        match step % 6 {
            0 => play.now += Duration::from_millis(u64::from(script.u16()) * 10),
            1 => drop(play.say(from(&mut script), script.bytes())),
            2 => play.ask(&mut script),
            3 => play.ask_mailbox(&mut script),
            4 => play.meddle(&mut script),
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
        message.encode(&mut Writer::new(&mut again, MAX_LEN));
        assert!(Message::is_meant(data) && again.len() == data.len() && again.len() <= MAX_LEN);
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
    code: Option<Box<Code>>,
    /// Addresses that were ends of a pair once.
    bound: BTreeSet<SocketAddr>,
}

/// Both ends of a code, whose server is the script.
struct Code {
    sender: CodeSender,
    receiver: CodeReceiver,
    /// The newest request of each.
    asked: [Vec<u8>; 2],
}

const SERVER: &str = "10.0.0.9:1";
const CONTENT: &[u8] = b"content";

impl Code {
    fn new(now: Instant) -> Self {
        let server = SERVER.parse().expect("an address");
        let rng = || Rng::from_seed([9; 32]);
        let code = "1-guitar-island".parse().expect("a code");
        let sender = CodeSender::new(now, &[server], rng());
        let receiver = CodeReceiver::new(now, &code, &[server], rng());
        Self { sender, receiver, asked: [Vec::new(), Vec::new()] }
    }

    fn turn(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
        self.receiver.handle_timeout(now);
        let mut buffer = Vec::new();
        let (mut sent, most) = (0, 64);
        while sent < most && self.sender.poll_transmit(now, &mut buffer).is_some() {
            self.asked[0].clone_from(&buffer);
            sent += 1;
        }
        while sent < most && self.receiver.poll_transmit(now, &mut buffer).is_some() {
            self.asked[1].clone_from(&buffer);
            sent += 1;
        }
        assert!(sent < most, "an end does not send without end");
        while let Some(event) = self.sender.poll_event() {
            if let CodeSenderEvent::Opened(_) = event {
                assert!(self.sender.set_content(now, CONTENT));
            }
            assert!(event != CodeSenderEvent::Delivered, "both ends have other codes");
        }
        while let Some(event) = self.receiver.poll_event() {
            assert!(matches!(event, CodeReceiverEvent::Failed(_)), "{event:?}");
        }
    }
}

impl Play {
    fn say(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        let tuple =
            FourTuple::udp(LocalAddress { interface: 0, address: SERVER.parse().expect("an address") }, from);
        if let Forwarding::To(FourTuple { remote: to, .. }) = self.relay.forward(self.now, tuple, datagram) {
            assert!(to != from && self.bound.contains(&to) && self.bound.contains(&from));
        }
        assert!(self.relay.pairs() <= PAIRS);
        let (before, mut answer) = (self.relay.counters(), Vec::new());
        let answered = self.relay.handle_datagram(self.now, tuple, datagram, &mut answer);
        assert!(answer.len() <= datagram.len(), "an answer is no longer than the question");
        assert!(self.relay.tokens() <= TOKENS && self.relay.mailboxes() <= MAILBOXES);
        let all = |counters: RelayCounters| {
            counters.answered + counters.retried + counters.refused + counters.limited
        };
        assert_eq!(all(self.relay.counters()), all(before) + 1);
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

impl Play {
    /// Asks for a mailbox with a valid cookie.
    fn ask_mailbox(&mut self, script: &mut Script<'_>) {
        let from = from(script);
        let side = if script.u8().is_multiple_of(2) { Side::Client } else { Side::Server };
        let (token, number) = ([script.u8() % 16; 16], u32::from(script.u8() % 8));
        let (posted, taken) = (script.u8() % 4, script.u8() % 4);
        let letter = &[script.u8(); LETTER_LEN];
        let letter = script.u8().is_multiple_of(2).then_some(letter);
        let verb = script.u8() % 8;
        let nonce = script.u64();
        let say = |play: &mut Self, cookie| {
            let ask = Ask { side, nonce, cookie, number, posted, taken, letter };
            let body = match verb {
                0 => Body::Leave { nonce, cookie },
                1 | 2 => Body::Bind { nonce, cookie, number },
                _ => Body::Ask(ask),
            };
            let mut datagram = Vec::new();
            Message { token, body }.encode(&mut Writer::new(&mut datagram, MAX_LEN));
            play.say(from, &datagram)
        };
        let answer = say(self, [0; 16]).expect("without a cookie the answer is one");
        let Body::Retry { cookie, .. } = Message::decode(&answer).expect("an answer can be read").body else {
            return;
        };
        // A network that asks too often gets none.
        if let Some(answer) = say(self, cookie) {
            let body = Message::decode(&answer).expect("an answer can be read").body;
            let is_answer = matches!(
                body,
                Body::State(State { nonce: same, .. }) | Body::Bound { nonce: same, .. } if same == nonce
            );
            assert!(is_answer, "another answer: {body:?}");
            if matches!(body, Body::Bound { is_bound: true, .. }) {
                self.bound.insert(from);
            }
        }
    }

    /// Answers a request of an end of a code as no honest server would.
    fn meddle(&mut self, script: &mut Script<'_>) {
        let now = self.now;
        let code = self.code.get_or_insert_with(|| Box::new(Code::new(now)));
        code.turn(now);
        let of_receiver = usize::from(script.u8() % 2);
        let asked = code.asked[of_receiver].clone();
        let Ok(Message { token, body: Body::Ask(Ask { nonce, .. }) | Body::Leave { nonce, .. } }) =
            Message::decode(&asked)
        else {
            return;
        };
        let statuses = [Status::Open, Status::Open, Status::Open, Status::Gone, Status::Taken, Status::Full];
        let status = statuses[usize::from(script.u8() % 6)];
        let mut letter = [0; LETTER_LEN];
        // The right letter of one end for either is a part of some of them.
        let other = code.asked[usize::from(script.u8() % 2)].clone();
        if let Ok(Message { body: Body::Ask(Ask { letter: Some(own), .. }), .. }) = Message::decode(&other) {
            letter = *own;
        }
        letter[usize::from(script.u8())] ^= script.u8();
        let (held, posted) = (script.u8(), script.u8());
        let letter = script.u8().is_multiple_of(2).then_some(&letter);
        let body = match script.u8() % 4 {
            0 => Body::Retry { nonce, cookie: [script.u8(); 16] },
            _ => Body::State(State { nonce, number: 1, status, held, posted, letter }),
        };
        let mut answer = Vec::new();
        Message { token, body }.encode(&mut Writer::new(&mut answer, MAX_LEN));
        let server = SERVER.parse().expect("an address");
        if of_receiver == 1 {
            code.receiver.handle_datagram(now, server, &answer);
        } else {
            code.sender.handle_datagram(now, server, &answer);
        }
        code.turn(now);
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
