//! The four-way handshake: each step, each packet lost or repeated, and what may not begin a connection.

use std::time::Duration;

use manyway_proto::{AddressFilter, ConnectionConfig, ConnectionError, Event, FourTuple, Undelivered};
use manyway_sim::link::LinkConfig;
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MS, SECOND, mbit, megabytes};
use manyway_sim::{PairBuilder, Side, mmsp1_pair};
use manyway_wire::mmsp1::{Addresses, Block, Header, Opening, Ping, Syn, SynAck, Tag};

use super::tester::{PEER, Sent, Tester, opening, packet};

fn mmsp1() -> ConnectionConfig {
    ConnectionConfig::mmsp1()
}

#[test]
fn a_server_keeps_nothing_before_a_valid_ping() {
    let mut tester = Tester::server(mmsp1());
    for tag in 1..1000 {
        tester.peer = opening(tag);
        let answer = tester.ask();
        assert_eq!(answer.names(), ["SYN-ACK"]);
        assert_eq!(tester.endpoint.connections(), 0);
        tester.now += 10 * MS;
    }
    assert_eq!(tester.endpoint.poll_timeout(), None);
}

#[test]
fn a_ping_with_the_info_begins_a_connection_once() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    assert_eq!(tester.take().names(), ["PONG"]);
    tester.discard();
    for _ in 0..3 {
        tester.ping(&info);
        assert_eq!(tester.take_names(), ["PONG"]);
        assert_eq!(tester.endpoint.connections(), 1);
    }
    assert_eq!(tester.events.iter().filter(|event| **event == Event::Connected).count(), 1);
}

#[test]
fn data_may_come_with_the_ping() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    let data = tester.data(0, 3, 0, b"early");
    tester.deliver(|w| {
        Ping { info: &info, unrecognised: None }.encode(w);
        data.encode(w);
    });
    assert!(tester.events.contains(&Event::StreamOpened), "{:?}", tester.events);
    tester.run_for(30 * MS);
    let names = tester.take_names();
    assert!(names.starts_with(&["PONG"]) && names.contains(&"SACK"), "{names:?}");
}

#[test]
fn an_expired_info_earns_an_error_and_a_new_one() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    tester.now += 12 * SECOND;
    tester.ping(&info);
    let error = tester.take();
    assert_eq!((error.names(), error.codes(), error.header().connection), (vec!["ERROR"], vec![9], Tag(77)));
    let told = tester.told;
    let again = tester.take();
    let info = tester.note_syn_ack(&again);
    assert_eq!(tester.told, told, "the same values");
    assert_eq!(tester.endpoint.connections(), 0);
    tester.ping(&info);
    assert_eq!(tester.take().names(), ["PONG"]);
}

// spec 3.74
#[test]
fn a_new_info_for_an_expired_one_goes_no_more_often_than_syns_are_answered() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    tester.now += 12 * SECOND;
    let mut names = Vec::new();
    for _ in 0..1500 {
        tester.ping(&info);
        names.extend(tester.take_names());
    }
    let count = |name| names.iter().filter(|found| **found == name).count();
    // 10 for the network, and 1000 for all of them.
    assert_eq!((count("ERROR"), count("SYN-ACK")), (50, 1010));
}

#[test]
fn a_forged_info_earns_rst_and_one_of_another_address_nothing() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let mut info = tester.note_syn_ack(&answer);
    tester.deliver_from("10.0.0.3:4000", tester.header(), |w| {
        Ping { info: &info, unrecognised: None }.encode(w);
    });
    assert_eq!(tester.take_names(), [""; 0]);
    let other_tag = Header { connection: Tag(4), ..tester.header() };
    tester.deliver_from(PEER, other_tag, |w| Ping { info: &info, unrecognised: None }.encode(w));
    assert_eq!(tester.take().codes(), [9]);
    info[20] ^= 1;
    tester.ping(&info);
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes()), (vec!["RST"], vec![9]));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn an_old_info_begins_no_connection_after_the_end_of_its_own() {
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    let now = tester.now;
    tester.connection().abort(now, 0, "");
    tester.discard();
    assert_eq!(tester.endpoint.connections(), 0);
    tester.ping(&info);
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 0));
}

#[test]
fn a_syn_that_cannot_be_read_earns_rst_with_the_code_of_its_fault() {
    let mut tester = Tester::server(mmsp1());
    let header = tester.header_with(Tag(77));
    let syn = |opening: Opening| {
        packet(header, |w| Syn { opening, addresses: Addresses::default(), unrecognised: None }.encode(w))
    };
    let mut refused = |bytes: Vec<u8>, code: u16| {
        tester.deliver_bytes(PEER, bytes);
        let rst = tester.take();
        let [Block::Rst(block)] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
        assert!(!block.reflected && rst.header().connection == Tag(77));
        assert_eq!(rst.codes(), [code]);
    };
    refused(syn(Opening { outgoing: 0, ..opening(77) }), 4);
    refused(syn(Opening { incoming: 0, ..opening(77) }), 4);
    refused(syn(opening(78)), 4);
    let cut = packet(header, |w| {
        w.bytes(&[Syn::KIND, 0, 0, 12]);
        w.bytes(&[0, 0, 0, 77, 0, 0, 1, 0]);
    });
    refused(cut, 5);
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn a_server_answers_only_addresses_that_were_named() {
    let from: AddressFilter = "10.0.0.0/30".parse().unwrap();
    let mut tester = Tester::server_for(mmsp1(), from);
    let syn = |tester: &Tester| {
        let opening = tester.peer;
        packet(tester.header_with(opening.tag), |w| {
            Syn { opening, addresses: Addresses::default(), unrecognised: None }.encode(w);
        })
    };
    tester.deliver_bytes("10.0.0.7:4000", syn(&tester));
    tester.deliver_from("10.0.0.7:4000", tester.header_with(Tag(9)), |w| Block::FinAck.encode(w));
    assert_eq!(tester.take_names(), [""; 0]);
    tester.open();
}

#[test]
fn an_endpoint_that_was_not_told_so_does_not_speak_mmsp1() {
    let config = manyway_proto::EndpointConfig::default();
    let mut endpoint = manyway_proto::Endpoint::new(config, manyway_proto::Rng::from_seed([1; 32]));
    let mut tester = Tester::server(mmsp1());
    let answer = tester.ask();
    let mut buffer = Vec::new();
    for mut bytes in [answer.bytes.clone(), vec![0x13; 40]] {
        endpoint.handle_datagram(tester.now, answer.tuple, manyway_proto::Ecn::NotEct, &mut bytes);
        assert_eq!(endpoint.poll_transmit(tester.now, &mut buffer), None);
    }
}

#[test]
fn a_syn_ack_has_at_most_three_times_the_bytes_of_its_syn() {
    for addresses in [0, 1, 5, 30, 200] {
        let mut config = mmsp1();
        config.advertised = (0..8).map(|host| ([10, 1, 0, host], 1).into()).collect();
        let mut tester = Tester::server(config);
        let ipv4: Vec<[u8; 4]> = (0..addresses).map(|host| [10, 0, 1, host]).collect();
        let opening = Opening { outgoing: 1000, ..tester.peer };
        let syn = packet(tester.header_with(opening.tag), |w| {
            let addresses = Addresses { ipv4: &ipv4, ..Addresses::default() };
            Syn { opening, addresses, unrecognised: None }.encode(w);
        });
        let size = syn.len();
        tester.deliver_bytes(PEER, syn);
        let answer = tester.take();
        assert_eq!(answer.names(), ["SYN-ACK"]);
        assert!(answer.bytes.len() + 28 <= 3 * (size + 28), "{} for {size}", answer.bytes.len());
    }
}

#[test]
fn a_client_repeats_syn_to_each_address_and_gives_up() {
    let mut tester = Tester::client_to(mmsp1(), &[PEER, "10.0.0.3:4000"]);
    tester.run_for(120 * SECOND);
    let sent = tester.take_all();
    let to: Vec<u8> = sent.iter().map(|sent| u8::from(sent.tuple.remote.to_string() == PEER)).collect();
    assert_eq!(to[..4], [1, 0, 1, 0]);
    assert!(sent.iter().all(|sent| sent.names() == ["SYN"]) && sent.len() <= 6);
    assert!(sent.iter().all(|syn| syn.bytes == sent[0].bytes), "unchanged");
    assert_eq!(tester.ended(), Some(&ConnectionError::ConnectTimeout));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn a_client_takes_the_first_syn_ack_and_drops_those_of_another_server() {
    let mut tester = Tester::client(mmsp1());
    let syn = tester.take();
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
    let told = tester.peer;
    tester.peer = opening(78);
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take_names(), [""; 0]);
    tester.peer = told;
    tester.deliver(|w| Block::Pong.encode(w));
    assert!(tester.is_established());
}

#[test]
fn a_syn_ack_that_cannot_be_read_does_not_count() {
    let mut tester = Tester::client(mmsp1());
    let syn = tester.take();
    let header = syn.header();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    let answer = Header {
        source_port: header.destination_port,
        destination_port: header.source_port,
        connection: asked.opening.tag,
    };
    let without_info = packet(answer, |w| {
        w.bytes(&[SynAck::KIND, 0, 0, 20]);
        for word in [77_u32, 1000, (10 << 16) | 10, 5] {
            w.u32(word);
        }
    });
    tester.deliver_bytes(PEER, without_info);
    let error = tester.take();
    assert_eq!((error.names(), error.codes(), error.header().connection), (vec!["ERROR"], vec![8], Tag(77)));
    let without_tag = packet(answer, |w| {
        let opening = Opening { tag: Tag(0), ..opening(1) };
        SynAck { opening, addresses: Addresses::default(), info: b"x", unrecognised: None }.encode(w);
    });
    tester.deliver_bytes(PEER, without_tag);
    let rst = tester.take();
    let [Block::Rst(block)] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    assert!(block.reflected && rst.header().connection == asked.opening.tag);
    assert_eq!(rst.codes(), [4]);
    // spec 3.74
    let mut answers = 0;
    for _ in 0..100 {
        tester.deliver_from(PEER, answer, |w| w.bytes(&[SynAck::KIND, 0, 0, 4]));
        answers += tester.take_all().iter().flat_map(Sent::codes).filter(|code| *code == 5).count();
    }
    assert_eq!(answers, 10, "a second");
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"], "the attempt goes on");
}

// spec 3.105
#[test]
fn a_further_syn_ack_renews_info_and_leaves_the_addresses_of_the_server() {
    let mut config = mmsp1();
    config.set_pairs("full-mesh").unwrap();
    let mut tester = Tester::client(config);
    let syn = tester.take();
    let header = syn.header();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    tester.told = Some(asked.opening);
    tester.ports = [header.destination_port, header.source_port];
    let first = Addresses { ipv4: &[[10, 0, 0, 4]], ..Addresses::default() };
    let answer = SynAck { opening: tester.peer, addresses: first, info: b"first", unrecognised: None };
    tester.deliver(|w| answer.encode(w));
    assert_eq!(tester.take().names(), ["PING"]);
    for (info, addresses) in [
        (&b"second"[..], Addresses::default()),
        (b"third", Addresses { ipv4: &[[10, 0, 0, 5]], ..Addresses::default() }),
    ] {
        let renewed = SynAck { addresses, info, ..answer };
        tester.deliver(|w| renewed.encode(w));
        let ping = tester.take();
        let [Block::Ping(Ping { info: told, .. })] = ping.blocks()[..] else { panic!("{:?}", ping.names()) };
        assert_eq!(told, info);
    }
    tester.deliver(|w| Block::Pong.encode(w));
    tester.run_for(SECOND);
    let to: std::collections::BTreeSet<String> =
        tester.take_all().iter().map(|sent| sent.tuple.remote.to_string()).collect();
    assert_eq!(to.into_iter().collect::<Vec<_>>(), ["10.0.0.2:4000", "10.0.0.4:4000"]);
}

#[test]
fn an_rst_ends_the_attempt_over_its_address_only() {
    let mut tester = Tester::client_to(mmsp1(), &[PEER, "10.0.0.3:4000"]);
    let syn = tester.take();
    let header = syn.header();
    let answer = Header {
        source_port: header.destination_port,
        destination_port: header.source_port,
        connection: header.connection,
    };
    let rst = |w: &mut manyway_wire::Writer<'_>| {
        manyway_wire::mmsp1::encode_rst(w, true, std::iter::empty());
    };
    tester.deliver_from(PEER, answer, rst);
    assert_eq!(tester.ended(), None);
    tester.run_for(SECOND);
    let next = tester.take_all();
    assert!(next.iter().all(|sent| sent.tuple.remote.to_string() == "10.0.0.3:4000"), "{next:?}");
    tester.deliver_from("10.0.0.3:4000", answer, rst);
    assert!(matches!(tester.ended(), Some(ConnectionError::AbortedByPeer { .. })), "{:?}", tester.ended());
}

#[test]
fn an_attempt_that_ends_by_reports_names_the_host_that_answered() {
    let mut tester = Tester::client_to(mmsp1(), &[PEER, "10.0.0.3:4000"]);
    let syn = tester.take();
    let first = syn.tuple;
    let second = FourTuple { remote: "10.0.0.3:4000".parse().unwrap(), ..first };
    let (now, undelivered) = (tester.now, Undelivered::PortClosed);
    tester.endpoint.on_unreachable(now, first, &syn.bytes, undelivered);
    tester.run_for(MS);
    assert_eq!(tester.ended(), None, "the other address may answer");
    tester.endpoint.on_neighbour_lost(tester.now, second);
    tester.run_for(MS);
    let error = ConnectionError::Unreachable { remote: first.remote, undelivered };
    assert_eq!(tester.ended(), Some(&error));
}

#[test]
fn each_packet_of_the_handshake_may_be_lost() {
    for (side, number) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        let link = LinkConfig::new(mbit(20), 10 * MS);
        let config = mmsp1();
        let mut pair = mmsp1_pair(PairBuilder::new().path_with(link.clone(), link), &config, &config);
        let host = pair.host(side);
        let lost = Matching::all().from(host).index(number..=number);
        pair.world_mut().network_mut().add_rule(lost, Action::Drop);
        let took = pair.connect(5 * SECOND).unwrap();
        let waits = if side == Side::Client && number == 1 { 60 * MS } else { SECOND };
        assert!(took < waits + 200 * MS, "{side:?} {number}: {took:?}");
        pair.transfer(Side::Client, megabytes(1), 10 * SECOND).unwrap();
    }
}

#[test]
fn each_packet_of_the_handshake_may_come_again_at_once_and_later() {
    for (side, number) in [(Side::Client, 0), (Side::Client, 1), (Side::Server, 0), (Side::Server, 1)] {
        for later in [Duration::ZERO, 5 * MS, 2 * SECOND] {
            let config = mmsp1();
            let mut pair = mmsp1_pair(PairBuilder::new().path(mbit(20), 10 * MS), &config, &config);
            let host = pair.host(side);
            let copied = Matching::all().from(host).index(number..=number);
            pair.world_mut().network_mut().add_rule(copied, Action::Copy(later));
            pair.connect(5 * SECOND).unwrap();
            pair.run_for(3 * SECOND).unwrap();
            for side in [Side::Client, Side::Server] {
                let connections = pair.peer(side).unwrap().endpoint().connections();
                assert_eq!(connections, 1, "{side:?}: packet {number}, again after {later:?}");
            }
            pair.transfer(Side::Client, megabytes(1), 10 * SECOND).unwrap();
        }
    }
}

#[test]
fn a_client_that_comes_again_after_a_restart_replaces_its_old_connection() {
    let mut tester = Tester::accepted();
    let old = tester.handle;
    tester.peer = opening(99);
    let answer = tester.ask();
    assert_eq!(tester.ended(), None, "a SYN alone ends nothing");
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    assert_eq!(tester.ended(), Some(&ConnectionError::Reset));
    assert_eq!(tester.endpoint.connections(), 1);
    assert!(tester.endpoint.handles().iter().all(|handle| Some(*handle) != old));
}

#[test]
fn of_two_that_connect_to_each_other_the_one_with_the_smaller_tag_serves() {
    let mut tester = Tester::client(mmsp1());
    let syn = tester.take();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    let own = asked.opening.tag;
    let header = syn.header();
    tester.ports = [header.destination_port, header.source_port];
    let syn_of = |tester: &Tester, tag: Tag| {
        let opening = Opening { tag, ..tester.peer };
        packet(tester.header_with(tag), |w| {
            Syn { opening, addresses: Addresses::default(), unrecognised: None }.encode(w);
        })
    };
    tester.deliver_bytes(PEER, syn_of(&tester, Tag(own.0 - 1)));
    assert_eq!(tester.take_names(), [""; 0], "the larger tag goes on as a client");
    tester.deliver_bytes("10.0.0.9:4000", syn_of(&tester, Tag(own.0 + 1)));
    assert_eq!(tester.take_names(), [""; 0], "from another address it is no answer");
    tester.peer = Opening { tag: Tag(own.0 + 1), ..tester.peer };
    tester.deliver_bytes(PEER, syn_of(&tester, tester.peer.tag));
    let answer = tester.take();
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    assert!(tester.is_established());
    assert_eq!(tester.take().names(), ["PONG"]);
    assert_eq!(tester.connection().side(), Side::Server);
    let data = tester.data(0, 0, 0, b"hello");
    tester.deliver(|w| data.encode(w));
    assert!(tester.events.contains(&Event::StreamOpened));
    tester.deliver_bytes(PEER, packet(tester.header_with(own), |w| Block::Pong.encode(w)));
    assert_eq!(tester.endpoint.connections(), 1, "the own attempt has become this connection");
    tester.run_for(Duration::from_secs(5));
    assert_eq!(tester.ended(), None);
}

// spec 3.4
#[test]
fn simultaneous_connections_of_an_endpoint_have_different_ports() {
    let mut tester = Tester::client(mmsp1());
    let local = tester.take().tuple.local;
    let candidate = manyway_proto::LocalCandidate { address: local, role: manyway_proto::Role::Primary };
    let config = std::sync::Arc::new(mmsp1());
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let servers = [PEER.parse().unwrap()];
        tester.endpoint.connect_mmsp1(tester.now, &config, &[candidate], &servers).unwrap();
        assert!(ports.insert(tester.take().header().source_port));
    }
}

// spec 3.143
#[test]
fn a_smaller_syn_of_the_peer_that_answered_begins_no_second_connection_if_the_ping_was_lost() {
    for (tag, expected) in [(1, &[][..]), (u32::MAX, &["SYN-ACK"])] {
        let mut tester = Tester::server(mmsp1());
        let local = manyway_proto::LocalAddress { interface: 1, address: "10.0.0.1:4433".parse().unwrap() };
        let candidate = manyway_proto::LocalCandidate { address: local, role: manyway_proto::Role::Primary };
        let (config, servers) = (std::sync::Arc::new(mmsp1()), [PEER.parse().unwrap()]);
        let attempt = tester.endpoint.connect_mmsp1(tester.now, &config, &[candidate], &servers);
        tester.handle = Some(attempt.unwrap());
        let syn = tester.take();
        tester.answer_syn(&syn, PEER);
        assert_eq!(tester.take().names(), ["PING"], "which is lost");
        let peer = opening(tag);
        let header = Header { source_port: 3000, destination_port: 5001, connection: peer.tag };
        let own = Syn { opening: peer, addresses: Addresses::default(), unrecognised: None };
        tester.deliver_from(PEER, header, |w| own.encode(w));
        let answers: Vec<_> = tester.take_all().iter().flat_map(Sent::names).collect();
        assert_eq!(answers, expected, "{tag}");
        tester.run_for(SECOND);
        assert!(tester.take_all().iter().any(|sent| sent.names() == ["PING"]), "the attempt goes on");
        tester.deliver(|w| Block::Pong.encode(w));
        assert_eq!((tester.is_established(), tester.endpoint.connections()), (true, 1), "{tag}");
    }
}

// spec 3.54, 3.111
#[test]
fn ping_goes_to_the_addresses_of_the_server_that_answered() {
    let mut tester = Tester::client_to(mmsp1(), &[PEER, "10.0.0.3:4000"]);
    let syn = tester.take();
    let header = syn.header();
    let [Block::Syn(asked)] = syn.blocks()[..] else { panic!("{:?}", syn.names()) };
    tester.told = Some(asked.opening);
    tester.ports = [header.destination_port, header.source_port];
    let ipv4 = [[10, 0, 0, 4]];
    let addresses = Addresses { ipv4: &ipv4, ..Addresses::default() };
    let answer = SynAck { opening: tester.peer, addresses, info: b"info", unrecognised: None };
    tester.deliver_from(PEER, tester.header(), |w| answer.encode(w));
    tester.run_for(8 * SECOND);
    let to: std::collections::BTreeSet<String> = tester
        .take_all()
        .iter()
        .filter(|sent| sent.names() == ["PING"])
        .map(|sent| sent.tuple.remote.to_string())
        .collect();
    assert_eq!(to.into_iter().collect::<Vec<_>>(), ["10.0.0.2:4000", "10.0.0.4:4000"]);
}
