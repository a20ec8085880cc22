//! Both ends of a code, a rendezvous server, and a network between them that delays, loses, repeats and changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::rendezvous::mailbox::{LETTER_LEN, Letter, State};
use manyway_wire::rendezvous::{Body, MAX_LEN, Message};

use super::*;
use crate::rendezvous::{Relay, RelayLimits};
use crate::{FourTuple, Instant, LocalAddress, Rng};

const START: Instant = Instant::from_nanos(1_000_000_000);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const SERVER: &str = "198.51.100.1:4455";
const CONTENT: &[u8] = b"whatever a ticket says";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A datagram from that address to the rendezvous server.
fn udp(from: SocketAddr) -> FourTuple {
    FourTuple::udp(LocalAddress { interface: 0, address: address(SERVER) }, from)
}

fn relay(seed: u8) -> Relay {
    Relay::new(RelayLimits::default(), &mut Rng::from_seed([seed; 32]))
}

/// One of the two ends.
enum End {
    Sender(Box<CodeSender>),
    Receiver(Box<CodeReceiver>),
}

impl End {
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
        match self {
            Self::Sender(end) => end.poll_transmit(now, buffer),
            Self::Receiver(end) => end.poll_transmit(now, buffer),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Sender(end) => end.poll_timeout(),
            Self::Receiver(end) => end.poll_timeout(),
        }
    }

    fn handle(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        match self {
            Self::Sender(end) => end.handle_datagram(now, from, datagram),
            Self::Receiver(end) => end.handle_datagram(now, from, datagram),
        };
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Sender(end) => end.handle_timeout(now),
            Self::Receiver(end) => end.handle_timeout(now),
        }
    }
}

/// What an end has told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Told {
    delivered: bool,
    content: Option<Vec<u8>>,
    peer_at: Vec<SocketAddr>,
    failure: Option<CodeFailure>,
}

impl Told {
    /// Notes the events of a sender; returns its code if it is new.
    fn hear_sender(&mut self, now: Instant, end: &mut CodeSender) -> Option<ShortCode> {
        let mut opened = None;
        while let Some(event) = end.poll_event() {
            match event {
                CodeSenderEvent::Opened(code) => {
                    opened = Some(code);
                    assert!(end.set_content(now, CONTENT));
                }
                CodeSenderEvent::Delivered => self.delivered = true,
                CodeSenderEvent::PeerAt(addresses) => self.peer_at = addresses,
                CodeSenderEvent::Failed(failure) => self.failure = Some(failure),
            }
        }
        opened
    }

    fn hear_receiver(&mut self, now: Instant, end: &mut CodeReceiver) {
        while let Some(event) = end.poll_event() {
            match event {
                CodeReceiverEvent::Content(content) => {
                    self.content = Some(content);
                    end.set_addresses(now, &[address("203.0.113.2:7")]);
                }
                CodeReceiverEvent::Failed(failure) => self.failure = Some(failure),
            }
        }
    }
}

/// How long each copy of a datagram takes; none if it is lost.
type Fate = Box<dyn FnMut(&mut Rng) -> Vec<Duration>>;
/// Changes an answer on its way to that address.
type Forger = Box<dyn FnMut(SocketAddr, &mut Vec<u8>)>;

struct Scene {
    now: Instant,
    relay: Option<Relay>,
    ends: BTreeMap<SocketAddr, (End, Told)>,
    flying: BTreeMap<(Instant, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    sent: u64,
    rng: Rng,
    fate: Fate,
    forge: Forger,
    code: Option<ShortCode>,
}

impl Scene {
    /// A sender whose code exists.
    fn new(seed: u8) -> Self {
        let mut scene = Self {
            now: START,
            relay: Some(relay(seed)),
            ends: BTreeMap::new(),
            flying: BTreeMap::new(),
            sent: 0,
            rng: Rng::from_seed([seed; 32]),
            fate: Box::new(|_| vec![20 * MS]),
            forge: Box::new(|_, _| {}),
            code: None,
        };
        scene.offer("192.0.2.1:1");
        scene
    }

    fn offer(&mut self, at: &str) {
        let sender = CodeSender::new(self.now, &[address(SERVER)], self.rng.fork());
        self.ends.insert(address(at), (End::Sender(Box::new(sender)), Told::default()));
    }

    fn code(&mut self) -> ShortCode {
        self.run(10 * SECOND, |scene| scene.code.is_some());
        self.code.unwrap()
    }

    fn fetch(&mut self, at: &str, code: &ShortCode) {
        let receiver = CodeReceiver::new(self.now, code, &[address(SERVER)], self.rng.fork());
        self.ends.insert(address(at), (End::Receiver(Box::new(receiver)), Told::default()));
    }

    fn told(&self, at: &str) -> &Told {
        &self.ends[&address(at)].1
    }

    fn sender(&mut self) -> &mut CodeSender {
        match self.ends.get_mut(&address("192.0.2.1:1")) {
            Some((End::Sender(sender), _)) => sender,
            _ => panic!("no sender"),
        }
    }

    /// Puts a datagram on its way.
    fn send(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        for delay in (self.fate)(&mut self.rng) {
            self.sent += 1;
            self.flying.insert((self.now + delay, self.sent), (from, to, datagram.to_vec()));
        }
    }

    fn transmit(&mut self) {
        let (mut buffer, mut all) = (Vec::new(), Vec::new());
        for (from, (end, _)) in &mut self.ends {
            while let Some(to) = end.poll_transmit(self.now, &mut buffer) {
                all.push((*from, to, buffer.clone()));
            }
        }
        all.into_iter().for_each(|(from, to, datagram)| self.send(from, to, &datagram));
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        if let Some((end, _)) = self.ends.get_mut(&to) {
            return end.handle(self.now, from, datagram);
        }
        let mut answer = Vec::new();
        let Some(relay) = self.relay.as_mut().filter(|_| to == address(SERVER)) else { return };
        if relay.handle_datagram(self.now, udp(from), datagram, &mut answer) {
            assert!(answer.len() <= datagram.len(), "no answer is longer than its request");
            (self.forge)(from, &mut answer);
            self.send(to, from, &answer);
        }
    }

    fn tell(&mut self) {
        for (end, told) in self.ends.values_mut() {
            match end {
                End::Sender(end) => {
                    let opened = told.hear_sender(self.now, end);
                    self.code = opened.or(self.code);
                }
                End::Receiver(end) => told.hear_receiver(self.now, end),
            }
        }
    }

    /// Runs until that holds or the time is over; returns whether it holds.
    fn run(&mut self, time: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let until = self.now + time;
        loop {
            self.transmit();
            self.tell();
            self.transmit();
            if done(self) {
                return true;
            }
            let timers = self.ends.values().filter_map(|(end, _)| end.poll_timeout());
            let next = timers.chain(self.flying.keys().map(|(at, _)| *at).next()).min();
            let Some(next) = next.filter(|next| *next < until) else { break };
            self.now = next.max(self.now);
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, datagram) = entry.remove();
                self.deliver(from, to, &datagram);
            }
            self.ends.values_mut().for_each(|(end, _)| end.handle_timeout(self.now));
        }
        self.now = until;
        false
    }

    /// Runs until both ends have come to a result.
    fn run_both(&mut self, receiver: &str) -> (Told, Told) {
        let is_done = |told: &Told| told.failure.is_some() || told.content.is_some() || told.delivered;
        self.run(2 * MINUTE, |scene| is_done(scene.told("192.0.2.1:1")) && is_done(scene.told(receiver)));
        (self.told("192.0.2.1:1").clone(), self.told(receiver).clone())
    }
}

const RECEIVER: &str = "203.0.113.2:2";

fn other_than(code: &ShortCode) -> ShortCode {
    let text = format!("{}-abbey-absent", code.number());
    let other = text.parse().unwrap();
    assert_ne!(code, &other);
    other
}

fn failed(failure: CodeFailure) -> Told {
    Told { failure: Some(failure), ..Told::default() }
}

// spec 10.19, 10.20, 10.21, 10.33, 10.42
#[test]
fn the_end_with_the_code_gets_the_content_and_names_its_addresses() {
    let mut scene = Scene::new(1);
    let code = scene.code();
    assert_eq!(code.number(), 1, "the smallest number");
    scene.run(30 * SECOND, |_| false);
    let start = scene.now;
    scene.fetch(RECEIVER, &code);
    assert!(scene.run(MINUTE, |scene| !scene.told("192.0.2.1:1").peer_at.is_empty()));
    let (sender, receiver) = (scene.told("192.0.2.1:1"), scene.told(RECEIVER));
    assert_eq!(receiver.content.as_deref(), Some(CONTENT));
    assert_eq!(sender.peer_at, [address("203.0.113.2:7")]);
    assert!(sender.delivered && sender.failure.is_none() && receiver.failure.is_none());
    assert!(scene.now - start < 3 * SECOND, "{:?}", scene.now - start);
}

// spec 10.22
#[test]
fn one_wrong_guess_ends_the_code_at_both_ends() {
    let mut scene = Scene::new(2);
    let code = scene.code();
    scene.fetch(RECEIVER, &other_than(&code));
    let (sender, receiver) = scene.run_both(RECEIVER);
    assert_eq!((sender, receiver), (failed(CodeFailure::Wrong), failed(CodeFailure::Wrong)));
    scene.fetch("203.0.113.3:3", &code);
    scene.run(MINUTE, |scene| scene.told("203.0.113.3:3").failure.is_some());
    assert_eq!(scene.told("203.0.113.3:3"), &failed(CodeFailure::Unknown));
}

// spec 10.20
#[test]
fn the_offering_end_shows_that_it_has_the_code_to_no_end_that_has_not() {
    let mut scene = Scene::new(3);
    let code = scene.code();
    let newest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = newest.clone();
    scene.forge = Box::new(move |to, answer| {
        if let Body::State(State { posted, .. }) = Message::decode(answer).unwrap().body
            && to == address(RECEIVER)
        {
            seen.set(posted.max(seen.get()));
        }
    });
    scene.fetch(RECEIVER, &other_than(&code));
    scene.run_both(RECEIVER);
    assert_eq!(newest.get(), 1, "a second letter could be tried with other codes");
}

// spec 10.22
#[test]
fn an_end_that_stops_in_the_middle_ends_the_code() {
    let mut scene = Scene::new(4);
    let code = scene.code();
    scene.fetch(RECEIVER, &code);
    // It leaves with its first letter on the way.
    scene.run(10 * MS, |_| false);
    scene.transmit();
    scene.run(100 * MS, |_| false);
    scene.ends.remove(&address(RECEIVER));
    scene.run(2 * MINUTE, |scene| scene.told("192.0.2.1:1").failure.is_some());
    assert_eq!(scene.told("192.0.2.1:1"), &failed(CodeFailure::Abandoned));
}

// spec 10.22
#[test]
fn an_unused_code_ends_after_an_hour() {
    let mut scene = Scene::new(5);
    let code = scene.code();
    assert!(!scene.run(59 * MINUTE, |scene| scene.told("192.0.2.1:1").failure.is_some()));
    assert!(scene.run(2 * MINUTE, |scene| scene.told("192.0.2.1:1").failure.is_some()));
    assert_eq!(scene.told("192.0.2.1:1"), &failed(CodeFailure::Expired));
    scene.fetch(RECEIVER, &code);
    scene.run(MINUTE, |scene| scene.told(RECEIVER).failure.is_some());
    assert_eq!(scene.told(RECEIVER), &failed(CodeFailure::Unknown));
}

// spec 10.22
#[test]
fn a_second_end_with_the_same_code_gets_nothing() {
    let mut scene = Scene::new(6);
    let code = scene.code();
    scene.fetch(RECEIVER, &code);
    scene.run(SECOND / 10, |_| false);
    scene.fetch("203.0.113.3:3", &code);
    let (sender, receiver) = scene.run_both(RECEIVER);
    assert!(sender.delivered && receiver.content.is_some());
    scene.run(SECOND, |scene| scene.told("203.0.113.3:3").failure.is_some());
    assert_eq!(scene.told("203.0.113.3:3"), &failed(CodeFailure::Used));
    let now = scene.now;
    scene.sender().close(now);
    scene.run(SECOND, |_| false);
    assert!(scene.sender().is_closed());
    scene.fetch("203.0.113.4:4", &code);
    scene.run(SECOND, |_| false);
    assert_eq!(scene.told("203.0.113.4:4"), &failed(CodeFailure::Unknown));
}

// spec 10.40
#[test]
fn a_restarted_server_gives_the_waiting_end_its_number_again() {
    let mut scene = Scene::new(7);
    let code = scene.code();
    scene.relay = Some(relay(70));
    scene.run(10 * SECOND, |_| false);
    scene.fetch(RECEIVER, &code);
    let (sender, receiver) = scene.run_both(RECEIVER);
    assert!(sender.delivered && receiver.content.is_some());
    // Unless another one has it.
    let mut scene = Scene::new(8);
    scene.code();
    scene.relay = None;
    scene.run(10 * SECOND, |_| false);
    scene.relay = Some(relay(80));
    let mut other = CodeSender::new(scene.now, &[address(SERVER)], scene.rng.fork());
    let mut buffer = Vec::new();
    for _ in 0..2 {
        other.poll_transmit(scene.now, &mut buffer);
        let mut answer = Vec::new();
        scene.relay.as_mut().unwrap().handle_datagram(
            scene.now,
            udp(address("192.0.2.9:1")),
            &buffer,
            &mut answer,
        );
        other.handle_datagram(scene.now, address(SERVER), &answer);
    }
    scene.run(MINUTE, |scene| scene.told("192.0.2.1:1").failure.is_some());
    assert_eq!(scene.told("192.0.2.1:1"), &failed(CodeFailure::Lost));
}

// spec 10.23
#[test]
fn lost_repeated_and_reordered_datagrams_only_delay() {
    for seed in 10..30 {
        let mut scene = Scene::new(seed);
        scene.fate = Box::new(|rng| {
            let copies = [0, 1, 1, 1, 1, 1, 1, 1, 2, 3][usize::try_from(rng.next_u64() % 10).unwrap()];
            (0..copies).map(|_| u32::try_from(rng.next_u64() % 700).unwrap() * MS).collect()
        });
        scene.run(MINUTE, |scene| scene.code.is_some());
        let code = scene.code();
        scene.fetch(RECEIVER, &code);
        let told = scene.run_both(RECEIVER);
        assert_eq!(told.1.content.as_deref(), Some(CONTENT), "{seed} {told:?}");
        assert!(scene.run(2 * MINUTE, |scene| !scene.told("192.0.2.1:1").peer_at.is_empty()), "{seed}");
    }
}

// spec 10.35
#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let mut scene = Scene::new(9);
    let code = scene.code();
    scene.relay = None;
    scene.offer("192.0.2.5:1");
    scene.fetch(RECEIVER, &code);
    let start = scene.now;
    scene.run(MINUTE, |scene| [RECEIVER, "192.0.2.5:1"].iter().all(|end| scene.told(end).failure.is_some()));
    for end in [RECEIVER, "192.0.2.5:1"] {
        assert_eq!(scene.told(end), &failed(CodeFailure::NoAnswer));
    }
    assert!(scene.now - start < 20 * SECOND);
    // An end whose code exists waits.
    assert_eq!(scene.told("192.0.2.1:1").failure, None);
}

/// Changes the letters of answers.
fn forging(change: impl Fn(SocketAddr, u8, &mut Letter) + 'static) -> Forger {
    Box::new(move |to, answer| {
        let Message { token, body } = Message::decode(answer).unwrap();
        let Body::State(State { posted, letter: Some(letter), .. }) = body else { return };
        let mut forged = *letter;
        change(to, posted, &mut forged);
        let Body::State(state) = body else { return };
        let body = Body::State(State { letter: Some(&forged), ..state });
        let mut bytes = Vec::new();
        Message { token, body }.encode(&mut Writer::new(&mut bytes, MAX_LEN));
        *answer = bytes;
    })
}

// spec 10.20, 10.22
#[test]
fn a_server_that_changes_letters_ends_the_code_and_learns_nothing() {
    for (to, index) in [("192.0.2.1:1", 1), ("192.0.2.1:1", 2), (RECEIVER, 1), (RECEIVER, 2)] {
        for at in [0, 1, 20, 32, 33, 34, 200, LETTER_LEN - 1] {
            // What follows a message of the exchange is not read.
            if index == 1 && at > 32 {
                continue;
            }
            let mut scene = Scene::new(100);
            let code = scene.code();
            scene.forge = forging(move |receiver, posted, letter| {
                if receiver == address(to) && posted == index {
                    letter[at] ^= 4;
                }
            });
            scene.fetch(RECEIVER, &code);
            let (sender, receiver) = scene.run_both(RECEIVER);
            assert_eq!(receiver.content, None, "{to} {index} {at}");
            assert!(receiver.failure.is_some());
            if (to, index) == (RECEIVER, 2) {
                assert!(sender.delivered, "the right end confirmed");
            } else {
                assert!(sender.failure.is_some() && !sender.delivered, "{to} {index} {at}");
            }
        }
    }
}

// spec 10.32
#[test]
fn letters_that_are_sent_back_or_repeated_are_not_taken() {
    // The server answers an end with the end's own letter.
    let own = std::cell::RefCell::new(BTreeMap::<SocketAddr, Letter>::new());
    let mut scene = Scene::new(101);
    let code = scene.code();
    scene.forge = forging(move |to, _, letter| {
        let others: Vec<_> =
            own.borrow().iter().filter(|(end, _)| **end != to).map(|(_, own)| *own).collect();
        // What was meant for the other end is this one's own.
        own.borrow_mut().insert(to, *letter);
        if let Some(mirrored) = others.first() {
            *letter = *mirrored;
        }
    });
    scene.fetch(RECEIVER, &code);
    let (sender, receiver) = scene.run_both(RECEIVER);
    assert!(receiver.content.is_none() && !sender.delivered);
    // The first letter of the other end comes as its second, too.
    for victim in ["192.0.2.1:1", RECEIVER] {
        let mut scene = Scene::new(102);
        let code = scene.code();
        let first = std::cell::Cell::new(None);
        scene.forge = forging(move |to, posted, letter| {
            if to == address(victim) {
                if posted == 1 {
                    first.set(Some(*letter));
                } else if let Some(first) = first.get() {
                    *letter = first;
                }
            }
        });
        scene.fetch(RECEIVER, &code);
        let (_, receiver) = scene.run_both(RECEIVER);
        assert_eq!(receiver.content, None, "{victim}");
    }
}

// spec 10.20
#[test]
fn an_exchange_with_no_valid_message_is_a_wrong_guess() {
    let mut rng = Rng::from_seed([1; 32]);
    let code = ShortCode::random(1, &mut rng);
    for side in [manyway_wire::Side::Client, manyway_wire::Side::Server] {
        let exchange = |rng: &mut Rng| pake::Exchange::new(side, &code, rng);
        let own = exchange(&mut rng).letter();
        for other in [[0; LETTER_LEN], [0xff; LETTER_LEN], own] {
            assert!(exchange(&mut rng).finish(&other).is_none());
        }
    }
}

#[test]
fn content_of_any_length_up_to_the_most_comes_back() {
    let mut rng = Rng::from_seed([1; 32]);
    let code = ShortCode::random(1, &mut rng);
    let [offering, fetching] = [manyway_wire::Side::Server, manyway_wire::Side::Client]
        .map(|side| pake::Exchange::new(side, &code, &mut rng));
    let (first, second) = (offering.letter(), fetching.letter());
    let (offering, fetching) = (offering.finish(&second).unwrap(), fetching.finish(&first).unwrap());
    for length in [0, 1, MAX_CONTENT - 1, MAX_CONTENT] {
        let content = vec![7; length];
        let letter = offering.seal(2, &content).unwrap();
        assert_eq!(fetching.open(2, &letter), Some(content));
        assert_eq!(fetching.open(3, &letter), None, "each letter has its place");
        assert_eq!(offering.open(2, &letter), None, "and its direction");
    }
    assert!(offering.seal(2, &[7; MAX_CONTENT + 1]).is_none());
}
