use super::*;
use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, ErrorCode, Response};

fn data(address: &str) -> ProbeData {
    let address = address.parse().unwrap();
    ProbeData { sent_micros: 0x0102_0304_0506_0708, path: 0x090a, address, nonce: 0x1112, mac: 0x2122 }
}

fn probe(data: ProbeData) -> Block<'static> {
    Block::Probe(Probe { data, unrecognised: None })
}

// spec 3.38, 3.39
#[test]
fn every_field_comes_back_at_its_limits() {
    for (long, path) in [(0, 0), (u64::MAX, u16::MAX), (1 << 63, 1 << 15)] {
        for address in ["0.0.0.0", "255.255.255.255", "::", "::ffff:192.0.2.1", "2001:db8::1"] {
            let address = address.parse().unwrap();
            let data = ProbeData { sent_micros: long, path, address, nonce: long, mac: long };
            round_trip(probe(data));
            let echo = ProbeData { nonce: 1, ..data };
            round_trip(Block::ProbeAck(ProbeAck { echo, data, unrecognised: None }));
        }
    }
}

// spec 3.38
#[test]
fn the_value_has_44_bytes_and_the_mac_covers_36() {
    let bytes = encoded(&probe(data("192.0.2.1")));
    assert_eq!(bytes[..8], [11, 0, 0, 52, 0, 0x10, 0, 48]);
    assert_eq!(bytes[8..], data("192.0.2.1").to_bytes());
    let other = ProbeData { mac: 7, ..data("192.0.2.1") };
    assert_eq!(other.to_bytes()[..ProbeData::COVERED], bytes[8..8 + 36]);
    assert_eq!(other.to_bytes()[ProbeData::COVERED..], 7_u64.to_be_bytes());
}

// spec 3.38, 3.73
#[test]
fn an_unknown_family_earns_unresolved_address_and_a_malformed_value_invalid_field() {
    let right = encoded(&probe(data("192.0.2.1")));
    for (at, value, code) in [
        (19, 5, ErrorCode::UNRESOLVED_ADDRESS),
        (18, 1, ErrorCode::UNRESOLVED_ADDRESS),
        (35, 1, ErrorCode::INVALID_FIELD),
        (7, 47, ErrorCode::INVALID_FIELD),
        (7, 3, ErrorCode::INVALID_FIELD),
        (5, 0x11, ErrorCode::INVALID_FIELD),
    ] {
        let mut wrong = right.clone();
        wrong[at] = value;
        assert_eq!(Response::to(&refusal(&wrong)), Response::Error(code), "{at}");
    }
    let mut long = vec![0, 0x10, 0, 49];
    long.extend(data("192.0.2.1").to_bytes());
    long.push(0);
    assert_eq!(Response::to(&refusal(&framed(11, 0, &long))), Response::Error(ErrorCode::INVALID_FIELD));
}

// spec 3.73, 3.138
#[test]
fn a_missing_or_repeated_parameter_is_refused() {
    let parameter = |kind: u8| [&[0, kind, 0, 48], &data("192.0.2.1").to_bytes()[..]].concat();
    let (own, echo) = (parameter(0x10), parameter(0x11));
    let twice = [&own[..], &own].concat();
    for (kind, body) in [(11, &[][..]), (11, &twice), (12, &[]), (12, &own), (12, &echo)] {
        let error = refusal(&framed(kind, 0, body));
        assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD), "{error}");
    }
    let turned = [&own[..], &echo].concat();
    assert!(walk(&framed(12, 0, &turned))[0].is_ok(), "a reader takes any order");
}

// spec 3.16
#[test]
fn unknown_parameters_are_remembered_or_skipped() {
    let mut body = vec![0x80, 0, 0, 4, 0, 0x11, 0, 4, 0, 0x10, 0, 48];
    body.extend(data("2001:db8::1").to_bytes());
    let expected = Probe { data: data("2001:db8::1"), unrecognised: Some(0x11) };
    assert_eq!(walk(&framed(11, 0, &body)), [Ok(Block::Probe(expected))]);
}
