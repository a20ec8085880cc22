//! Byte streams: BYTES and BYTES-END on the wire, ends that contradict what came, and stream numbers that are used again.

use bytes::Bytes;
use manyway_proto::{ReadOutcome, StreamId};
use manyway_sim::scenario::MS;
use manyway_wire::Writer;
use manyway_wire::mmsp1::{BYTES, BYTES_END, Data, StreamEnd};

use super::tester::{Sent, Tester};

fn end(code: u64, total: u64) -> Vec<u8> {
    let mut content = Vec::new();
    StreamEnd { code, total }.encode(&mut Writer::new(&mut content, StreamEnd::LEN));
    content
}

/// Sends a message with a payload protocol on stream 0.
fn send(tester: &mut Tester, number: u16, protocol: u32, data: &[u8]) {
    let block = Data { data, protocol, ..tester.data(number.into(), 0, number, b"") };
    tester.send(&[block]);
}

/// Reads a stream that the peer opened until nothing is left.
fn read(tester: &mut Tester, stream: u64) -> (Vec<u8>, Option<ReadOutcome>) {
    while tester.connection().accept_stream().is_some() {}
    let mut bytes = Vec::new();
    loop {
        match tester.connection().read(StreamId(stream), usize::MAX) {
            Ok(ReadOutcome::Data(data)) => bytes.extend_from_slice(&data),
            Ok(ReadOutcome::Blocked) | Err(_) => return (bytes, None),
            Ok(outcome) => return (bytes, Some(outcome)),
        }
    }
}

// spec 3.90, 3.92
#[test]
fn a_byte_stream_goes_as_ordered_bytes_messages_and_its_end_tells_their_total() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.connection().write(stream, Bytes::from(vec![7; 3000])).unwrap();
    tester.connection().finish(stream).unwrap();
    let sent = tester.take_data().concat();
    let (last, others) = sent.split_last().unwrap();
    assert_eq!(others.iter().map(|block| block.data.len()).sum::<usize>(), 3000);
    assert!(others.iter().all(|block| block.protocol == BYTES && !block.unordered && !block.data.is_empty()));
    assert_eq!((last.protocol, &last.data), (BYTES_END, &end(0, 3000)));
    let sseqs: Vec<u16> = sent.iter().map(|block| block.sseq).collect();
    assert!(sseqs.iter().copied().eq(0..u16::try_from(sseqs.len()).unwrap()), "{sseqs:?}");
}

// spec 3.92
#[test]
fn an_abandoned_byte_stream_ends_with_its_code_and_the_total_of_what_was_sent() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.connection().write(stream, Bytes::from(vec![7; 100])).unwrap();
    assert_eq!(tester.take_data().concat().len(), 1);
    tester.connection().reset(stream, 41).unwrap();
    let sent = tester.take_data().concat();
    let [last] = &sent[..] else { panic!("{sent:?}") };
    // Codes of the application begin with 0, which means complete on the wire.
    assert_eq!((last.protocol, &last.data), (BYTES_END, &end(42, 100)));
}

// spec 3.92
#[test]
fn a_byte_stream_that_is_abandoned_before_its_first_byte_is_told_and_accepted() {
    let mut tester = Tester::accepted();
    let stream = tester.open_stream();
    tester.connection().reset(stream, 7).unwrap();
    let sent = tester.take_data().concat();
    let [last] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((last.protocol, &last.data), (BYTES_END, &end(8, 0)));
    send(&mut tester, 0, BYTES_END, &end(8, 0));
    assert_eq!(tester.connection().accept_stream(), Some(StreamId(0)));
    assert_eq!(tester.connection().read(StreamId(0), 1).unwrap(), ReadOutcome::Reset(7));
}

// spec 3.93
#[test]
fn a_byte_stream_ends_with_bytes_end_and_not_before() {
    let mut tester = Tester::accepted();
    send(&mut tester, 0, BYTES, b"one ");
    send(&mut tester, 1, BYTES, b"stream");
    assert_eq!(read(&mut tester, 0), (b"one stream".to_vec(), None));
    send(&mut tester, 2, BYTES_END, &end(0, 10));
    assert_eq!(read(&mut tester, 0), (Vec::new(), Some(ReadOutcome::End)));
}

// spec 3.93
#[test]
fn an_end_that_contradicts_what_came_or_has_a_code_counts_as_abandoned() {
    let cases: [(&str, Vec<u8>, u64); 5] = [
        ("a byte too few", end(0, 5), 0),
        ("a byte too many", end(0, 3), 0),
        ("15 bytes", end(0, 4)[..15].to_vec(), 0),
        ("17 bytes", [&end(0, 4)[..], &[0]].concat(), 0),
        ("code 42", end(42, 4), 41),
    ];
    for (name, content, code) in cases {
        let mut tester = Tester::accepted();
        send(&mut tester, 0, BYTES, b"four");
        send(&mut tester, 1, BYTES_END, &content);
        let (_, outcome) = read(&mut tester, 0);
        assert_eq!(outcome, Some(ReadOutcome::Reset(code)), "{name}");
        assert_eq!(tester.ended(), None, "{name}: the connection goes on");
    }
}

// spec 3.90
#[test]
fn bytes_messages_have_no_boundaries_and_are_ordered_by_sseq() {
    let mut tester = Tester::accepted();
    let block = |tester: &Tester, number: u16, data: &'static [u8]| Data {
        protocol: BYTES,
        ..tester.data(number.into(), 0, number, data)
    };
    let blocks = [block(&tester, 2, b"cd"), block(&tester, 0, b"a"), block(&tester, 1, b"b")];
    blocks.into_iter().for_each(|block| tester.send(&[block]));
    assert_eq!(read(&mut tester, 0).0, b"abcd");
}

/// Both directions of stream 0 end; afterwards the endpoint has sent `blocks` blocks.
fn use_once(tester: &mut Tester, from: u16, stream: u64, text: &'static [u8]) {
    send(tester, from, BYTES, text);
    send(tester, from + 1, BYTES_END, &end(0, text.len() as u64));
    assert_eq!(read(tester, stream), (text.to_vec(), Some(ReadOutcome::End)));
    tester.connection().write(StreamId(stream), Bytes::from_static(text)).unwrap();
    tester.connection().finish(StreamId(stream)).unwrap();
}

// spec 3.146
#[test]
fn a_stream_number_is_used_again_after_both_directions_have_ended_and_sseqs_go_on() {
    let mut tester = Tester::accepted();
    let modulus = u64::from(tester.peer.outgoing);
    for turn in 0..4_u16 {
        let stream = u64::from(turn) * modulus;
        use_once(&mut tester, 2 * turn, stream, b"again");
        let sent = tester.take_data().concat();
        let own: Vec<_> = sent.iter().map(|block| (block.stream, block.sseq, block.protocol)).collect();
        assert_eq!(own, [(0, 2 * turn, BYTES), (0, 2 * turn + 1, BYTES_END)], "turn {turn}");
        tester.sack(u32::from(2 * turn + 1), 100_000);
    }
}

#[test]
fn an_endpoint_opens_a_stream_number_again_after_both_directions_have_ended() {
    let mut config = manyway_proto::ConnectionConfig::mmsp1();
    config.stream_numbers = 2;
    let mut tester = Tester::accepted_with(config);
    let stream = tester.open_stream();
    assert!(tester.connection().open_stream().is_err(), "its only number is in use");
    tester.connection().finish(stream).unwrap();
    assert_eq!(tester.take_data().concat().len(), 1);
    tester.sack(0, 100_000);
    assert!(tester.connection().open_stream().is_err(), "the peer has not ended its direction");
    let block = Data { protocol: BYTES_END, stream: 1, data: &end(0, 0), ..tester.data(0, 1, 0, b"") };
    tester.send(&[block]);
    tester.run_for(20 * MS);
    let again = tester.open_stream();
    assert_ne!(again, stream);
    tester.connection().finish(again).unwrap();
    let sent = tester.take_data().concat();
    assert_eq!(sent.iter().map(|block| (block.stream, block.sseq)).collect::<Vec<_>>(), [(1, 1)]);
}

// spec 3.147
#[test]
fn a_further_byte_stream_while_the_other_direction_has_not_ended_is_dropped_and_earns_error_0x0001() {
    let mut tester = Tester::accepted();
    send(&mut tester, 0, BYTES, b"first");
    send(&mut tester, 1, BYTES_END, &end(0, 5));
    assert_eq!(read(&mut tester, 0), (b"first".to_vec(), Some(ReadOutcome::End)));
    tester.discard();
    send(&mut tester, 2, BYTES, b"second");
    send(&mut tester, 3, BYTES_END, &end(0, 6));
    let sent = tester.take_all();
    assert_eq!(sent.iter().flat_map(Sent::codes).collect::<Vec<_>>(), [1, 1]);
    let modulus = u64::from(tester.peer.outgoing);
    assert!(tester.connection().read(StreamId(modulus), 1).is_err(), "there is no such stream");
    // They are acknowledged: the next use of the number goes on behind them.
    tester.connection().finish(StreamId(0)).unwrap();
    tester.run_for(20 * MS);
    tester.discard();
    tester.sack(0, 100_000);
    send(&mut tester, 4, BYTES, b"third");
    assert_eq!(read(&mut tester, modulus), (b"third".to_vec(), None));
    assert_eq!(tester.ended(), None);
}
