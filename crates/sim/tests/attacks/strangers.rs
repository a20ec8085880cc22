//! Senders without keys: what they get, and what they cost.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{ConnectionConfig, ConnectionId, Ecn, Endpoint, Instant, Rng, Side};
use manyway_sim::forger::{Duel, Stranger, first_flight};
use manyway_wire::mmsp2::{Block, Blocks, Crypto, Ping, Syn};

const START: Instant = Instant::from_nanos(1_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn server() -> Endpoint {
    Stranger::server(&ConnectionConfig::default())
}

/// A source in a network of its own.
fn source(number: u32) -> SocketAddr {
    let [_, a, b, c] = number.to_be_bytes();
    SocketAddr::from(([11 + a, b, c, 7], 1000))
}

fn give(server: &mut Endpoint, now: Instant, from: SocketAddr, datagram: &[u8]) {
    server.handle_datagram(now, Stranger::tuple(from), Ecn::NotEct, &mut datagram.to_vec());
}

/// Every datagram that the server sends now, with where it goes.
fn answers(server: &mut Endpoint, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut sent, mut buffer) = (Vec::new(), Vec::new());
    while let Some(transmit) = server.poll_transmit(now, &mut buffer) {
        sent.extend(
            buffer.chunks(transmit.segment).map(|datagram| (transmit.tuple.remote, datagram.to_vec())),
        );
    }
    while server.poll_event().is_some() {}
    sent
}

/// Lets time pass, and counts the sent packets.
fn pass(server: &mut Endpoint, now: Instant, time: Duration) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut sent = answers(server, now);
    while let Some(at) = server.poll_timeout().filter(|at| *at <= now + time) {
        server.handle_timeout(at);
        sent.extend(answers(server, at));
    }
    sent
}

fn ids(number: u64) -> (ConnectionId, ConnectionId) {
    (Stranger::id(2 * number), Stranger::id(2 * number + 1))
}

fn syn(stranger: &Stranger, number: u64) -> Vec<u8> {
    let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
    Stranger::open_packet(ids(number), 0, &[Block::Syn(Syn { info: &[] }), hello])
}

fn info_in(original_destination: &ConnectionId, datagram: &[u8]) -> Option<Vec<u8>> {
    let opened = Stranger::open_answer(original_destination, datagram)?;
    let info = Blocks::new(&opened.payload)
        .filter_map(Result::ok)
        .find_map(|block| if let Block::SynAck(block) = block { Some(block.info.to_vec()) } else { None });
    info.filter(|info| !info.is_empty())
}

fn ping(stranger: &Stranger, number: u64, packet: u64, info: &[u8]) -> Vec<u8> {
    let hello = Block::Crypto(Crypto { offset: 0, data: stranger.hello() });
    Stranger::open_packet(ids(number), packet, &[Block::Ping(Ping { info }), hello])
}

/// A server with 64 incomplete handshakes of others.
fn server_under_load(stranger: &Stranger) -> Endpoint {
    let mut server = server();
    for number in 0..64 {
        give(&mut server, START, source(900_000 + number), &syn(stranger, 1_000_000 + u64::from(number)));
    }
    answers(&mut server, START);
    assert_eq!(server.connections(), 64);
    server
}

// spec 7.10, 7.12
#[test]
fn a_syn_flood_from_100_000_sources_leaves_64_handshakes_and_is_answered_by_less_than_it_brings() {
    let stranger = Stranger::new();
    let mut server = server();
    let (mut bytes, mut packets, mut most, mut received) = (0, 0, 0, 0);
    // 100 000 in a second.
    for number in 0..100_000_u32 {
        let now = START + Duration::from_micros(u64::from(number) * 10);
        let datagram = syn(&stranger, u64::from(number));
        received += datagram.len();
        give(&mut server, now, source(number), &datagram);
        for (_, answer) in answers(&mut server, now) {
            bytes += answer.len();
            packets += 1;
        }
        most = most.max(server.connections());
    }
    assert_eq!(most, 64, "no state for the others");
    // Two calendar seconds are touched; each gives at most 10 to every cell of the table and 1000 beyond.
    assert!(packets <= 64 * 3 + 2 * (4096 * 10 + 1000), "{packets}");
    assert!(bytes * 5 < received, "{bytes} for {received}");
    let later = pass(&mut server, START + SECOND, 20 * SECOND);
    assert!(later.iter().map(|(_, answer)| answer.len()).sum::<usize>() <= 64 * 3 * 1200);
    assert_eq!(server.connections(), 0, "forgotten in the end");
}

// spec 7.12
#[test]
fn a_server_under_load_answers_a_network_ten_times_a_second_and_all_a_thousand_times_more() {
    let stranger = Stranger::new();
    let mut server = server_under_load(&stranger);
    let now = START + SECOND;
    let mut count = |sources: &mut dyn Iterator<Item = SocketAddr>| {
        let mut given = 0;
        for (number, source) in sources.enumerate() {
            give(&mut server, now, source, &syn(&stranger, number as u64));
            let answers = answers(&mut server, now);
            assert!(answers.iter().all(|(to, answer)| *to == source && answer.len() < 200));
            given += answers.len();
        }
        given
    };
    let victim = |number: u32| SocketAddr::from(([192, 0, 2, u8::try_from(number % 250).unwrap()], 53));
    assert_eq!(count(&mut (0..5000).map(victim)), 1010, "a victim in one network hears so much of it");
    assert!(count(&mut (0..300).map(source)) >= 290, "the others still get their share");
}

// spec 7.10, 7.11
#[test]
fn info_for_another_address_or_too_old_validates_nothing_and_is_answered_by_another() {
    let stranger = Stranger::new();
    let mut server = server_under_load(&stranger);
    give(&mut server, START, source(1), &syn(&stranger, 1));
    let info = info_in(&ids(1).0, &answers(&mut server, START)[0].1).unwrap();
    // Another address, another port, other IDs, one bit: none is accepted, each is answered by INFO alone.
    let mut bent = info.clone();
    bent[20] ^= 1;
    let port = SocketAddr::new(source(1).ip(), 1001);
    let attempts = [(source(2), 1, &info), (port, 1, &info), (source(1), 2, &info), (source(1), 1, &bent)];
    for (packet, (from, number, info)) in (1..).zip(attempts) {
        give(&mut server, START, from, &ping(&stranger, number, packet, info));
        let answers = answers(&mut server, START);
        assert_eq!((answers.len(), server.connections()), (1, 64), "{from} {number}");
        assert!(answers[0].1.len() < 200 && info_in(&ids(number).0, &answers[0].1).is_some());
    }
    // spec 4.13: each answer has the number of its request, so that the client accepts every one
    give(&mut server, START, source(1), &syn(&stranger, 1));
    let again = Stranger::open_answer(&ids(1).0, &answers(&mut server, START)[0].1).unwrap();
    assert_eq!(again.number, 0);
    let late = START + 9 * SECOND;
    pass(&mut server, START, 9 * SECOND);
    give(&mut server, late, source(1), &ping(&stranger, 1, 9, &info));
    assert_eq!(server.connections(), 65, "nine seconds later it is good");
}

// spec 7.8
#[test]
fn used_info_begins_nothing_again_while_it_is_valid() {
    let stranger = Stranger::new();
    let mut server = server_under_load(&stranger);
    give(&mut server, START, source(1), &syn(&stranger, 1));
    let info = info_in(&ids(1).0, &answers(&mut server, START)[0].1).unwrap();
    // A ClientHello that TLS refuses: the handshake ends at once.
    let data = [1, 0, 0, 4, 9, 9, 9, 9];
    let bad = [Block::Ping(Ping { info: &info }), Block::Crypto(Crypto { offset: 0, data: &data })];
    let flight = Stranger::open_packet(ids(1), 1, &bad);
    give(&mut server, START, source(1), &flight);
    assert_eq!(server.connections(), 65);
    pass(&mut server, START, 5 * SECOND);
    assert_eq!(server.connections(), 64, "it has ended");
    for later in [5, 7, 9] {
        let now = START + later * SECOND;
        give(&mut server, now, source(1), &flight);
        assert_eq!(answers(&mut server, now), [], "a replay within the life of its INFO");
        assert_eq!(server.connections(), 64);
    }
    // Later it comes from an unvalidated address: under the amplification limit.
    let now = START + 12 * SECOND;
    pass(&mut server, START + 9 * SECOND, 3 * SECOND);
    give(&mut server, now, source(1), &flight);
    let sent: usize = pass(&mut server, now, 20 * SECOND).iter().map(|(_, answer)| answer.len()).sum();
    assert!(sent <= 3 * flight.len(), "{sent}");
}

/// Answers to unknown senders: the promise of SECURITY.md, row by row.
// spec 4.3, 4.10, 4.11, 7.7, 7.9
#[test]
fn an_unknown_sender_is_answered_for_a_first_flight_and_an_unknown_version_only() {
    let stranger = Stranger::new();
    let real = syn(&stranger, 1);
    let mut rng = Rng::from_seed([4; 32]);
    let mut random = |length: usize| {
        let mut bytes = vec![0; length];
        rng.fill(&mut bytes);
        bytes
    };
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = real.clone();
        change(&mut datagram);
        datagram
    };
    let mut rows: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("a first flight in 1199 bytes", with(&|d| d.truncate(1199))),
        ("a damaged first flight", with(&|d| d[600] ^= 1)),
        ("a damaged header", with(&|d| d[3] ^= 0x10)[..1199].to_vec()),
        ("a destination of 7 bytes", with(&|d| d[5] = 7)),
        ("a Handshake packet", with(&|d| d[0] = d[0] & 0xcf | 0x10)),
        ("an early packet", with(&|d| d[0] = d[0] & 0xcf | 0x20)),
        ("a reserved type", with(&|d| d[0] |= 0x30)),
        ("the fixed bit clear", with(&|d| d[0] &= 0xbf)),
        ("a version list", with(&|d| d[1..5].fill(0))),
        ("an unknown version in a small datagram", [&[0xc0, 9, 9, 9, 9, 8][..], &[7; 100]].concat()),
        ("MMSP/1", [&[0, 1, 0, 2][..], &[0; 1300]].concat()),
    ];
    rows.extend((1..1500).map(|length| ("random bytes", random(length))));
    rows.extend((20..1500).step_by(7).map(|length| {
        let mut short = random(length);
        short[0] = short[0] & 0x1f | 0x40;
        ("a short header with an unknown id", short)
    }));
    for side in [Some(server()), None] {
        let mut endpoint = side.unwrap_or_else(|| Endpoint::new(<_>::default(), Rng::from_seed([1; 32])));
        for (name, datagram) in &rows {
            // Random bytes of an unknown version are a row of their own, below.
            if *name == "random bytes" && datagram.len() >= 1200 && datagram[0] & 0x80 != 0 {
                continue;
            }
            give(&mut endpoint, START, source(1), datagram);
            assert_eq!(answers(&mut endpoint, START), [], "{name} of {} bytes", datagram.len());
            assert_eq!(endpoint.connections(), 0, "{name}");
        }
    }
    let mut server = server();
    let unknown = with(&|d| d[4] ^= 0x55);
    give(&mut server, START, source(1), &unknown);
    let list = answers(&mut server, START);
    assert_eq!((list.len(), server.connections()), (1, 0));
    assert!(list[0].1.len() < 40 && list[0].1[1..5] == [0; 4], "{list:?}");
    // Garbage after a good first packet changes nothing about it.
    let mut followed = with(&|_| {});
    followed.extend_from_slice(&[0x5a; 60]);
    give(&mut server, START, source(1), &followed);
    let sent: usize = pass(&mut server, START, 20 * SECOND).iter().map(|(_, answer)| answer.len()).sum();
    assert!(sent > 0 && sent <= 3 * followed.len(), "{sent}");
}

// spec 4.11
#[test]
fn a_reset_answers_only_issued_ids_is_smaller_than_its_cause_and_rate_limited() {
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let packet = duel.packet(manyway_proto::PathId::FIRST, &[Block::AckNow]);
    // The server was restarted: it has its key and nothing else.
    let mut server = server();
    let mut padded = packet;
    padded.resize(1200, 7);
    for length in 1..padded.len() {
        give(&mut server, START, source(1), &padded[..length]);
        for (to, reset) in answers(&mut server, START) {
            assert!(to == source(1) && reset.len() < length && (21..=43).contains(&reset.len()));
        }
    }
    let mut count = |now: Instant| {
        let mut given = 0;
        for _ in 0..5000 {
            give(&mut server, now, source(2), &padded);
            given += answers(&mut server, now).len();
        }
        given
    };
    assert_eq!([count(START + SECOND), count(START + 2 * SECOND)], [1000, 1000]);
    assert_eq!(server.connections(), 0);
}

// spec 4.11
#[test]
fn two_ends_that_lost_their_state_do_not_answer_resets_for_ever() {
    let mut ends = [server(), server()];
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let mut datagram = duel.packet(manyway_proto::PathId::FIRST, &[Block::AckNow]);
    let mut turns = 0;
    loop {
        let end = &mut ends[turns % 2];
        give(end, START, source(1), &datagram);
        let Some((_, answer)) = answers(end, START).pop() else { break };
        datagram = answer;
        turns += 1;
    }
    assert!(turns <= 23, "{turns}");
}

// spec 7.7, 7.9: the first flight of a real client, for comparison
#[test]
fn a_real_first_flight_is_answered() {
    let mut server = server();
    let flight = first_flight(1, &ConnectionConfig::default());
    for datagram in &flight {
        give(&mut server, START, source(1), datagram);
    }
    assert!(!answers(&mut server, START).is_empty());
    assert_eq!(server.connections(), 1);
}
