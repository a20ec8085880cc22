//! Blocks that come again or in another state: TS 102 369, group DM.

use manyway_sim::scenario::MS;
use manyway_wire::mmsp1::{Addresses, Block, Opening};

use super::super::tester::{PEER, Tester, opening};
use super::{
    ask_with, closed, data, fin, fin_ack, fin_ack_sent, fin_done, fin_sent, waits_for_pong, waits_for_syn_ack,
};

#[test]
fn sctp_dm_o_4_1_a_syn_while_syn_ack_is_awaited_is_a_simultaneous_open() {
    for larger in [true, false] {
        let (mut tester, _, header) = waits_for_syn_ack();
        let own = header.connection.0;
        let tag = if larger { own + 1 } else { own - 1 };
        tester.ports = [header.source_port, header.destination_port];
        ask_with(&mut tester, Opening { ..opening(tag) }, Addresses::default());
        let expected = if larger { vec!["SYN-ACK"] } else { vec![] };
        assert_eq!(tester.take_names(), expected, "the larger tag is the client");
    }
}

#[test]
fn sctp_dm_o_4_2_1_a_syn_under_an_established_connection_is_answered_and_ends_nothing() {
    let mut tester = Tester::accepted();
    let peer = tester.peer;
    ask_with(&mut tester, peer, Addresses::default());
    assert_eq!((tester.take_names(), tester.ended()), (vec!["SYN-ACK"], None));
    let block = data(&tester, 0);
    tester.send_raw(&block);
    assert_eq!(tester.texts(), ["text"], "the connection has its tags");
}

#[test]
fn sctp_dm_o_4_2_2_a_syn_after_fin_ack_was_sent_is_answered_and_ends_nothing() {
    let mut tester = fin_ack_sent();
    ask_with(&mut tester, opening(99), Addresses::default());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec!["SYN-ACK"], 1));
}

#[test]
fn sctp_dm_o_4_3_a_syn_ack_while_pong_is_awaited_only_renews_info() {
    let (mut tester, syn) = waits_for_pong();
    tester.answer_syn(&syn, PEER);
    assert!(!tester.take_names().contains(&"SYN"));
    tester.deliver(|w| Block::Pong.encode(w));
    assert!(tester.is_established());
}

#[test]
fn sctp_dm_o_4_4_a_pong_for_an_established_connection_changes_nothing() {
    let mut tester = Tester::accepted();
    tester.deliver(|w| Block::Pong.encode(w));
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
    let mut tester = Tester::connected();
    tester.deliver(|w| Block::Pong.encode(w));
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_dm_o_4_5_a_fin_after_fin_was_sent_earns_fin_ack() {
    let mut tester = fin_sent();
    let fin = fin(&tester);
    tester.send_raw(&fin);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
}

#[test]
fn sctp_dm_o_4_6_1_a_fin_while_syn_ack_is_awaited_is_dropped() {
    let (mut tester, _, header) = waits_for_syn_ack();
    tester.told = Some(opening(header.connection.0));
    tester.ports = [header.source_port, header.destination_port];
    let fin = fin(&tester);
    tester.send_raw(&fin);
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_dm_o_4_6_2_a_fin_of_no_connection_earns_rst_with_t() {
    let mut tester = closed();
    tester.told = Some(opening(5));
    let fin = fin(&tester);
    tester.send_raw(&fin);
    let rst = tester.take();
    let [Block::Rst(block)] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    assert!(block.reflected && rst.header().connection == tester.header().connection);
}

#[test]
fn sctp_dm_o_4_6_3_when_both_sent_fin_both_end_by_fin_ack_and_fin_done() {
    let mut tester = fin_sent();
    let fin = fin(&tester);
    tester.send_raw(&fin);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
    tester.send_raw(&fin_ack());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec!["FIN-DONE"], 0));
    let mut tester = fin_sent();
    let fin = super::fin(&tester);
    tester.send_raw(&fin);
    tester.discard();
    tester.send_raw(&fin_done());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 0));
}

#[test]
fn sctp_dm_o_4_7_1_a_fin_ack_while_syn_ack_is_awaited_is_dropped() {
    let (mut tester, _, header) = waits_for_syn_ack();
    tester.deliver_from(PEER, header, |w| Block::FinAck.encode(w));
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_dm_o_4_7_2_a_fin_ack_for_an_established_connection_is_dropped() {
    let mut tester = Tester::accepted();
    tester.send_raw(&fin_ack());
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_dm_o_4_7_3_a_fin_ack_at_an_endpoint_that_sent_fin_ack_and_no_fin_is_dropped() {
    let mut tester = fin_ack_sent();
    tester.send_raw(&fin_ack());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 1));
}

#[test]
fn sctp_dm_o_4_8_a_ping_with_a_changed_info_for_an_established_connection_earns_rst_and_ends_nothing() {
    let mut tester = closed();
    let answer = tester.ask();
    let mut info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    tester.run_for(20 * MS);
    tester.discard();
    info[30] ^= 1;
    tester.ping(&info);
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes(), tester.ended()), (vec!["RST"], vec![9], None));
    let block = data(&tester, 0);
    tester.send_raw(&block);
    assert_eq!(tester.texts(), ["text"]);
}

#[test]
fn sctp_dm_o_4_9_a_fin_done_while_syn_ack_is_awaited_is_dropped() {
    let (mut tester, _, header) = waits_for_syn_ack();
    let payload = fin_done();
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_dm_o_4_10_data_after_fin_ack_was_sent_end_nothing() {
    let mut tester = fin_ack_sent();
    let block = data(&tester, 0);
    tester.send_raw(&block);
    assert!(!tester.take_names().contains(&"RST"));
    tester.send_raw(&fin_done());
    assert_eq!(tester.endpoint.connections(), 0);
}
