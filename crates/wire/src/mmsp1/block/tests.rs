use super::*;
use crate::decode_error::Part;
use crate::mmsp1::testing::{framed, walk};
use crate::mmsp1::{ErrorCode, Fragment, Response, Sseq, Tseq};
use crate::writer::Writer;

const PONG: [u8; 4] = [5, 0, 0, 4];

// spec 3.10
#[test]
fn an_unknown_type_with_the_high_bit_is_skipped() {
    for kind in 0x80..=u8::MAX {
        let payload = [&framed(kind, 0xff, &[1, 2, 3, 4]), &PONG[..]].concat();
        assert_eq!(walk(&payload), [Ok(Block::Pong)]);
    }
}

// spec 3.10
#[test]
fn an_unknown_type_without_the_high_bit_ends_the_packet_and_earns_an_error() {
    for kind in 13..0x80 {
        let payload = [&PONG[..], &framed(kind, 0, &[]), &PONG].concat();
        let error = DecodeError::UnknownBlock { kind, offset: 4 };
        assert_eq!(walk(&payload), [Ok(Block::Pong), Err(error)]);
        assert_eq!(Response::to(&error), Response::Error(ErrorCode::UNRECOGNISED_BLOCK));
    }
}

// spec 3.10
#[test]
fn thirteen_types_are_known() {
    let is_unknown = |kind: &u8| {
        let unknown = DecodeError::UnknownBlock { kind: *kind, offset: 0 };
        walk(&framed(*kind, 0, &[])) == [Err(unknown)]
    };
    let known: Vec<_> = (0..0x80).filter(|kind| !is_unknown(kind)).collect();
    assert_eq!(known, (0..13).collect::<Vec<_>>());
}

// spec 3.11
#[test]
fn a_length_that_cannot_be_right_ends_the_packet() {
    for length in [0, 1, 2, 3, 9, 255] {
        let payload = [&PONG[..], &[6, 0, 0, length, 1, 2, 3, 4]].concat();
        let blocks = walk(&payload);
        let error = DecodeError::BlockLength { kind: 6, offset: 4, length: usize::from(length), left: 8 };
        assert_eq!(blocks, [Ok(Block::Pong), Err(error)]);
    }
}

// spec 3.12
#[test]
fn the_packet_goes_on_behind_a_block_that_cannot_be_read() {
    let payload = [&framed(1, 0, &[0; 11]), &[0][..], &PONG].concat();
    let part = Part::Block(1);
    let error = DecodeError::Truncated { part, offset: 14, needed: 2, left: 1 };
    assert_eq!(walk(&payload), [Err(error), Ok(Block::Pong)]);
    assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD));
}

// spec 3.9
#[test]
fn padding_may_hold_anything_and_the_last_block_may_lack_it() {
    let data = |data| {
        let (tseq, sseq, fragment) = (Tseq(1), Sseq(2), Fragment::Whole);
        Block::Data(Data { tseq, stream: 3, sseq, protocol: 4, unordered: false, fragment, data })
    };
    let mut payload = framed(0, 3, &[0, 0, 0, 1, 0, 3, 0, 2, 0, 0, 0, 4, b'a']);
    payload.extend([0xff; 3]);
    data(b"bc").encode(&mut Writer::new(&mut payload, 20 + 18));
    assert_eq!(payload.len(), 20 + 18, "no room, no padding");
    assert_eq!(walk(&payload), [Ok(data(b"a")), Ok(data(b"bc"))]);
}

// spec 3.9
#[test]
fn flags_without_a_meaning_are_ignored() {
    let fin = framed(6, 0, &[0, 0, 0, 1]);
    let mut flagged = fin.clone();
    flagged[1] = 0xff;
    assert_eq!(walk(&flagged), walk(&fin));
}
