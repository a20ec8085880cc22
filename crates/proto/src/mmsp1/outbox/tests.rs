use proptest::prelude::*;

use super::*;
use crate::Class;
use crate::mmsp1::testing::{at, pattern};
use crate::mmsp1::tseq::FIRST_SSEQ;

const FRAGMENT: usize = 100;

fn message(length: usize, order: Order) -> Waiting {
    let data = Bytes::from(vec![1; length]);
    Waiting { data, protocol: 9, order, urgency: Urgency::default(), deadline: None }
}

fn cut(outbox: &mut Outbox) -> Vec<Slice> {
    outbox.cut(FRAGMENT, FRAGMENT).to_vec()
}

fn end_of(slice: &Slice) -> StreamEnd {
    assert_eq!((slice.protocol, slice.fragment), (BYTES_END, Fragment::Whole));
    StreamEnd::decode(&slice.data).unwrap()
}

// spec 3.90 to 3.92
#[test]
fn ends_follow_the_bytes() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    assert_eq!(outbox.write(Bytes::from(vec![1; 150]), 140), 140);
    assert_eq!(outbox.write(Bytes::from(vec![2; 20]), 1000), 20);
    outbox.finish();
    assert_eq!((outbox.first_size(FRAGMENT), outbox.waiting()), (Some(100), 176));
    let (first, second, end) = (cut(&mut outbox), cut(&mut outbox), cut(&mut outbox));
    assert_eq!((first[0].data.len(), first[0].protocol, first[0].sseq), (100, BYTES, Sseq(0)));
    assert_eq!((second[0].data.len(), second[0].data[39], second[0].data[40]), (60, 1, 2));
    assert_eq!(end_of(&end[0]), StreamEnd { code: 0, total: 160 });
    assert_eq!((cut(&mut outbox).len(), outbox.first_size(FRAGMENT)), (0, None));
    assert!(!outbox.on_acked(StreamEnd::LEN, Some(Sseq(2))) && !outbox.on_acked(60, Some(Sseq(1))));
    assert!(outbox.on_acked(100, Some(Sseq(0))), "all is acknowledged");
    assert!(outbox.is_done() && outbox.held() == 0);
}

// spec 3.8a
#[test]
fn reset_drops_only_what_has_no_tseq() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    outbox.write(Bytes::from(vec![1; 250]), 250);
    cut(&mut outbox);
    outbox.reset(7);
    assert_eq!(outbox.held(), 100);
    assert_eq!(end_of(&cut(&mut outbox)[0]), StreamEnd { code: 8, total: 100 });
    outbox.reset(9);
    assert!(cut(&mut outbox).is_empty(), "there is one end");
    assert_eq!(outbox.next_sseq(), FIRST_SSEQ + 2);
}

// spec 3.34
#[test]
fn fragments_are_consecutive() {
    let mut outbox = Outbox::new(FIRST_SSEQ + 0xffff);
    let (large, small) =
        (outbox.push(message(250, Order::Ordered)), outbox.push(message(100, Order::Ordered)));
    outbox.finish();
    assert_eq!((outbox.pieces(FRAGMENT), outbox.first_size(FRAGMENT)), (3, Some(100)));
    let slices = cut(&mut outbox);
    let fragments: Vec<_> =
        slices.iter().map(|slice| (slice.fragment, slice.data.len(), slice.token)).collect();
    assert_eq!(
        fragments,
        [(Fragment::First, 100, None), (Fragment::Middle, 100, None), (Fragment::Last, 50, Some(large))]
    );
    assert!(slices.iter().all(|slice| slice.sseq == Sseq(0xffff) && !slice.unordered && slice.protocol == 9));
    let next = cut(&mut outbox);
    assert_eq!((next[0].fragment, next[0].sseq, next[0].token), (Fragment::Whole, Sseq(0), Some(small)));
    assert_eq!(end_of(&cut(&mut outbox)[0]), StreamEnd { code: 0, total: 2 });
}

// spec 3.33
#[test]
fn an_urgent_unordered_message_goes_first_and_takes_no_sseq() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    let urgency = Urgency { class: Class::Interactive, ..Urgency::default() };
    outbox.push(message(10, Order::Ordered));
    outbox.push(message(20, Order::Unordered));
    let urgent = outbox.push(Waiting { urgency, ..message(30, Order::Unordered) });
    assert_eq!(outbox.rank(Urgency::default()).map(|rank| rank.urgency), Some(urgency));
    let first = cut(&mut outbox);
    assert_eq!((first[0].token, first[0].unordered, first[0].sseq), (Some(urgent), true, Sseq(0)));
    assert_eq!((cut(&mut outbox)[0].data.len(), cut(&mut outbox)[0].data.len()), (10, 20));
    assert_eq!(outbox.next_sseq(), FIRST_SSEQ + 1);
}

// spec 3.8a
#[test]
fn a_lifetime_ends_with_the_first_transmission() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    let deadline = |millis| Waiting { deadline: Some(at(millis)), ..message(10, Order::Ordered) };
    outbox.push(deadline(10));
    let second = outbox.push(deadline(20));
    let third = outbox.push(Waiting { order: Order::Unordered, ..deadline(15) });
    cut(&mut outbox);
    assert_eq!(outbox.next_deadline(), Some(at(15)));
    assert_eq!(outbox.expire(at(30)).as_slice(), [third, second]);
    assert_eq!((outbox.waiting(), outbox.next_deadline(), outbox.held()), (0, None, 10));
}

// spec 3.32
#[test]
fn no_ordered_message_goes_more_than_32767_behind_one_that_is_not_acknowledged() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    outbox.push(message(FRAGMENT + 1, Order::Ordered));
    for _ in 0..=MOST_ORDERED {
        outbox.push(message(1, Order::Ordered));
    }
    assert_eq!(cut(&mut outbox).len(), 2);
    for _ in 1..MOST_ORDERED {
        assert_eq!(cut(&mut outbox).len(), 1);
    }
    assert_eq!((outbox.first_size(FRAGMENT), cut(&mut outbox).len()), (None, 0));
    outbox.push(message(1, Order::Unordered));
    assert_eq!(cut(&mut outbox).len(), 1, "an unordered one has no SSEQ");
    outbox.on_acked(1, Some(Sseq(1)));
    outbox.on_acked(1, Some(Sseq(0)));
    assert_eq!(cut(&mut outbox).len(), 0, "a fragment of the first one is missing");
    outbox.on_acked(FRAGMENT, Some(Sseq(0)));
    assert_eq!((cut(&mut outbox).len(), cut(&mut outbox).len(), cut(&mut outbox).len()), (1, 1, 0));
}

#[test]
fn a_block_of_bytes_fills_the_rest_of_a_packet_if_it_is_half_a_fragment() {
    let mut outbox = Outbox::new(FIRST_SSEQ);
    outbox.write(Bytes::from(vec![1; 180]), 180);
    assert!(outbox.cut(FRAGMENT, FRAGMENT / 2 - 1).is_empty());
    assert_eq!(outbox.cut(FRAGMENT, FRAGMENT / 2)[0].data.len(), 50);
    assert_eq!(outbox.cut(FRAGMENT, FRAGMENT)[0].data.len(), 100);
    assert_eq!(outbox.cut(FRAGMENT, 40)[0].data.len(), 30, "all that is left");
}

proptest! {
    #[test]
    fn bytes_come_out_as_they_went_in(
        steps in prop::collection::vec((any::<bool>(), 1_usize..300), 1..60)
    ) {
        let mut outbox = Outbox::new(FIRST_SSEQ);
        let (mut written, mut sent) = (Vec::new(), Vec::new());
        for (writes, size) in steps {
            if writes {
                let data = pattern(written.len()..written.len() + size);
                written.extend_from_slice(&data);
                outbox.write(data.into(), usize::MAX);
            } else {
                sent.extend(outbox.cut(FRAGMENT, size).iter().flat_map(|slice| slice.data.to_vec()));
            }
        }
        while outbox.first_size(FRAGMENT).is_some() {
            sent.extend(outbox.cut(FRAGMENT, FRAGMENT).iter().flat_map(|slice| slice.data.to_vec()));
        }
        prop_assert_eq!(sent, written);
        prop_assert_eq!((outbox.waiting(), outbox.held()), (0, outbox.outstanding()));
    }
}
