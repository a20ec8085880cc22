use super::*;
use crate::mmsp1::testing::{framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, ErrorCode, Response};

fn body(ack: u32, window: u32, ranges: &[(u16, u16)], duplicates: &[u32]) -> Vec<u8> {
    let mut body = [ack.to_be_bytes(), window.to_be_bytes()].concat();
    body.extend(u16::try_from(ranges.len()).unwrap().to_be_bytes());
    body.extend(u16::try_from(duplicates.len()).unwrap().to_be_bytes());
    ranges.iter().for_each(|(start, end)| body.extend([start.to_be_bytes(), end.to_be_bytes()].concat()));
    duplicates.iter().for_each(|tseq| body.extend(tseq.to_be_bytes()));
    body
}

fn read(body: &[u8]) -> Sack<'_> {
    Sack::decode(0, Reader::new(body)).unwrap()
}

fn written(
    ack: Tseq,
    ranges: &[(u16, u16)],
    duplicates: &[Tseq],
    room: usize,
) -> (Option<(usize, usize)>, Vec<u8>) {
    let mut bytes = Vec::new();
    let ranges = ranges.iter().map(|(start, end)| *start..=*end);
    let mut w = Writer::new(&mut bytes, room);
    let counts = encode_sack(&mut w, ack, 7, ranges, duplicates.iter().copied());
    (counts, bytes)
}

// spec 3.40
#[test]
fn every_field_comes_back_at_its_limits() {
    for (ack, window) in [(0, 0), (u32::MAX, u32::MAX), (1 << 31, 1)] {
        for ranges in [&[][..], &[(1, 1)], &[(1, u16::MAX)], &[(2, 3), (5, 9), (u16::MAX, u16::MAX)]] {
            for duplicates in [&[][..], &[0], &[u32::MAX, u32::MAX, 1]] {
                let body = body(ack, window, ranges, duplicates);
                let sack = read(&body);
                assert_eq!((sack.ack, sack.window), (Tseq(ack), window));
                assert!(sack.ranges.offsets().eq(ranges.iter().map(|(start, end)| *start..=*end)));
                assert!(sack.duplicates.iter().eq(duplicates.iter().map(|tseq| Tseq(*tseq))));
                round_trip(Block::Sack(sack));
            }
        }
    }
}

// spec 3.41: the note of the thesis: TSEQ = ack TSEQ + offset
#[test]
fn ranges_are_of_blocks_received_and_wrap_with_the_tseq() {
    let wrapping = body(u32::MAX - 1, 0, &[(2, 3), (7, 7)], &[]);
    let sack = read(&wrapping);
    assert_eq!(sack.ranges.iter().collect::<Vec<_>>(), [(Tseq(0), Tseq(1)), (Tseq(5), Tseq(5))]);
    assert_eq!(sack.highest(), Tseq(5));
    assert_eq!(read(&body(9, 0, &[], &[])).highest(), Tseq(9));
}

// spec 3.45
#[test]
fn an_inverted_range_and_offset_0_are_refused_with_their_place() {
    let error = refusal(&framed(Sack::KIND, 0, &body(1, 2, &[(2, 3), (5, 4)], &[])));
    assert!(matches!(error, DecodeError::OutOfRange { offset: 22, field: "end offset", value: 4, .. }));
    assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD));
    for range in [(0, 0), (0, 5)] {
        let error = refusal(&framed(Sack::KIND, 0, &body(1, 2, &[range], &[])));
        assert!(matches!(error, DecodeError::OutOfRange { offset: 16, field: "start offset", value: 0, .. }));
    }
}

// spec 3.45
#[test]
fn overlapping_and_unsorted_ranges_are_accepted() {
    let body = body(1, 2, &[(9, 12), (2, 10), (2, 10)], &[]);
    assert!(matches!(walk(&framed(Sack::KIND, 0, &body))[..], [Ok(Block::Sack(_))]));
}

// spec 3.40
#[test]
fn counts_that_contradict_the_length_are_refused() {
    let right = body(1, 2, &[(2, 3)], &[4, 5]);
    for (at, value) in [(9, 0), (9, 2), (9, 4), (8, 0xff), (11, 1), (11, 3), (10, 0xff)] {
        let mut wrong = right.clone();
        wrong[at] = value;
        let error = refusal(&framed(Sack::KIND, 0, &wrong));
        assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD), "{at} {value}");
    }
    for length in 0..right.len() {
        refusal(&framed(Sack::KIND, 0, &right[..length]));
    }
}

// spec 3.41, 3.42
#[test]
fn the_lowest_48_ranges_and_16_duplicates_are_written() {
    let ranges: Vec<(u16, u16)> = (1..=100).map(|at| (at * 4, at * 4 + 1)).collect();
    let duplicates: Vec<_> = (0..40).map(Tseq).collect();
    let (counts, bytes) = written(Tseq(3), &ranges, &duplicates, 1200);
    assert_eq!(counts, Some((Sack::MAX_RANGES, Sack::MAX_DUPLICATES)));
    let blocks = walk(&bytes);
    let [Ok(Block::Sack(sack))] = blocks[..] else { panic!("{blocks:?}") };
    assert!(sack.ranges.offsets().eq(ranges.iter().take(Sack::MAX_RANGES).map(|(start, end)| *start..=*end)));
    assert!(sack.duplicates.iter().eq((0..16).map(Tseq)));
    assert_eq!((sack.ack, sack.window), (Tseq(3), 7));
}

// spec 3.41
#[test]
fn with_little_room_the_duplicates_go_first_and_then_the_highest_ranges() {
    let (ranges, duplicates) = ([(2, 2), (4, 4), (6, 6)], [Tseq(1), Tseq(2)]);
    for (room, expected) in
        [(15, None), (16, Some((0, 0))), (20, Some((1, 0))), (28, Some((3, 0))), (35, Some((3, 1)))]
    {
        let (counts, bytes) = written(Tseq(0), &ranges, &duplicates, room);
        assert_eq!(counts, expected);
        assert!(bytes.len() <= room && (counts.is_some() || bytes.is_empty()));
        assert!(walk(&bytes).iter().all(Result::is_ok));
    }
}
