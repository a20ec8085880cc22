//! Messages between two sets of streams.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::message::{Carries, MessageOptions, MessageOutcome, OVERHEAD, Order, SendError};
use crate::{ByteCount, Class, Misuse};

fn send(peer: &mut Peer, id: StreamId, data: &[u8], options: MessageOptions) {
    peer.streams.send_message(at(0), id, Bytes::copy_from_slice(data), options).unwrap();
}

fn receive(peer: &mut Peer, id: StreamId) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    while let Ok(MessageOutcome::Message(message)) = peer.streams.receive_message(id) {
        received.push(message.data.to_vec());
    }
    received
}

fn unordered() -> MessageOptions {
    MessageOptions::default().order(Order::Unordered)
}

/// Connection credit used by the sender, and counted by the receiver.
fn credit(sender: &Peer, receiver: &Peer) -> (u64, u64) {
    (sender.streams.sent(), receiver.streams.received())
}

// spec 8.29
#[test]
fn boundaries_and_payload_protocols_are_kept_for_any_size() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    let sizes = [0, 1, 31, 1_100, 1_200, 8 << 10, 0];
    let mut seen = Vec::new();
    for size in sizes {
        send(&mut client, id, &pattern(id, size), MessageOptions::default().protocol(77));
        exchange(&mut client, &mut server);
        server.accept_all();
        while let Ok(MessageOutcome::Message(message)) = server.streams.receive_message(id) {
            assert_eq!((message.protocol, message.order), (77, Order::Ordered));
            assert_eq!(message.data, pattern(id, message.data.len()));
            seen.push(message.data.len());
        }
    }
    assert_eq!(seen, sizes);
}

// A message costs more credit than it has bytes.
#[test]
fn a_message_that_waits_when_its_stream_is_finished_has_its_credit() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    send(&mut client, id, b"stop", MessageOptions::default());
    client.streams.finish(id).unwrap();
    assert!(client.streams.backlog_of(ClassFilter::All).credit_left > ByteCount::ZERO);
    exchange(&mut client, &mut server);
    server.accept_all();
    assert_eq!(receive(&mut server, id), [b"stop"]);
}

// spec 8.31
#[test]
fn a_message_that_is_too_large_is_refused_before_any_byte_is_taken() {
    let (mut client, _) = pair(&small());
    let id = client.streams.open().unwrap();
    let refused = client.streams.send_message(at(0), id, Bytes::from(vec![0; 8193]), unordered());
    assert_eq!(refused, Err(SendError::TooLarge { size: 8193, most: 8192 }));
    let narrow = StreamConfig { max_message: 1 << 20, ..small() };
    let (client, _) = pair(&narrow);
    assert_eq!(client.streams.most_message(), Some((16 << 10) - OVERHEAD));
}

// spec 2.12
#[test]
fn without_agreement_messages_are_neither_sent_nor_accepted() {
    let none = StreamConfig { max_message: 0, ..small() };
    let (mut client, mut server) =
        (Peer::new(Side::Client, &small(), &small()), Peer::new(Side::Server, &none, &small()));
    let id = client.streams.open().unwrap();
    send(&mut client, id, b"x", unordered());
    let packet = client.packet().unwrap();
    assert_eq!(server.take(&packet), Err(Violation::UnexpectedBlock { kind: 0x83 }));
    let own = server.streams.open().unwrap();
    assert_eq!(server.streams.send_message(at(0), own, Bytes::new(), unordered()), Err(SendError::NotAgreed));
}

// spec 8.28
#[test]
fn a_direction_carries_bytes_or_messages_and_never_both() {
    let (mut client, mut server) = pair(&small());
    let (bytes, messages) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(bytes, b"bytes");
    send(&mut client, messages, b"message", unordered());
    let refused = client.streams.send_message(at(0), bytes, Bytes::new(), unordered());
    assert_eq!(refused, Err(Misuse::CarriesBytes { stream: bytes }.into()));
    let refused = client.streams.write(messages, Bytes::from_static(b"x"));
    assert_eq!(refused, Err(Misuse::CarriesMessages { stream: messages }.into()));
    exchange(&mut client, &mut server);
    server.accept_all();
    assert_eq!(server.streams.carries(bytes), Ok(Carries::Bytes));
    assert_eq!(server.streams.carries(messages), Ok(Carries::Messages));
    assert_eq!(server.streams.read(messages, 9), Err(Misuse::CarriesMessages { stream: messages }));
    assert_eq!(server.streams.receive_message(bytes), Err(Misuse::CarriesBytes { stream: bytes }));
    // The other direction may carry the other kind.
    server.write(messages, b"answer");
    exchange(&mut client, &mut server);
    client.read(messages);
    assert_eq!(client.received[&messages], b"answer");
}

// spec 8.33
#[test]
fn a_stream_of_messages_ends_behind_the_last_one() {
    for count in 0..4 {
        let (mut client, mut server) = pair(&small());
        let id = client.streams.open().unwrap();
        for _ in 0..count {
            send(&mut client, id, b"message", unordered());
        }
        client.streams.finish(id).unwrap();
        exchange(&mut client, &mut server);
        server.accept_all();
        assert_eq!(receive(&mut server, id).len(), count);
        assert_eq!(server.streams.receive_message(id), Err(Misuse::ReceivingEnded { stream: id }));
        assert!(client.saw(StreamEvent::Finished(id)) && client.streams.is_idle());
    }
}

// spec 8.33: the end may overtake the data before it
#[test]
fn the_end_may_come_first() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    send(&mut client, id, &pattern(id, 1_000), MessageOptions::default());
    let first = client.packet().unwrap();
    client.streams.finish(id).unwrap();
    let end = client.packet().unwrap();
    server.take(&end).unwrap();
    server.accept_all();
    assert_eq!(server.streams.receive_message(id), Ok(MessageOutcome::Blocked));
    server.take(&first).unwrap();
    assert_eq!(receive(&mut server, id), [pattern(id, 1_000)]);
    assert_eq!(credit(&client, &server), (1_128, 1_128));
}

// spec 8.32: a partially sent message can be completed
#[test]
fn messages_that_share_too_little_credit_all_arrive() {
    let (mut client, mut server) = pair(&StreamConfig { message_buffer: 64 << 10, ..small() });
    let ids: Vec<_> = (0..4).map(|_| client.streams.open().unwrap()).collect();
    for id in &ids {
        for _ in 0..3 {
            send(&mut client, *id, &pattern(*id, 8 << 10), unordered());
        }
    }
    let mut received = 0;
    for _ in 0..100 {
        exchange(&mut client, &mut server);
        server.accept_all();
        for id in &ids {
            received +=
                receive(&mut server, *id).iter().filter(|data| **data == pattern(*id, 8 << 10)).count();
        }
    }
    assert_eq!(received, 12);
    assert!(client.streams.is_idle());
}

// spec 8.48: a large message beside bytes
#[test]
fn bytes_do_not_use_up_the_credit_that_a_large_message_waits_for() {
    let (mut client, mut server) = pair(&small());
    let (bytes, messages) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(bytes, &pattern(bytes, 16 << 10));
    send(&mut client, messages, &pattern(messages, 8 << 10), unordered());
    let mut received = Vec::new();
    for _ in 0..40 {
        client.streams.write(bytes, Bytes::from(pattern(bytes, 4 << 10))).unwrap();
        exchange(&mut client, &mut server);
        server.accept_all();
        server.read(bytes);
        received.extend(receive(&mut server, messages));
    }
    assert_eq!(received, [pattern(messages, 8 << 10)]);
}

// spec 8.34
#[test]
fn a_reset_counts_the_bytes_reached_on_both_sides() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    send(&mut client, id, &pattern(id, 5_000), unordered());
    let lost = client.packet().unwrap();
    client.lose(&lost);
    client.streams.reset(id, 3).unwrap();
    exchange(&mut client, &mut server);
    server.accept_all();
    assert_eq!(server.streams.receive_message(id), Ok(MessageOutcome::Reset(3)));
    let (sent, received) = credit(&client, &server);
    assert!(sent == received && sent < 1_400, "{sent} {received}");
}

#[test]
fn a_full_buffer_takes_no_more_until_there_is_space() {
    let (mut client, mut server) = pair(&small());
    let id = client.streams.open().unwrap();
    let mut taken = 0;
    let full = loop {
        match client.streams.send_message(at(0), id, Bytes::from(vec![1; 2_000]), unordered()) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((full, taken), (SendError::Full, 7));
    for _ in 0..20 {
        exchange(&mut client, &mut server);
        server.accept_all();
        receive(&mut server, id);
    }
    assert!(client.saw(StreamEvent::Writable(id)));
}

#[test]
fn urgent_messages_go_before_bytes_and_are_distinguished() {
    let (mut client, _) = pair(&small());
    let (bytes, messages) = (client.streams.open().unwrap(), client.streams.open().unwrap());
    client.write(bytes, &pattern(bytes, 8 << 10));
    assert_eq!(client.streams.urgent_backlog(), None);
    send(&mut client, messages, b"now", unordered().class(Class::Interactive));
    assert_eq!(client.streams.urgent_backlog(), Some(3));
    let packet = client.packet().unwrap();
    let first = Blocks::new(&packet.payload).next().unwrap().unwrap();
    assert!(matches!(first, Block::Message(message) if message.data == b"now"));
    assert_eq!(client.streams.urgent_backlog(), None);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send { stream: usize, size: usize, unordered: bool, lifetime: Option<u64>, transmissions: Option<u32> },
    Packet { size: usize },
    Arrive { filter: usize, fate: u8 },
    Back,
    Read,
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let limits = (prop::option::of(0_u64..40), prop::option::of(1_u32..4));
    let send = (0_usize..3, prop_oneof![0_usize..200, 0..=8192_usize], any::<bool>(), limits);
    prop_oneof![
        3 => send.prop_map(|(stream, size, unordered, (lifetime, transmissions))| {
            Step::Send { stream, size, unordered, lifetime, transmissions }
        }),
        6 => (120_usize..1_400).prop_map(|size| Step::Packet { size }),
        5 => (any::<usize>(), 0_u8..6).prop_map(|(filter, fate)| Step::Arrive { filter, fate }),
        2 => Just(Step::Back),
        2 => Just(Step::Read),
        1 => (1_u64..20).prop_map(Step::Wait),
    ]
}

/// A message, as its receiver can tell from its first bytes.
#[derive(Debug, Clone, Copy)]
struct Sent {
    stream: usize,
    size: usize,
    reliable: bool,
}

proptest! {
    /// Every reliable message arrives once and whole, ordered ones in order, and both ends count the same credit.
    #[test]
    fn messages_keep_their_guarantees_on_any_network(steps in prop::collection::vec(any_step(), 0..150)) {
        let (mut client, mut server) = pair(&small());
        let ids: Vec<_> = (0..3).map(|_| client.streams.open().unwrap()).collect();
        let (mut sent, mut seen) = (Vec::<Sent>::new(), BTreeSet::new());
        let mut last = [None; 3];
        let mut flying: Vec<Packet> = Vec::new();
        let mut now = 0;
        let mut steps = steps.into_iter();
        loop {
            let step = steps.next();
            match step {
                Some(Step::Send { stream, size, unordered: free, lifetime, transmissions }) => {
                    let mut data = u32::try_from(sent.len()).unwrap().to_be_bytes().to_vec();
                    data.resize(size.max(4), 9);
                    let mut options = MessageOptions::default().protocol(u32::try_from(size).unwrap());
                    options.order = if free { Order::Unordered } else { Order::Ordered };
                    options.lifetime = lifetime.map(Duration::from_millis);
                    options.transmissions = transmissions;
                    let reliable = lifetime.is_none() && transmissions.is_none();
                    if client.streams.send_message(at(now), ids[stream], data.into(), options).is_ok() {
                        sent.push(Sent { stream, size, reliable });
                    }
                }
                Some(Step::Packet { size }) => flying.extend(client.packet_of(size)),
                Some(Step::Arrive { filter, fate }) if !flying.is_empty() => {
                    let packet = flying.remove(filter % flying.len());
                    match fate {
                        0 => client.lose(&packet),
                        1 => {
                            server.take(&packet).unwrap();
                            flying.push(packet);
                        }
                        2 => {
                            client.lose(&packet);
                            flying.push(packet);
                        }
                        _ => {
                            server.take(&packet).unwrap();
                            client.settle(&packet);
                        }
                    }
                }
                Some(Step::Back) => {
                    if let Some(packet) = server.packet() {
                        client.take(&packet).unwrap();
                        server.settle(&packet);
                    }
                }
                Some(Step::Wait(millis)) => {
                    now += millis;
                    client.streams.on_time(at(now));
                    client.streams.expire_messages(at(now));
                }
                Some(Step::Arrive { .. } | Step::Read) => {}
                None => {
                    for packet in flying.drain(..) {
                        server.take(&packet).unwrap();
                        client.settle(&packet);
                    }
                    exchange(&mut client, &mut server);
                }
            }
            server.accept_all();
            for (number, id) in ids.iter().enumerate() {
                while let Ok(MessageOutcome::Message(message)) = server.streams.receive_message(*id) {
                    let name = u32::from_be_bytes(message.data[..4].try_into().unwrap());
                    let Sent { stream, size, .. } = sent[name as usize];
                    prop_assert_eq!((stream, size.max(4)), (number, message.data.len()));
                    prop_assert!(message.data[4..].iter().all(|byte| *byte == 9));
                    prop_assert!(seen.insert(name), "message {} came twice", name);
                    if message.order == Order::Ordered {
                        prop_assert!(last[number].is_none_or(|last| last < name));
                        last[number] = Some(name);
                    }
                }
            }
            if step.is_none() && client.streams.is_idle() && client.packet().is_none() {
                break;
            }
        }
        for (name, sent) in (0_u32..).zip(&sent) {
            prop_assert!(seen.contains(&name) || !sent.reliable, "message {} is missing", name);
        }
        let (used, counted) = credit(&client, &server);
        prop_assert_eq!(used, counted);
        let statistics = client.streams.message_statistics();
        prop_assert_eq!(statistics.delivered + statistics.abandoned, sent.len() as u64);
        prop_assert_eq!(statistics.sent + statistics.dropped, sent.len() as u64);
    }
}
