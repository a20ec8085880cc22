use super::*;
use crate::mmsp2::Block;
use crate::testing::{encoded, framed, refusal, round_trip, walk};

const DELAY: Duration = Duration::from_micros(2500);
const COUNTS: EcnCounts = EcnCounts { ect0: 1000, ect1: 0, ce: 3 };

fn write(room: usize, ranges: &[RangeInclusive<u64>], ecn: Option<EcnCounts>) -> (usize, Vec<u8>) {
    let mut payload = Vec::new();
    let mut w = Writer::new(&mut payload, room);
    let written = encode_path_ack(&mut w, PathId(1), DELAY, 77, ranges.iter().cloned(), ecn);
    (written, payload)
}

fn read(payload: &[u8]) -> PathAck<'_> {
    let blocks = walk(payload);
    let [Ok(Block::PathAck(ack))] = blocks[..] else { panic!("{blocks:?}") };
    ack
}

// spec 5.80
#[test]
fn ranges_come_back_newest_first() {
    let ranges = [90..=100, 88..=88, 0..=3];
    for ecn in [None, Some(COUNTS)] {
        let (written, payload) = write(1200, &ranges, ecn);
        assert_eq!(written, 3);
        let ack = read(&payload);
        assert_eq!(ack.ranges.iter().collect::<Vec<_>>(), ranges);
        assert_eq!(ack.ranges.largest(), 100);
        assert_eq!((ack.path, ack.delay, ack.receive_time_micros, ack.ecn), (PathId(1), DELAY, 77, ecn));
        round_trip(Block::PathAck(ack));
        assert_eq!(encoded(&Block::PathAck(ack)), payload);
    }
}

// spec 9.68: the oldest ranges are left out when room is short
#[test]
fn as_many_ranges_as_fit_are_written_and_never_a_byte_beyond_the_room() {
    let ranges: Vec<_> = (0..200_u64).rev().map(|at| at * 1000..=at * 1000 + 7).collect();
    let mut before = 0;
    for room in 0..700 {
        let (written, payload) = write(room, &ranges, Some(COUNTS));
        assert!(payload.len() <= room);
        assert!(written >= before, "more room, fewer ranges");
        before = written;
        if written == 0 {
            assert!(payload.is_empty());
        } else {
            assert_eq!(read(&payload).ranges.iter().collect::<Vec<_>>(), ranges[..written]);
        }
    }
    assert_eq!(before, 200);
}

#[test]
fn a_block_holds_only_as_many_ranges_as_its_length_field_allows() {
    let ranges: Vec<_> = (0..40_000_u64).rev().map(|at| at * 1000..=at * 1000).collect();
    let (written, payload) = write(1 << 20, &ranges, None);
    assert!(written < ranges.len());
    assert!(payload.len() <= 1 << 16);
    assert_eq!(read(&payload).ranges.iter().count(), written);
}

#[test]
fn ranges_out_of_order_end_the_list() {
    for wrong in [10..=20, 9..=9, 30..=40, VARINT_MAX + 1..=VARINT_MAX + 2] {
        let (written, payload) = write(1200, &[10..=20, wrong], None);
        assert_eq!(written, 1);
        assert_eq!(read(&payload).ranges.iter().collect::<Vec<_>>(), [10..=20]);
    }
    assert_eq!(write(1200, &[], None), (0, vec![]));
}

// spec 5.80
#[test]
fn a_range_below_packet_zero_is_refused() {
    let head = [1, 10, 0, 0, 0, 0, 0];
    let too_long = framed(PathAck::KIND, 0, &[&head[..], &[11]].concat());
    assert!(matches!(refusal(&too_long), DecodeError::OutOfRange { field: "range length", value: 11, .. }));
    let too_far = framed(PathAck::KIND, 0, &[&head[..], &[2, 7, 0]].concat());
    assert!(matches!(refusal(&too_far), DecodeError::OutOfRange { field: "gap", value: 7, .. }));
    let half = framed(PathAck::KIND, 0, &[&head[..], &[2, 6]].concat());
    assert!(matches!(refusal(&half), DecodeError::Truncated { .. }));
    let right = framed(PathAck::KIND, 0, &[&head[..], &[2, 6, 0]].concat());
    assert_eq!(read(&right).ranges.iter().collect::<Vec<_>>(), [8..=10, 0..=0]);
}

// spec 5.80: at least one range
#[test]
fn an_acknowledgement_of_nothing_is_refused() {
    assert!(matches!(
        refusal(&framed(PathAck::KIND, 0, &[1, 10, 0, 0, 0, 0, 0])),
        DecodeError::Truncated { .. }
    ));
}
