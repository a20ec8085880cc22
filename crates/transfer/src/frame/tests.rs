use super::*;
use crate::answer::Mark;
use crate::bench::request::{AccountRequest, BenchRequest};
use crate::bench::{BenchDirection, BenchLimit};
use crate::entry::{EntryKind, Timestamp};
use crate::failure::Reason;
use crate::link::LinkTarget;
use crate::request::{GetRequest, ReadRequest};
use crate::rules::{Excludes, Links, Rules};
use manyway_session::TransportFacts;
use proptest::prelude::*;

// transfer 1.2
#[test]
fn an_end_frame_has_the_bytes_of_the_specification() {
    let mut out = Vec::new();
    Frame::Done(Totals { files: 2, bytes: 0x0102_0304 }).encode(&mut out);
    assert_eq!(out, [&[0x14, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 2][..], &[0, 0, 0, 0, 1, 2, 3, 4]].concat());
}

// transfer 1.5
#[test]
fn a_request_of_another_version_is_recognised() {
    let decoded = Frame::decode(Kind::Request, &[9, 77, 1, 2, 3]);
    assert_eq!(decoded, Ok(Frame::Request(Err(Unknown::Version(9)))));
    let decoded = Frame::decode(Kind::Request, &[crate::request::VERSION, 200]);
    assert_eq!(decoded, Ok(Frame::Request(Err(Unknown::Verb(200)))));
}

#[test]
fn a_name_that_leads_outside_does_not_decode() {
    let entry = entry("harmless");
    let mut out = Vec::new();
    Frame::Entry(entry).encode(&mut out);
    let name = out.len() - "harmless".len();
    out[name..].copy_from_slice(b"../../me");
    assert!(matches!(Frame::decode(Kind::Entry, &out[HEADER..]), Err(CodecError::Name(_))));
}

#[test]
fn bytes_after_the_last_field_are_refused() {
    let mut body = vec![0; 16];
    assert!(Frame::decode(Kind::Done, &body).is_ok());
    body.push(0);
    assert_eq!(Frame::decode(Kind::Done, &body), Err(CodecError::Trailing { left: 1 }));
}

// transfer 2.7
#[test]
fn only_a_file_has_a_size_and_no_more_room_than_that() {
    let decode = |kind, size, room| {
        let mut out = Vec::new();
        Frame::Entry(Entry { kind, size, room, ..entry("x") }).encode(&mut out);
        Frame::decode(Kind::Entry, &out[HEADER..]).is_ok()
    };
    assert!(decode(EntryKind::File, 5, 5) && decode(EntryKind::Stream, 0, 0));
    assert!(
        !decode(EntryKind::File, 5, 6)
            && !decode(EntryKind::Stream, 1, 0)
            && !decode(EntryKind::Directory, 1, 1)
    );
}

// transfer 1.3
#[test]
fn the_length_of_a_frame_is_bounded() {
    assert!(Header::decode([0x11, 4, 0, 0]).is_ok());
    assert!(Header::decode([0x11, 4, 0, 1]).is_err());
    assert!(Header::decode([0x10, 1, 0, 0]).is_ok());
    assert!(Header::decode([0x10, 1, 0, 1]).is_err());
    assert!(Header::decode([0x77, 0, 0, 0]).is_err());
}

// transfer 4.3
#[test]
fn marks_that_do_not_ascend_or_are_too_many_are_refused() {
    let answer = |lengths: &[u64]| {
        let marks = lengths.iter().map(|length| Mark { length: *length, hash: [1; 32] }).collect();
        let mut out = Vec::new();
        Frame::Answer(Answer { entry: 3, marks }).encode(&mut out);
        Frame::decode(Kind::Answer, &out[HEADER..])
    };
    assert!(answer(&[]).is_ok() && answer(&[1, 2, 9]).is_ok());
    for wrong in [&[0][..], &[5, 5], &[5, 4]] {
        assert!(matches!(answer(wrong), Err(CodecError::Value { .. })), "{wrong:?}");
    }
    assert!(answer(&(1..257).collect::<Vec<_>>()).is_ok());
    assert!(matches!(answer(&(1..258).collect::<Vec<_>>()), Err(CodecError::TooLong { .. })));
}

// transfer 3.6
#[test]
fn the_length_of_a_hole_is_bounded() {
    let hole = |length: u64| Frame::decode(Kind::Hole, &length.to_be_bytes());
    assert!(hole(1).is_ok() && hole(1 << 30).is_ok());
    assert!(hole(0).is_err() && hole((1 << 30) + 1).is_err());
}

fn entry(path: &str) -> Entry {
    Entry {
        path: RelativePath::parse(path).unwrap(),
        kind: EntryKind::File,
        size: 7,
        room: 7,
        modified: Timestamp { seconds: 1_700_000_000, nanos: 5 },
        mode: 0o640,
    }
}

fn any_path() -> impl Strategy<Value = RelativePath> {
    "[a-zü ]{1,8}(/[a-z.]{1,8}x){0,3}".prop_map(|name| RelativePath::parse(&name).unwrap())
}

fn any_failure() -> impl Strategy<Value = Failure> {
    (0_u8..20, "\\PC{0,40}").prop_map(|(code, text)| Failure::with_text(Reason::from_code(code), text))
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let links = prop_oneof![Just(Links::Keep), Just(Links::Follow), Just(Links::Skip)];
    (links, prop::collection::vec("[a-z*?/]{1,9}x", 0..4))
        .prop_map(|(links, patterns)| Rules { links, exclude: Excludes::new(patterns).unwrap() })
}

fn any_kind() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        Just(EntryKind::File),
        Just(EntryKind::Directory),
        Just(EntryKind::Stream),
        "(\\.\\./){0,3}[a-zü ]{1,8}(/[a-z]{1,8}){0,3}"
            .prop_map(|target| EntryKind::Link(LinkTarget::parse(&target).unwrap())),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        "[a-z/0-9.]{0,20}".prop_map(|application| Request::Hello { application }),
        any::<(u64, u64)>().prop_map(|(files, bytes)| Request::Put(Totals { files, bytes })),
        (prop::collection::vec(any_path(), 0..5), any_rules())
            .prop_map(|(paths, rules)| Request::Get(GetRequest { rules, paths })),
        prop::option::of(any_path()).prop_map(Request::List),
        (any_path(), any::<(u64, u64)>())
            .prop_map(|(path, (offset, length))| { Request::Read(ReadRequest { path, offset, length }) }),
        "[a-z-]{0,20}".prop_map(|congestion| Request::Account(AccountRequest { congestion })),
        (
            any::<bool>(),
            any::<bool>(),
            any::<u64>(),
            10_000_u64..,
            prop::option::of(1_u64..),
            1_u32..=1 << 20
        )
            .prop_map(|(up, time, amount, interval, rate, length)| {
                Request::Bench(BenchRequest {
                    direction: if up { BenchDirection::Upload } else { BenchDirection::Download },
                    limit: if time {
                        BenchLimit::Duration(Duration::from_micros(amount))
                    } else {
                        BenchLimit::Bytes(amount)
                    },
                    interval: Duration::from_micros(interval),
                    omit: Duration::from_micros(amount / 2),
                    rate,
                    length,
                })
            }),
    ]
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let totals = any::<(u64, u64)>().prop_map(|(files, bytes)| Totals { files, bytes });
    prop_oneof![
        any_request().prop_map(|request| Frame::Request(Ok(request))),
        totals.clone().prop_map(Frame::Accepted),
        totals.prop_map(Frame::Done),
        any_failure().prop_map(Frame::Refused),
        (any_path(), any_kind(), any::<u64>(), 0_u16..0o1000, any::<i64>(), 0_u32..1_000_000_000).prop_map(
            |(path, kind, size, mode, seconds, nanos)| {
                let modified = Timestamp { seconds, nanos };
                let size = if kind == EntryKind::File { size } else { 0 };
                Frame::Entry(Entry { path, kind, size, room: size / 2, modified, mode })
            }
        ),
        any::<[u8; 32]>().prop_map(|hash| Frame::End { hash }),
        (prop::option::of(0..u64::MAX), any_failure(), "\\PC{0,40}")
            .prop_map(|(entry, failure, name)| Frame::Abandoned { entry, name, failure }),
        any::<(u64, u64)>().prop_map(|(entry, offset)| Frame::Start { entry, offset }),
        (1..=HOLE_LIMIT).prop_map(|length| Frame::Hole { length }),
        (any::<u64>(), prop::collection::btree_map(1_u64.., any::<[u8; 32]>(), 0..20)).prop_map(
            |(entry, marks)| {
                let marks = marks.into_iter().map(|(length, hash)| Mark { length, hash }).collect();
                Frame::Answer(Answer { entry, marks })
            }
        ),
        (any::<u64>(), any_path(), prop::option::of(any_failure())).prop_map(|(index, path, failure)| {
            Frame::Verdict(Verdict { index, path, outcome: failure.map_or(Ok(()), Err) })
        }),
        any::<(u32, u64, u64)>().prop_map(|(index, start, bytes)| {
            let (start, end) = (Duration::from_micros(start), Duration::from_micros(start / 2));
            Frame::Interval(Interval { index, omitted: index % 2 == 0, start, end, bytes })
        }),
        (any::<[u32; 5]>(), "[a-z-]{0,20}").prop_map(|(numbers, congestion)| {
            let [bytes_sent, cpu, silence, packets_sent, packets_lost] = numbers.map(u64::from);
            Frame::Account(BenchAccount {
                bytes_sent,
                cpu: Duration::from_micros(cpu),
                longest_stall: Duration::from_micros(silence),
                transport: TransportFacts { packets_sent, packets_lost, congestion },
            })
        }),
    ]
}

proptest! {
    #[test]
    fn frames_survive_the_wire(frame in any_frame()) {
        let mut out = Vec::new();
        frame.encode(&mut out);
        let header = Header::decode(out[..HEADER].try_into().unwrap()).unwrap();
        prop_assert_eq!(header.length, out.len() - HEADER);
        prop_assert_eq!(Frame::decode(header.kind, &out[HEADER..]), Ok(frame));
    }

    #[test]
    fn decoding_never_panics_and_decoded_frames_encode_to_the_same_bytes(
        code in prop_oneof![Just(1_u8), Just(2), Just(3), Just(4), 0x10_u8..0x17, 0x20_u8..0x22, 0x30_u8..0x33],
        mut body in prop::collection::vec(any::<u8>(), 0..120),
        is_current in any::<bool>(),
    ) {
        if is_current && let Some(first) = body.first_mut() {
            *first = crate::request::VERSION;
        }
        let kind = Kind::from_code(code).unwrap();
        let Ok(frame) = Frame::decode(kind, &body) else { return Ok(()) };
        let mut out = Vec::new();
        frame.encode(&mut out);
        let is_unknown = matches!(frame, Frame::Request(Err(_)));
        // Unknown reasons become "other", whose number is different.
        let has_reason = matches!(frame, Frame::Refused(_) | Frame::Abandoned { .. } | Frame::Verdict(_));
        prop_assert!(is_unknown || has_reason || out[HEADER..] == body[..]);
    }
}
