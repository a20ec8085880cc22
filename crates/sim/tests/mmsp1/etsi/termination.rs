//! Termination of associations: TS 102 369, group AT.

use manyway_proto::{ClosedBy, ConnectionError, MessageOptions};
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{Fin, encode_rst};

use super::super::tester::Tester;
use super::{data, fin, fin_ack, fin_ack_sent, fin_done, fin_sent};

/// A server whose message is not acknowledged.
fn with_outstanding_data() -> Tester {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.send_message(stream, b"outstanding", MessageOptions::default());
    assert_eq!(tester.take_names(), ["DATA"]);
    tester
}

fn close(tester: &mut Tester) {
    let now = tester.now;
    tester.connection().close(now, 0, "");
}

fn takes_no_message(tester: &mut Tester) {
    assert!(tester.connection().open_stream().is_err());
}

fn closed_by(tester: &Tester) -> Option<ClosedBy> {
    match tester.ended() {
        Some(ConnectionError::Closed { by, .. }) => Some(*by),
        _ => None,
    }
}

#[test]
fn sctp_at_v_2_2_rst_ends_an_established_connection() {
    let mut tester = Tester::accepted();
    tester.deliver(|w: &mut Writer<'_>| {
        encode_rst(w, false, std::iter::empty());
    });
    assert!(matches!(tester.ended(), Some(ConnectionError::AbortedByPeer { .. })));
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_at_i_2_3_fin_goes_once_no_data_are_outstanding() {
    let mut tester = with_outstanding_data();
    close(&mut tester);
    tester.run_for(50 * MS);
    assert_eq!(tester.take_names(), [""; 0]);
    tester.sack(0, 100_000);
    assert_eq!(tester.take_names(), ["FIN"]);
}

/// The times in ms at which a block of this name is repeated.
fn repetitions(tester: &mut Tester, name: &str) -> Vec<u128> {
    let start = tester.now;
    let mut times = Vec::new();
    for _ in 0..800 {
        tester.run_for(10 * MS);
        let now = (tester.now - start).as_millis();
        times.extend(tester.take_names().into_iter().filter(|sent| *sent == name).map(|_| now));
    }
    times
}

#[test]
fn sctp_at_i_2_4_fin_is_repeated_with_growing_waits() {
    let mut tester = fin_sent();
    let times = repetitions(&mut tester, "FIN");
    assert!(times.len() >= 3, "{times:?}");
    let waits: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.windows(2).all(|pair| pair[1] + 20 >= 2 * pair[0]), "{waits:?}");
}

#[test]
fn sctp_at_i_2_5_an_endpoint_without_a_fin_ack_ends_after_six_fins() {
    let mut tester = fin_sent();
    tester.run_for(60 * SECOND);
    assert_eq!(tester.take_names().into_iter().filter(|name| *name == "FIN").count(), 5);
    assert_eq!((closed_by(&tester), tester.endpoint.connections()), (Some(ClosedBy::Us), 0));
}

#[test]
fn sctp_at_v_2_6_a_fin_ack_earns_fin_done_and_ends_the_connection() {
    let mut tester = fin_sent();
    tester.send_raw(&fin_ack());
    assert_eq!((tester.take_names(), closed_by(&tester)), (vec!["FIN-DONE"], Some(ClosedBy::Us)));
}

#[test]
fn sctp_at_i_2_7_1_after_fin_was_sent_no_message_is_taken() {
    let mut tester = fin_sent();
    takes_no_message(&mut tester);
}

#[test]
fn sctp_at_i_2_7_2_after_fin_was_received_no_message_is_taken() {
    let mut tester = with_outstanding_data();
    let fin = fin(&tester);
    tester.send_raw(&fin);
    takes_no_message(&mut tester);
    tester.sack(0, 100_000);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
}

#[test]
fn sctp_at_i_2_7_3_while_a_close_waits_for_outstanding_data_no_message_is_taken() {
    let mut tester = with_outstanding_data();
    close(&mut tester);
    takes_no_message(&mut tester);
}

#[test]
fn sctp_at_i_2_7_4_after_fin_ack_was_sent_no_message_is_taken() {
    let mut tester = fin_ack_sent();
    takes_no_message(&mut tester);
}

#[test]
fn sctp_at_i_2_8_after_fin_was_sent_data_are_taken_and_acknowledged() {
    let mut tester = fin_sent();
    let block = data(&tester, 0);
    tester.send_raw(&block);
    tester.run_for(20 * MS);
    assert_eq!(tester.take_sacks().last().map(|sack| sack.blocks), Some(1));
}

#[test]
fn sctp_at_i_2_9_after_fin_was_received_data_of_its_sender_change_nothing() {
    let mut tester = with_outstanding_data();
    let (fin, block) = (fin(&tester), data(&tester, 0));
    tester.send_raw(&fin);
    tester.send_raw(&block);
    assert!(!tester.take_names().contains(&"RST"));
    tester.sack(0, 100_000);
    assert_eq!(tester.take_names().last(), Some(&"FIN-ACK"));
}

#[test]
fn sctp_at_i_2_10_a_fin_is_answered_once_no_data_are_outstanding() {
    let mut tester = with_outstanding_data();
    let fin = fin(&tester);
    tester.send_raw(&fin);
    tester.run_for(10 * MS);
    assert_eq!(tester.take_names(), [""; 0]);
    tester.sack(0, 100_000);
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
}

#[test]
fn sctp_at_i_2_11_fin_ack_is_repeated_with_growing_waits() {
    let mut tester = fin_ack_sent();
    let times = repetitions(&mut tester, "FIN-ACK");
    assert!(times.len() >= 3, "{times:?}");
    let waits: Vec<u128> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.windows(2).all(|pair| pair[1] + 20 >= 2 * pair[0]), "{waits:?}");
}

#[test]
fn sctp_at_i_2_12_an_endpoint_without_a_fin_done_ends_after_six_fin_acks() {
    let mut tester = fin_ack_sent();
    tester.run_for(60 * SECOND);
    assert_eq!(tester.take_names().into_iter().filter(|name| *name == "FIN-ACK").count(), 5);
    assert_eq!((closed_by(&tester), tester.endpoint.connections()), (Some(ClosedBy::Peer), 0));
}

#[test]
fn sctp_at_i_2_13_a_fin_done_ends_the_connection_after_fin_ack() {
    let mut tester = fin_ack_sent();
    tester.send_raw(&fin_done());
    assert_eq!((tester.take_names(), tester.endpoint.connections()), (vec![], 0));
}

#[test]
fn sctp_at_v_2_14_a_fin_that_acknowledges_all_outstanding_data_is_answered_at_once() {
    let mut tester = with_outstanding_data();
    let ack = tester.told.unwrap().tseq;
    tester.deliver(|w| Fin { ack }.encode(w));
    assert_eq!(tester.take_names(), ["FIN-ACK"]);
}
