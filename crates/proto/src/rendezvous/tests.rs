//! Both ends and a relay, without a network between them.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::rendezvous::{Body, Message, REQUEST_LEN, SEALED_LEN};
use manyway_wire::{Side, Writer};

use super::secrets::SECRET_LEN;
use super::{Learnt, Relay, RelayLimits, RendezvousClient, Secrets};
use crate::{FourTuple, Instant, LocalAddress, Rng, Shard};

const SECOND: Duration = Duration::from_secs(1);
const START: Instant = Instant::from_nanos(1_000_000_000);
const RELAY: &str = "198.51.100.1:4455";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn socket(text: &str) -> LocalAddress {
    LocalAddress { interface: 1, address: address(text) }
}

/// A datagram from that address to the relay.
fn udp(from: SocketAddr) -> FourTuple {
    FourTuple::udp(socket(RELAY), from)
}

fn derived() -> [u8; SECRET_LEN] {
    let mut derived = [0; SECRET_LEN];
    Rng::from_seed([4; 32]).fill(&mut derived);
    derived
}

/// One of several endpoints on a port: answers have to come back to it.
fn shard() -> Shard {
    Shard::new(2, 3).unwrap()
}

fn meeting(side: Side, relays: &[&str]) -> RendezvousClient {
    let relays: Vec<_> = relays.iter().map(|relay| address(relay)).collect();
    RendezvousClient::new(START, (side, shard()), Secrets::new(side, &derived()).unwrap(), &relays)
}

struct Scene {
    relay: Relay,
    rng: Rng,
    now: Instant,
    /// The external address of an end behind a NAT, as the relay sees it.
    translated: Option<SocketAddr>,
    /// Datagrams sent to the relay.
    requests: usize,
}

impl Scene {
    fn new() -> Self {
        let mut rng = Rng::from_seed([5; 32]);
        let relay = Relay::new(RelayLimits::default(), &mut rng);
        Self { relay, rng, now: START, translated: None, requests: 0 }
    }

    /// Exchanges all messages between an end and the relay; returns the addresses that the end learnt last.
    fn carry(&mut self, end: &mut RendezvousClient) -> Option<Vec<SocketAddr>> {
        let (mut buffer, mut answer, mut learnt) = (Vec::new(), Vec::new(), None);
        while let Some(tuple) = end.poll_transmit(self.now, &mut self.rng, &mut buffer) {
            self.requests += 1;
            let from = self.translated.unwrap_or(tuple.local.address);
            if self.relay.handle_datagram(self.now, udp(from), &buffer, &mut answer) {
                assert!(answer.len() <= buffer.len(), "no answer is larger than its request");
                assert_eq!(shard().of_datagram(&answer), shard().index());
                let message = Message::decode(&answer).unwrap();
                if let Learnt::PeerIsAt(addresses) = end.on_message(self.now, tuple.remote, &message.body) {
                    learnt = Some(addresses);
                }
            }
            buffer.clear();
        }
        learnt
    }
}

// spec 10.4, 10.7
#[test]
fn two_ends_that_both_migrated_learn_each_others_new_addresses() {
    let mut scene = Scene::new();
    let (mut client, mut server) = (meeting(Side::Client, &[RELAY]), meeting(Side::Server, &[RELAY]));
    for generation in 1..4_u16 {
        let of = |host: u8| SocketAddr::from(([192, 0, 2, host], 1000 + generation));
        client.set_own(&[socket(&of(1).to_string())], &[of(1)]);
        server.set_own(&[socket(&of(2).to_string())], &[of(2), of(3)]);
        scene.carry(&mut client);
        assert_eq!(scene.carry(&mut server), Some(vec![of(1)]));
        client.set_pathless(scene.now, true);
        assert_eq!(scene.carry(&mut client), None, "the request came too early");
        scene.now += SECOND / 2;
        assert_eq!(scene.carry(&mut client), Some(vec![of(2), of(3)]));
        client.set_pathless(scene.now, false);
        scene.now += SECOND * 30;
        // A request, and an answer without news.
        assert_eq!(scene.carry(&mut client), None);
    }
}

// spec 10.16
#[test]
fn a_connection_without_a_path_sends_requests_ever_more_rarely_and_a_healthy_one_every_30_s() {
    let mut scene = Scene::new();
    let mut end = meeting(Side::Client, &[RELAY]);
    end.set_own(&[socket("192.0.2.1:1")], &[address("192.0.2.1:1")]);
    scene.carry(&mut end);
    assert_eq!(end.deadline(), Some(START + 30 * SECOND));
    scene.now += SECOND * 3;
    end.set_pathless(scene.now, true);
    let mut waits = Vec::new();
    for _ in 0..8 {
        let at = end.deadline().unwrap();
        waits.push((at - scene.now).as_millis());
        scene.now = at;
        scene.carry(&mut end);
    }
    assert_eq!(waits, [500, 500, 1000, 2000, 5000, 10_000, 10_000, 10_000]);
    end.set_pathless(scene.now, false);
    scene.now = end.deadline().unwrap();
    scene.carry(&mut end);
    assert_eq!(end.deadline(), Some(scene.now + 30 * SECOND));
}

// spec 10.16
#[test]
fn a_dead_rendezvous_server_is_tried_every_30_s_in_the_end() {
    let mut end = meeting(Side::Client, &[RELAY]);
    end.set_own(&[socket("192.0.2.1:1"), socket("192.0.2.7:1")], &[address("192.0.2.1:1")]);
    let (mut now, mut sent, mut rng) = (START, 0, Rng::from_seed([1; 32]));
    while now < START + 600 * SECOND {
        let mut buffer = Vec::new();
        while end.poll_transmit(now, &mut rng, &mut buffer).is_some() {
            sent += std::mem::take(&mut buffer).len();
        }
        now = end.deadline().unwrap();
    }
    assert_eq!(sent / (2 * REQUEST_LEN), 25);
}

// spec 10.5
#[test]
fn the_external_address_behind_a_nat_is_registered_too() {
    let mut scene = Scene::new();
    let (mut client, mut server) = (meeting(Side::Client, &[RELAY]), meeting(Side::Server, &[RELAY]));
    scene.translated = Some(address("203.0.113.9:777"));
    server.set_own(&[socket("10.0.0.5:4455")], &[address("10.0.0.5:4455")]);
    scene.carry(&mut server);
    // For the cookie, with the cookie, and with the external address.
    assert_eq!(scene.requests, 3);
    scene.translated = None;
    client.set_own(&[socket("192.0.2.1:1")], &[address("192.0.2.1:1")]);
    let learnt = scene.carry(&mut client).unwrap();
    assert_eq!(learnt, [address("10.0.0.5:4455"), address("203.0.113.9:777")]);
}

// spec 10.12
#[test]
fn a_relay_with_ever_new_answers_gets_three_requests_in_a_round() {
    let mut end = meeting(Side::Client, &[RELAY]);
    end.set_own(&[socket("192.0.2.1:1")], &[address("192.0.2.1:1")]);
    let (mut rng, mut requests) = (Rng::from_seed([1; 32]), 0_u16);
    loop {
        let mut buffer = Vec::new();
        let Some(tuple) = end.poll_transmit(START, &mut rng, &mut buffer) else { break };
        requests += 1;
        let Body::Request { nonce, .. } = Message::decode(&buffer).unwrap().body else { panic!() };
        let seen = ([203, 0, 113, 1], requests).into();
        end.on_message(START, tuple.remote, &Body::Answer { nonce, seen, sealed: None });
    }
    assert_eq!(requests, 3);
}

fn request(end: &mut RendezvousClient, now: Instant) -> (u64, FourTuple) {
    let mut buffer = Vec::new();
    let tuple = end.poll_transmit(now, &mut Rng::from_seed([9; 32]), &mut buffer).unwrap();
    let Body::Request { nonce, .. } = Message::decode(&buffer).unwrap().body else { panic!() };
    (nonce, tuple)
}

// spec 10.15
#[test]
fn forged_damaged_and_old_addresses_change_nothing() {
    let server = Secrets::new(Side::Server, &derived()).unwrap();
    let client = Secrets::new(Side::Client, &derived()).unwrap();
    let at = [address("192.0.2.2:4455")];
    let newest = server.seal(7, &at).unwrap();
    let mut end = meeting(Side::Client, &[RELAY]);
    end.set_own(&[socket("192.0.2.1:1")], &[address("192.0.2.1:1")]);
    let seen = address("192.0.2.1:1");
    let mut take = |sealed: &[u8; SEALED_LEN]| {
        let now = end.deadline().unwrap();
        let (nonce, tuple) = request(&mut end, now);
        end.on_message(now, tuple.remote, &Body::Answer { nonce, seen, sealed: Some(sealed) })
    };
    for at_byte in [0, 7, 8, 9, 100, SEALED_LEN - 1] {
        let mut damaged = newest;
        damaged[at_byte] ^= 1;
        assert_eq!(take(&damaged), Learnt::Nothing, "byte {at_byte}");
    }
    // Sealed by the client itself, and by another connection's server.
    assert_eq!(take(&client.seal(9, &at).unwrap()), Learnt::Nothing);
    let foreign = Secrets::new(Side::Server, &[1; SECRET_LEN]).unwrap();
    assert_eq!(take(&foreign.seal(9, &at).unwrap()), Learnt::Nothing);
    assert_eq!(take(&newest), Learnt::PeerIsAt(at.to_vec()));
    assert_eq!(take(&newest), Learnt::PeerStaysAt(at.to_vec()));
    for old in [6, 1] {
        assert_eq!(take(&server.seal(old, &at).unwrap()), Learnt::Nothing);
    }
    assert_eq!(take(&server.seal(8, &at).unwrap()), Learnt::PeerIsAt(at.to_vec()));
}

// spec 10.15
#[test]
fn an_answer_counts_once_and_only_from_the_server_of_the_request() {
    let server = Secrets::new(Side::Server, &derived()).unwrap();
    let sealed = server.seal(7, &[address("192.0.2.2:4455")]).unwrap();
    let mut end = meeting(Side::Client, &[RELAY]);
    let own = address("192.0.2.1:1");
    end.set_own(&[socket("192.0.2.1:1")], &[own]);
    let (nonce, tuple) = request(&mut end, START);
    let answer = |nonce| Body::Answer { nonce, seen: own, sealed: Some(&sealed) };
    assert_eq!(end.on_message(START, address("198.51.100.1:4456"), &answer(nonce)), Learnt::Nothing);
    assert_eq!(end.on_message(START, tuple.remote, &answer(nonce ^ 1)), Learnt::Nothing);
    assert_eq!(end.on_message(START, tuple.remote, &Body::Knock), Learnt::Nothing);
    assert!(matches!(end.on_message(START, tuple.remote, &answer(nonce)), Learnt::PeerIsAt(_)));
    assert_eq!(end.on_message(START, tuple.remote, &answer(nonce)), Learnt::Nothing);
}

// spec 10.9
#[test]
fn each_address_of_a_client_gets_one_knock_without_content() {
    let mut end = meeting(Side::Server, &[RELAY, "[2001:db8::9]:1"]);
    end.set_own(&[socket("0.0.0.0:4455"), socket("[::]:4455")], &[]);
    let mut scene = Scene::new();
    scene.carry(&mut end);
    let remotes: Vec<_> = (1..=9).map(|port| SocketAddr::from(([192, 0, 2, 1], port))).collect();
    end.knock(&remotes);
    let mut reached = Vec::new();
    let mut buffer = Vec::new();
    while let Some(tuple) = end.poll_transmit(scene.now, &mut scene.rng, &mut buffer) {
        assert_eq!(Message::decode(&buffer), Ok(Message { token: [0; 16], body: Body::Knock }));
        assert!(tuple.local.address.is_ipv4());
        reached.push(tuple.remote);
        buffer.clear();
    }
    reached.sort_unstable();
    assert_eq!(reached, remotes[..8]);
}

/// A relay and its clients.
struct Crowd {
    relay: Relay,
    now: Instant,
}

impl Crowd {
    fn new(tokens: usize, tokens_of_network: usize) -> Self {
        let limits = RelayLimits { tokens, tokens_of_network, ..RelayLimits::default() };
        Self { relay: Relay::new(limits, &mut Rng::from_seed([6; 32])), now: START }
    }

    fn say(&mut self, from: SocketAddr, token: u64, side: Side, cookie: [u8; 16]) -> Vec<u8> {
        let mut full = [0; 16];
        *full.last_chunk_mut().unwrap() = token.to_be_bytes();
        let sealed = &[u8::from(side == Side::Client); SEALED_LEN];
        let body = Body::Request { side, nonce: 5, cookie, sealed };
        let mut datagram = Vec::new();
        Message { token: full, body }.encode(&mut Writer::new(&mut datagram, REQUEST_LEN));
        let mut answer = Vec::new();
        assert!(self.relay.handle_datagram(self.now, udp(from), &datagram, &mut answer));
        answer
    }

    /// Sends a request as a client that receives at `from`; true if the other end's addresses came back.
    fn request(&mut self, from: SocketAddr, token: u64, side: Side) -> bool {
        let answer = self.say(from, token, side, [0; 16]);
        let Body::Retry { cookie, .. } = Message::decode(&answer).unwrap().body else { panic!() };
        let answer = self.say(from, token, side, cookie);
        let Body::Answer { sealed, seen, .. } = Message::decode(&answer).unwrap().body else { panic!() };
        assert_eq!(seen, from);
        sealed.is_some()
    }
}

fn host(network: u16) -> SocketAddr {
    let [high, low] = network.to_be_bytes();
    ([10, high, low, 1], 1).into()
}

// spec 10.10
#[test]
fn a_client_that_does_not_receive_leaves_no_state() {
    let mut crowd = Crowd::new(10, 10);
    for token in 0..1000 {
        crowd.say(host(1), token, Side::Client, [7; 16]);
    }
    assert_eq!((crowd.relay.tokens(), crowd.relay.counters().retried), (0, 1000));
    // A cookie is valid only at the address that it was issued to.
    let answer = crowd.say(host(1), 1, Side::Client, [0; 16]);
    let Body::Retry { cookie, .. } = Message::decode(&answer).unwrap().body else { panic!() };
    let other_port = SocketAddr::new(host(1).ip(), 2);
    for from in [host(2), other_port] {
        crowd.say(from, 1, Side::Client, cookie);
        assert_eq!(crowd.relay.tokens(), 0);
    }
    crowd.say(host(1), 1, Side::Client, cookie);
    assert_eq!(crowd.relay.tokens(), 1);
}

// spec 10.10
#[test]
fn unused_tokens_are_forgotten_after_three_minutes() {
    let mut crowd = Crowd::new(10, 10);
    crowd.request(host(1), 1, Side::Client);
    crowd.request(host(1), 2, Side::Client);
    crowd.now += 120 * SECOND;
    // A request of either end keeps the token.
    assert!(crowd.request(host(2), 1, Side::Server));
    crowd.now += 60 * SECOND;
    assert!(!crowd.request(host(2), 2, Side::Server));
    assert!(crowd.request(host(1), 1, Side::Client));
}

// spec 10.13
#[test]
fn a_flood_displaces_its_own_tokens_and_not_those_in_use() {
    let mut crowd = Crowd::new(1000, 400);
    let victims: Vec<u64> = (1..=50).collect();
    for token in &victims {
        crowd.request(host(1), *token, Side::Server);
    }
    // Five networks request ten times the capacity; the victims send nothing meanwhile.
    for token in 1000..11_000_u64 {
        let network = 100 + u16::try_from(token % 5).unwrap();
        crowd.request(host(network), token, Side::Client);
        assert!(crowd.relay.tokens() <= 1000);
    }
    assert!(victims.iter().all(|token| crowd.request(host(2), *token, Side::Client)));
    assert!(crowd.relay.counters().evicted >= 9000);
}

// spec 10.13
#[test]
fn one_network_has_its_share_and_no_more() {
    let mut crowd = Crowd::new(1000, 40);
    for token in 0..100 {
        crowd.request(host(1), token, Side::Client);
    }
    assert_eq!(crowd.relay.tokens(), 40);
    assert!(!crowd.request(host(2), 59, Side::Server));
    assert!(crowd.request(host(2), 99, Side::Server));
}
