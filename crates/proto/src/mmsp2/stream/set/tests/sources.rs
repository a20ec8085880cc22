//! Messages in the view of schedulers, and the effect of their decisions on them.

use std::time::Duration;

use super::*;
use crate::message::{MessageOptions, Order};
use crate::{ByteCount, Class};

fn send(peer: &mut Peer, id: StreamId, size: usize, options: MessageOptions) {
    peer.streams.send_message(at(0), id, Bytes::from(pattern(id, size)), options).unwrap();
}

fn unordered() -> MessageOptions {
    MessageOptions::default().order(Order::Unordered)
}

fn blocks(packet: &Packet) -> Vec<Block<'_>> {
    Blocks::new(&packet.payload).map(Result::unwrap).collect()
}

// spec 8.37
#[test]
fn no_bytes_are_sent_beyond_an_ordered_message_that_is_next() {
    let (mut client, _) = pair(&small());
    let (messages, bytes) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    send(&mut client, messages, 3_000, MessageOptions::default());
    client.write(bytes, &pattern(bytes, 8 << 10));
    for skip in [1, 500, 3_000, 9_000] {
        assert!(client.packet_from(PACKET, Source::Skip(ByteCount(skip))).is_none(), "{skip}");
    }
    assert!(client.packet_from(PACKET, Source::Skip(ByteCount::ZERO)).is_some());
}

// spec 8.37
#[test]
fn unordered_messages_are_left_out_as_a_whole() {
    for (skip, started) in
        [(1, Some(1)), (100, Some(1)), (101, Some(2)), (399, Some(4)), (500, Some(5)), (501, None)]
    {
        let (mut client, _) = pair(&small());
        let id = client.streams.open().unwrap();
        for message in 0..6 {
            client.streams.send_message(at(0), id, Bytes::from(vec![message; 100]), unordered()).unwrap();
        }
        let packet = client.packet_from(PACKET, Source::Skip(ByteCount(skip)));
        let first = packet.map(|packet| {
            let Block::Message(first) = blocks(&packet).remove(0) else { panic!("no message") };
            first.data.to_vec()
        });
        assert_eq!(first, started.map(|message| vec![message; 100]), "behind {skip} bytes");
    }
    let (mut client, _) = pair(&small());
    let id = client.streams.open().unwrap();
    for class in [Class::Bulk, Class::Background] {
        let data = Bytes::from(vec![0; 100]);
        client.streams.send_message(at(0), id, data, unordered().class(class)).unwrap();
    }
    assert!(client.packet_from(PACKET, Source::Skip(ByteCount(100))).is_none(), "less urgent ones wait");
}

#[test]
fn new_bytes_alone_complete_a_message_before_the_next_one_starts() {
    let (mut client, _) = pair(&small());
    let id = client.streams.open().unwrap();
    send(&mut client, id, 3_000, unordered());
    send(&mut client, id, 3_000, unordered());
    let mut numbers = Vec::new();
    while let Some(packet) = client.packet_from(PACKET, Source::Skip(ByteCount::ZERO)) {
        for block in blocks(&packet) {
            let Block::Message(block) = block else { panic!("{block:?}") };
            numbers.push(block.message.number);
        }
    }
    assert!(numbers.is_sorted() && numbers.contains(&1), "{numbers:?}");
}

#[test]
fn deferred_bytes_need_no_credit_while_a_message_waits_for_it() {
    let narrow = StreamConfig { connection_receive_window: 8 << 10, ..small() };
    let (mut client, _) = pair(&narrow);
    let (bytes, messages) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(bytes, &pattern(bytes, 6 << 10));
    assert!(client.packet_from(PACKET, Source::Skip(ByteCount(5 << 10))).is_some());
    send(&mut client, messages, 4 << 10, unordered().priority(1));
    assert!(client.streams.wants_data(ClassFilter::All));
    let backlog = client.streams.backlog_of(ClassFilter::All);
    assert_eq!((backlog.credit_left, backlog.next.unwrap().stream), (ByteCount::ZERO, messages));
    let packet = client.packet().unwrap();
    let block_of =
        |block: &Block<'_>| if let Block::Stream(block) = block { Some(block.offset) } else { None };
    let offsets: Vec<_> = blocks(&packet).iter().filter_map(block_of).collect();
    assert_eq!(offsets, [0]);
}

#[test]
fn schedulers_see_class_and_deadline_of_the_next_message() {
    let (mut client, _) = pair(&small());
    let id = client.streams.open().unwrap();
    let options = unordered().class(Class::Deadline).priority(3).lifetime(Duration::from_millis(7));
    send(&mut client, id, 2_000, options);
    let backlog = client.streams.backlog_of(ClassFilter::All);
    let next = backlog.next.unwrap();
    assert_eq!((next.class, next.deadline, next.left), (Class::Deadline, Some(at(7)), ByteCount(2_000)));
    let mut ready = Vec::new();
    client.streams.ready_streams(ClassFilter::All, &mut ready);
    let listed: Vec<_> = ready.iter().map(|ready| (ready.priority, ready.class, ready.deadline)).collect();
    assert_eq!(listed, [(3, Class::Deadline, Some(at(7)))]);
}

#[test]
fn urgent_data_is_not_part_of_background_and_bulk_data() {
    let (mut client, _) = pair(&small());
    let (bytes, messages) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(bytes, &pattern(bytes, 5_000));
    send(&mut client, messages, 2_000, unordered().class(Class::Interactive));
    let (all, not_urgent) =
        (client.streams.backlog_of(ClassFilter::All), client.streams.backlog_of(ClassFilter::NotUrgent));
    assert_eq!((all.backlog, not_urgent.backlog), (ByteCount(7_000), ByteCount(5_000)));
    assert_eq!((all.next.unwrap().stream, not_urgent.next.unwrap().stream), (messages, bytes));
    let mut ready = Vec::new();
    client.streams.ready_streams(ClassFilter::NotUrgent, &mut ready);
    assert_eq!(ready.iter().map(|ready| ready.stream).collect::<Vec<_>>(), [bytes]);
}

#[test]
fn the_loss_of_a_copy_leaves_the_pending_retransmission() {
    let (mut client, mut server) = pair(&StreamConfig::default());
    let id = client.streams.open().unwrap();
    client.write(id, &[7; 500]);
    client.streams.finish(id).unwrap();
    let first = client.packet().unwrap();
    client.lose(&first);
    // The copy is written before the retransmission, and its loss is not reported.
    let (mut payload, mut contents) = (Vec::new(), Contents::new());
    let reached = client.streams.write_copy(
        &first.contents[0],
        0,
        &mut Writer::new(&mut payload, PACKET),
        &mut contents,
    );
    assert_eq!((reached, contents.len()), (Some(500), 1));
    let again = client.packet().unwrap();
    server.take(&again).unwrap();
    server.accept_all();
    server.read(id);
    assert_eq!(server.received[&id], [7; 500]);
    assert_eq!(server.ended[&id], ReadOutcome::End, "the end goes again, too");
    client.settle(&again);
    assert!(!client.streams.wants_data(ClassFilter::All));
}
