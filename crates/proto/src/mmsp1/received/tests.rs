use std::collections::BTreeSet;

use manyway_wire::mmsp1::{Block, Blocks};
use proptest::prelude::*;

use super::*;

struct Said {
    ack: Tseq,
    ranges: Vec<(u16, u16)>,
    duplicates: Vec<Tseq>,
}

fn said(received: &mut Received, room: usize) -> Option<Said> {
    let mut packet = Vec::new();
    if !received.write_sack(&mut Writer::new(&mut packet, room), 7) {
        assert!(packet.is_empty());
        return None;
    }
    let Some(Ok(Block::Sack(sack))) = Blocks::new(&packet).next() else { panic!("no SACK: {packet:?}") };
    assert_eq!(sack.window, 7);
    let ranges = sack.ranges.offsets().map(RangeInclusive::into_inner).collect();
    Some(Said { ack: sack.ack, ranges, duplicates: sack.duplicates.iter().collect() })
}

fn take(received: &mut Received, tseq: u32) -> Taken {
    let (number, found) = received.look(Tseq(tseq));
    let taken = received.take(number, 10);
    assert_eq!(found, taken, "looking and taking agree");
    taken
}

// spec 3.40
#[test]
fn before_any_data_the_ack_is_the_initial_tseq_minus_one() {
    for (initial, ack) in [(5, 4), (0, u32::MAX)] {
        let mut received = Received::new(Tseq(initial));
        assert_eq!((received.ack(), received.has_gap()), (Tseq(ack), false));
        let said = said(&mut received, 1200).unwrap();
        assert_eq!((said.ack, said.ranges.len(), said.duplicates.len()), (Tseq(ack), 0, 0));
    }
}

// spec 3.31
#[test]
fn blocks_are_placed_across_the_wrap_of_tseq() {
    let mut received = Received::new(Tseq(u32::MAX));
    assert_eq!(take(&mut received, 1), Taken::BeyondGap);
    assert_eq!(take(&mut received, u32::MAX), Taken::FillsGap);
    assert_eq!(take(&mut received, u32::MAX), Taken::Duplicate);
    assert_eq!(take(&mut received, 2), Taken::BeyondGap);
    assert_eq!(take(&mut received, 0), Taken::FillsGap);
    assert_eq!((received.ack(), received.has_gap(), received.in_sequence().bytes), (Tseq(2), false, 40));
    assert_eq!(take(&mut received, 3), Taken::InOrder);
    assert_eq!(take(&mut received, 1), Taken::Duplicate);
}

// spec 3.41
#[test]
fn of_many_ranges_a_sack_names_the_newest_and_the_lowest() {
    let mut received = Received::new(Tseq(100));
    (0..100).for_each(|at| assert_eq!(take(&mut received, 101 + 2 * at), Taken::BeyondGap));
    let range = |at: u16| (2 + 2 * at, 2 + 2 * at);
    let most = said(&mut received, 1200).unwrap();
    let expected: Vec<_> = (0..16).chain(68..100).map(range).collect();
    assert_eq!((most.ack, most.ranges), (Tseq(99), expected));
    let cut = said(&mut received, 16 + 4 * 10 + 3).unwrap();
    assert_eq!(cut.ranges, (90..100).map(range).collect::<Vec<_>>(), "a SACK takes the room that there is");
    assert!(said(&mut received, 15).is_none(), "there is no room for a SACK");
    // A block in the middle joins two ranges, which every further SACK names until others are newer.
    assert_eq!(take(&mut received, 102 + 2 * 40), Taken::FillsGap);
    assert!(said(&mut received, 1200).unwrap().ranges.contains(&(82, 84)));
    (0..40).for_each(|_| assert!(said(&mut received, 1200).unwrap().ranges.contains(&(82, 84))));
}

// spec 3.42
#[test]
fn duplicates_are_listed_once_for_each_copy() {
    let mut received = Received::new(Tseq(0));
    for tseq in [0, 0, 4, 4, 4] {
        take(&mut received, tseq);
    }
    assert_eq!(said(&mut received, 16).unwrap().duplicates, [], "without room they wait for the next SACK");
    assert_eq!(said(&mut received, 1200).unwrap().duplicates, [Tseq(0), Tseq(4), Tseq(4)]);
    assert_eq!(said(&mut received, 1200).unwrap().duplicates, [], "each copy is listed once");
    (0..100).for_each(|_| assert_eq!(take(&mut received, 4), Taken::Duplicate));
    assert_eq!(said(&mut received, 1200).unwrap().duplicates, [Tseq(4); Sack::MAX_DUPLICATES]);
    assert_eq!(said(&mut received, 1200).unwrap().duplicates, [], "no more are kept than a SACK takes");
}

// spec 3.31
#[test]
fn data_more_than_65535_beyond_the_ack_is_dropped() {
    let mut received = Received::new(Tseq(1));
    assert_eq!(take(&mut received, 65_536), Taken::TooFar);
    assert_eq!(take(&mut received, 0x8000_0000), Taken::TooFar, "half of all numbers away lies nowhere");
    assert!(!received.has_gap());
    assert_eq!(take(&mut received, 65_535), Taken::BeyondGap);
    assert_eq!(said(&mut received, 1200).unwrap().ranges, [(65_535, 65_535)]);
    (1..65_535).for_each(|tseq| assert_eq!(take(&mut received, tseq), Taken::FillsGap));
    assert_eq!((received.ack(), received.in_sequence().bytes), (Tseq(65_535), 655_350));
    assert_eq!(take(&mut received, 2 * 65_535), Taken::BeyondGap);
}

proptest! {
    // spec 3.40 to 3.42
    #[test]
    fn a_sack_says_what_has_arrived(
        initial in any::<u32>(),
        offsets in prop::collection::vec(0_u32..40, 0..100),
    ) {
        let mut received = Received::new(Tseq(initial));
        let mut model = BTreeSet::new();
        let mut copies = Vec::new();
        for offset in offsets {
            let (number, _) = received.look(Tseq(initial.wrapping_add(offset)));
            let taken = received.take(number, u16::try_from(offset).unwrap());
            prop_assert_eq!(taken == Taken::Duplicate, !model.insert(offset));
            if taken == Taken::Duplicate && copies.len() < Sack::MAX_DUPLICATES {
                copies.push(Tseq(initial.wrapping_add(offset)));
            }
            prop_assert_eq!(received.has_gap(), model.last().is_some_and(|last| model.len() <= *last as usize));
        }
        let in_sequence: Vec<u32> = (0..).take_while(|offset| model.contains(offset)).collect();
        let count = u32::try_from(in_sequence.len()).unwrap();
        prop_assert_eq!(received.in_sequence().bytes, u64::from(in_sequence.iter().sum::<u32>()));
        let said = said(&mut received, 1200).unwrap();
        prop_assert_eq!(said.ack, Tseq(initial).plus(count).minus(1));
        prop_assert_eq!(said.duplicates, copies);
        let listed: Vec<u32> =
            said.ranges.iter().flat_map(|(first, last)| *first..=*last).map(|at| u32::from(at) + count - 1).collect();
        let beyond: Vec<u32> = model.range(count..).copied().collect();
        prop_assert_eq!(listed, beyond);
    }
}
