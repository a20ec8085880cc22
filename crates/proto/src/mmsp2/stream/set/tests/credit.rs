//! Credit: never exceeded, never lost, and growing with the reader.

use std::time::Duration;

use manyway_wire::mmsp2::{Blocked, BlockedBy, ResetStream, StreamData};

use super::*;
use crate::{ByteCount, Class};

/// Carries all that `left` may send to `right`, one way.
fn push(left: &mut Peer, right: &mut Peer) -> usize {
    let mut packets = 0;
    while let Some(packet) = left.packet() {
        right.take(&packet).unwrap();
        left.settle(&packet);
        packets += 1;
    }
    packets
}

#[test]
fn a_reader_that_stops_reading_blocks_the_sender_at_the_credit() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    assert_eq!(client.write(id, &[1; 20 << 10]), 16 << 10);
    exchange(&mut client, &mut server);
    assert!(client.saw(StreamEvent::Writable(id)));
    assert_eq!(client.write(id, &[1; 20 << 10]), 16 << 10);
    exchange(&mut client, &mut server);
    assert_eq!(client.streams.send_credit.used(), 16 << 10);
    assert_eq!(client.streams.backlog(), ByteCount(0));
    assert!(!client.streams.wants_data(ClassFilter::All) && !client.streams.is_idle());
}

#[test]
fn the_connection_credit_limits_all_streams_together() {
    let (mut client, mut server) = pair(&small());
    let ids = [(); 3].map(|()| client.streams.open().unwrap());
    for id in ids {
        client.write(id, &[1; 16 << 10]);
    }
    assert_eq!(client.streams.backlog(), ByteCount(24 << 10));
    exchange(&mut client, &mut server);
    let credit = &client.streams.send_credit;
    assert_eq!((credit.used(), credit.limit()), (24 << 10, 24 << 10));
    server.accept_all();
    for _ in 0..4 {
        ids.iter().for_each(|id| server.read(*id));
        exchange(&mut client, &mut server);
    }
    assert!(ids.iter().all(|id| server.received[id].len() == 16 << 10));
}

#[test]
fn unread_streams_leave_credit_for_urgent_ones() {
    let config = StreamConfig {
        connection_receive_window: 64 << 10,
        stream_receive_window: 48 << 10,
        send_buffer: 64 << 10,
        ..small()
    };
    let (mut client, mut server) = pair(&config);
    let bulk = [(); 2].map(|()| client.streams.open().unwrap());
    for id in bulk {
        client.write(id, &[1; 48 << 10]);
    }
    exchange(&mut client, &mut server);
    let credit = client.streams.send_credit;
    assert_eq!((credit.used(), credit.limit()), (62 << 10, 64 << 10));
    assert!(!client.streams.wants_data(ClassFilter::All) && client.streams.is_blocked());
    let urgent = client.streams.open().unwrap();
    client.streams.set_class(urgent, Class::Interactive).unwrap();
    client.write(urgent, &[1; 3 << 10]);
    exchange(&mut client, &mut server);
    server.accept_all();
    server.read(urgent);
    assert_eq!(server.received[&urgent].len(), 2 << 10);
}

#[test]
fn retransmissions_need_no_credit() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &[1; 16 << 10]);
    let lost: Vec<Packet> = std::iter::from_fn(|| client.packet()).collect();
    assert_eq!(client.streams.send_credit.used(), 16 << 10);
    lost.iter().for_each(|packet| client.lose(packet));
    assert!(client.streams.wants_data(ClassFilter::All));
    assert_eq!(client.streams.backlog(), ByteCount(16 << 10));
    push(&mut client, &mut server);
    server.accept_all();
    server.read(id);
    assert_eq!(server.received[&id].len(), 16 << 10);
    assert_eq!(client.streams.send_credit.used(), 16 << 10);
}

#[test]
fn a_peer_that_exceeds_its_credit_is_refused() {
    let first = StreamId::new(Side::Client, 0);
    let second = StreamId::new(Side::Client, 1);
    let last_byte = |stream, offset| StreamData { stream, offset, end: false, data: b"x" };
    let (_, mut server) = pair(&small());
    server.streams.on_stream(&last_byte(first, (16 << 10) - 1)).unwrap();
    let stream = server.streams.on_stream(&last_byte(first, 16 << 10));
    assert!(matches!(stream, Err(Violation::FlowControl { stream: Some(_), .. })));
    server.streams.on_stream(&last_byte(second, (8 << 10) - 1)).unwrap();
    let connection = server.streams.on_stream(&last_byte(second, 8 << 10));
    assert!(matches!(connection, Err(Violation::FlowControl { stream: None, .. })));
    let reset = server.streams.on_reset_stream(&ResetStream { stream: second, code: 0, final_size: 9 << 10 });
    assert!(matches!(reset, Err(Violation::FlowControl { stream: None, .. })));
}

#[test]
fn both_ends_count_a_reset_by_its_final_size() {
    let (mut client, mut server) = pair(&small());
    for _ in 0..30 {
        let id = client.streams.open().unwrap();
        client.write(id, &[1; 10 << 10]);
        // Everything is lost, but it was sent: both ends must count 10 KiB.
        while client.packet().is_some() {}
        client.streams.reset(id, 1).unwrap();
        exchange(&mut client, &mut server);
        server.accept_all();
        server.read(id);
        server.streams.finish(id).unwrap();
        exchange(&mut client, &mut server);
        client.read(id);
        let (sender, receiver) = (&client.streams.send_credit, &server.streams.receive_credit);
        assert_eq!((sender.used(), receiver.consumed()), (receiver.received(), receiver.received()));
    }
    assert_eq!(client.streams.send_credit.used(), 300 << 10);
}

#[test]
fn data_after_a_stop_returns_its_credit() {
    let (mut client, mut server) = pair(&small());
    let (stopped, other) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(stopped, &[1; 16 << 10]);
    let first = client.packet().unwrap();
    server.take(&first).unwrap();
    server.accept_all();
    server.streams.stop(stopped, 1).unwrap();
    push(&mut client, &mut server);
    assert_eq!(server.streams.receive_credit.consumed(), 16 << 10);
    client.write(other, &[2; 16 << 10]);
    exchange(&mut client, &mut server);
    server.accept_all();
    server.read(other);
    assert_eq!(server.received[&other].len(), 16 << 10);
}

#[test]
fn a_lost_credit_update_is_sent_again_with_the_newest_credit() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &[1; 16 << 10]);
    push(&mut client, &mut server);
    server.accept_all();
    server.read(id);
    let lost = server.packet().unwrap();
    assert!(!server.streams.wants_control());
    server.lose(&lost);
    exchange(&mut client, &mut server);
    assert_eq!(client.streams.send_credit.limit(), 40 << 10);
    assert_eq!(client.write(id, &[1; 16 << 10]), 16 << 10);
    assert_eq!(client.streams.backlog(), ByteCount(16 << 10));
}

#[test]
fn blocked_is_reported_once() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &[1; 16 << 10]);
    push(&mut client, &mut server);
    client.write(id, &[1; 1]);
    assert!(client.streams.wants_control());
    assert_eq!(push(&mut client, &mut server), 1);
    assert!(!client.streams.wants_control());
}

#[test]
fn a_lost_blocked_is_sent_again_if_it_still_holds() {
    for by_connection in [false, true] {
        let (mut client, mut server) = pair(&small());
        let mut held = client.streams.open().unwrap();
        client.write(held, &[1; 16 << 10]);
        if by_connection {
            held = client.streams.open().unwrap();
            client.write(held, &[1; 8 << 10]);
        }
        push(&mut client, &mut server);
        client.write(held, &[1; 1]);
        let lost = client.packet().unwrap();
        assert!(!client.streams.wants_control());
        client.lose(&lost);
        assert!(client.streams.wants_control());
        assert_eq!(client.packet().unwrap().payload, lost.payload);
        server.accept_all();
        server.read(held);
        exchange(&mut server, &mut client);
        client.lose(&lost);
        assert!(!client.streams.wants_control(), "it is not true any more");
    }
}

#[test]
fn a_lost_blocked_for_streams_is_sent_again() {
    let (mut client, mut server) = pair(&small());
    let open = |client: &mut Peer| {
        let id = client.streams.open()?;
        client.write(id, b"x");
        Ok::<_, crate::Misuse>(id)
    };
    // One stream of four has ended: too few for the server to advertise by itself.
    let first = open(&mut client).unwrap();
    client.streams.finish(first).unwrap();
    push(&mut client, &mut server);
    server.accept_all();
    server.streams.finish(first).unwrap();
    server.read(first);
    exchange(&mut client, &mut server);
    client.read(first);
    // The others stay open.
    for _ in 0..3 {
        open(&mut client).unwrap();
    }
    exchange(&mut client, &mut server);
    assert!(client.streams.open().is_err());
    let lost = client.packet().unwrap();
    client.lose(&lost);
    exchange(&mut client, &mut server);
    assert!(client.saw(StreamEvent::Available));
    assert!(client.streams.open().is_ok());
}

#[test]
fn a_blocked_peer_gets_due_credit_at_once() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    client.write(id, &[1; 3 << 10]);
    push(&mut client, &mut server);
    server.accept_all();
    server.read(id);
    assert!(!server.streams.wants_control(), "less than a quarter of the window");
    for by in [BlockedBy::Connection { limit: 24 << 10 }, BlockedBy::Stream { stream: id, limit: 16 << 10 }] {
        server.streams.on_blocked(&Blocked { by }).unwrap();
        assert!(server.streams.wants_control());
        push(&mut server, &mut client);
        server.streams.on_blocked(&Blocked { by }).unwrap();
        assert!(!server.streams.wants_control() || server.packet().is_none(), "told once");
    }
    assert_eq!(client.streams.send_credit.limit(), 27 << 10);
    client.write(id, &[1; 16 << 10]);
    assert_eq!(client.streams.backlog(), ByteCount(16 << 10));
}

#[test]
fn windows_grow_for_a_quick_reader_only() {
    let grown = |rtt: Option<u64>| {
        let (mut client, mut server) = pair(&small());
        let id = client.streams.open().unwrap();
        for round in 0..12 {
            if let Some(rtt) = rtt {
                server.streams.on_rtt(at(round * 50), Duration::from_millis(rtt));
            }
            let room = client.streams.backlog().to_usize();
            client.write(id, &vec![1; (6 << 10) + room]);
            exchange(&mut client, &mut server);
            server.accept_all();
            server.read(id);
            exchange(&mut client, &mut server);
        }
        let stream = server.streams.stream_mut(id).unwrap().receive.window();
        (stream, server.streams.receive_credit.window())
    };
    assert_eq!(grown(Some(1)), (16 << 10, 24 << 10), "6 KiB in 2 RTT is less than half a window");
    assert_eq!(grown(None), (16 << 10, 24 << 10), "no round trip was measured");
    let (stream, connection) = grown(Some(100));
    assert!(stream >= 32 << 10 && connection >= 48 << 10, "{stream} {connection}");
    assert!(stream <= 48 << 10 && connection <= 64 << 10, "{stream} {connection}");
}

#[test]
fn the_send_buffer_grows_with_the_bytes_in_flight() {
    let config =
        StreamConfig { stream_receive_window: 64 << 10, connection_receive_window: 64 << 10, ..small() };
    let (mut client, _) = pair(&config);
    let id = client.streams.open().unwrap();
    assert_eq!(client.write(id, &[1; 64 << 10]), 16 << 10);
    while client.packet().is_some() {}
    assert!(client.saw(StreamEvent::Writable(id)));
    assert_eq!(client.write(id, &[1; 64 << 10]), 16 << 10);
    while client.packet().is_some() {}
    assert_eq!(client.write(id, &[1; 64 << 10]), 32 << 10);
    while client.packet().is_some() {}
    assert_eq!(client.write(id, &[1; 64 << 10]), 0, "at its largest");
}

#[test]
fn a_peer_that_leaves_gaps_everywhere_is_refused_before_memory_runs_out() {
    let config = StreamConfig {
        stream_receive_window: 1 << 20,
        connection_receive_window: 1 << 20,
        max_window: 1 << 20,
        ..small()
    };
    let (_, mut server) = pair(&config);
    let stream = StreamId::new(Side::Client, 0);
    let refused = (0..1 << 19).find_map(|index| {
        let block = StreamData { stream, offset: index * 2 + 1, end: false, data: b"x" };
        server.streams.on_stream(&block).err().map(|violation| (index, violation))
    });
    let (pieces, violation) = refused.expect("it must be refused");
    assert_eq!(violation, Violation::TooManyGaps { stream: Some(stream) });
    // spec 8.19: 128 bytes for each, up to half of the window
    assert_eq!(pieces, 4096);
}
