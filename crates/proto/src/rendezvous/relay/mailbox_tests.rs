//! Many ends at the mailboxes of one server.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::{ByteCount, Rate};
use manyway_wire::rendezvous::mailbox::{Ask, LETTER_LEN, Letter, State, Status};
use manyway_wire::rendezvous::{Body, MAX_LEN, Message};
use manyway_wire::{Side, Writer};

use super::{ForwardLimits, Forwarding, Relay, RelayLimits};
use crate::{FourTuple, Instant, LocalAddress, Rng};

const START: Instant = Instant::from_nanos(1_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn host(network: u16) -> SocketAddr {
    let [high, low] = network.to_be_bytes();
    ([10, high, low, 1], 1).into()
}

fn token(number: u64) -> [u8; 16] {
    let mut token = [0; 16];
    *token.last_chunk_mut().unwrap() = number.to_be_bytes();
    token
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    status: Status,
    number: u32,
    held: u8,
    posted: u8,
    letter: Option<Letter>,
}

fn local() -> LocalAddress {
    LocalAddress { interface: 0, address: "198.51.100.1:4455".parse().unwrap() }
}

/// A datagram from that address.
fn udp(from: SocketAddr) -> FourTuple {
    FourTuple::udp(local(), from)
}

struct Crowd {
    relay: Relay,
    now: Instant,
}

impl Crowd {
    fn new(mailboxes: usize, of_network: usize) -> Self {
        let limits = RelayLimits { mailboxes, mailboxes_of_network: of_network, ..RelayLimits::default() };
        Self { relay: Relay::new(limits, &mut Rng::from_seed([6; 32])), now: START }
    }

    /// Sends a request; `None` if it is dropped.
    fn say(&mut self, from: SocketAddr, token: u64, body: Body<'_>) -> Option<Vec<u8>> {
        let (mut datagram, mut answer) = (Vec::new(), Vec::new());
        Message { token: self::token(token), body }.encode(&mut Writer::new(&mut datagram, MAX_LEN));
        let is_answered = self.relay.handle_datagram(self.now, udp(from), &datagram, &mut answer);
        assert!(answer.len() <= datagram.len());
        is_answered.then_some(answer)
    }

    fn cookie(&mut self, from: SocketAddr) -> [u8; 16] {
        let answer = self.say(from, 0, Body::Leave { nonce: 1, cookie: [0; 16] }).unwrap();
        let Body::Retry { cookie, .. } = Message::decode(&answer).unwrap().body else { panic!() };
        cookie
    }

    fn request(&mut self, from: SocketAddr, token: u64, body: Body<'_>) -> Option<Answer> {
        let answer = self.say(from, token, body)?;
        let Body::State(State { status, number, held, posted, letter, .. }) =
            Message::decode(&answer).unwrap().body
        else {
            panic!()
        };
        Some(Answer { status, number, held, posted, letter: letter.copied() })
    }

    fn ask(
        &mut self,
        from: SocketAddr,
        token: u64,
        (side, number): (Side, u32),
        own: (u8, u8),
    ) -> Option<Answer> {
        let (posted, taken) = own;
        let letter = &[posted; LETTER_LEN];
        let cookie = self.cookie(from);
        let ask = Ask { side, nonce: 5, cookie, number, posted, taken, letter: Some(letter) };
        self.request(from, token, Body::Ask(ask))
    }

    fn open(&mut self, network: u16, token: u64) -> Answer {
        self.ask(host(network), token, (Side::Server, 0), (0, 0)).unwrap()
    }

    fn join(&mut self, network: u16, token: u64, number: u32) -> Option<Status> {
        self.ask(host(network), token, (Side::Client, number), (1, 0)).map(|answer| answer.status)
    }

    fn leave(&mut self, network: u16, token: u64) {
        let cookie = self.cookie(host(network));
        self.request(host(network), token, Body::Leave { nonce: 5, cookie }).unwrap();
    }
}

// spec 10.29, 10.30
#[test]
fn each_end_gets_the_newest_letter_of_the_other_once() {
    let mut crowd = Crowd::new(10, 10);
    let (owner, guest) = ((Side::Server, 1), (Side::Client, 1));
    assert_eq!(crowd.open(1, 1).number, 1);
    let joined = crowd.ask(host(2), 2, guest, (1, 0)).unwrap();
    assert_eq!((joined.status, joined.held, joined.posted, joined.letter), (Status::Open, 1, 0, None));
    let answer = crowd.ask(host(1), 1, owner, (1, 0)).unwrap();
    assert_eq!((answer.held, answer.posted, answer.letter), (1, 1, Some([1; LETTER_LEN])));
    assert_eq!(crowd.ask(host(1), 1, owner, (1, 1)).unwrap().letter, None);
    let answer = crowd.ask(host(2), 2, guest, (2, 1)).unwrap();
    assert_eq!((answer.held, answer.letter), (2, None));
    // A late copy of an earlier request changes nothing.
    assert_eq!(crowd.ask(host(2), 2, guest, (1, 0)).unwrap().held, 2);
    assert_eq!(crowd.ask(host(1), 1, owner, (1, 1)).unwrap().letter, Some([2; LETTER_LEN]));
    // A short request gets none.
    let cookie = crowd.cookie(host(1));
    let short = Ask { side: Side::Server, nonce: 5, cookie, number: 1, posted: 1, taken: 1, letter: None };
    let answer = crowd.request(host(1), 1, Body::Ask(short)).unwrap();
    assert_eq!((answer.posted, answer.letter), (2, None));
}

// spec 10.31
#[test]
fn numbers_are_the_smallest_and_come_again_a_minute_after_their_end() {
    let mut crowd = Crowd::new(10, 10);
    for token in 1..=4 {
        assert_eq!(u64::from(crowd.open(1, token).number), token);
        assert_eq!(u64::from(crowd.open(1, token).number), token, "a repeated request opens no other");
    }
    crowd.leave(1, 2);
    assert_eq!(crowd.open(1, 2).status, Status::Gone, "a late copy of a request");
    assert_eq!(crowd.join(2, 9, 2), Some(Status::Gone));
    assert_eq!(crowd.open(1, 5).number, 5);
    crowd.now += 59 * SECOND;
    for token in [1, 3, 4, 5] {
        crowd.open(1, token);
    }
    crowd.now += 2 * SECOND;
    assert_eq!(crowd.open(1, 6).number, 2);
    // Owners that ask no more are forgotten.
    crowd.now += 61 * SECOND;
    crowd.open(1, 7);
    assert_eq!(crowd.relay.mailboxes(), 1);
}

// spec 10.22
#[test]
fn a_mailbox_has_one_guest_and_ends_after_an_hour() {
    let mut crowd = Crowd::new(10, 10);
    crowd.open(1, 1);
    assert_eq!(crowd.join(2, 8, 1), Some(Status::Open));
    assert_eq!(crowd.join(2, 9, 1), Some(Status::Taken));
    assert_eq!(crowd.join(3, 8, 1), Some(Status::Open), "the guest itself has moved");
    for _ in 0..3600 {
        assert_eq!(crowd.open(1, 1).number, 1);
        crowd.now += SECOND;
    }
    assert_eq!(crowd.ask(host(2), 8, (Side::Client, 1), (1, 0)).unwrap().status, Status::Gone);
}

// spec 10.24
#[test]
fn an_address_that_is_not_proven_leaves_nothing() {
    let mut crowd = Crowd::new(10, 10);
    for cookie in [[0; 16], crowd.cookie(host(2))] {
        for side in [Side::Client, Side::Server] {
            let ask = Ask { side, nonce: 5, cookie, number: 0, posted: 0, taken: 0, letter: None };
            let answer = crowd.say(host(1), 1, Body::Ask(ask)).unwrap();
            assert!(matches!(Message::decode(&answer).unwrap().body, Body::Retry { nonce: 5, .. }));
        }
    }
    assert_eq!(crowd.relay.mailboxes(), 0);
}

// spec 10.24
#[test]
fn a_network_has_its_share_of_mailboxes_and_a_flood_displaces_its_own() {
    let mut crowd = Crowd::new(100, 40);
    for token in 0..60 {
        let status = crowd.open(1, 1000 + token).status;
        assert_eq!(status, if token < 40 { Status::Open } else { Status::Full });
        crowd.now += SECOND / 10;
    }
    let victims: Vec<u64> = (1..=5).collect();
    let numbers: Vec<u32> = victims.iter().map(|token| crowd.open(9, *token).number).collect();
    for token in 0..400 {
        crowd.open(10 + u16::try_from(token % 4).unwrap(), 2000 + token);
        assert!(crowd.relay.mailboxes() <= 100);
    }
    for (token, number) in victims.iter().zip(numbers) {
        assert_eq!(crowd.open(9, *token).number, number);
    }
}

// spec 10.37
#[test]
fn a_network_that_asks_too_often_is_not_answered_and_others_are() {
    let mut crowd = Crowd::new(10, 10);
    crowd.open(1, 1);
    let cookie = crowd.cookie(host(1));
    let ask = Ask { side: Side::Server, nonce: 5, cookie, number: 1, posted: 0, taken: 0, letter: None };
    let answered = (0..2000).filter(|_| crowd.say(host(1), 1, Body::Ask(ask)).is_some()).count();
    assert_eq!(answered, 255);
    assert_eq!(crowd.relay.counters().limited, 2000 - 255);
    assert_eq!(crowd.open(2, 2).number, 2);
    crowd.now += SECOND;
    let answered = (0..2000).filter(|_| crowd.say(host(1), 1, Body::Ask(ask)).is_some()).count();
    assert_eq!(answered, 125);
}

// spec 10.37
#[test]
fn a_network_that_looks_for_codes_spoils_ten_and_one_more_in_six_seconds() {
    let mut crowd = Crowd::new(200, 100);
    for token in 0..100 {
        crowd.open(1, 1000 + token);
    }
    let mut spoilt = 0;
    for second in 0..50 {
        for number in 1..=100 {
            let guess = u64::from(number) + 10_000 * (second + 1);
            spoilt += usize::from(crowd.join(2, guess, number) == Some(Status::Open));
        }
        crowd.now += SECOND;
    }
    assert!(spoilt <= 19, "{spoilt}");
    assert_eq!(crowd.join(3, 1, 100), Some(Status::Open), "another network is not barred");
}

/// Both ends of a code at a server that relays, and addresses of theirs.
fn relaying(limits: ForwardLimits) -> (Crowd, [SocketAddr; 2]) {
    let limits = RelayLimits { forwarding: Some(limits), ..RelayLimits::default() };
    let relay = Relay::new(limits, &mut Rng::from_seed([6; 32]));
    let mut crowd = Crowd { relay, now: START };
    crowd.open(1, 1);
    crowd.join(2, 2, 1);
    (crowd, [host(1), host(2)])
}

impl Crowd {
    fn bind(&mut self, from: SocketAddr, token: u64, number: u32) -> bool {
        let cookie = self.cookie(from);
        let answer = self.say(from, token, Body::Bind { nonce: 5, cookie, number }).unwrap();
        let Body::Bound { nonce: 5, is_bound } = Message::decode(&answer).unwrap().body else { panic!() };
        is_bound
    }

    fn forward(&mut self, from: SocketAddr, length: usize) -> Option<SocketAddr> {
        match self.relay.forward(self.now, udp(from), &vec![0x40; length]) {
            Forwarding::To(tuple) => Some(tuple.remote),
            Forwarding::Later(_) | Forwarding::Nowhere => None,
        }
    }
}

// spec 10.27, 10.34, 10.43
#[test]
fn packets_go_between_two_ends_of_one_code_and_nowhere_else() {
    let (mut crowd, [owner, guest]) = relaying(ForwardLimits::default());
    crowd.open(3, 3);
    crowd.join(4, 4, 2);
    assert!(!crowd.bind(guest, 2, 2), "of another mailbox");
    assert!(crowd.bind(owner, 1, 1));
    assert_eq!(crowd.forward(owner, 100), None, "the other end has not bound yet");
    assert!(!crowd.bind(guest, 9, 1), "whoever has no mailbox");
    let (cookie, number) = (crowd.cookie(owner), 1);
    let answer = crowd.say(guest, 2, Body::Bind { nonce: 5, cookie, number }).unwrap();
    assert!(
        matches!(Message::decode(&answer).unwrap().body, Body::Retry { .. }),
        "the cookie of another address"
    );
    assert!(crowd.bind(guest, 2, 1));
    assert_eq!((crowd.forward(owner, 100), crowd.forward(guest, 100)), (Some(guest), Some(owner)));
    assert_eq!(crowd.forward(host(4), 100), None);
    assert_eq!(
        crowd.relay.forward(crowd.now, udp(owner), &[0, 0, 1]),
        Forwarding::Nowhere,
        "a message to the server"
    );
    // The guest moves. Its mailbox may be gone by then.
    crowd.leave(1, 1);
    assert!(crowd.bind(host(5), 2, 1));
    assert_eq!((crowd.forward(owner, 100), crowd.forward(guest, 100)), (Some(host(5)), None));
    // The address becomes an end of another pair.
    assert!(crowd.bind(host(5), 4, 2) && crowd.bind(host(3), 3, 2));
    assert_eq!((crowd.forward(owner, 100), crowd.forward(host(5), 100)), (None, Some(host(3))));
    // An end with IPv6 alone and one with IPv4 alone.
    let v6 = "[2001:db8::1]:1".parse().unwrap();
    assert!(crowd.bind(v6, 2, 1));
    assert_eq!((crowd.forward(owner, 100), crowd.forward(v6, 100)), (Some(v6), Some(owner)));
    // Over the same family where both ends have it.
    let owner_v6 = "[2001:db8::2]:1".parse().unwrap();
    assert!(crowd.bind(owner_v6, 1, 1) && crowd.bind(host(6), 2, 1));
    assert_eq!((crowd.forward(owner, 100), crowd.forward(v6, 100)), (Some(host(6)), Some(owner_v6)));
    // The guest has lost IPv4, and is heard over IPv6 alone.
    for _ in 0..7 {
        crowd.now += 10 * SECOND;
        assert!(crowd.bind(owner, 1, 1) && crowd.bind(v6, 2, 1));
    }
    assert_eq!(crowd.forward(owner, 100), Some(v6));
    // An operator that does not want it.
    let mut crowd = Crowd::new(10, 10);
    crowd.open(1, 1);
    crowd.join(2, 2, 1);
    assert!(!crowd.bind(owner, 1, 1) && !crowd.bind(guest, 2, 1));
    assert_eq!(crowd.forward(owner, 100), None);
}

// spec 10.28
#[test]
fn a_pair_has_its_bytes_its_rate_and_its_time() {
    let mut limits = ForwardLimits::default();
    (limits.pairs, limits.rate) = (1, Rate::from_bytes_per_second(1_000_000));
    let (mut crowd, [owner, guest]) = relaying(limits);
    assert!(crowd.bind(owner, 1, 1) && crowd.bind(guest, 2, 1));
    let mut passed = 0;
    for _ in 0..100 {
        passed += (0..100).filter(|_| crowd.forward(owner, 1000).is_some()).count();
        crowd.now += SECOND / 100;
    }
    assert!((1200..=1250).contains(&passed), "{passed}: a second, and a quarter at once");
    crowd.open(3, 3);
    crowd.join(4, 4, 2);
    assert!(!crowd.bind(host(3), 3, 2), "one pair at a time");
    // Data keeps an end; without any it is forgotten.
    crowd.now += 58 * SECOND;
    assert!(crowd.forward(owner, 1000).is_some());
    crowd.now += 59 * SECOND;
    assert_eq!((crowd.forward(owner, 1000), crowd.forward(guest, 1000)), (None, Some(owner)));
    for _ in 0..80 {
        crowd.now += 50 * SECOND;
        crowd.forward(guest, 1000);
        crowd.forward(owner, 1000);
    }
    assert_eq!((crowd.forward(owner, 1000), crowd.forward(guest, 1000)), (None, None), "an hour is over");
    limits.bytes = ByteCount(2500);
    let (mut crowd, [owner, guest]) = relaying(limits);
    assert!(crowd.bind(owner, 1, 1) && crowd.bind(guest, 2, 1));
    let passed = [owner, guest, owner].map(|from| crowd.forward(from, 1000).is_some());
    assert_eq!(passed, [true, true, false]);
    assert_eq!((crowd.relay.counters().forwarded, crowd.relay.counters().forwarded_bytes), (2, 2000));
}

// spec 10.25
#[test]
fn whoever_asks_is_told_from_where_and_nothing_is_kept() {
    let mut crowd = Crowd::new(10, 10);
    let answer = crowd.say(host(3), 7, Body::Observe { nonce: 9 }).unwrap();
    let Message { token, body } = Message::decode(&answer).unwrap();
    assert_eq!(token, self::token(7));
    assert_eq!(body, Body::Answer { nonce: 9, seen: host(3), sealed: None });
    assert_eq!((crowd.relay.tokens(), crowd.relay.mailboxes()), (0, 0));
}

// spec 10.49, 10.50, 10.51, 10.55
#[test]
fn records_go_to_records_and_wait_while_the_pair_is_at_its_rate() {
    let limits = ForwardLimits { rate: Rate::from_bytes_per_second(1_000_000), ..ForwardLimits::default() };
    let (mut crowd, [owner, guest]) = relaying(limits);
    let tcp = |from: SocketAddr| FourTuple::tcp(local(), from);
    let bind = |crowd: &mut Crowd, from: SocketAddr, token: u64| {
        let cookie = crowd.cookie(from);
        let (mut record, mut answer) = (Vec::new(), Vec::new());
        let body = Body::Bind { nonce: 5, cookie, number: 1 };
        Message { token: self::token(token), body }.encode(&mut Writer::new(&mut record, MAX_LEN));
        assert!(crowd.relay.handle_datagram(crowd.now, tcp(from), &record, &mut answer));
        matches!(Message::decode(&answer).unwrap().body, Body::Bound { is_bound: true, .. })
    };
    assert!(!bind(&mut crowd, owner, 1), "the other end is not there yet");
    assert!(crowd.bind(guest, 2, 1));
    assert_eq!(crowd.forward(guest, 100), None, "a datagram becomes no record");
    assert!(bind(&mut crowd, guest, 2) && bind(&mut crowd, owner, 1));
    let record = vec![0x40; 60_000];
    let mut passed = 0;
    let at = loop {
        match crowd.relay.forward(crowd.now, tcp(owner), &record) {
            Forwarding::To(to) => assert_eq!(to, tcp(guest)),
            Forwarding::Later(at) => break at,
            Forwarding::Nowhere => panic!("a record of a pair"),
        }
        passed += 1;
    };
    assert_eq!(passed, 4, "a quarter of a second at once");
    crowd.now = at;
    assert_eq!(crowd.relay.forward(crowd.now, tcp(owner), &record), Forwarding::To(tcp(guest)));
    // Another connection from the same address and port is no end of this pair.
    let elsewhere = LocalAddress { address: "198.51.100.2:4455".parse().unwrap(), ..local() };
    let stranger = FourTuple::tcp(elsewhere, owner);
    assert_eq!(crowd.relay.forward(crowd.now, stranger, &record), Forwarding::Nowhere);
    assert_eq!(crowd.relay.on_carrier_closed(stranger), None);
    crowd.now += SECOND;
    assert_eq!(crowd.relay.forward(crowd.now, tcp(owner), &record), Forwarding::To(tcp(guest)));
    // With one connection the other one ends, and both have to be bound again.
    assert_eq!(crowd.relay.on_carrier_closed(tcp(guest)), Some(tcp(owner)));
    assert!(!bind(&mut crowd, owner, 1));
    crowd.now += SECOND;
    assert_eq!(crowd.relay.forward(crowd.now, tcp(owner), &record), Forwarding::Nowhere);
}
