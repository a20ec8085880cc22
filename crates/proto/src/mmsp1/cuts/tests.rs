use super::*;
use crate::Class;
use crate::mmsp1::sack::{check, translate};
use crate::mmsp1::testing::{FakeFlight, INITIAL, SackBytes, at, cut};

const EDGE: Edge = Edge::NONE;

fn given(count: usize) -> (DataBlocks, FakeFlight, Vec<u64>) {
    let mut cuts = DataBlocks::new(INITIAL);
    let tseqs = (0..count).map(|_| cuts.give(cut(10))).collect();
    (cuts, FakeFlight::default(), tseqs)
}

fn sack(cuts: &mut DataBlocks, flight: &mut FakeFlight, cum: u64, ranges: &[(u64, u64)]) {
    let bytes = SackBytes::new(cum, 1000, ranges, &[]);
    let acknowledged = translate(&check(&bytes.sack(), cuts).unwrap(), cuts, at(50), flight);
    cuts.acknowledge(&acknowledged, &mut |_, _| {});
    flight.apply(cuts, &acknowledged);
}

// spec 3.43
#[test]
fn a_tseq_is_freed_by_a_sack_alone() {
    let (mut cuts, mut flight, tseqs) = given(1);
    let number = flight.send(&mut cuts, at(0), 0, &tseqs);
    flight.settle(&mut cuts, PathId(0), number);
    assert!(!cuts.is_empty() && !cuts.is_acked(tseqs[0]));
    assert_eq!(cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE), Some(tseqs[0]));
    flight.send(&mut cuts, at(1), 1, &tseqs);
    sack(&mut cuts, &mut flight, tseqs[0], &[]);
    assert!(cuts.is_empty() && cuts.is_acked(tseqs[0]));
    assert_eq!((cuts.acked().bytes, cuts.in_flight()), (10, 0));
}

#[test]
fn a_block_that_the_peer_dropped_from_an_acknowledged_packet_goes_again() {
    let (mut cuts, mut flight, tseqs) = given(3);
    flight.send(&mut cuts, at(0), 0, &tseqs);
    sack(&mut cuts, &mut flight, tseqs[0], &[(tseqs[2], tseqs[2])]);
    assert_eq!(cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE), Some(tseqs[1]));
    assert_eq!(cuts.waiting_bytes(BlockQueue::Retransmit, ClassFilter::All), 10);
    assert!(cuts.is_acked(tseqs[2]) && !cuts.is_acked(tseqs[1]));
}

#[test]
fn a_tseq_waits_for_a_carrier_only_if_its_loss_will_be_reported() {
    let (mut cuts, mut flight, tseqs) = given(1);
    let first = flight.send(&mut cuts, at(0), 0, &tseqs);
    let second = flight.send(&mut cuts, at(1), 1, &tseqs);
    flight.settle(&mut cuts, PathId(0), first);
    assert_eq!(
        cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE),
        None,
        "the second carrier is in flight"
    );
    let copy = flight.send(&mut cuts, at(2), 2, &tseqs);
    flight.mark_copy(2, copy);
    flight.settle(&mut cuts, PathId(1), second);
    assert_eq!(
        cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE),
        Some(tseqs[0]),
        "a copy is not waited for"
    );
}

// spec 3.43
#[test]
fn no_tseq_is_assigned_more_than_65535_beyond_the_gap() {
    let (mut cuts, mut flight, tseqs) = given(65_535);
    assert_eq!(cuts.room_to_give(), 0);
    for tseq in &tseqs {
        flight.send(&mut cuts, at(0), 0, &[*tseq]);
    }
    let last = *tseqs.last().unwrap();
    sack(&mut cuts, &mut flight, tseqs[0] - 1, &[(tseqs[1], last)]);
    assert_eq!(cuts.room_to_give(), 0, "the gap is still there");
    sack(&mut cuts, &mut flight, last, &[]);
    assert_eq!((cuts.room_to_give(), cuts.acked_in_sequence()), (65_535, last));
}

#[test]
fn the_urgent_and_then_the_lowest_tseq_goes_first_and_none_beyond_the_edge() {
    let (mut cuts, _, tseqs) = given(2);
    let urgent = Urgency { class: Class::Interactive, ..Urgency::default() };
    let third = cuts.give(DataBlock { urgency: urgent, ..cut(10) });
    let edge = |bytes| Edge { bytes, ..Edge::NONE };
    assert_eq!(cuts.next(BlockQueue::Unsent, ClassFilter::All, edge(30)), Some(third));
    assert_eq!(cuts.next(BlockQueue::Unsent, ClassFilter::All, edge(29)), Some(tseqs[0]));
    assert_eq!(cuts.next(BlockQueue::Unsent, ClassFilter::NotUrgent, edge(30)), Some(tseqs[0]));
    assert_eq!(cuts.next(BlockQueue::Unsent, ClassFilter::All, edge(9)), None);
    assert_eq!(cuts.first_beyond(edge(9)), Some(tseqs[0]));
    assert_eq!(cuts.first_beyond(edge(15)), Some(tseqs[1]));
    assert_eq!(cuts.waiting_bytes(BlockQueue::Unsent, ClassFilter::All), 30);
}

#[test]
fn tseqs_of_a_suspect_path_are_reinjected_once() {
    let (mut cuts, mut flight, tseqs) = given(2);
    let number = flight.send(&mut cuts, at(0), 0, &tseqs);
    assert_eq!(cuts.unacked_on(PathId(0)).collect::<Vec<_>>(), tseqs);
    flight.reinject(&mut cuts, PathId(0), number);
    flight.send(&mut cuts, at(1), 1, &tseqs);
    assert_eq!(cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE), None);
    flight.settle(&mut cuts, PathId(0), number);
    assert_eq!(cuts.next(BlockQueue::Retransmit, ClassFilter::All, EDGE), None);
    assert_eq!(cuts.unacked_on(PathId(1)).collect::<Vec<_>>(), tseqs);
}
