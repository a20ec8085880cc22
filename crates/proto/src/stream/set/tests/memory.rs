//! The memory for what was written and is not acknowledged, over all streams.

use super::*;
use crate::MessageOptions;
use crate::message::SendError;

const KIB: usize = 1 << 10;

/// Two streams of a set whose send buffers may hold 48 KiB together, of which the first takes all.
fn crowded() -> (Peer, Peer, [StreamId; 2]) {
    let config = StreamConfig { send_buffer: 48 << 10, send_memory: 48 << 10, ..small() };
    let (mut client, server) = pair(&config);
    let [first, second] = [(); 2].map(|()| client.streams.open().unwrap());
    assert_eq!(client.write(first, &[1; 60 * KIB]), 48 * KIB);
    // Its due.
    assert_eq!(client.write(second, &[2; 60 * KIB]), 2 * KIB);
    assert_eq!(client.write(second, &[2; KIB]), 0);
    (client, server, [first, second])
}

#[test]
fn a_writer_goes_on_once_another_stream_holds_less() {
    let (mut client, mut server, [_, second]) = crowded();
    exchange(&mut client, &mut server);
    assert!(client.saw(StreamEvent::Writable(second)));
    assert!(client.write(second, &[2; 60 * KIB]) > 8 * KIB);
}

#[test]
fn a_writer_goes_on_once_another_stream_is_abandoned() {
    let (mut client, mut server, [first, second]) = crowded();
    assert!(!client.saw(StreamEvent::Writable(second)));
    client.streams.reset(first, 0).unwrap();
    assert!(client.saw(StreamEvent::Writable(second)));
    assert_eq!(client.write(second, &[2; 60 * KIB]), 46 * KIB);
    exchange(&mut client, &mut server);
}

#[test]
fn a_stream_that_nobody_reads_does_not_stop_the_writer_of_another() {
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
    let (mut client, mut server, [first, _]) = crowded();
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
