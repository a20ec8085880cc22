//! A peer that aims this host at third parties: by advertising addresses, by opening paths from forged ones, and by
//! moving.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{
    ConnectionConfig, Instant, LocalAddress, LocalCandidate, PathId, PathReason, Role, Side,
};
use manyway_sim::forger::{CLIENT, Duel, SERVER, Sent};
use manyway_wire::mmsp2::{
    AddAddress, Block, PathAvailability, PathStatus, Probe, RemoveAddress, StreamData,
};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A duel whose victim is a client with a second interface that looks for a route to the server.
fn client_that_looks() -> Duel {
    let mut duel = Duel::new(Side::Client, &ConnectionConfig::default());
    let locals =
        [(1, CLIENT), (2, SocketAddr::from(([203, 0, 113, 2], 1000)))].map(|(interface, address)| {
            LocalCandidate { address: LocalAddress { interface, address }, role: Role::Primary }
        });
    let now = duel.now;
    duel.connection().set_local_addresses(now, &locals);
    duel
}

fn add(id: u64, sequence: u64, address: SocketAddr) -> Block<'static> {
    Block::AddAddress(AddAddress { id, sequence, priority: 0, cost: 0, address })
}

fn victim(number: u64) -> SocketAddr {
    let [.., a, b] = number.to_be_bytes();
    SocketAddr::from(([192, 1, a, b], 4433))
}

/// When each address that is not the server's was first probed, and bytes to all of them, IP and UDP headers included.
fn to_others(sent: &[Sent]) -> (BTreeMap<Instant, SocketAddr>, usize) {
    let mut first: BTreeMap<SocketAddr, Instant> = BTreeMap::new();
    let others = || sent.iter().filter(|sent| ![SERVER, CLIENT].contains(&sent.to));
    for sent in others() {
        first.entry(sent.to).or_insert(sent.at);
    }
    let bytes = others().map(|sent| sent.bytes.len() + 28).sum();
    (first.into_iter().map(|(address, at)| (at, address)).collect(), bytes)
}

fn keeps_its_distance(asked: &BTreeMap<Instant, SocketAddr>) -> bool {
    let at: Vec<_> = asked.keys().collect();
    at.windows(2).all(|pair| *pair[1] - *pair[0] >= 50 * MS)
}

// spec 6.6, 6.35
#[test]
fn of_a_thousand_addresses_eight_are_probed_one_in_50_ms_with_20_kilobytes_a_minute() {
    let mut duel = client_that_looks();
    let mut sent = Vec::new();
    for round in 0..100 {
        let blocks: Vec<_> = (0..10).map(|n| add(round * 10 + n, 1, victim(round * 10 + n))).collect();
        sent.extend(duel.send(&blocks));
    }
    sent.extend(duel.converse_for(MINUTE));
    assert_eq!(duel.ended(), None);
    let (asked, bytes) = to_others(&sent);
    assert!((1..=8).contains(&asked.len()) && keeps_its_distance(&asked), "{asked:?}");
    assert!(bytes <= 2 * 20_000, "a bucket that is full, and what leaks in a minute: {bytes}");
    assert_eq!(
        duel.connection().remote_addresses().len(),
        9,
        "eight, and the one that the application named"
    );
    let (_, later) = to_others(&duel.converse_for(MINUTE));
    assert!(later <= 20_000, "{later}");
}

// spec 6.35
#[test]
fn rapidly_changing_addresses_cannot_be_used_to_flood_or_to_scan() {
    let mut duel = client_that_looks();
    let mut sent = Vec::new();
    for number in 0..6000 {
        let gone = Block::RemoveAddress(RemoveAddress { id: number, sequence: 2 });
        sent.extend(duel.send(&[add(number, 1, victim(number))]));
        sent.extend(duel.converse_for(10 * MS));
        sent.extend(duel.send(&[gone]));
    }
    let (asked, bytes) = to_others(&sent);
    assert_eq!(duel.ended(), None);
    assert!(keeps_its_distance(&asked));
    assert!(asked.len() <= 400, "{} in a minute", asked.len());
    assert!(bytes <= 2 * 20_000, "{bytes}");
    assert!(duel.events.len() < 20_000, "{}", duel.events.len());
}

// spec 6.35, 6.113
#[test]
fn pings_and_path_reports_send_nothing_beyond_the_budget_to_an_address_that_the_peer_named() {
    let mut duel = Duel::new(Side::Client, &ConnectionConfig::default());
    // The second interface has no other address to probe.
    let other = "[2001:db8:1::2]:1000".parse().unwrap();
    let locals = [(1, CLIENT), (2, other)].map(|(interface, address)| LocalCandidate {
        address: LocalAddress { interface, address },
        role: Role::Primary,
    });
    let now = duel.now;
    duel.connection().set_local_addresses(now, &locals);
    let mut sent = duel.send(&[add(1, 1, "[2001:db8:2::1]:53".parse().unwrap())]);
    let path = PathId(1);
    assert!(duel.connection().statistics().paths.iter().any(|figures| figures.id == path));
    for sequence in 1..1000 {
        duel.connection().ping(path).unwrap();
        let state = if sequence % 2 == 0 { PathAvailability::Available } else { PathAvailability::Suspect };
        sent.extend(duel.send(&[Block::PathStatus(PathStatus {
            path,
            sequence,
            state,
            cost: 0,
            rate: None,
        })]));
        sent.extend(duel.converse_for(10 * MS));
    }
    assert_eq!(duel.ended(), None);
    let (asked, bytes) = to_others(&sent);
    assert!(asked.len() == 1 && bytes <= 20_000, "{bytes} to {asked:?}");
}

// spec 6.7
#[test]
fn no_host_in_a_foreign_private_network_is_probed() {
    let mut duel = client_that_looks();
    let named = [
        "10.0.0.1:53",
        "172.16.3.4:80",
        "192.168.1.1:443",
        "100.64.0.1:1",
        "169.254.169.254:80",
        "127.0.0.1:631",
        "0.0.0.0:1",
        "255.255.255.255:9",
        "224.0.0.251:5353",
        "240.0.0.1:1",
        "192.1.2.3:0",
        "[::1]:631",
        "[fe80::1]:1",
        "[fd00::1]:1",
        "[ff02::fb]:5353",
        "[64:ff9b::a00:1]:1",
        "[2002:a00:1::]:1",
    ];
    let blocks: Vec<_> = (0..).zip(named).map(|(id, text)| add(id, 1, text.parse().unwrap())).collect();
    let mut sent = duel.send(&blocks);
    sent.extend(duel.converse_for(MINUTE));
    assert_eq!(to_others(&sent), (BTreeMap::new(), 0));
    assert_eq!(duel.connection().remote_addresses(), [SERVER]);
    assert_eq!(duel.ended(), None);
}

// spec 5.93
#[test]
fn a_server_cannot_withdraw_the_address_of_its_ticket() {
    let mut duel = client_that_looks();
    duel.send(&[add(1, 1, SERVER)]);
    duel.send(&[add(1, 2, victim(1))]);
    duel.send(&[Block::RemoveAddress(RemoveAddress { id: 1, sequence: 3 })]);
    duel.send(&[add(2, 1, SERVER), Block::RemoveAddress(RemoveAddress { id: 2, sequence: 2 })]);
    assert_eq!(duel.connection().remote_addresses(), [SERVER]);
    assert_eq!(duel.ended(), None);
}

// spec 6.13, 6.16, 6.36
#[test]
fn paths_opened_from_forged_addresses_amplify_at_most_threefold() {
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let mut received: BTreeMap<SocketAddr, usize> = BTreeMap::new();
    let mut sent = Vec::new();
    for number in 0..200 {
        for path in 1..8 {
            let probe = duel.packet(PathId(path), &[Block::Probe(Probe { nonce: number })]);
            *received.entry(victim(number % 20)).or_default() += probe.len();
            duel.deliver(victim(number % 20), probe);
            sent.extend(duel.poll());
        }
    }
    for _ in 0..600 {
        sent.extend(duel.converse_for(100 * MS));
        sent.extend(duel.send(&[Block::AckNow]));
    }
    assert_eq!(duel.ended(), None);
    for (address, received) in received {
        let to: usize = sent.iter().filter(|sent| sent.to == address).map(|sent| sent.bytes.len()).sum();
        assert!(to <= 3 * received, "{to} for {received} to {address}");
    }
}

// spec 6.30
#[test]
fn a_peer_that_seems_to_move_is_followed_once_a_second_and_amplifies_at_most_threefold() {
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let stream = manyway_proto::StreamId::new(Side::Client, 0);
    let open = Block::Stream(StreamData { stream, offset: 0, end: false, data: b"get" });
    duel.send(&[open]);
    let accepted = duel.connection().accept_stream().unwrap();
    duel.connection().write(accepted, vec![7; 1 << 20].into()).unwrap();
    let start = duel.now;
    let (mut received, mut sent) = (BTreeMap::new(), Vec::new());
    for number in 0..3000 {
        let packet = duel.packet(PathId::FIRST, &[Block::AckNow]);
        *received.entry(victim(number)).or_insert(0) += packet.len();
        duel.deliver(victim(number), packet);
        sent.extend(duel.poll());
        sent.extend(duel.run_for(5 * MS));
        // Back in between, so that the last address is a validated one again.
        if number % 2 == 1 {
            sent.extend(duel.send(&[Block::AckNow]));
        }
        if number % 10 == 0 {
            sent.extend(duel.acknowledge(PathId::FIRST));
        }
    }
    assert_eq!(duel.ended(), None);
    let moved = |sent: &Sent| sent.to != CLIENT;
    let moves = duel.events.iter().filter(|event| {
        matches!(event, manyway_proto::Event::Path(path) if path.reason == PathReason::Moved && path.tuple.remote != CLIENT)
    });
    let seconds = usize::try_from((duel.now - start).as_secs()).unwrap();
    assert!((2..=seconds + 1).contains(&moves.count()));
    for (address, received) in received {
        let to: usize = sent.iter().filter(|sent| sent.to == address).map(|sent| sent.bytes.len()).sum();
        assert!(to <= 3 * received, "{to} for {received}");
    }
    assert!(sent.iter().filter(|sent| moved(sent)).count() <= 4 * seconds);
}

// spec 6.31
#[test]
fn a_move_to_an_address_that_does_not_answer_is_reverted() {
    let mut duel = Duel::new(Side::Server, &ConnectionConfig::default());
    let packet = duel.packet(PathId::FIRST, &[Block::AckNow]);
    duel.deliver(victim(1), packet);
    duel.poll();
    assert_eq!(duel.connection().statistics().paths[0].tuple.remote, victim(1));
    duel.run_for(Duration::from_secs(3));
    assert_eq!(duel.connection().statistics().paths[0].tuple.remote, CLIENT);
    assert_eq!(duel.ended(), None);
}
