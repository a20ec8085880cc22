use super::*;
use crate::decode_error::Part;
use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, ErrorCode, Response};

const OPENING: Opening =
    Opening { tag: Tag(0x0102_0304), window: 65_536, outgoing: 3, incoming: 5, tseq: Tseq(0x1112_1314) };
const NONE: Addresses<'static> = Addresses { listed: &[], ipv4: &[], ipv6: &[] };
const LISTED: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];
const IPV6: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

fn syn(opening: Opening, addresses: Addresses<'_>) -> Block<'_> {
    Block::Syn(Syn { opening, addresses, unrecognised: None })
}

/// A SYN with the fields of [`OPENING`] but for the number of outgoing streams, and `tail` behind them.
fn with_tail(outgoing: u16, tail: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    Opening { outgoing, ..OPENING }.encode(&mut Writer::new(&mut body, 16));
    framed(Syn::KIND, 0, &[&body, tail].concat())
}

fn addresses_of(payload: &[u8]) -> Vec<String> {
    let blocks = walk(payload);
    let [Ok(Block::Syn(syn))] = &blocks[..] else { panic!("{blocks:?}") };
    syn.addresses.iter().map(|address| address.to_string()).collect()
}

// spec 3.20
#[test]
fn every_field_comes_back_at_its_limits() {
    for (long, short) in [(1, 1), (u32::MAX, u16::MAX), (1 << 31, 1 << 15)] {
        for window in [0, u32::MAX] {
            let (tag, tseq) = (Tag(long), Tseq(long));
            round_trip(syn(Opening { tag, window, outgoing: short, incoming: short, tseq }, NONE));
        }
    }
    round_trip(syn(Opening { tseq: Tseq(0), ..OPENING }, NONE));
    assert_eq!(encoded(&syn(OPENING, NONE)).len(), 20);
}

// spec 3.20, 3.73
#[test]
fn tag_0_and_zero_streams_earn_rst_with_invalid_field() {
    let (tag, outgoing, incoming) = (Tag(0), 0, 0);
    let wrong = [
        (4, Opening { tag, ..OPENING }),
        (12, Opening { outgoing, ..OPENING }),
        (14, Opening { incoming, ..OPENING }),
    ];
    for (at, opening) in wrong {
        let error = refusal(&encoded(&syn(opening, NONE)));
        assert!(matches!(error, DecodeError::OutOfRange { offset, value: 0, .. } if offset == at), "{error}");
        assert_eq!(Response::to(&error), Response::Reset(ErrorCode::INVALID_FIELD));
    }
}

// spec 3.20, 3.73
#[test]
fn a_cut_syn_earns_rst_with_missing_field() {
    for length in 0..16 {
        let error = refusal(&framed(Syn::KIND, 0, &[1; 16][..length]));
        assert!(matches!(error, DecodeError::Truncated { part: Part::Block(2), .. }));
        assert_eq!(Response::to(&error), Response::Reset(ErrorCode::MISSING_FIELD));
    }
}

// spec 3.17, 3.18
#[test]
fn the_list_has_an_entry_for_each_outgoing_stream() {
    let addresses = Addresses { listed: &LISTED, ..NONE };
    let payload = encoded(&syn(OPENING, addresses));
    assert_eq!(payload[20..], [192, 0, 2, 1, 198, 51, 100, 1, 0, 0, 0, 0]);
    assert_eq!(walk(&payload), [Ok(syn(OPENING, addresses))]);
    assert_eq!(addresses_of(&payload), ["192.0.2.1", "198.51.100.1"]);
    // Filler may stand anywhere.
    let payload = with_tail(3, &[0, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0]);
    assert_eq!(addresses_of(&payload), ["192.0.2.1"]);
}

// spec 3.18
#[test]
fn a_list_that_is_too_long_or_too_short_earns_rst_with_invalid_field() {
    for entries in [1, 2, 4, 5] {
        let error = refusal(&with_tail(3, &[192, 0, 2, 1].repeat(entries)));
        assert!(matches!(error, DecodeError::OutOfRange { field: "address list length", offset: 20, .. }));
        assert_eq!(Response::to(&error), Response::Reset(ErrorCode::INVALID_FIELD));
    }
}

// spec 3.18
#[test]
fn an_entry_in_0_0_0_0_8_is_no_address() {
    assert!(addresses_of(&with_tail(1, &[0, 0, 0, 0])).is_empty());
    // Type 0x00ff of length 4: an unknown parameter, and not 0.255.0.4.
    let blocks = with_tail(1, &[0, 0xff, 0, 4]);
    let [Ok(block)] = walk(&blocks)[..] else { panic!() };
    assert_eq!(block.unrecognised(), Some(0xff));
    refusal(&with_tail(1, &[0, 0xff, 0, 3]));
}

// spec 3.17
#[test]
fn parameters_follow_the_whole_list() {
    let addresses = Addresses { listed: &[], ipv4: &LISTED, ipv6: &[IPV6] };
    round_trip(syn(OPENING, addresses));
    round_trip(syn(OPENING, Addresses { listed: &LISTED, ..addresses }));
    let payload = encoded(&syn(OPENING, addresses));
    assert_eq!(payload.len(), 20 + 3 * 4 + 12 + 20);
    assert_eq!(payload[20..32], [0; 12], "filler keeps parameters from being read as addresses");
    assert_eq!(addresses_of(&payload), ["192.0.2.1", "198.51.100.1", "2001:db8::1"]);
}

// spec 3.18
#[test]
fn parameters_are_read_without_a_list_too() {
    let parameter = [0, 1, 0, 8, 192, 0, 2, 1];
    for outgoing in [1, 2, 3, 256, 257, u16::MAX] {
        assert_eq!(addresses_of(&with_tail(outgoing, &parameter)), ["192.0.2.1"], "{outgoing}");
    }
}

// spec 3.17
#[test]
fn with_more_than_256_streams_there_is_no_list() {
    let listed = &[[10, 0, 0, 1]; 300];
    let opening = Opening { outgoing: 256, ..OPENING };
    let full = Addresses { listed: &listed[..256], ..NONE };
    round_trip(syn(opening, full));
    assert_eq!(walk(&encoded(&syn(opening, Addresses { listed, ..NONE }))), [Ok(syn(opening, full))]);
    let opening = Opening { outgoing: 257, ..OPENING };
    assert_eq!(encoded(&syn(opening, Addresses { listed, ..NONE })).len(), 20);
    refusal(&with_tail(257, &[10, 0, 0, 1].repeat(257)));
    round_trip(syn(opening, Addresses { ipv6: &[IPV6], ..NONE }));
}

// spec 3.15
#[test]
fn a_list_with_part_of_an_address_is_refused() {
    for parameter in [[0, 1, 0, 7, 1, 2, 3, 0], [0, 2, 0, 8, 1, 2, 3, 4]] {
        let error = refusal(&with_tail(u16::MAX, &parameter));
        assert_eq!(Response::to(&error), Response::Reset(ErrorCode::INVALID_FIELD));
    }
    assert!(addresses_of(&with_tail(u16::MAX, &[0, 1, 0, 4, 0, 2, 0, 4])).is_empty(), "lists may be empty");
}

// spec 3.16
#[test]
fn unknown_parameters_are_remembered_or_skipped() {
    let tail = [0x81, 0, 0, 4, 0, 0x10, 0, 4, 0, 1, 0, 8, 192, 0, 2, 1];
    let payload = with_tail(u16::MAX, &tail);
    let blocks = walk(&payload);
    let [Ok(Block::Syn(syn))] = blocks[..] else { panic!("{blocks:?}") };
    assert_eq!((syn.unrecognised, syn.addresses.iter().count()), (Some(0x10), 1));
}
