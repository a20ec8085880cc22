//! Attacks on MMSP/1, each with its bound in packets, bytes or memory. Those that a checksum, a tag or a rule of one block
//! decides are tested beside it: `handshake.rs`, `close.rs`, `paths.rs`, `blocks.rs`, `sacks.rs`, `window.rs`.

use std::collections::BTreeSet;

use manyway_proto::ConnectionConfig;
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{
    Addresses, Block, Data, Fragment, Opening, Ping, Probe, ProbeData, Syn, SynAck, Tag,
};

use super::tester::{PEER, Sent, Tester, opening, packet};

/// Headers of IP and UDP.
const IP_AND_UDP: usize = 28;

fn bytes_of(sent: &[Sent]) -> usize {
    sent.iter().map(|sent| sent.bytes.len() + IP_AND_UDP).sum()
}

// spec 3.51, 3.57
#[test]
fn a_flood_of_syns_from_100_000_addresses_leaves_nothing_and_gets_at_most_three_bytes_for_one() {
    let mut tester = Tester::server(ConnectionConfig::mmsp1());
    let (mut came, mut went) = (0, 0);
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        let opening = Opening { tag: Tag(number + 1), ..tester.peer };
        let syn = packet(tester.header_with(opening.tag), |w| {
            Syn { opening, addresses: Addresses::default(), unrecognised: None }.encode(w);
        });
        came += syn.len() + IP_AND_UDP;
        tester.deliver_bytes(&format!("11.{a}.{b}.{c}:4000"), syn);
        went += bytes_of(&tester.take_all());
        tester.now += MS / 10;
    }
    assert!(went <= 3 * came, "{went} for {came}");
    assert_eq!((tester.endpoint.connections(), tester.endpoint.poll_timeout()), (0, None));
    tester.open();
}

/// A client at this address makes the handshake; returns the answer to its PING.
fn connect_from(tester: &mut Tester, from: &str, tag: u32, port: u16) -> Vec<&'static str> {
    tester.peer.tag = Tag(tag);
    tester.ports = [port, 5001];
    let syn = packet(tester.header_with(Tag(tag)), |w| {
        Syn { opening: tester.peer, addresses: Addresses::default(), unrecognised: None }.encode(w);
    });
    tester.deliver_bytes(from, syn);
    let answer = tester.take();
    let info = tester.note_syn_ack(&answer);
    let ping = packet(tester.header(), |w| Ping { info: &info, unrecognised: None }.encode(w));
    tester.deliver_bytes(from, ping);
    let answers = tester.take_all();
    let Some(answer) = answers.first() else { return Vec::new() };
    assert!(answer.names() != ["RST"] || answer.bytes.len() <= 24, "spec 3.74");
    answer.names()
}

// spec 3.97, 3.5b
#[test]
fn a_network_gets_256_connections_and_all_networks_1024() {
    let mut tester = Tester::server(ConnectionConfig::mmsp1());
    let mut taken = Vec::new();
    for network in 1..=5_u8 {
        let mut count = 0;
        for host in 1..=300_u16 {
            let from = format!("10.1.{network}.{}:4000", host % 250 + 1);
            let tag = u32::from(network) << 16 | u32::from(host);
            match connect_from(&mut tester, &from, tag, 2000 + host)[..] {
                ["PONG"] => count += 1,
                ["RST"] => {}
                ref other => panic!("{from}: {other:?}"),
            }
            // RSTs that belong to no connection go fifty times a second.
            tester.now += SECOND / 40;
        }
        taken.push(count);
    }
    assert_eq!(taken, [256, 256, 256, 256, 0]);
    assert_eq!(tester.endpoint.connections(), 1024);
    // A client that lost its connection takes its place again, and no other.
    assert_eq!(connect_from(&mut tester, "10.1.1.8:4000", 900_000, 2007), ["PONG"]);
    assert_eq!(connect_from(&mut tester, "10.1.1.8:4000", 900_001, 9000), ["RST"]);
    assert_eq!(tester.endpoint.connections(), 1024);
}

/// A server with a window of 16 KiB.
fn small() -> Tester {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    Tester::accepted_with(config)
}

/// How many of these blocks the endpoint keeps: a copy of those is reported as a duplicate.
fn kept(tester: &mut Tester, blocks: &[Data<'_>]) -> usize {
    for block in blocks {
        tester.send(&[*block]);
        tester.discard();
    }
    let mut kept = 0;
    for block in blocks {
        tester.send(&[*block]);
        kept += tester.take_sacks().iter().map(|sack| sack.duplicates.len()).sum::<usize>();
    }
    kept
}

// spec 3.98, 3.141
#[test]
fn fragments_that_never_become_a_message_take_at_most_twice_the_window() {
    for size in [1, 100, 1000] {
        let mut tester = small();
        let content: &[u8] = &[b'f'; 1000][..size];
        let first =
            |tseq: u32| Data { fragment: Fragment::First, data: content, ..tester.data(tseq, 0, 0, b"") };
        // Every second TSEQ: no two of them belong to one message, and none is acknowledged in sequence.
        let blocks: Vec<Data<'_>> = (1..2000).filter(|tseq| tseq % 2 == 1).map(first).collect();
        let kept = kept(&mut tester, &blocks);
        // 128 bytes for each piece.
        assert!(kept * (size + 128) <= 2 * 16_384, "{kept} of {size} bytes");
        assert!(kept * (size + 128) >= 16_384, "{kept} of {size} bytes: more than the window");
        assert_eq!(tester.ended(), None);
    }
}

#[test]
fn messages_that_wait_for_one_that_never_comes_take_at_most_twice_the_window() {
    let mut tester = small();
    let block = |number: u16| tester.data(number.into(), 3, number, b"waits");
    let blocks: Vec<Data<'_>> = (1..1000).map(block).collect();
    let kept = kept(&mut tester, &blocks);
    assert!(kept * (5 + 128) <= 2 * 16_384, "{kept}");
    let first = tester.data(0, 3, 0, b"comes");
    tester.send(&[first]);
    assert!(tester.texts().len() > 100, "the one for which all wait is taken");
}

#[test]
fn unread_messages_take_at_most_twice_the_window() {
    let mut tester = small();
    let block = |number: u16| tester.data(number.into(), 3, number, b"unread");
    let blocks: Vec<Data<'_>> = (0..1000).map(block).collect();
    let kept = kept(&mut tester, &blocks);
    assert!(kept * (6 + 128) <= 2 * 16_384, "{kept}");
    assert_eq!(tester.texts().len(), kept);
}

// spec 3.83
#[test]
fn a_flood_of_probes_is_answered_without_amplification() {
    let mut tester = Tester::accepted();
    let probe = |number: u64| {
        let data = ProbeData {
            sent_micros: number,
            path: 1,
            address: "10.0.0.1".parse().unwrap(),
            nonce: number,
            mac: number,
        };
        Probe { data, unrecognised: None }
    };
    for (from, blocks) in [(PEER, 1), (PEER, 100), ("10.0.0.2:9999", 1), ("10.0.0.2:9999", 100)] {
        let (mut came, mut went) = (0, 0);
        for number in 0..1000 {
            let flood = packet(tester.header(), |w: &mut Writer<'_>| {
                (0..blocks).for_each(|at| probe(number * 100 + at).encode(w));
            });
            came += flood.len() + IP_AND_UDP;
            tester.deliver_bytes(from, flood);
            let sent = tester.take_all();
            let answers = sent.iter().flat_map(Sent::names).filter(|name| *name == "PROBE-ACK").count();
            assert!(answers <= 2, "{from} {blocks}: {answers} answers");
            went += bytes_of(&sent);
            tester.now += MS;
        }
        assert!(went <= 3 * came, "{from} {blocks}: {went} for {came}");
    }
    assert_eq!(tester.ended(), None);
}

// spec 3.80, 3.110, 3.123
#[test]
fn addresses_that_a_server_names_get_a_probe_a_second_and_no_more_than_8_of_them() {
    let mut config = ConnectionConfig::mmsp1();
    config.set_pairs("full-mesh").unwrap();
    let mut tester = Tester::client(config);
    let syn = tester.take();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    let header = syn.header().answer(asked.opening.tag);
    tester.told = Some(asked.opening);
    tester.ports = [header.source_port, header.destination_port];
    let victims: Vec<[u8; 4]> = (1..=200).map(|host| [203, 0, 114, host]).collect();
    let addresses = Addresses { ipv4: &victims, ..Addresses::default() };
    let answer = SynAck { opening: opening(77), addresses, info: b"cookie", unrecognised: None };
    tester.deliver_from(PEER, header, |w| answer.encode(w));
    tester.deliver(|w| Block::Pong.encode(w));
    assert!(tester.is_established());
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 1000], manyway_proto::MessageOptions::default());
    let (mut reached, mut packets) = (BTreeSet::new(), 0);
    for _ in 0..60 {
        let to_victims = |sent: &&Sent| sent.tuple.remote.to_string().starts_with("203.");
        for sent in tester.take_all() {
            if to_victims(&&sent) {
                assert_eq!(
                    sent.names(),
                    ["PROBE"],
                    "nothing else goes to an address that did not answer one"
                );
                reached.insert(sent.tuple.remote);
                packets += 1;
            } else {
                tester.answer_probe(&sent);
            }
        }
        tester.run_for(SECOND);
        tester.sack(0, 100_000);
    }
    // As many as a client keeps of those that a server names.
    assert_eq!(reached.len(), 8);
    assert!(packets <= 60 * 8, "{packets}");
}

// spec 3.20
#[test]
fn a_peer_that_uses_every_stream_opens_as_many_as_were_agreed() {
    let mut tester = Tester::accepted_from(Opening { outgoing: u16::MAX, ..opening(77) });
    let agreed = ConnectionConfig::mmsp1().stream_numbers;
    let mut errors = 0;
    for stream in 0..2 * agreed {
        let block = tester.data(stream.into(), stream, 0, b"x");
        tester.send(&[block]);
        errors += tester.take_all().iter().flat_map(Sent::codes).filter(|code| *code == 1).count();
    }
    let opened = std::iter::from_fn(|| tester.connection().accept_stream()).count();
    assert_eq!(opened, usize::from(agreed));
    assert!(errors <= 10, "{errors} a second");
}
