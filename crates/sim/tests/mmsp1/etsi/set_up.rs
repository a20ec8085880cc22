//! Set-up of associations: TS 102 369, group AS.

use std::collections::BTreeSet;

use manyway_proto::ConnectionError;
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::mmsp1::{Addresses, Block, Header, Opening, Rst, Tag};

use super::super::tester::{PEER, Tester, opening};
use super::{ask_with, block, closed, data, send_under, syn_ack, waits_for_pong, waits_for_syn_ack};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Completes the handshake that the tester began as a client; true if the server took the PING.
fn completes(tester: &mut Tester) -> bool {
    let answer = tester.take();
    assert_eq!(answer.names(), ["SYN-ACK"]);
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    tester.take().names() == ["PONG"] && tester.is_established()
}

#[test]
fn sctp_as_v_1_1_1_a_client_sets_up_a_connection() {
    let mut tester = Tester::connected();
    let block = data(&tester, 0);
    tester.send_raw(&block);
    assert_eq!(tester.texts(), ["text"]);
}

#[test]
fn sctp_as_v_1_1_2_a_server_accepts_a_connection() {
    let mut tester = Tester::accepted();
    let block = data(&tester, 0);
    tester.send_raw(&block);
    assert_eq!(tester.texts(), ["text"]);
}

/// The times at which a client sent a block of this name before it gave up, and what it said.
fn repetitions(tester: &mut Tester, name: &str) -> Vec<u128> {
    let start = tester.now;
    let mut times = Vec::new();
    for _ in 0..1400 {
        let now = (tester.now - start).as_millis();
        times.extend(
            tester.take_all().iter().flat_map(super::Sent::names).filter(|sent| *sent == name).map(|_| now),
        );
        tester.run_for(50 * MS);
    }
    assert_eq!(tester.ended(), Some(&ConnectionError::ConnectTimeout));
    times
}

#[test]
fn sctp_as_i_1_2_1_syn_is_repeated_after_1_s_and_then_after_twice_the_wait() {
    let (mut tester, _, _) = waits_for_syn_ack();
    let times = repetitions(&mut tester, "SYN");
    assert!(times.starts_with(&[1000, 3000, 7000]), "{times:?}");
}

#[test]
fn sctp_as_i_1_2_2_ping_is_repeated_with_growing_waits() {
    let (mut tester, _) = waits_for_pong();
    let times = repetitions(&mut tester, "PING");
    let waits: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() >= 3 && waits.is_sorted(), "{times:?}");
}

#[test]
fn sctp_as_i_1_3_1_a_client_without_a_syn_ack_gives_up_after_six_syns() {
    let (mut tester, _, _) = waits_for_syn_ack();
    assert!(repetitions(&mut tester, "SYN").len() <= 5);
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_as_i_1_3_2_a_client_without_a_pong_gives_up_after_six_pings() {
    let (mut tester, _) = waits_for_pong();
    assert!(repetitions(&mut tester, "PING").len() <= 5);
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_as_i_1_4_a_syn_makes_a_server_keep_nothing() {
    let mut tester = closed();
    for tag in 1..500 {
        ask_with(&mut tester, opening(tag), Addresses::default());
        assert_eq!((tester.endpoint.connections(), tester.endpoint.poll_timeout()), (0, None));
        tester.now += 10 * MS;
    }
}

#[test]
fn sctp_as_v_1_5_1_tags_of_syns_differ() {
    // Two endpoints of one seed draw the same: one endpoint draws one after the other.
    let mut tester = closed();
    let config = std::sync::Arc::new(manyway_proto::ConnectionConfig::mmsp1());
    let local = manyway_proto::LocalAddress { interface: 1, address: "10.0.0.1:4433".parse().unwrap() };
    let candidate = manyway_proto::LocalCandidate { address: local, role: manyway_proto::Role::Primary };
    let mut tags = BTreeSet::new();
    for server in 1..50_u8 {
        let server = std::net::SocketAddr::from(([10, 0, 1, server], 4000));
        tester.endpoint.connect_mmsp1(tester.now, &config, &[candidate], &[server]).unwrap();
        let sent = tester.take();
        let [Block::Syn(asked)] = sent.blocks()[..] else { panic!("{:?}", sent.names()) };
        assert!(asked.opening.tag != Tag(0) && tags.insert(asked.opening.tag));
    }
}

#[test]
fn sctp_as_v_1_5_2_tags_of_syn_acks_differ() {
    let mut tester = closed();
    let mut tags = BTreeSet::new();
    for _ in 0..50 {
        let answer = tester.ask();
        let [Block::SynAck(told)] = answer.blocks()[..] else { panic!("{:?}", answer.names()) };
        assert!(told.opening.tag != Tag(0) && tags.insert(told.opening.tag));
        tester.now += 100 * MS;
    }
}

#[test]
fn sctp_as_v_1_6_1_a_syn_with_every_parameter_is_answered() {
    let mut tester = closed();
    let (ipv4, ipv6) = ([[10, 0, 0, 7]], [[0xfd; 16]]);
    let opening = Opening { outgoing: 2, ..tester.peer };
    let listed = [[10, 0, 0, 2], [0; 4]];
    let addresses = Addresses { listed: &listed, ipv4: &ipv4, ipv6: &ipv6 };
    tester.peer = opening;
    ask_with(&mut tester, opening, addresses);
    assert!(completes(&mut tester));
}

#[test]
fn sctp_as_v_1_6_2_a_syn_ack_with_every_parameter_is_answered_by_ping() {
    let (mut tester, _, header) = waits_for_syn_ack();
    let (ipv4, ipv6) = ([[10, 0, 0, 7]], [[0xfd; 16]]);
    let addresses = Addresses { listed: &[], ipv4: &ipv4, ipv6: &ipv6 };
    let payload = syn_ack(tester.peer, addresses);
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_as_v_1_7_1_a_server_sends_on_no_more_streams_than_its_client_takes() {
    let mut tester = Tester::accepted_from(Opening { incoming: 2, ..opening(77) });
    let mut opened = 0;
    while let Ok(stream) = tester.connection().open_stream() {
        assert!(stream.0 < 2);
        opened += 1;
    }
    assert_eq!(opened, 1, "the odd one of two");
}

#[test]
fn sctp_as_i_1_7_2_a_syn_without_outgoing_streams_earns_rst() {
    let mut tester = closed();
    ask_with(&mut tester, Opening { outgoing: 0, ..opening(77) }, Addresses::default());
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes(), rst.header().connection), (vec!["RST"], vec![4], Tag(77)));
}

#[test]
fn sctp_as_v_1_7_3_a_client_sends_on_no_more_streams_than_its_server_takes() {
    let (mut tester, syn, _) = waits_for_syn_ack();
    tester.peer = Opening { incoming: 2, ..tester.peer };
    tester.answer_syn(&syn, PEER);
    tester.deliver(|w| Block::Pong.encode(w));
    let mut opened = 0;
    while let Ok(stream) = tester.connection().open_stream() {
        assert!(stream.0 < 2);
        opened += 1;
    }
    assert_eq!(opened, 1, "the even one of two");
}

#[test]
fn sctp_as_i_1_7_4_a_syn_ack_without_outgoing_streams_earns_rst_and_does_not_count() {
    let (mut tester, syn, header) = waits_for_syn_ack();
    let payload = syn_ack(Opening { outgoing: 0, ..tester.peer }, Addresses::default());
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes(), rst.header().connection), (vec!["RST"], vec![4], tester.peer.tag));
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_as_v_1_7_5_two_streams_in_each_direction_are_agreed() {
    let mut tester = closed();
    tester.peer = Opening { incoming: 2, outgoing: 2, ..opening(77) };
    tester.open();
    let told = tester.told.unwrap();
    assert!(told.incoming >= 2 && told.outgoing >= 2);
    let blocks = [tester.data(0, 0, 0, b"a"), tester.data(1, 1, 0, b"b")];
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["a", "b"]);
}

/// A SYN with an unknown parameter is answered, and nothing else happens.
fn unknown_parameter_in_syn(kind: u16) {
    let mut tester = closed();
    let fixed = words(&[77, 100_000, (10 << 16) | 10, 1000]);
    let addresses = [0; 40];
    let unknown = [&kind.to_be_bytes()[..], &[0, 8], b"what"].concat();
    let payload = block(2, &[&fixed[..], &addresses, &unknown].concat());
    send_under(&mut tester, Tag(77), &payload);
    assert!(completes(&mut tester), "{kind:#06x}");
    assert!(!tester.take_names().contains(&"ERROR"), "{kind:#06x}");
}

#[test]
fn sctp_as_i_1_8_1_an_unknown_parameter_of_syn_with_the_bits_11_is_skipped() {
    unknown_parameter_in_syn(0xc123);
}

#[test]
fn sctp_as_i_1_8_2_an_unknown_parameter_of_syn_with_the_bits_00_is_skipped() {
    unknown_parameter_in_syn(0x0123);
}

#[test]
fn sctp_as_i_1_8_3_an_unknown_parameter_of_syn_with_the_bits_01_is_skipped() {
    unknown_parameter_in_syn(0x4123);
}

#[test]
fn sctp_as_i_1_8_4_an_unknown_parameter_of_syn_with_the_bits_10_is_skipped() {
    unknown_parameter_in_syn(0x8123);
}

#[test]
fn sctp_as_o_1_9_1_a_syn_of_a_peer_with_a_connection_changes_nothing() {
    let mut tester = Tester::accepted();
    let handle = tester.handle;
    ask_with(&mut tester, opening(99), Addresses::default());
    let answer = tester.take();
    assert_eq!((answer.names(), answer.header().connection), (vec!["SYN-ACK"], Tag(99)));
    assert_eq!((tester.ended(), tester.handle, tester.endpoint.connections()), (None, handle, 1));
}

#[test]
fn sctp_as_o_1_9_2_a_syn_with_other_addresses_adds_none_to_the_connection() {
    let mut tester = Tester::accepted();
    let ipv4 = [[10, 0, 0, 8]];
    let opening = Opening { outgoing: 300, ..opening(99) };
    ask_with(&mut tester, opening, Addresses { ipv4: &ipv4, ..Addresses::default() });
    assert_eq!(tester.take().names(), ["SYN-ACK"]);
    let block = data(&tester, 0);
    let header = tester.header();
    tester.deliver_from("10.0.0.8:4000", header, |w| w.bytes(&block));
    assert_eq!((tester.take_names(), tester.texts().len(), tester.ended()), (vec![], 0, None));
}

#[test]
fn sctp_as_v_1_10_1_without_addresses_in_syn_its_source_is_the_peer() {
    let mut tester = closed();
    let answer = tester.ask();
    assert_eq!(answer.tuple.remote.to_string(), PEER);
}

#[test]
fn sctp_as_v_1_10_2_without_addresses_in_syn_ack_its_source_is_the_peer() {
    let (mut tester, syn, _) = waits_for_syn_ack();
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().tuple.remote.to_string(), PEER);
}

#[test]
fn sctp_as_v_1_11_1_addresses_in_syn_are_those_of_the_peer() {
    let mut tester = closed();
    let ipv4 = [[10, 0, 0, 8]];
    tester.peer = Opening { outgoing: 300, ..tester.peer };
    let opening = tester.peer;
    ask_with(&mut tester, opening, Addresses { ipv4: &ipv4, ..Addresses::default() });
    assert!(completes(&mut tester));
    let block = data(&tester, 0);
    let header = tester.header();
    tester.deliver_from("10.0.0.8:4000", header, |w| w.bytes(&block));
    assert_eq!(tester.texts(), ["text"]);
}

#[test]
fn sctp_as_v_1_11_2_addresses_in_syn_ack_are_those_of_the_peer() {
    let (mut tester, _, header) = waits_for_syn_ack();
    let ipv4 = [[10, 0, 0, 8]];
    let payload = syn_ack(tester.peer, Addresses { ipv4: &ipv4, ..Addresses::default() });
    tester.told = Some(Opening { tag: header.connection, ..opening(1) });
    tester.ports = [header.source_port, header.destination_port];
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    tester.deliver(|w| Block::Pong.encode(w));
    assert!(tester.is_established());
    let block = data(&tester, 0);
    let header: Header = tester.header();
    tester.deliver_from("10.0.0.8:4000", header, |w| w.bytes(&block));
    assert_eq!(tester.texts(), ["text"]);
}

#[test]
fn sctp_as_i_1_14_1_a_syn_with_tag_0_earns_rst() {
    let mut tester = closed();
    ask_with(&mut tester, opening(0), Addresses::default());
    let rst = tester.take();
    let [Block::Rst(Rst { reflected: false, .. })] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    assert_eq!(rst.codes(), [4]);
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_as_i_1_14_2_a_syn_ack_with_tag_0_earns_rst_and_does_not_count() {
    let (mut tester, syn, header) = waits_for_syn_ack();
    let payload = syn_ack(opening(0), Addresses::default());
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    assert_eq!((tester.take().codes(), tester.ended()), (vec![4], None));
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_as_i_1_15_syns_go_to_each_known_address_of_the_peer() {
    let servers = [PEER, "10.0.0.3:4000", "10.0.0.4:4000"];
    let mut tester = Tester::client_to(manyway_proto::ConnectionConfig::mmsp1(), &servers);
    tester.run_for(5 * SECOND);
    let to: Vec<String> = tester.take_all().iter().map(|sent| sent.tuple.remote.to_string()).collect();
    assert_eq!(to, servers);
}
