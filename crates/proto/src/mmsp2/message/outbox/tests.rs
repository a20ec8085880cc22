use std::time::Duration;

use manyway_wire::mmsp2::{Block, Blocks};

use super::*;
use crate::Class;

const STREAM: StreamId = StreamId(4);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn outbox() -> Outbox {
    Outbox::new(STREAM)
}

fn push(outbox: &mut Outbox, size: usize, options: MessageOptions) -> MessageToken {
    outbox.push(at(0), Bytes::from(vec![7; size]), options, Urgency::default())
}

fn unordered() -> MessageOptions {
    MessageOptions::default().order(Order::Unordered)
}

/// The range that a piece covers.
fn parts(content: SentContent) -> (MessageId, Range<u64>) {
    let SentContent::Message { key, offset, length, end, .. } = content else { panic!("{content:?}") };
    let start = u64::from(offset);
    (key.into(), start..start + u64::from(length) + u64::from(end))
}

/// Writes one piece into a packet of this size: of a partially sent message, or else of the next one.
fn send(outbox: &mut Outbox, size: usize) -> Option<(SentContent, u64)> {
    let mut packet = Vec::new();
    let mut w = Writer::new(&mut packet, size);
    let sent = outbox
        .write_partially_sent(&mut w)
        .map(|content| (content, 0))
        .or_else(|| outbox.write_next(0, &mut w));
    assert!(packet.len() <= size);
    sent
}

fn lose(outbox: &mut Outbox, content: SentContent) {
    let (id, units) = parts(content);
    outbox.on_lost(id, units);
}

fn deliver(outbox: &mut Outbox, content: SentContent) {
    let (id, units) = parts(content);
    outbox.on_delivered(at(1_000), id, units);
}

#[test]
fn the_more_urgent_message_goes_first_but_ordered_ones_keep_their_order() {
    let mut outbox = outbox();
    let names = [
        (push(&mut outbox, 1, MessageOptions::default()), "first"),
        (push(&mut outbox, 2, MessageOptions::default().priority(9)), "second"),
        (push(&mut outbox, 3, unordered()), "plain"),
        (push(&mut outbox, 4, unordered().lifetime(Duration::from_millis(90))), "later"),
        (push(&mut outbox, 5, unordered().lifetime(Duration::from_millis(30))), "sooner"),
        (push(&mut outbox, 6, unordered().class(Class::Interactive)), "interactive"),
        (push(&mut outbox, 7, unordered().priority(3)), "important"),
    ];
    let mut order = Vec::new();
    while let Some((content, _)) = send(&mut outbox, 200) {
        let (id, _) = parts(content);
        let token = outbox.partially_sent[&id].token;
        order.push(names.iter().find(|(known, _)| *known == token).unwrap().1);
    }
    // The priority of an ordered message counts once it is the first of them.
    assert_eq!(order, ["important", "interactive", "sooner", "later", "first", "second", "plain"]);
}

// spec 8.32
#[test]
fn reserved_and_unused_credit_is_refunded() {
    let mut outbox = outbox();
    push(&mut outbox, 5_000, unordered().transmissions(1));
    let (first, cost) = send(&mut outbox, 1_200).unwrap();
    assert_eq!(cost, 5_128);
    let (_, reached) = parts(first);
    assert!(reached.end > 1_100 && outbox.take_refund() == 0);
    lose(&mut outbox, first);
    assert_eq!(outbox.take_refund(), 5_000 - reached.end);
    assert_eq!(
        (outbox.take_abandoned(), outbox.held(), outbox.is_settled()),
        (Some(MessageToken(0)), 0, false)
    );
}

// spec 8.34
#[test]
fn a_skip_is_repeated_until_it_arrives() {
    let mut outbox = outbox();
    push(&mut outbox, 10, unordered().transmissions(1));
    push(&mut outbox, 20, MessageOptions::default().transmissions(1));
    for _ in 0..2 {
        let (content, _) = send(&mut outbox, 100).unwrap();
        lose(&mut outbox, content);
    }
    let mut told = Vec::new();
    for _ in 0..2 {
        assert!(outbox.wants_skip());
        let (mut packet, mut contents) = (Vec::new(), Contents::new());
        assert!(outbox.write_skips(&mut Writer::new(&mut packet, 1_200), &mut contents));
        told = Blocks::new(&packet)
            .flat_map(|block| match block {
                Ok(Block::Skip(skip)) => {
                    skip.messages.into_iter().map(|s| (skip.unordered, s.reach)).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(!outbox.wants_skip());
        for content in contents {
            let SentContent::Skip { key, .. } = content else { panic!("{content:?}") };
            outbox.on_skip_lost(key.into());
        }
    }
    assert_eq!(told, [(false, 20), (true, 10)]);
    outbox.on_skip_delivered(MessageId::ordered(0));
    outbox.on_skip_delivered(MessageId::unordered(0));
    assert!(outbox.is_settled());
}

// spec 8.34
#[test]
fn a_message_that_was_never_sent_is_dropped_without_a_number() {
    let mut outbox = outbox();
    push(&mut outbox, 10, MessageOptions::default().lifetime(Duration::from_millis(20)));
    push(&mut outbox, 20, MessageOptions::default());
    assert_eq!(outbox.next_expiry(), Some(at(20)));
    outbox.expire(at(19));
    assert_eq!(outbox.take_abandoned(), None);
    outbox.expire(at(20));
    assert_eq!((outbox.take_abandoned(), outbox.wants_skip()), (Some(MessageToken(0)), false));
    let (content, _) = send(&mut outbox, 100).unwrap();
    assert_eq!(parts(content), (MessageId::ordered(0), 0..21));
}

// spec 8.60
#[test]
fn a_completely_sent_message_is_not_given_up_before_it_is_lost() {
    let mut outbox = outbox();
    push(&mut outbox, 10, unordered().lifetime(Duration::from_millis(20)));
    let (content, _) = send(&mut outbox, 100).unwrap();
    outbox.expire(at(500));
    assert_eq!((outbox.take_abandoned(), outbox.next_expiry()), (None, None));
    lose(&mut outbox, content);
    outbox.expire(at(500));
    assert_eq!((outbox.take_abandoned(), outbox.wants_skip()), (Some(MessageToken(0)), true));
}

#[test]
fn an_acknowledgement_after_the_lifetime_counts_as_late() {
    let mut outbox = outbox();
    push(&mut outbox, 10, unordered().lifetime(Duration::from_millis(20)));
    push(&mut outbox, 10, unordered());
    for _ in 0..2 {
        let (content, _) = send(&mut outbox, 100).unwrap();
        deliver(&mut outbox, content);
    }
    let statistics = outbox.take_statistics();
    assert_eq!((statistics.sent, statistics.delivered, statistics.late), (2, 2, 1));
    assert!(outbox.is_settled());
}

// spec 8.35
#[test]
fn no_more_messages_are_cut_than_the_peer_permits() {
    let mut outbox = outbox();
    for _ in 0..MOST_INCOMPLETE + 10 {
        push(&mut outbox, 300, MessageOptions::default());
    }
    let mut pieces = Vec::new();
    while !outbox.has_too_many_cut() {
        pieces.push(send(&mut outbox, 200).unwrap().0);
    }
    assert_eq!(outbox.partially_sent.len(), MOST_INCOMPLETE);
    // The last message has its second piece to send; the others wait for acknowledgements.
    pieces.push(send(&mut outbox, 200).unwrap().0);
    pieces.into_iter().for_each(|content| deliver(&mut outbox, content));
    assert!(!outbox.has_too_many_cut());
}

#[test]
fn a_reset_forgets_everything_and_refunds_the_unsent_part() {
    let mut outbox = outbox();
    push(&mut outbox, 1_000, unordered());
    push(&mut outbox, 1_000, unordered());
    let (content, _) = send(&mut outbox, 300).unwrap();
    let (_, units) = parts(content);
    outbox.clear();
    assert_eq!(outbox.take_refund(), 1_000 - units.end);
    assert!(outbox.is_settled() && outbox.is_sent() && outbox.next_cost().is_none());
    deliver(&mut outbox, content);
    lose(&mut outbox, content);
    assert_eq!(outbox.held(), 0);
}
