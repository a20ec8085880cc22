//! Messages of the application: how they go out, and what their options do.

use manyway_proto::{Event, MessageOptions, Misuse, Order, SendError};
use manyway_sim::scenario::{MS, SECOND};
use manyway_wire::mmsp1::{Data, Fragment, Opening};

use super::tester::{OwnData, Tester, opening};

fn ordered() -> MessageOptions {
    MessageOptions::default()
}

fn unordered() -> MessageOptions {
    MessageOptions::default().order(Order::Unordered)
}

// spec 3.30, 3.32, 3.33, 3.37
#[test]
fn a_message_carries_its_stream_its_sseq_its_order_and_its_payload_protocol() {
    let mut tester = Tester::accepted();
    let (first, second) = (tester.open_stream(), tester.open_stream());
    tester.send_message(first, b"a", ordered().protocol(7));
    tester.send_message(first, b"b", unordered().protocol(8));
    tester.send_message(first, b"c", ordered());
    tester.send_message(second, b"d", ordered());
    let block = |tseq, stream, sseq, unordered, protocol, data: &[u8]| OwnData {
        tseq,
        stream,
        sseq,
        protocol,
        unordered,
        fragment: Fragment::Whole,
        data: data.to_vec(),
    };
    let sent = tester.take_data().concat();
    assert_eq!(
        sent,
        [
            block(0, 1, 0, false, 7, b"a"),
            block(1, 1, 0, true, 8, b"b"),
            block(2, 1, 1, false, 0, b"c"),
            block(3, 3, 0, false, 0, b"d"),
        ],
        "an unordered message takes no SSEQ, and each stream counts for itself"
    );
}

// spec 3.34, 3.8b
#[test]
fn a_large_message_goes_as_fragments_with_consecutive_tseqs() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    let content: Vec<u8> = (0..4000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    tester.send_message(stream, &content, ordered().protocol(5));
    let sent = tester.take_data().concat();
    let fragments: Vec<_> = sent.iter().map(|block| (block.tseq, block.fragment, block.data.len())).collect();
    assert_eq!(
        fragments,
        [
            (0, Fragment::First, 1172),
            (1, Fragment::Middle, 1172),
            (2, Fragment::Middle, 1172),
            (3, Fragment::Last, 484)
        ]
    );
    assert!(sent.iter().all(|block| (block.sseq, block.protocol) == (0, 5)));
    assert_eq!(sent.iter().flat_map(|block| &block.data).copied().collect::<Vec<_>>(), content);
}

// spec 3.8c
#[test]
fn small_messages_share_a_packet() {
    let mut tester = Tester::accepted_from(Opening { window: 1_000_000, ..opening(77) });
    let stream = tester.open_stream();
    let now = tester.now;
    for _ in 0..20 {
        let message = bytes::Bytes::from_static(b"0123456789");
        tester.connection().send_message(now, stream, message, ordered()).unwrap();
    }
    let packets = tester.take_data();
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [20]);
}

#[test]
fn messages_with_a_reserved_payload_protocol_or_without_bytes_are_not_taken() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    let now = tester.now;
    let mut send = |data: &'static [u8], protocol: u32| {
        let options = ordered().protocol(protocol);
        tester.connection().send_message(now, stream, bytes::Bytes::from_static(data), options)
    };
    for protocol in [0x4d57_0000, 0x4d57_0001, 0x4d57_ffff] {
        assert_eq!(send(b"x", protocol), Err(SendError::Misuse(Misuse::ReservedProtocol { protocol })));
    }
    assert_eq!(send(b"", 0), Err(SendError::Misuse(Misuse::EmptyMessage { stream })));
    for protocol in [0x4d56_ffff, 0x4d58_0000] {
        assert!(send(b"x", protocol).is_ok());
    }
}

// spec 3.8a
#[test]
fn a_lifetime_that_ends_before_the_first_transmission_gives_the_message_up_without_a_gap() {
    let mut tester = Tester::accepted_from(Opening { window: 2000, ..opening(77) });
    let stream = tester.open_stream();
    tester.send_message(stream, &[1; 1000], ordered());
    tester.send_message(stream, &[2; 1000], ordered());
    tester.send_message(stream, &[3; 1000], ordered().lifetime(30 * MS));
    tester.send_message(stream, &[4; 1000], ordered());
    assert_eq!(tester.take_data().concat().len(), 2, "the edge holds back the others");
    tester.run_for(20 * MS);
    tester.sack(1, 2000);
    let sent = tester.take_data().concat();
    let left: Vec<_> = sent.iter().map(|block| (block.tseq, block.sseq, block.data[0])).collect();
    assert_eq!(left, [(2, 2, 4)], "it took neither TSEQ nor SSEQ");
    let given_up =
        tester.events.iter().filter(|event| matches!(event, Event::MessageAbandoned { .. })).count();
    assert_eq!(given_up, 1);
}

// spec 3.8a
#[test]
fn a_lifetime_has_no_effect_after_the_first_transmission() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.send_message(stream, b"once on its way", ordered().lifetime(30 * MS));
    let first = tester.take_data().concat();
    assert_eq!(first.len(), 1);
    tester.run_for(3 * SECOND);
    let repeated = tester.take_data().concat();
    assert!(!repeated.is_empty() && repeated.iter().all(|block| *block == first[0]), "{repeated:?}");
    assert!(!tester.events.iter().any(|event| matches!(event, Event::MessageAbandoned { .. })));
}

// spec 3.30
#[test]
fn a_block_that_is_sent_again_is_the_same_in_every_bit() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    for message in 0..8 {
        tester.send_message(stream, &[message; 900], ordered().protocol(message.into()));
    }
    let first = tester.take_data().concat();
    assert_eq!(first.len(), 8);
    // All but the second arrived.
    tester.now += 20 * MS;
    tester.sack_ranges(1, &[(2, 7)], 100_000);
    tester.run_for(SECOND);
    let repeated = tester.take_data().concat();
    assert!(!repeated.is_empty() && repeated.iter().all(|block| *block == first[1]), "{repeated:?}");
}

#[test]
fn a_received_message_has_its_content_its_order_and_its_payload_protocol() {
    let mut tester = Tester::accepted();
    let blocks = [
        Data { protocol: 70, ..tester.data(0, 2, 0, b"in order") },
        Data { protocol: u32::MAX, unordered: true, ..tester.data(1, 2, 0, b"out of order") },
    ];
    tester.send(&blocks);
    let messages: Vec<_> = tester
        .messages()
        .into_iter()
        .map(|(stream, message)| (stream, message.data.to_vec(), message.order, message.protocol))
        .collect();
    let expected = [
        (2, b"in order".to_vec(), Order::Ordered, 70),
        (2, b"out of order".to_vec(), Order::Unordered, u32::MAX),
    ];
    assert_eq!(messages, expected);
}

// spec 3.35
#[test]
fn no_empty_data_are_ever_sent() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.connection().finish(stream).unwrap();
    let sent = tester.take_data().concat();
    assert_eq!(sent.iter().map(|block| block.data.len()).collect::<Vec<_>>(), [16], "the end alone");
}
