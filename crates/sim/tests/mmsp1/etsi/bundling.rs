//! Blocks that share a packet: TS 102 369, group BDC.

use manyway_sim::scenario::MS;
use manyway_wire::mmsp1::{Addresses, Block, Ping, encode_sack};

use super::super::tester::{PEER, Tester};
use super::{
    closed, data, encoded, fin, fin_ack, fin_ack_sent, fin_done, fin_sent, send_under, syn, syn_ack,
    waits_for_pong, waits_for_syn_ack,
};

#[test]
fn sctp_bdc_i_7_1_a_syn_with_data_is_dropped() {
    let mut tester = closed();
    let payload = [syn(tester.peer, Addresses::default()), data(&tester, 0)].concat();
    let tag = tester.peer.tag;
    send_under(&mut tester, tag, &payload);
    assert_eq!(tester.take_names(), [""; 0]);
}

#[test]
fn sctp_bdc_i_7_2_a_syn_ack_with_data_is_dropped() {
    let (mut tester, asked, header) = waits_for_syn_ack();
    let payload = [syn_ack(tester.peer, Addresses::default()), data(&tester, 0)].concat();
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    assert_eq!(tester.take_names(), [""; 0]);
    tester.answer_syn(&asked, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_bdc_i_7_3_a_fin_done_with_data_is_dropped() {
    let mut tester = fin_ack_sent();
    let payload = [fin_done(), data(&tester, 0)].concat();
    tester.send_raw(&payload);
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 1));
    tester.send_raw(&fin_done());
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_bdc_v_7_4_data_with_a_ping_are_taken_in_either_order() {
    for ping_first in [true, false] {
        let mut tester = closed();
        let answer = tester.ask();
        let info = tester.note_syn_ack(&answer);
        let ping = encoded(|w| Ping { info: &info, unrecognised: None }.encode(w));
        let block = data(&tester, 0);
        tester.send_raw(&if ping_first { [ping, block].concat() } else { [block, ping].concat() });
        assert_eq!(tester.texts(), ["text"]);
        tester.run_for(20 * MS);
        assert!(tester.take_names().starts_with(&["PONG"]));
    }
}

#[test]
fn sctp_bdc_v_7_5_data_with_a_pong_are_taken() {
    let (mut tester, _) = waits_for_pong();
    let payload = [encoded(|w| Block::Pong.encode(w)), data(&tester, 0)].concat();
    tester.send_raw(&payload);
    assert!(tester.is_established());
    assert_eq!(tester.texts(), ["text"]);
}

#[test]
fn sctp_bdc_v_7_6_a_sack_with_a_fin_is_dropped_because_fin_travels_alone() {
    let mut tester = Tester::accepted();
    let ack = tester.told.unwrap().tseq.minus(1);
    let sack = encoded(|w| {
        encode_sack(w, ack, 100_000, std::iter::empty(), std::iter::empty());
    });
    let payload = [sack, fin(&tester)].concat();
    tester.send_raw(&payload);
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_bdc_v_7_7_a_sack_with_data_counts_and_the_data_are_taken() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.send_message(stream, b"mine", manyway_proto::MessageOptions::default());
    tester.discard();
    let ack = tester.told.unwrap().tseq;
    let sack = encoded(|w| {
        encode_sack(w, ack, 100_000, std::iter::empty(), std::iter::empty());
    });
    let payload = [sack, data(&tester, 0)].concat();
    tester.send_raw(&payload);
    assert_eq!((tester.connection().unacknowledged().get(), tester.texts().len()), (0, 1));
}

#[test]
fn sctp_bdc_v_7_8_a_fin_ack_with_data_is_dropped_because_fin_ack_travels_alone() {
    let mut tester = fin_sent();
    let payload = [fin_ack(), data(&tester, 0)].concat();
    tester.send_raw(&payload);
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 1));
    tester.send_raw(&fin_ack());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec!["FIN-DONE"], 0));
}
