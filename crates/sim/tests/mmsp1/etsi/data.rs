//! Data transfer: TS 102 369, group D.

use manyway_proto::{ConnectionConfig, MessageOptions, SendError};
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::mmsp1::{Addresses, Data, Fragment, Opening, encode_sack};

use super::super::tester::{OwnData, Tester, opening};
use super::{ask_with, closed};

/// A server that has sent messages of 1000 bytes to a peer with this window.
fn with_messages(window: u32, messages: u8) -> Tester {
    let mut tester = Tester::accepted_from(Opening { window, ..opening(77) });
    let stream = tester.open_stream();
    for message in 0..messages {
        tester.send_message(stream, &[message; 1000], MessageOptions::default());
    }
    tester
}

fn tseqs(packets: &[Vec<OwnData>]) -> Vec<u32> {
    packets.iter().flatten().map(|block| block.tseq).collect()
}

#[test]
fn sctp_d_v_8_1_a_message_that_fits_goes_whole() {
    let mut tester = with_messages(100_000, 1);
    let sent = tester.take_data().concat();
    assert_eq!(
        sent.iter().map(|block| (block.fragment, block.data.len())).collect::<Vec<_>>(),
        [(Fragment::Whole, 1000)]
    );
}

#[test]
fn sctp_d_v_8_2_a_message_that_does_not_fit_goes_as_fragments() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 3000], MessageOptions::default());
    let sent = tester.take_data().concat();
    let parts: Vec<Fragment> = sent.iter().map(|block| block.fragment).collect();
    assert_eq!(parts, [Fragment::First, Fragment::Middle, Fragment::Last]);
    assert_eq!(tseqs(&[sent]), [0, 1, 2]);
}

#[test]
fn sctp_d_v_8_3_first_middle_and_last_fragment_make_one_message() {
    let mut tester = Tester::accepted();
    let part = |tester: &Tester, tseq, fragment, data| Data { fragment, ..tester.data(tseq, 0, 0, data) };
    let blocks = [
        part(&tester, 0, Fragment::First, b"one "),
        part(&tester, 1, Fragment::Middle, b"whole "),
        part(&tester, 2, Fragment::Last, b"message"),
    ];
    blocks.into_iter().for_each(|block| tester.send(&[block]));
    assert_eq!(tester.texts(), ["one whole message"]);
}

#[test]
fn sctp_d_v_8_4_acknowledged_data_are_not_sent_again() {
    let mut tester = with_messages(100_000, 1);
    assert_eq!(tseqs(&tester.take_data()), [0]);
    tester.sack(0, 100_000);
    tester.run_for(5 * SECOND);
    assert!(tester.take_data().is_empty());
}

#[test]
fn sctp_d_i_8_5_data_without_an_acknowledgement_are_sent_again() {
    let mut tester = with_messages(100_000, 1);
    let first = tester.take_data().concat();
    tester.run_for(SECOND);
    let again = tester.take_data().concat();
    assert!(!again.is_empty() && again.iter().all(|block| *block == first[0]), "{again:?}");
}

#[test]
fn sctp_d_o_8_6_a_copy_is_reported_as_a_duplicate_and_not_delivered() {
    let mut tester = Tester::accepted();
    let block = tester.data(0, 0, 0, b"once");
    tester.send(&[block]);
    tester.send(&[block]);
    let sacks = tester.take_sacks();
    assert_eq!(sacks.last().map(|sack| (sack.blocks, &sack.duplicates[..])), Some((1, &[0][..])));
    assert_eq!(tester.texts(), ["once"]);
}

/// The TSEQs that a sender sends while the window is 0, and SACKs say so.
fn probed(tester: &mut Tester, upto: u32) -> Vec<u32> {
    let mut sent = Vec::new();
    for _ in 0..60 {
        tester.run_for(50 * MS);
        let packets = tester.take_data_so_far();
        if !packets.is_empty() {
            assert_eq!(packets.concat().len(), 1, "one block at a time");
            sent.extend(tseqs(&packets));
            tester.sack(upto, 0);
        }
    }
    sent
}

#[test]
fn sctp_d_o_8_7_a_closed_window_is_probed_with_a_whole_message() {
    let mut tester = with_messages(2000, 3);
    assert_eq!(tseqs(&tester.take_data()), [0, 1]);
    tester.sack(1, 0);
    let sent = probed(&mut tester, 1);
    assert!(sent.len() >= 2 && sent.iter().all(|tseq| *tseq == 2), "{sent:?}");
    tester.sack(2, 2000);
    tester.run_for(SECOND);
    assert!(tester.take_data().is_empty());
}

#[test]
fn sctp_d_o_8_8_a_closed_window_is_probed_with_the_first_fragment() {
    let mut tester = Tester::accepted_from(Opening { window: 6000, ..opening(77) });
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 3000], MessageOptions::default());
    tester.send_message(stream, &[2; 3000], MessageOptions::default());
    tester.send_message(stream, &[3; 3000], MessageOptions::default());
    assert_eq!(tseqs(&tester.take_data()), [0, 1, 2, 3, 4, 5]);
    tester.sack(5, 0);
    let sent = probed(&mut tester, 5);
    assert!(sent.len() >= 2 && sent.iter().all(|tseq| *tseq == 6), "{sent:?}");
    tester.sack(5, 3000);
    assert_eq!(tseqs(&tester.take_data()), [6, 7, 8]);
}

#[test]
fn sctp_d_v_8_9_lost_data_go_before_new_data() {
    let mut tester = with_messages(5000, 8);
    assert_eq!(tseqs(&tester.take_data()), [0, 1, 2, 3, 4]);
    // The first is lost, and the window lets three more go.
    tester.now += 10 * MS;
    tester.sack_ranges(0, &[(2, 5)], 8000);
    let sent = tseqs(&tester.take_data());
    assert_eq!(sent[0], 0, "{sent:?}");
    assert!(sent.contains(&5), "{sent:?}");
}

#[test]
fn sctp_d_v_8_10_a_sack_from_another_address_of_the_peer_counts() {
    let mut tester = closed();
    tester.peer = Opening { outgoing: 300, ..tester.peer };
    let (peer, ipv4) = (tester.peer, [[10, 0, 0, 8]]);
    ask_with(&mut tester, peer, Addresses { ipv4: &ipv4, ..Addresses::default() });
    let answer = tester.take();
    let info = tester.note_syn_ack(&answer);
    tester.ping(&info);
    let stream = tester.open_stream();
    tester.send_message(stream, b"text", MessageOptions::default());
    assert!(tester.take_names().contains(&"DATA"));
    let (header, ack) = (tester.header(), tester.told.unwrap().tseq);
    tester.deliver_from("10.0.0.8:4000", header, |w| {
        encode_sack(w, ack, 100_000, std::iter::empty(), std::iter::empty());
    });
    assert_eq!(tester.connection().unacknowledged().get(), 0);
}

#[test]
fn sctp_d_i_8_11_empty_data_are_reported_and_the_connection_goes_on() {
    let mut tester = Tester::accepted();
    let block = tester.data(0, 0, 0, b"");
    tester.send(&[block]);
    tester.run_for(20 * MS);
    let codes: Vec<u16> = tester.take_all().iter().flat_map(super::Sent::codes).collect();
    assert_eq!((codes, tester.ended()), (vec![7], None));
}

#[test]
fn sctp_d_o_8_12_an_old_sack_takes_nothing_back() {
    let mut tester = with_messages(3000, 1);
    assert_eq!(tseqs(&tester.take_data()), [0]);
    tester.sack(0, 3000);
    tester.sack_ranges(0, &[], 0);
    let stream = tester.open_stream();
    tester.send_message(stream, &[7; 1000], MessageOptions::default());
    tester.send_message(stream, &[7; 1000], MessageOptions::default());
    assert_eq!(tseqs(&tester.take_data()), [1, 2]);
}

#[test]
fn sctp_d_v_8_13_a_message_of_the_largest_size_is_taken() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    let mut tester = Tester::accepted_with(config);
    let block = Data { data: &[b'x'; 8192], ..tester.data(0, 0, 0, b"") };
    tester.send(&[block]);
    assert_eq!(tester.texts()[0].len(), 8192);
}

#[test]
fn sctp_d_v_8_14_a_message_of_the_largest_size_is_sent() {
    let mut tester = Tester::accepted_from(Opening { window: 6000, ..opening(77) });
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 3000], MessageOptions::default());
    assert_eq!(tester.take_data().concat().iter().map(|block| block.data.len()).sum::<usize>(), 3000);
}

#[test]
fn sctp_d_v_8_15_a_message_beyond_the_largest_size_is_neither_sent_nor_taken() {
    let mut tester = Tester::accepted_from(Opening { window: 6000, ..opening(77) });
    let stream = tester.open_stream();
    let (now, message) = (tester.now, bytes::Bytes::from(vec![1; 3001]));
    let refused = tester.connection().send_message(now, stream, message, MessageOptions::default());
    assert_eq!(refused, Err(SendError::TooLarge { size: 3001, most: 3000 }));
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    let mut tester = Tester::accepted_with(config);
    let block = Data { data: &[b'x'; 8193], ..tester.data(0, 0, 0, b"") };
    tester.send(&[block]);
    let rst = tester.take();
    assert_eq!((rst.names(), rst.codes()), (vec!["RST"], vec![10]));
}
