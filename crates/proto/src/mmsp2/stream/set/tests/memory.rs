//! Memory for written and unacknowledged data, over all streams.

use super::*;
use crate::MessageOptions;
use crate::message::{MessageOutcome, SendError};
use crate::packet::content::SentContent;

const KIB: usize = 1 << 10;

/// Two streams of a set whose send buffers may hold 48 KiB together; the first takes all of it.
fn crowded() -> (Peer, Peer, [StreamId; 2]) {
    let config = StreamConfig { send_buffer: 48 << 10, send_memory: 48 << 10, ..small() };
    let (mut client, server) = pair(&config);
    let [first, second] = [(); 2].map(|()| client.streams.open().unwrap());
    assert_eq!(client.write(first, &[1; 60 * KIB]), 48 * KIB);
    // Its guaranteed minimum.
    assert_eq!(client.write(second, &[2; 60 * KIB]), 2 * KIB);
    assert_eq!(client.write(second, &[2; KIB]), 0);
    (client, server, [first, second])
}

#[test]
fn a_writer_continues_once_another_stream_holds_less() {
    let (mut client, mut server, [_, second]) = crowded();
    exchange(&mut client, &mut server);
    assert!(client.saw(StreamEvent::Writable(second)));
    assert!(client.write(second, &[2; 60 * KIB]) > 8 * KIB);
}

#[test]
fn a_writer_continues_while_its_own_bytes_are_in_flight() {
    let (mut client, mut server, [first, second]) = crowded();
    let packets: Vec<_> = std::iter::from_fn(|| client.packet()).collect();
    for packet in &packets {
        server.take(packet).unwrap();
        let is_of_first =
            |content: &SentContent| matches!(content, SentContent::Stream { stream, .. } if *stream == first);
        packet
            .contents
            .iter()
            .filter(|content| is_of_first(content))
            .for_each(|content| client.streams.on_delivered(content));
    }
    assert!(client.saw(StreamEvent::Writable(second)));
    assert!(client.streams.queue.totals.held > 2 * KIB as u64);
}

#[test]
fn a_finished_stream_waits_for_nothing() {
    let (mut client, mut server, [first, second]) = crowded();
    client.streams.reset(second, 0).unwrap();
    exchange(&mut client, &mut server);
    server.accept_all();
    server.streams.reset(second, 0).unwrap();
    exchange(&mut client, &mut server);
    client.read(second);
    assert!(!client.streams.waiting_writers.contains(&second));
    let _ = client.streams.finish(first);
    assert!(client.streams.waiting_writers.is_empty());
}

#[test]
fn a_writer_continues_once_another_stream_is_abandoned() {
    let (mut client, mut server, [first, second]) = crowded();
    assert!(!client.saw(StreamEvent::Writable(second)));
    client.streams.reset(first, 0).unwrap();
    assert!(client.saw(StreamEvent::Writable(second)));
    assert_eq!(client.write(second, &[2; 60 * KIB]), 46 * KIB);
    exchange(&mut client, &mut server);
}

#[test]
fn an_unread_stream_does_not_stop_the_writer_of_another() {
    let (mut client, mut server, [first, second]) = crowded();
    let mut written = 2 * KIB;
    for _ in 0..100 {
        exchange(&mut client, &mut server);
        server.accept_all();
        server.read(second);
        written += client.write(second, &[2; 4 * KIB]);
    }
    assert!(written > 100 * KIB, "{written}");
    assert!(!server.received.contains_key(&first));
}

#[test]
fn messages_wait_for_memory_as_bytes_do() {
    let (mut client, mut server, [first, second]) = crowded();
    client.streams.finish(second).unwrap();
    let id = client.streams.open().unwrap();
    let send = |client: &mut Peer| {
        client.streams.send_message(at(0), id, Bytes::from_static(&[3; KIB]), MessageOptions::default())
    };
    assert!(send(&mut client).is_ok());
    assert_eq!(send(&mut client).unwrap_err(), SendError::Full);
    client.streams.reset(first, 0).unwrap();
    assert!(client.saw(StreamEvent::Writable(id)));
    assert!(send(&mut client).is_ok());
    exchange(&mut client, &mut server);
}

#[test]
fn waiting_writers_get_equal_parts() {
    let (mut client, mut server, [first, second]) = crowded();
    let third = client.streams.open().unwrap();
    client.write(third, &[3; 60 * KIB]);
    let mut written = [0, 0];
    for _ in 0..200 {
        exchange(&mut client, &mut server);
        server.accept_all();
        [first, second, third].iter().for_each(|id| {
            server.read(*id);
        });
        while let Some(event) = client.streams.poll_event() {
            let StreamEvent::Writable(id) = event else { continue };
            let accepted = client.write(id, &[9; 200 * KIB]);
            match id {
                _ if id == second => written[0] += accepted,
                _ if id == third => written[1] += accepted,
                _ => {}
            }
        }
    }
    let [second, third] = written;
    assert!(second > 1000 * KIB && third * 10 > second * 9 && second * 10 > third * 9, "{written:?}");
}

#[test]
fn the_writer_of_a_message_is_notified_once_there_is_space_for_it() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    let send = |client: &mut Peer, size| {
        let data = Bytes::from(vec![4; size]);
        client.streams.send_message(at(0), id, data, MessageOptions::default())
    };
    while send(&mut client, KIB).is_ok() {}
    assert_eq!(send(&mut client, 7 * KIB), Err(SendError::Full));
    let mut told = 0;
    for _ in 0..100 {
        exchange(&mut client, &mut server);
        server.accept_all();
        while let Ok(MessageOutcome::Message(_)) = server.streams.receive_message(id) {}
        while let Some(event) = client.streams.poll_event() {
            assert_eq!(event, StreamEvent::Writable(id));
            assert!(send(&mut client, 7 * KIB).is_ok());
            told += 1;
        }
    }
    assert_eq!(told, 1);
}
