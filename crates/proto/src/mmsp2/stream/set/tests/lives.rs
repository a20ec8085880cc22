//! Opening, ending, abandoning and forgetting streams.

use manyway_wire::mmsp2::{ResetStream, StreamData};

use super::*;
use crate::{Misuse, WriteError};

#[test]
fn a_request_and_its_response_leave_nothing_behind() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, b"question");
    client.streams.finish(id).unwrap();
    exchange(&mut client, &mut server);
    assert!(server.saw(StreamEvent::Opened) && client.saw(StreamEvent::Finished(id)));
    assert_eq!(server.streams.accept(), Some(id));
    assert!(server.saw(StreamEvent::Readable(id)));
    server.read(id);
    server.write(id, b"answer");
    server.streams.finish(id).unwrap();
    exchange(&mut client, &mut server);
    client.read(id);
    assert_eq!((server.received[&id].as_slice(), &server.ended[&id]), (&b"question"[..], &ReadOutcome::End));
    assert_eq!((client.received[&id].as_slice(), &client.ended[&id]), (&b"answer"[..], &ReadOutcome::End));
    assert!(client.streams.is_idle() && server.streams.is_idle());
    assert!(client.streams.streams.is_empty() && server.streams.streams.is_empty());
}

#[test]
fn late_blocks_of_a_forgotten_stream_are_ignored() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, b"x");
    client.streams.finish(id).unwrap();
    let packet = client.packet().unwrap();
    server.take(&packet).unwrap();
    client.settle(&packet);
    server.accept_all();
    server.read(id);
    server.streams.finish(id).unwrap();
    exchange(&mut client, &mut server);
    assert!(server.streams.streams.is_empty());
    server.take(&packet).unwrap();
    assert!(server.streams.streams.is_empty());
    assert_eq!(server.streams.read(id, 1), Err(Misuse::UnknownStream { stream: id }));
}

#[test]
fn an_end_without_bytes_is_an_end() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.streams.finish(id).unwrap();
    assert!(client.streams.wants_data(ClassFilter::All) && !client.streams.is_idle());
    let lost = client.packet().unwrap();
    assert!(!client.streams.wants_data(ClassFilter::All));
    client.lose(&lost);
    exchange(&mut client, &mut server);
    server.accept_all();
    server.read(id);
    assert_eq!(server.ended[&id], ReadOutcome::End);
    assert!(client.saw(StreamEvent::Finished(id)));
}

#[test]
fn a_reset_reaches_the_reader_and_survives_a_loss() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &pattern(id, 5_000));
    let first = client.packet().unwrap();
    server.take(&first).unwrap();
    server.accept_all();
    client.streams.reset(id, 9).unwrap();
    assert!(matches!(
        client.streams.write(id, Bytes::new()),
        Err(WriteError::Misuse(Misuse::SendingEnded { .. }))
    ));
    let reset = client.packet().unwrap();
    client.lose(&first);
    assert!(client.packet().is_none(), "abandoned bytes are not repeated");
    client.lose(&reset);
    exchange(&mut client, &mut server);
    assert!(server.saw(StreamEvent::Reset(id, 9)));
    assert_eq!(server.streams.read(id, 10), Ok(ReadOutcome::Reset(9)));
    assert!(client.streams.is_idle());
}

#[test]
fn a_stop_is_answered_with_a_reset() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &pattern(id, 5_000));
    server.take(&client.packet().unwrap()).unwrap();
    server.accept_all();
    server.streams.stop(id, 3).unwrap();
    assert_eq!(server.streams.read(id, 10), Err(Misuse::ReceivingEnded { stream: id }));
    let lost = server.packet().unwrap();
    server.lose(&lost);
    exchange(&mut client, &mut server);
    assert!(client.saw(StreamEvent::Stopped(id, 3)));
    assert_eq!(client.streams.write(id, Bytes::from_static(b"more")), Err(WriteError::Stopped(3)));
    assert_eq!(client.streams.finish(id), Err(WriteError::Stopped(3)));
    server.streams.finish(id).unwrap();
    exchange(&mut client, &mut server);
    client.read(id);
    assert!(server.streams.streams.is_empty() && client.streams.streams.is_empty());
}

#[test]
fn a_late_stop_changes_nothing() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, b"all");
    client.streams.finish(id).unwrap();
    exchange(&mut client, &mut server);
    server.accept_all();
    server.streams.stop(id, 3).unwrap();
    exchange(&mut client, &mut server);
    assert!(!client.saw(StreamEvent::Stopped(id, 3)));
}

#[test]
fn events_before_a_stream_is_accepted_are_delivered_on_acceptance() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, b"x");
    client.streams.stop(id, 5).unwrap();
    exchange(&mut client, &mut server);
    client.streams.reset(id, 6).unwrap();
    exchange(&mut client, &mut server);
    assert_eq!(server.events, [StreamEvent::Opened]);
    assert_eq!(server.streams.read(id, 1), Err(Misuse::UnknownStream { stream: id }));
    server.accept_all();
    assert!(server.saw(StreamEvent::Stopped(id, 5)));
    assert!(server.saw(StreamEvent::Reset(id, 6)) && server.saw(StreamEvent::Readable(id)));
}

#[test]
fn the_peer_may_open_new_streams_as_old_ones_end() {
    let (mut client, mut server) = pair(&small());
    for round in 0..20 {
        let id = match client.streams.open() {
            Ok(id) => id,
            Err(Misuse::NoStreamCredit { .. }) => {
                exchange(&mut client, &mut server);
                assert!(client.saw(StreamEvent::Available), "round {round}");
                client.events.clear();
                client.streams.open().unwrap()
            }
            Err(other) => panic!("{other}"),
        };
        client.streams.finish(id).unwrap();
        exchange(&mut client, &mut server);
        server.accept_all();
        server.read(id);
        server.streams.finish(id).unwrap();
        exchange(&mut client, &mut server);
        client.read(id);
    }
    assert!(server.streams.streams.is_empty());
}

#[test]
fn a_higher_number_opens_all_below_it_but_not_beyond_the_limit() {
    let (_, mut server) = pair(&small());
    let third = StreamId::new(Side::Client, 2);
    server.streams.on_stream(&StreamData { stream: third, offset: 0, end: false, data: b"x" }).unwrap();
    assert_eq!(server.accept_all(), 3);
    let fifth = StreamId::new(Side::Client, 4);
    let beyond = server.streams.on_stream(&StreamData { stream: fifth, offset: 0, end: false, data: b"x" });
    assert_eq!(beyond, Err(Violation::StreamLimit { stream: fifth, allowed: 4 }));
    let ours = StreamId::new(Side::Server, 0);
    let unopened = server.streams.on_stream(&StreamData { stream: ours, offset: 0, end: false, data: b"x" });
    assert_eq!(unopened, Err(Violation::StreamState { stream: ours }));
}

#[test]
fn the_final_size_cannot_change() {
    let stream = StreamId::new(Side::Client, 0);
    let block = |offset, end, data| StreamData { stream, offset, end, data };
    let wrong = |second: &StreamData<'_>| {
        let (_, mut server) = pair(&small());
        server.streams.on_stream(&block(10, true, b"12345")).unwrap();
        server.streams.on_stream(second).is_err()
    };
    assert!(wrong(&block(10, false, b"123456")));
    assert!(wrong(&block(10, true, b"1234")));
    assert!(!wrong(&block(10, true, b"12345")));
    assert!(!wrong(&block(0, false, b"12345")));
    let (_, mut server) = pair(&small());
    server.streams.on_stream(&block(10, false, b"12345")).unwrap();
    assert!(server.streams.on_reset_stream(&ResetStream { stream, code: 0, final_size: 14 }).is_err());
    assert!(server.streams.on_reset_stream(&ResetStream { stream, code: 0, final_size: 15 }).is_ok());
}
