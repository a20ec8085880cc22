//! Invalid messages: TS 102 369, group IMH.

use manyway_sim::scenario::SECOND;
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Addresses, Block, Tag, encode_rst};

use super::super::tester::{PEER, Tester, opening, packet};
use super::{block, closed, fin_ack, fin_ack_sent, fin_done, fin_sent, send_under, syn, waits_for_syn_ack};

#[test]
fn sctp_imh_i_3_1_a_syn_without_all_of_its_fields_earns_rst() {
    let mut tester = closed();
    send_under(&mut tester, Tag(77), &block(2, &[0, 0, 0, 77, 0, 1, 0, 0]));
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes()), (vec!["RST"], vec![5]));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_imh_i_3_2_a_syn_ack_without_all_of_its_fields_earns_rst_and_does_not_count() {
    let (mut tester, syn, header) = waits_for_syn_ack();
    let payload = block(3, &[0, 0, 0, 77, 0, 1, 0, 0]);
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    let rst = tester.take();
    assert_eq!((rst.codes(), rst.header().connection), (vec![5], Tag(77)));
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_imh_i_3_3_a_ping_under_another_tag_begins_no_connection() {
    let mut tester = closed();
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    let header = tester.header_with(Tag(tester.header().connection.0 ^ 1));
    tester.deliver_from(PEER, header, |w| {
        manyway_wire::mmsp1::Ping { info: &info, unrecognised: None }.encode(w);
    });
    assert_eq!((tester.take().codes(), tester.endpoint.connections()), (vec![9], 0));
}

#[test]
fn sctp_imh_i_3_4_a_syn_with_a_wrong_checksum_is_dropped() {
    let mut tester = closed();
    let payload = syn(opening(77), Addresses::default());
    let mut bytes = packet(tester.header_with(Tag(77)), |w| w.bytes(&payload));
    bytes[7] ^= 1;
    tester.deliver_bytes(PEER, bytes);
    assert_eq!(tester.take_names(), [""; 0]);
}

#[test]
fn sctp_imh_i_3_5_a_ping_with_a_changed_info_earns_rst() {
    let mut tester = closed();
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    for at in 0..info.len() {
        let mut changed = info.clone();
        changed[at] ^= 0x40;
        tester.ping(&changed);
        let sent = tester.take_all();
        assert!(
            sent.iter().all(|sent| sent.names() == ["RST"] && sent.codes() == [9]),
            "byte {at}: {sent:?}"
        );
        assert_eq!((sent.len(), tester.endpoint.connections()), (1, 0), "byte {at}");
        tester.now += SECOND / 40;
    }
}

#[test]
fn sctp_imh_i_3_6_a_ping_with_an_expired_info_earns_error_and_another_info() {
    let mut tester = closed();
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    tester.now += 10 * SECOND + SECOND / 1000;
    tester.ping(&info);
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec!["ERROR", "SYN-ACK"], 0));
}

#[test]
fn sctp_imh_i_3_7_rst_under_another_tag_does_not_end_a_connection() {
    let mut tester = Tester::accepted();
    let header = tester.header_with(Tag(tester.header().connection.0 ^ 1));
    tester.deliver_from(PEER, header, |w: &mut Writer<'_>| {
        encode_rst(w, false, std::iter::empty());
    });
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_imh_i_3_8_a_packet_that_is_too_small_for_its_syn_is_dropped() {
    let mut tester = closed();
    let mut payload = syn(opening(77), Addresses::default());
    payload.truncate(12);
    send_under(&mut tester, Tag(77), &payload);
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 0));
}

#[test]
fn sctp_imh_i_3_9_fin_ack_under_another_tag_does_not_end_a_connection() {
    let mut tester = fin_sent();
    let wrong = Tag(tester.header().connection.0 ^ 1);
    send_under(&mut tester, wrong, &fin_ack());
    let answer = tester.take();
    let [Block::FinDone(done)] = answer.blocks()[..] else { panic!("{:?}", answer.names()) };
    assert!(done.reflected && answer.header().connection == wrong, "as one of no connection");
    assert_eq!(tester.endpoint.connections(), 1);
}

#[test]
fn sctp_imh_i_3_10_fin_done_under_another_tag_does_not_end_a_connection() {
    let mut tester = fin_ack_sent();
    let wrong = Tag(tester.header().connection.0 ^ 1);
    send_under(&mut tester, wrong, &fin_done());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 1));
}
