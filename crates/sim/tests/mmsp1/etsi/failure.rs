//! Fault handling and retransmission timers: TS 102 369, groups FH and RT.

use std::time::Duration;

use manyway_proto::{Event, Instant, MessageOptions, PathState};
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::mmsp1::{Block, Probe, ProbeData, Rst, Tag, encode_rst};

use super::super::tester::{PEER, Tester};
use super::{block, closed, data, fin_ack, fin_done, send_under};

/// A server that has sent one message, which is not acknowledged.
fn with_message() -> Tester {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 1000], MessageOptions::default());
    assert_eq!(tester.take_names(), ["DATA"]);
    tester
}

fn is_unreachable(tester: &Tester) -> bool {
    let states = tester.events.iter().rev();
    let state =
        states.filter_map(|event| if let Event::Path(path) = event { Some(path.state) } else { None }).next();
    state == Some(PathState::Dead)
}

#[test]
fn sctp_fh_i_5_1_1_without_any_answer_the_path_becomes_unreachable_and_then_the_connection_ends() {
    let mut tester = with_message();
    tester.run_for(10 * SECOND);
    assert!(is_unreachable(&tester), "{:?}", tester.events);
    assert_eq!(tester.ended(), None, "the out-of-service timer runs");
    tester.run_for(70 * SECOND);
    assert!(tester.ended().is_some());
    assert_eq!(tester.endpoint.connections(), 0);
}

#[test]
fn sctp_fh_i_5_1_2_an_acknowledgement_starts_the_count_again() {
    let mut tester = with_message();
    let stream = tester.open_stream();
    for message in 0..6 {
        // Two seconds are less than three unanswered PROBEs take.
        tester.run_for(2 * SECOND);
        tester.sack(message, 100_000);
        for sent in tester.take_all() {
            tester.answer_probe(&sent);
        }
        tester.send_message(stream, &[1; 1000], MessageOptions::default());
        tester.run_for(20 * MS);
        assert!(!is_unreachable(&tester), "after {message}: {:?}", tester.events);
    }
}

#[test]
fn sctp_fh_v_5_2_a_probe_is_answered_with_its_content_unchanged() {
    let mut tester = Tester::accepted();
    let data =
        ProbeData { sent_micros: 5, path: 3, address: "10.0.0.1".parse().unwrap(), nonce: 7, mac: u64::MAX };
    tester.deliver(|w| Probe { data, unrecognised: None }.encode(w));
    let answer = tester.take();
    let [Block::ProbeAck(answer)] = answer.blocks()[..] else { panic!("{:?}", answer.names()) };
    assert_eq!(answer.echo, data);
}

#[test]
fn sctp_fh_o_5_3_1_data_of_no_connection_earn_rst_with_t() {
    let mut tester = closed();
    let payload = data(&tester, 0);
    send_under(&mut tester, Tag(9), &payload);
    let rst = tester.take();
    let [Block::Rst(Rst { reflected: true, .. })] = rst.blocks()[..] else { panic!("{:?}", rst.names()) };
    assert_eq!(rst.header().connection, Tag(9));
}

#[test]
fn sctp_fh_o_5_3_2_rst_of_no_connection_is_dropped() {
    let mut tester = closed();
    for reflected in [false, true] {
        let header = tester.header_with(Tag(9));
        tester.deliver_from(PEER, header, |w| {
            encode_rst(w, reflected, std::iter::empty());
        });
    }
    assert_eq!(tester.take_names(), [""; 0]);
}

#[test]
fn sctp_fh_o_5_3_3_fin_ack_of_no_connection_earns_fin_done_with_t() {
    let mut tester = closed();
    send_under(&mut tester, Tag(9), &fin_ack());
    let answer = tester.take();
    let [Block::FinDone(done)] = answer.blocks()[..] else { panic!("{:?}", answer.names()) };
    assert!(done.reflected && answer.header().connection == Tag(9));
}

#[test]
fn sctp_fh_o_5_3_4_fin_done_of_no_connection_is_dropped() {
    let mut tester = closed();
    send_under(&mut tester, Tag(9), &fin_done());
    assert_eq!(tester.take_names(), [""; 0]);
    send_under(&mut tester, Tag(9), &block(0x80, b"unknown"));
    assert_eq!(tester.take_names(), ["RST"], "other blocks are answered");
}

/// The times at which the block is sent again while PROBE is answered.
fn retransmissions(tester: &mut Tester, time: Duration) -> Vec<Instant> {
    let mut times = Vec::new();
    let end = tester.now + time;
    while tester.now < end {
        tester.run_for(MS);
        let now = tester.now;
        for sent in tester.take_all() {
            tester.answer_probe(&sent);
            times.extend(sent.names().contains(&"DATA").then_some(now));
        }
    }
    times
}

#[test]
fn sctp_rt_i_11_1_data_without_an_acknowledgement_are_sent_again_after_growing_waits() {
    let mut tester = with_message();
    let start = tester.now;
    let times = retransmissions(&mut tester, 2500 * MS);
    assert!(times.len() >= 3, "{times:?}");
    assert!(times[0] - start <= 500 * MS, "after one PTO: {:?}", times[0] - start);
    let waits: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
}

#[test]
fn sctp_rt_i_11_2_an_acknowledgement_starts_the_wait_again() {
    let mut tester = with_message();
    let start = tester.now;
    let first = retransmissions(&mut tester, 2 * SECOND)[0] - start;
    tester.sack(0, 100_000);
    let stream = tester.open_stream();
    tester.send_message(stream, &[2; 1000], MessageOptions::default());
    let start = tester.now;
    let next = retransmissions(&mut tester, 2 * SECOND);
    assert!(next[0] == start + MS || next[0] - start <= 2 * first, "{:?} {first:?}", next[0] - start);
}
