//! Handshakes that never complete, and honest ones beside them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::identity::{Identity, client_config};
use manyway_proto::{
    ClientConfig, ConnectionConfig, ConnectionError, ConnectionId, Ecn, Endpoint, EndpointConfig, Event,
    FourTuple, Instant, LocalAddress, LocalCandidate, Rng, Role,
};
use manyway_sim::forger::{SERVER, Stranger, first_flight};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::{EndpointPair, Node, PairBuilder, Side, client_identity, endpoint_pair, server_identity};
use manyway_wire::mmsp2::{Block, Blocks, Crypto, Ping, Syn};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(a: u8, b: u8, c: u8) -> SocketAddr {
    SocketAddr::from(([203, a, b, c], 1000))
}

fn give(server: &mut Endpoint, now: Instant, from: SocketAddr, datagram: &[u8]) {
    server.handle_datagram(now, Stranger::tuple(from), Ecn::NotEct, &mut datagram.to_vec());
}

/// Every datagram that the server sends until `until`, and the events of its application.
fn pass(server: &mut Endpoint, now: Instant, until: Instant) -> (Vec<Vec<u8>>, Vec<Event>) {
    let (mut sent, mut events, mut buffer, mut now) = (Vec::new(), Vec::new(), Vec::new(), now);
    loop {
        while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
            sent.extend(buffer.chunks(transmit.segment).map(<[u8]>::to_vec));
        }
        while let Some((_, event)) = server.poll_event() {
            events.push(event);
        }
        let Some(next) = server.poll_timeout().filter(|at| *at <= until) else { return (sent, events) };
        now = next;
        server.handle_timeout(now);
    }
}

fn size(sent: &[Vec<u8>]) -> usize {
    sent.iter().map(Vec::len).sum()
}

/// Whether any packet of the datagram has a short header.
fn has_data_packet(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Ok(packet) = manyway_wire::mmsp2::decode_protected(rest, 8) {
        if let manyway_wire::mmsp2::HeaderForm::Short { .. } = packet.form {
            return true;
        }
        rest = &rest[packet.length.min(rest.len())..];
    }
    false
}

/// A first flight with a valid INFO for its source.
fn proven_flight(stranger: &Stranger, server: &mut Endpoint, from: SocketAddr, number: u64) -> Vec<u8> {
    let ids = (Stranger::id(2 * number), Stranger::id(2 * number + 1));
    let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
    let syn = Stranger::open_packet(ids, 0, &[Block::Syn(Syn { info: &[] }), hello]);
    give(server, START, from, &syn);
    let (sent, _) = pass(server, START, START);
    let opened = Stranger::open_answer(&ids.0, sent.last().unwrap()).unwrap();
    let mut blocks = Blocks::new(&opened.payload).filter_map(Result::ok);
    let first = blocks.next().unwrap();
    let Block::SynAck(answer) = first else { return Vec::new() };
    Stranger::open_packet(ids, 1, &[Block::Ping(Ping { info: answer.info }), hello])
}

fn under_load(server: &mut Endpoint, stranger: &Stranger) {
    for number in 0..64_u8 {
        let ids = (Stranger::id(9000 + u64::from(number)), ConnectionId::from_u64(7));
        let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
        let syn = Stranger::open_packet(ids, 0, &[Block::Syn(Syn { info: &[] }), hello]);
        give(server, START, at(7, number, 7), &syn);
    }
    pass(server, START, START);
}

// spec 4.19, 7.56, 7.17
#[test]
fn a_client_that_never_authenticates_gets_no_data_at_most_threefold_bytes_and_ten_seconds() {
    let config = ConnectionConfig::default();
    let mut server = Stranger::server(&config);
    let flight = first_flight(1, &config);
    let mut received = 0;
    for datagram in &flight {
        give(&mut server, START, at(0, 0, 1), datagram);
        received += datagram.len();
    }
    assert_eq!(server.connections(), 1);
    let (sent, events) = pass(&mut server, START, START + 10 * SECOND);
    assert_eq!(server.connections(), 0, "at ten seconds nothing is left");
    assert!(size(&sent) <= 3 * received && !sent.iter().any(|datagram| has_data_packet(datagram)));
    assert_eq!(events, [Event::Closed(ConnectionError::ConnectTimeout)]);
}

// spec 4.19, 7.10, 7.17
#[test]
fn a_client_with_a_validated_address_that_never_authenticates_gets_the_flight_a_few_times() {
    let stranger = Stranger::new();
    let config = ConnectionConfig::default();
    let mut server = Stranger::server(&config);
    under_load(&mut server, &stranger);
    let flight = proven_flight(&stranger, &mut server, at(0, 0, 1), 1);
    give(&mut server, START, at(0, 0, 1), &flight);
    assert_eq!(server.connections(), 65);
    let (sent, events) = pass(&mut server, START, START + 10 * SECOND);
    assert_eq!(server.connections(), 0);
    assert!(!sent.iter().any(|datagram| has_data_packet(datagram)));
    // The handshake's probe timer doubles from 0.4 s: about 6 flights of two datagrams, beside those of the others.
    assert!(sent.len() <= 64 * 3 + 40, "{}", sent.len());
    assert!(events.iter().all(|event| *event == Event::Closed(ConnectionError::ConnectTimeout)));
}

// spec 7.10
#[test]
fn one_network_cannot_occupy_all_places_and_of_all_networks_the_oldest_is_evicted() {
    let stranger = Stranger::new();
    let mut server = Stranger::server(&ConnectionConfig::default());
    under_load(&mut server, &stranger);
    for number in 0..200_u8 {
        let flight = proven_flight(&stranger, &mut server, at(1, 1, number), 1000 + u64::from(number));
        give(&mut server, START, at(1, 1, number), &flight);
        pass(&mut server, START, START);
    }
    assert_eq!(server.connections(), 64 + 64, "one network");
    for number in 0..1500_u16 {
        let [b, c] = number.to_be_bytes();
        let flight = proven_flight(&stranger, &mut server, at(100 + b, c, 1), 3000 + u64::from(number));
        give(&mut server, START, at(100 + b, c, 1), &flight);
        pass(&mut server, START, START);
        assert!(server.connections() <= 1024, "{}", server.connections());
    }
    assert_eq!(server.connections(), 1024);
    pass(&mut server, START, START + 20 * SECOND);
    assert_eq!(server.connections(), 0);
}

// spec 7.24
#[test]
fn tls_bytes_far_ahead_or_fragmented_are_dropped_and_disturb_no_other() {
    let config = ConnectionConfig::default();
    let mut server = Stranger::server(&config);
    let flight = first_flight(1, &config);
    give(&mut server, START, at(0, 0, 1), &flight[0]);
    let destination = ConnectionId::from_slice(&flight[0][6..14]).unwrap();
    let source = ConnectionId::from_slice(&flight[0][15..23]).unwrap();
    let far = (0..40).map(|n| (16 << 10) + n * 1000);
    let crumbs = (0..1000).map(|n| 8000 + 2 * n);
    for (number, offset) in (100..).zip(far.chain(crumbs)) {
        let bytes = Block::Crypto(Crypto { offset, data: b"x" });
        let packet = Stranger::open_packet((destination, source), number, &[bytes]);
        give(&mut server, START, at(0, 0, 1), &packet);
    }
    assert_eq!(server.connections(), 1);
    for datagram in &flight[1..] {
        give(&mut server, START, at(0, 0, 1), datagram);
    }
    let (sent, events) = pass(&mut server, START, START + SECOND);
    assert!(sent.len() >= 2 && events.is_empty(), "{} {events:?}", sent.len());
}

/// A client that tries to connect from an address; returns the result, `None` for no answer within 3 s.
fn try_to_come_in(
    server: &mut Endpoint,
    now: &mut Instant,
    from: SocketAddr,
    identity: &Identity,
) -> Option<Result<(), ConnectionError>> {
    let tls = client_config(server_identity().public_key().hash(), identity);
    let server_name = "server.invalid".try_into().unwrap();
    let connection = Arc::new(ConnectionConfig::default());
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
    let mut client = Endpoint::new(EndpointConfig::default(), Rng::from_seed(seed));
    let local = LocalAddress { interface: 1, address: from };
    let locals = [LocalCandidate { address: local, role: Role::Primary }];
    client.connect(*now, &ClientConfig { tls, server_name, connection }, &locals, &[SERVER]).unwrap();
    let (until, mut buffer) = (*now + 3 * SECOND, Vec::new());
    let (mut result, mut connected) = (None, false);
    while *now < until && result.is_none() {
        while client.poll_transmit(*now, &mut buffer).is_some() {
            give(server, *now, from, &buffer.clone());
        }
        while let Some(transmit) = server.poll_transmit(*now, &mut buffer) {
            if transmit.tuple.remote == from {
                let tuple = FourTuple::udp(local, SERVER);
                client.handle_datagram(*now, tuple, Ecn::NotEct, &mut buffer.clone());
            }
        }
        while let Some((_, event)) = client.poll_event() {
            if let Event::Closed(error) = event {
                result = Some(Err(error));
            } else if event == Event::Connected {
                connected = true;
            }
        }
        while server.poll_event().is_some() {}
        *now += 10 * MS;
        client.handle_timeout(*now);
        server.handle_timeout(*now);
    }
    result.or_else(|| connected.then_some(Ok(())))
}

// spec 7.38
#[test]
fn guesses_of_a_ticket_get_no_answer_after_ten_and_one_more_every_six_seconds() {
    let mut server = Stranger::server(&ConnectionConfig::default());
    let mut now = START;
    let guess = |number: u8| Identity::from_ticket_secret(&[number; 16]);
    let is_refused = |result: &Option<Result<(), ConnectionError>>| {
        matches!(result, Some(Err(ConnectionError::Authentication { .. })))
    };
    for number in 0..10 {
        let result = try_to_come_in(&mut server, &mut now, at(5, 5, number), &guess(number));
        assert!(is_refused(&result), "{number} {result:?}");
    }
    let began = now;
    let mut refused = 0;
    while now < began + MINUTE {
        let result = try_to_come_in(&mut server, &mut now, at(5, 5, 77), &guess(77));
        assert!(result.is_none() || is_refused(&result), "{result:?}");
        refused += usize::from(result.is_some());
    }
    assert!((8..=11).contains(&refused), "{refused}");
    // The other networks are accepted all the time, and this one again, a little later.
    let honest = client_identity();
    assert_eq!(try_to_come_in(&mut server, &mut now, at(6, 6, 6), &honest), Some(Ok(())));
    now += 12 * SECOND;
    server.handle_timeout(now);
    assert_eq!(try_to_come_in(&mut server, &mut now, at(5, 5, 77), &honest), Some(Ok(())));
}

// spec 7.38, 7.40
#[test]
fn failed_hellos_from_forged_addresses_block_no_honest_client_there() {
    let mut server = Stranger::server(&ConnectionConfig::default());
    let mut hello = Stranger::new().hello().to_vec();
    // It asks for a certificate instead of a raw key, and the server has none.
    let asks_for = hello.windows(6).position(|bytes| bytes == [0, 20, 0, 2, 1, 2]).unwrap();
    hello[asks_for + 5] = 0;
    let (mut now, mut buffer) = (START, Vec::new());
    let mut refused = 0;
    for number in 0..40 {
        let ids = (Stranger::id(u64::from(number)), ConnectionId::from_u64(7));
        let hello = Block::Crypto(Crypto { offset: 0, data: &hello });
        let syn = Stranger::open_packet(ids, 0, &[Block::Syn(Syn { info: &[] }), hello]);
        give(&mut server, now, at(5, 5, number), &syn);
        while server.poll_transmit(now, &mut buffer).is_some() {
            let answer = Stranger::open_answer(&ids.0, &buffer).unwrap();
            let is_close = |block: &Result<Block<'_>, _>| matches!(block, Ok(Block::Close(_)));
            refused += Blocks::new(&answer.payload).filter(is_close).count();
        }
    }
    assert_eq!(refused, 40);
    let honest = client_identity();
    assert_eq!(try_to_come_in(&mut server, &mut now, at(5, 5, 77), &honest), Some(Ok(())));
}

/// A pair whose server permanently has 64 incomplete handshakes.
fn pair_under_load(paths: usize) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.connect_timeout = MINUTE;
    let builder = (0..paths).fold(PairBuilder::new(), |builder, _| builder.path(mbit(20), 10 * MS));
    let mut pair = endpoint_pair(builder, &config);
    let stranger = Stranger::new();
    for number in 0..64_u8 {
        let ids = (Stranger::id(9000 + u64::from(number)), ConnectionId::from_u64(7));
        let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
        let mut syn = Stranger::open_packet(ids, 0, &[Block::Syn(Syn { info: &[] }), hello]);
        let tuple = FourTuple::udp(pair.servers()[0], at(7, number, 7));
        let now = pair.now();
        pair.peer(Side::Server).unwrap().handle_datagram(now, tuple, Ecn::NotEct, &mut syn);
    }
    pair.run_for(MS).unwrap();
    assert_eq!(pair.peer(Side::Server).unwrap().endpoint().connections(), 64);
    pair
}

/// Waits until both ends are connected.
fn connects(pair: &mut EndpointPair, within: Duration) -> Duration {
    use manyway_sim::Peer;
    let start = pair.now();
    let both = |pair: &mut EndpointPair| {
        [Side::Client, Side::Server].into_iter().all(|side| pair.peer(side).unwrap().streams().is_some())
    };
    pair.run_until(within, "connected", both).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.now() - start
}

// spec 7.4, 4.13
#[test]
fn an_honest_client_connects_under_load_though_its_info_is_stale() {
    let mut pair = pair_under_load(1);
    pair.begin().unwrap();
    // The SYN-ACK arrives, but for twelve seconds the client's packets are lost.
    pair.run_for(15 * MS).unwrap();
    pair.cut(0, Direction::Up);
    pair.run_for(12 * SECOND).unwrap();
    pair.restore(0, Direction::Up);
    connects(&mut pair, 10 * SECOND);
}

// spec 7.4, 4.13
#[test]
fn an_honest_client_connects_under_load_though_the_first_answers_are_lost() {
    let mut pair = pair_under_load(1);
    pair.cut(0, Direction::Down);
    pair.begin().unwrap();
    pair.run_for(3 * SECOND).unwrap();
    pair.restore(0, Direction::Down);
    connects(&mut pair, 10 * SECOND);
}

// spec 7.4, 7.21
#[test]
fn an_honest_client_connects_under_load_by_another_candidate_than_the_answered_one() {
    let mut pair = pair_under_load(2);
    pair.begin().unwrap();
    pair.run_for(15 * MS).unwrap();
    pair.cut(0, Direction::Up);
    let took = connects(&mut pair, 10 * SECOND);
    assert!(took < 8 * SECOND, "{took:?}");
}
