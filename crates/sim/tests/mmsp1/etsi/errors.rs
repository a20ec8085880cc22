//! ERROR and unknown blocks: TS 102 369, groups E and M.

use manyway_sim::scenario::MS;
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Addresses, Cause, ErrorCode, Ping, encode_error};

use super::super::tester::{PEER, Sent, Tester, opening};
use super::{block, closed, data, encoded, syn_ack, waits_for_pong, waits_for_syn_ack};

fn stale(w: &mut Writer<'_>) {
    let cause = Cause { code: ErrorCode::STALE_INFO, information: &[0, 0, 0, 9] };
    encode_error(w, std::iter::once(cause));
}

fn codes(tester: &mut Tester) -> Vec<u16> {
    tester.take_all().iter().flat_map(Sent::codes).collect()
}

#[test]
fn sctp_e_o_6_1_an_error_about_stale_info_while_pong_is_awaited_leaves_the_attempt_to_the_new_syn_ack() {
    let (mut tester, syn) = waits_for_pong();
    tester.deliver(stale);
    assert_eq!(tester.ended(), None);
    tester.answer_syn(&syn, PEER);
    tester.run_for(1100 * MS);
    assert!(tester.take_names().contains(&"PING"));
    tester.deliver(|w| manyway_wire::mmsp1::Block::Pong.encode(w));
    assert!(tester.is_established());
}

#[test]
fn sctp_e_o_6_2_an_error_about_stale_info_in_another_state_changes_nothing() {
    let mut tester = Tester::accepted();
    tester.deliver(stale);
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
    let (mut tester, _, header) = waits_for_syn_ack();
    tester.deliver_from(PEER, header, stale);
    assert_eq!((tester.take_names(), tester.ended()), (vec![], None));
}

#[test]
fn sctp_e_i_6_3_data_for_a_stream_that_does_not_exist_earn_an_error_and_are_acknowledged() {
    let mut tester = Tester::accepted();
    let wrong = tester.data(0, 10, 0, b"text");
    tester.send(&[wrong]);
    tester.run_for(20 * MS);
    let sent = tester.take_all();
    assert_eq!(sent.iter().flat_map(Sent::codes).collect::<Vec<_>>(), [1]);
    assert!(sent.iter().flat_map(Sent::names).any(|name| name == "SACK"));
}

#[test]
fn sctp_e_i_6_4_a_syn_ack_without_info_earns_an_error_and_does_not_count() {
    let (mut tester, syn, header) = waits_for_syn_ack();
    let whole = syn_ack(tester.peer, Addresses::default());
    let payload = block(3, &whole[4..20]);
    tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    assert_eq!((codes(&mut tester), tester.ended()), (vec![8], None));
    tester.answer_syn(&syn, PEER);
    assert_eq!(tester.take().names(), ["PING"]);
}

#[test]
fn sctp_e_i_6_5_an_unknown_parameter_of_syn_ack_is_skipped() {
    let (mut tester, _, header) = waits_for_syn_ack();
    let whole = syn_ack(tester.peer, Addresses::default());
    for kind in [0x8123_u16, 0x0123] {
        let unknown = [&kind.to_be_bytes()[..], &[0, 8], b"what"].concat();
        let payload = block(3, &[&whole[4..], &unknown].concat());
        tester.deliver_from(PEER, header, |w| w.bytes(&payload));
    }
    assert_eq!(tester.take_names()[..1], ["PING"]);
}

#[test]
fn sctp_e_i_6_6_an_error_with_a_ping_does_not_hinder_the_handshake() {
    let mut tester = closed();
    let answer = tester.ask();
    let info = tester.note_syn_ack(&answer);
    let ping = encoded(|w| Ping { info: &info, unrecognised: None }.encode(w));
    let report = encoded(|w| {
        let cause = Cause { code: ErrorCode::UNRECOGNISED_FIELD, information: &[0, 0x99] };
        encode_error(w, std::iter::once(cause));
    });
    tester.send_raw(&[ping, report].concat());
    assert_eq!(tester.take_names(), ["PONG"]);
    assert!(tester.is_established());
}

/// Sends an unknown block before DATA; what the endpoint reported, and whether it took the DATA.
fn unknown_before_data(kind: u8) -> (Vec<u16>, bool) {
    let mut tester = Tester::accepted_from(opening(77));
    let payload = [block(kind, b"what"), data(&tester, 0)].concat();
    tester.send_raw(&payload);
    (codes(&mut tester), !tester.texts().is_empty())
}

#[test]
fn sctp_m_i_10_1_an_unknown_block_with_the_bits_11_is_skipped() {
    assert_eq!(unknown_before_data(0xfe), (vec![], true));
}

#[test]
fn sctp_m_i_10_2_an_unknown_block_with_the_bits_00_ends_the_packet_and_is_reported() {
    assert_eq!(unknown_before_data(0x3e), (vec![3], false));
}

#[test]
fn sctp_m_i_10_3_an_unknown_block_with_the_bits_01_ends_the_packet_and_is_reported() {
    assert_eq!(unknown_before_data(0x7e), (vec![3], false));
}

#[test]
fn sctp_m_i_10_4_an_unknown_block_with_the_bits_10_is_skipped() {
    assert_eq!(unknown_before_data(0xbe), (vec![], true));
}
