//! DATA that comes in: fragments and their order, streams that do not wait for each other, and what cannot be.

use manyway_proto::{ConnectionConfig, ConnectionError, Order};
use manyway_wire::mmsp1::{Block, Data, Fragment, Sseq};

use super::tester::{Tester, opening};

/// Makes two blocks of a peer.
type MakePair = fn(&Tester) -> [Data<'static>; 2];

/// The message "abc" on stream 3 in three blocks from this TSEQ on.
fn abc(tester: &Tester, from: u32) -> [Data<'static>; 3] {
    let parts: [(Fragment, &'static [u8]); 3] =
        [(Fragment::First, b"a"), (Fragment::Middle, b"b"), (Fragment::Last, b"c")];
    let mut tseq = from;
    parts.map(|(fragment, data)| {
        tseq += 1;
        Data { fragment, ..tester.data(tseq - 1, 3, 0, data) }
    })
}

/// The code of the RST with which the endpoint answered.
fn reset_code(tester: &mut Tester) -> Option<u16> {
    let sent = tester.take_all();
    let rst = sent.iter().find(|sent| sent.names() == ["RST"])?;
    assert!(matches!(tester.ended(), Some(ConnectionError::Violation(_))), "{:?}", tester.ended());
    rst.codes().first().copied()
}

// spec 3.34
#[test]
fn fragments_are_joined_by_consecutive_tseqs_in_whatever_order_they_arrive() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut tester = Tester::accepted();
        let blocks = abc(&tester, 0);
        for (arrived, at) in order.into_iter().enumerate() {
            assert!(tester.texts().is_empty(), "{order:?}: {arrived} of 3 are no message");
            tester.send(&[blocks[at]]);
        }
        assert_eq!(tester.texts(), ["abc"], "{order:?}");
    }
}

#[test]
fn a_message_behind_a_gap_on_another_stream_is_delivered_at_once() {
    let mut tester = Tester::accepted();
    let blocks = abc(&tester, 2);
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["abc"], "two TSEQs before it are missing");
    let late = [tester.data(1, 5, 1, b"second"), tester.data(0, 5, 0, b"first")];
    tester.send(&late);
    assert_eq!(tester.texts(), ["first", "second"]);
}

// spec 3.32
#[test]
fn messages_of_a_stream_are_delivered_by_sseq_and_those_of_others_do_not_wait() {
    let mut tester = Tester::accepted();
    let blocks = [tester.data(1, 2, 1, b"b"), tester.data(2, 2, 2, b"c"), tester.data(3, 4, 0, b"x")];
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["x"]);
    let first = tester.data(0, 2, 0, b"a");
    tester.send(&[first]);
    assert_eq!(tester.texts(), ["a", "b", "c"]);
}

// spec 3.33
#[test]
fn an_unordered_message_is_delivered_before_earlier_ordered_ones_and_its_sseq_is_ignored() {
    let mut tester = Tester::accepted();
    let unordered =
        |tester: &Tester, tseq, sseq, data| Data { unordered: true, ..tester.data(tseq, 2, sseq, data) };
    let blocks =
        [tester.data(1, 2, 1, b"b"), unordered(&tester, 2, 999, b"u"), unordered(&tester, 3, 999, b"v")];
    tester.send(&blocks);
    let messages = tester.messages();
    assert!(messages.iter().all(|(stream, message)| *stream == 2 && message.order == Order::Unordered));
    assert_eq!(messages.len(), 2);
    let first = tester.data(0, 2, 0, b"a");
    tester.send(&[first]);
    assert_eq!(tester.texts(), ["a", "b"]);
}

#[test]
fn fragments_of_an_unordered_message_may_differ_in_sseq() {
    let mut tester = Tester::accepted();
    let mut sseq = 0;
    let blocks = abc(&tester, 0).map(|block| {
        sseq += 7;
        Data { unordered: true, sseq: Sseq(sseq), ..block }
    });
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["abc"]);
}

// spec 3.37
#[test]
fn the_payload_protocol_of_the_first_fragment_holds_for_the_message() {
    let mut tester = Tester::accepted();
    let mut protocol = 40;
    let blocks = abc(&tester, 0).map(|block| {
        protocol += 1;
        Data { protocol, ..block }
    });
    tester.send(&[blocks[2], blocks[1], blocks[0]]);
    let messages = tester.messages();
    assert_eq!((messages.len(), messages[0].1.protocol), (1, 41));
}

#[test]
fn messages_that_share_a_packet_keep_their_boundaries() {
    let mut tester = Tester::accepted();
    let blocks = [tester.data(0, 1, 0, b"one"), tester.data(1, 1, 1, b"two"), tester.data(2, 1, 2, b"three")];
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["one", "two", "three"]);
}

// spec 3.118
#[test]
fn fragments_that_contradict_each_other_earn_rst_0x0004() {
    fn block(tester: &Tester, tseq: u32, fragment: Fragment) -> Data<'static> {
        Data { fragment, ..tester.data(tseq, 3, 0, b"x") }
    }
    let impossible: [(&str, MakePair); 9] = [
        ("a message inside another", |t| [block(t, 0, Fragment::First), block(t, 1, Fragment::Whole)]),
        ("a second beginning", |t| [block(t, 0, Fragment::First), block(t, 1, Fragment::First)]),
        ("the middle behind an end", |t| [block(t, 0, Fragment::Whole), block(t, 1, Fragment::Middle)]),
        ("the middle at the beginning", |t| [block(t, 1, Fragment::Last), block(t, 0, Fragment::Middle)]),
        ("an end at the beginning", |t| [block(t, 1, Fragment::Whole), block(t, 0, Fragment::Last)]),
        ("no end before a beginning", |t| [block(t, 2, Fragment::First), block(t, 1, Fragment::Middle)]),
        ("another stream", |t| {
            [block(t, 0, Fragment::First), Data { stream: 4, ..block(t, 1, Fragment::Last) }]
        }),
        ("another U", |t| {
            [block(t, 0, Fragment::First), Data { unordered: true, ..block(t, 1, Fragment::Last) }]
        }),
        ("another SSEQ", |t| {
            [block(t, 1, Fragment::Last), Data { sseq: Sseq(1), ..block(t, 0, Fragment::First) }]
        }),
    ];
    for (name, blocks) in impossible {
        let mut tester = Tester::accepted();
        let blocks = blocks(&tester);
        blocks.into_iter().for_each(|block| tester.send(&[block]));
        assert_eq!(reset_code(&mut tester), Some(4), "{name}");
        assert_eq!(tester.endpoint.connections(), 0, "{name}");
    }
}

// spec 3.119
#[test]
fn an_sseq_that_was_delivered_or_waits_earns_rst_0x0004() {
    for (first, name) in [(0, "delivered"), (1, "waits")] {
        let mut tester = Tester::accepted();
        let blocks = [tester.data(0, 3, first, b"x"), tester.data(1, 3, first, b"y")];
        tester.send(&blocks);
        assert_eq!(reset_code(&mut tester), Some(4), "{name}");
    }
}

// spec 3.48, 3.140
#[test]
fn a_message_of_half_the_window_is_taken_and_a_larger_one_earns_rst_0x000a() {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    for extra in [0, 1] {
        let mut tester = Tester::accepted_with(config.clone());
        assert_eq!(tester.told.unwrap().window, 16_384);
        let full: &'static [u8] = &[b'm'; 1024];
        for tseq in 0..8 {
            let fragment = if tseq == 0 { Fragment::First } else { Fragment::Middle };
            let block = Data { fragment, ..tester.data(tseq, 0, 0, full) };
            let block = if tseq == 7 { Data { data: &full[1..], ..block } } else { block };
            tester.send(&[block]);
        }
        let last = Data { fragment: Fragment::Last, ..tester.data(8, 0, 0, &full[..1 + extra]) };
        tester.send(&[last]);
        if extra == 0 {
            assert_eq!(tester.texts()[0].len(), 8192);
        } else {
            assert_eq!(reset_code(&mut tester), Some(10));
        }
    }
}

// spec 3.139, 3.141
#[test]
fn a_message_of_half_the_window_is_taken_in_fragments_of_128_bytes_and_may_end_the_connection_in_smaller_ones()
 {
    let mut config = ConnectionConfig::mmsp1();
    (config.streams.connection_receive_window, config.streams.stream_receive_window) = (16_384, 16_384);
    for (size, is_taken) in [(128, true), (8, false)] {
        let mut tester = Tester::accepted_with(config.clone());
        let content: &'static [u8] = &[b'm'; 128];
        let count = 8192 / size;
        let mut blocks = 0;
        for tseq in 0..count {
            let fragment = match tseq {
                0 => Fragment::First,
                _ if tseq + 1 == count => Fragment::Last,
                _ => Fragment::Middle,
            };
            let number = u32::try_from(tseq).unwrap();
            let block = Data { fragment, ..tester.data(number, 0, 0, &content[..size]) };
            tester.send(&[block]);
            blocks = tester.take_sacks().last().map_or(blocks, |sack| sack.blocks);
        }
        if is_taken {
            assert_eq!(tester.texts()[0].len(), 8192);
        } else {
            assert!(matches!(tester.ended(), Some(ConnectionError::Violation(_))), "{blocks} were taken");
        }
    }
}

// spec 3.35
#[test]
fn data_without_data_are_acknowledged_and_earn_error_0x0007() {
    let mut tester = Tester::accepted();
    let empty = tester.data(0, 3, 0, b"");
    tester.send(&[empty]);
    tester.run_for(std::time::Duration::from_millis(20));
    let sent = tester.take_all();
    let names: Vec<_> = sent.iter().flat_map(super::tester::Sent::names).collect();
    assert!(names.contains(&"SACK") && names.contains(&"ERROR"), "{names:?}");
    let error = sent.iter().find(|sent| !sent.codes().is_empty()).unwrap();
    assert_eq!(error.codes(), [7]);
    let information = error.blocks().into_iter().find_map(|block| {
        let Block::Error(report) = block else { return None };
        report.causes.iter().next().map(|cause| cause.information.to_vec())
    });
    assert_eq!(information, Some(tester.peer.tseq.0.to_be_bytes().to_vec()), "its TSEQ");
    assert!(tester.texts().is_empty(), "a message without bytes is not delivered");
    let next = tester.data(1, 3, 1, b"next");
    tester.send(&[next]);
    assert_eq!(tester.texts(), ["next"], "its SSEQ counts");
}

#[test]
fn an_empty_fragment_is_one_without_bytes() {
    let mut tester = Tester::accepted();
    let blocks = abc(&tester, 0);
    tester.send(&[blocks[0], Data { data: b"", ..blocks[1] }, blocks[2]]);
    assert_eq!(tester.texts(), ["ac"]);
}

// spec 3.36
#[test]
fn data_for_a_stream_that_does_not_exist_are_acknowledged_and_earn_error_0x0001() {
    let mut tester = Tester::accepted_from(manyway_wire::mmsp1::Opening { outgoing: 4, ..opening(77) });
    let blocks = [tester.data(0, 3, 0, b"the last stream"), tester.data(1, 4, 0, b"one too many")];
    tester.send(&blocks[..1]);
    tester.send(&blocks[1..]);
    let sent = tester.take_all();
    let error = sent.iter().find(|sent| !sent.codes().is_empty()).unwrap();
    assert_eq!(error.codes(), [1]);
    let acknowledged = sent.iter().flat_map(super::tester::Sent::blocks).any(|block| {
        matches!(block, Block::Sack(sack) if sack.ack == tester.peer.tseq.plus(1) && sack.ranges.offsets().len() == 0)
    });
    assert!(acknowledged, "{sent:?}");
    assert_eq!(tester.texts(), ["the last stream"]);
    assert_eq!(tester.ended(), None);
}

// spec 3.20
#[test]
fn each_direction_has_the_smaller_number_of_streams_of_its_sender_and_its_receiver() {
    let mut config = ConnectionConfig::mmsp1();
    config.stream_numbers = 5;
    let mut tester = Tester::server(config);
    tester.peer = manyway_wire::mmsp1::Opening { outgoing: 9, incoming: 4, ..opening(77) };
    tester.open();
    let blocks = [tester.data(0, 4, 0, b"exists"), tester.data(1, 5, 0, b"does not")];
    tester.send(&blocks);
    assert_eq!(tester.texts(), ["exists"]);
    // A server opens the odd numbers.
    let opened = std::iter::from_fn(|| tester.connection().open_stream().ok()).count();
    assert_eq!(opened, 2, "of the streams 0 to 3");
}
