use super::*;
use crate::decode_error::Part;
use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, ErrorCode, Response};

const DATA: Data<'static> = Data {
    tseq: Tseq(0x0102_0304),
    stream: 0x0506,
    sseq: Sseq(0x0708),
    protocol: 0x090a_0b0c,
    unordered: false,
    fragment: Fragment::Whole,
    data: b"abc",
};

const FRAGMENTS: [Fragment; 4] = [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last];

// spec 3.30
#[test]
fn every_field_comes_back_at_its_limits() {
    for (tseq, short) in [(0, 0), (u32::MAX, u16::MAX), (1 << 31, 1 << 15)] {
        for (fragment, unordered) in FRAGMENTS.into_iter().flat_map(|f| [(f, false), (f, true)]) {
            let (stream, sseq, protocol) = (short, Sseq(short), tseq);
            for data in [&b"a"[..], b"abcd", &vec![9; 65_535 - DATA_OVERHEAD]] {
                let data = Data { tseq: Tseq(tseq), stream, sseq, protocol, unordered, fragment, data };
                round_trip(Block::Data(data));
            }
        }
    }
}

// spec 3.30, 3.33, 3.34: Table 3.2 of the thesis
#[test]
fn the_flags_are_those_of_the_thesis_and_the_reserved_ones_are_ignored() {
    let flags = [(Fragment::Middle, 0), (Fragment::Last, 1), (Fragment::First, 2), (Fragment::Whole, 3)];
    for (fragment, bits) in flags {
        for (unordered, bits) in [(false, bits), (true, bits | 4)] {
            let data = Data { fragment, unordered, ..DATA };
            let bytes = encoded(&Block::Data(data));
            assert_eq!(bytes[1], bits);
            let mut reserved = bytes.clone();
            reserved[1] |= 0xf8;
            assert_eq!(walk(&reserved), [Ok(Block::Data(data))]);
        }
    }
}

// spec 3.35
#[test]
fn a_block_without_data_has_length_16_and_is_read() {
    let empty = Block::Data(Data { data: &[], ..DATA });
    let bytes = encoded(&empty);
    assert_eq!((bytes.len(), &bytes[2..4]), (16, &[0, 16][..]));
    assert_eq!(walk(&bytes), [Ok(empty)]);
}

// spec 3.73
#[test]
fn a_block_without_all_of_its_fields_is_refused() {
    for length in 0..12 {
        let error = refusal(&framed(Data::KIND, 3, &[0; 12][..length]));
        assert!(matches!(error, DecodeError::Truncated { part: Part::Block(0), .. }));
        assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD));
    }
}

// spec 3.118
#[test]
fn a_message_goes_on_until_it_ends_and_only_then_the_next_begins() {
    use Fragment::{First, Last, Middle, Whole};
    for (before, next) in FRAGMENTS.into_iter().flat_map(|before| FRAGMENTS.map(|next| (before, next))) {
        let possible =
            matches!((before, next), (First | Middle, Middle | Last) | (Whole | Last, Whole | First));
        assert_eq!(before.may_precede(next), possible, "{before:?} {next:?}");
        let (before, next) = (Data { fragment: before, ..DATA }, Data { fragment: next, ..DATA });
        assert_eq!(next.may_follow(&before), possible);
    }
}

// spec 3.118
#[test]
fn fragments_of_one_message_agree_on_stream_sseq_and_u() {
    let first = Data { fragment: Fragment::First, ..DATA };
    let last = Data { fragment: Fragment::Last, ..DATA };
    assert!(last.may_follow(&first));
    assert!(Data { protocol: 0, ..last }.may_follow(&first), "the first fragment names the payload protocol");
    assert!(!Data { stream: 1, ..last }.may_follow(&first));
    assert!(!Data { sseq: Sseq(1), ..last }.may_follow(&first));
    assert!(!Data { unordered: true, ..last }.may_follow(&first));
    let unordered = Data { unordered: true, ..first };
    let other = Data { unordered: true, sseq: Sseq(1), ..last };
    assert!(other.may_follow(&unordered), "the SSEQ of an unordered message is ignored");
    assert!(Data { fragment: Fragment::First, stream: 1, ..DATA }.may_follow(&last), "another message");
}
