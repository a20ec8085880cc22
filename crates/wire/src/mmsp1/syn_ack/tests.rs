use super::*;
use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, ErrorCode, Response, Tag, Tseq};

const OPENING: Opening =
    Opening { tag: Tag(9), window: 1000, outgoing: 2, incoming: 4, tseq: Tseq(u32::MAX) };
const NONE: Addresses<'static> = Addresses { listed: &[], ipv4: &[], ipv6: &[] };
const LISTED: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];

fn syn_ack<'a>(addresses: Addresses<'a>, info: &'a [u8]) -> Block<'a> {
    Block::SynAck(SynAck { opening: OPENING, addresses, info, unrecognised: None })
}

fn with_tail(tail: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    OPENING.encode(&mut Writer::new(&mut body, 16));
    framed(SynAck::KIND, 0, &[&body, tail].concat())
}

// spec 3.21
#[test]
fn info_comes_back_with_and_without_addresses() {
    for length in [0, 1, 3, 4, 200] {
        let info = &vec![0xa5; length];
        round_trip(syn_ack(NONE, info));
        round_trip(syn_ack(Addresses { listed: &LISTED, ..NONE }, info));
        round_trip(syn_ack(Addresses { listed: &LISTED[..1], ipv4: &LISTED, ipv6: &[[0x20; 16]] }, info));
        round_trip(syn_ack(Addresses { ipv6: &[[0x20; 16], [0x30; 16]], ..NONE }, info));
    }
}

// spec 3.21
#[test]
fn info_stands_behind_the_list_and_before_other_parameters() {
    let addresses = Addresses { listed: &LISTED[..1], ipv4: &LISTED[1..], ipv6: &[] };
    let payload = encoded(&syn_ack(addresses, &[1, 2, 3, 4, 5]));
    let tail = [
        &[192, 0, 2, 1, 0, 0, 0, 0][..],
        &[0, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0],
        &[0, 1, 0, 8, 198, 51, 100, 1],
    ];
    assert_eq!(payload[20..], tail.concat());
}

// spec 3.18
#[test]
fn info_without_a_list_is_not_taken_for_addresses() {
    // 0.0.0.8 and 10.0.0.1 would be the two entries.
    let payload = with_tail(&[0, 0, 0, 8, 10, 0, 0, 1]);
    assert_eq!(walk(&payload), [Ok(syn_ack(NONE, &[10, 0, 0, 1]))]);
}

// spec 3.21, 3.73
#[test]
fn a_syn_ack_without_info_earns_no_info() {
    let list = LISTED.concat();
    let other = [0, 1, 0, 8, 192, 0, 2, 1];
    let late = [&other[..], &[0, 0, 0, 4]].concat();
    for tail in [&[][..], &list, &other, &late] {
        let error = refusal(&with_tail(tail));
        assert_eq!(error, DecodeError::MissingParameter { kind: INFO }, "{tail:?}");
        assert_eq!(Response::to(&error), Response::Error(ErrorCode::NO_INFO));
    }
}

// spec 3.20, 3.73
#[test]
fn a_syn_ack_with_wrong_fields_earns_rst() {
    let block = with_tail(&[0, 0, 0, 4]);
    for at in [4..8, 12..14, 14..16] {
        let mut wrong = block.clone();
        wrong[at].fill(0);
        assert_eq!(Response::to(&refusal(&wrong)), Response::Reset(ErrorCode::INVALID_FIELD));
    }
    let cut = framed(SynAck::KIND, 0, &[1; 15]);
    assert_eq!(Response::to(&refusal(&cut)), Response::Reset(ErrorCode::MISSING_FIELD));
    for tail in [&[0, 0, 0, 3][..], &[0, 0, 0, 9, 1], &[0, 0, 0, 4, 0, 0, 0, 4], &[192, 0, 2, 1, 0, 0, 0, 4]]
    {
        let error = refusal(&with_tail(tail));
        assert_eq!(Response::to(&error), Response::Reset(ErrorCode::INVALID_FIELD), "{tail:?}");
    }
}
