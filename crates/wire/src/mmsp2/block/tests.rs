use super::*;
use crate::decode_error::Part;
use crate::ids::{PathId, StreamId};
use crate::testing;
use crate::writer::Writer;

// spec 2.4
#[test]
fn blocks_start_at_multiples_of_four_and_only_the_last_may_lack_padding() {
    let first = StreamData { stream: StreamId(0), offset: 0, end: false, data: b"abc" };
    let last = StreamData { stream: StreamId(4), offset: 9, end: true, data: b"xyz" };
    let mut payload = Vec::new();
    let mut w = Writer::new(&mut payload, 12 + 9);
    first.encode(&mut w);
    assert_eq!(w.position(), 12);
    last.encode(&mut w);
    assert_eq!(payload.len(), 12 + 9, "no room, no padding");
    let blocks: Vec<_> = Blocks::new(&payload).map(Result::unwrap).collect();
    assert_eq!(blocks, [Block::Stream(first), Block::Stream(last)]);
}

// spec 2.4
#[test]
fn content_of_padding_is_ignored() {
    let payload = [MaxData::KIND, 0, 0, 5, 7, 0xff, 0xff, 0xff, Pong::KIND, 0, 0, 4];
    let blocks: Vec<_> = Blocks::new(&payload).map(Result::unwrap).collect();
    assert_eq!(blocks, [Block::MaxData(MaxData { credit: 7 }), Block::Pong]);
}

// spec 2.5
#[test]
fn up_to_three_bytes_after_the_last_block_are_filler() {
    for filling in 0..4 {
        let mut payload = vec![Pong::KIND, 0, 0, 4];
        payload.extend(vec![0; filling]);
        assert_eq!(Blocks::new(&payload).map(Result::unwrap).collect::<Vec<_>>(), [Block::Pong]);
    }
}

// spec 2.6
#[test]
fn an_unknown_type_ends_the_walk_and_is_named() {
    let payload = [Pong::KIND, 0, 0, 4, 0xee, 0, 0, 4, Pong::KIND, 0, 0, 4];
    let results: Vec<_> = Blocks::new(&payload).collect();
    assert_eq!(results, [Ok(Block::Pong), Err(DecodeError::UnknownBlock { kind: 0xee, offset: 4 })]);
}

// spec 2.12: reserved types are in no set
#[test]
fn reserved_types_are_unknown() {
    for kind in [0, 1, 6, 7, 8, 9, 10, 0x99, 0x9a, 0x9c] {
        let payload = [kind, 0, 0, 4];
        let expected = DecodeError::UnknownBlock { kind, offset: 0 };
        assert_eq!(Blocks::new(&payload).next(), Some(Err(expected)));
    }
}

// spec 2.2
#[test]
fn a_length_below_the_header_or_beyond_the_packet_is_refused() {
    for length in [0, 3, 9] {
        let payload = [MaxData::KIND, 0, 0, length, 1, 0, 0, 0];
        let expected = DecodeError::BlockLength {
            kind: MaxData::KIND,
            offset: 0,
            length: usize::from(length),
            left: payload.len(),
        };
        assert_eq!(Blocks::new(&payload).collect::<Vec<_>>(), [Err(expected)]);
    }
}

// spec 2.3
#[test]
fn flags_that_a_block_does_not_have_are_refused() {
    let results = testing::walk(&[MaxData::KIND, 0x80, 0, 5, 1]);
    assert_eq!(results, [Err(DecodeError::UnknownFlags { kind: MaxData::KIND, offset: 4, flags: 0x80 })]);
}

// spec 2.7
#[test]
fn bytes_behind_the_last_field_are_refused() {
    let results = testing::walk(&[MaxData::KIND, 0, 0, 6, 1, 2]);
    assert_eq!(
        results,
        [Err(DecodeError::TrailingBytes { part: Part::Block(MaxData::KIND), offset: 5, left: 1 })]
    );
}

// spec 2.8
#[test]
fn only_four_blocks_do_not_ask_for_an_acknowledgement() {
    let silent = [
        Block::SynAck(SynAck { info: &[] }),
        Block::Padding,
        Block::Close(Close { step: crate::mmsp2::CloseStep::Fin, code: 0, text: &[] }),
    ];
    assert!(silent.iter().all(|block| !block.is_ack_eliciting()));
    assert!(Block::AckNow.is_ack_eliciting());
    assert!(Block::PathLimit(PathLimit { limit: 1 }).is_ack_eliciting());
}

// spec 2.9
#[test]
fn probing_blocks_are_those_that_say_nothing_about_the_connection() {
    assert!(Block::Probe(Probe { nonce: 1 }).is_probing());
    assert!(Block::Padding.is_probing());
    assert!(!Block::PathClose(PathClose { path: PathId(1), code: 0 }).is_probing());
    assert!(!Block::Pong.is_probing());
}
