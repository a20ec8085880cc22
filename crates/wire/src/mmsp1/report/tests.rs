use super::*;
use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
use crate::mmsp1::{Block, Response};

fn written(reflected: Option<bool>, causes: &[Cause<'_>], room: usize) -> (usize, Vec<u8>) {
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, room);
    let count = match reflected {
        Some(reflected) => encode_rst(&mut w, reflected, causes.iter().copied()),
        None => encode_error(&mut w, causes.iter().copied()),
    };
    (count, bytes)
}

fn causes_of(payload: &[u8]) -> Causes<'_> {
    let blocks = walk(payload);
    match blocks[..] {
        [Ok(Block::Rst(Rst { causes, .. }) | Block::Error(ErrorReport { causes }))] => causes,
        _ => panic!("{blocks:?}"),
    }
}

// spec 3.70, 3.71
#[test]
fn every_cause_comes_back_in_rst_and_in_error() {
    for code in ErrorCode::ALL.into_iter().chain([ErrorCode(0), ErrorCode(u16::MAX)]) {
        for information in [&[][..], &[1], &[1, 2, 3, 4], &[9; 1000]] {
            let causes =
                [Cause { code, information }, Cause { code: ErrorCode::INVALID_FIELD, information: &[7] }];
            for reflected in [None, Some(false), Some(true)] {
                let (count, payload) = written(reflected, &causes, 4096);
                assert_eq!((count, payload.len() % 4), (2, 0));
                assert!(causes_of(&payload).iter().eq(causes));
                round_trip(walk(&payload)[0].unwrap());
            }
        }
    }
}

// spec 3.27
#[test]
fn rst_may_name_no_cause_and_only_flag_t_has_a_meaning() {
    for reflected in [false, true] {
        round_trip(Block::Rst(Rst { reflected, causes: Causes::NONE }));
    }
    let expected = Block::Rst(Rst { reflected: false, causes: Causes::NONE });
    assert_eq!(walk(&framed(Rst::KIND, 0xfe, &[])), [Ok(expected)]);
    assert_eq!(encoded(&expected), [9, 0, 0, 4]);
}

// spec 3.28, 3.73
#[test]
fn error_without_a_cause_is_dropped() {
    assert_eq!(Response::to(&refusal(&framed(ErrorReport::KIND, 0, &[]))), Response::Drop);
    assert_eq!(written(None, &[], 1200), (0, vec![]));
}

// spec 3.27, 3.73
#[test]
fn an_rst_or_error_with_a_cut_cause_is_dropped() {
    for kind in [Rst::KIND, ErrorReport::KIND] {
        for body in [&[0][..], &[0, 4, 0], &[0, 4, 0, 3], &[0, 4, 0, 5], &[0, 4, 0, 4, 0]] {
            assert_eq!(Response::to(&refusal(&framed(kind, 0, body))), Response::Drop, "{kind} {body:?}");
        }
    }
}

// spec 3.71
#[test]
fn only_stale_info_tells_since_when() {
    let expired = |code, information| Cause { code, information }.expired_millis();
    assert_eq!(expired(ErrorCode::STALE_INFO, &[0, 0, 1, 2]), Some(258));
    assert_eq!(expired(ErrorCode::STALE_INFO, &[0xff; 9]), Some(u32::MAX));
    assert_eq!(expired(ErrorCode::STALE_INFO, &[1, 2, 3]), None);
    assert_eq!(expired(ErrorCode::NO_INFO, &[0, 0, 1, 2]), None);
}

// spec 3.70
#[test]
fn as_many_causes_are_written_as_fit() {
    let cause = Cause { code: ErrorCode::UNRECOGNISED_FIELD, information: &[0, 1] };
    for (room, expected, length) in [(4, 0, 4), (9, 0, 4), (10, 1, 10), (12, 1, 12), (17, 1, 12), (18, 2, 18)]
    {
        let (count, payload) = written(Some(false), &[cause; 3], room);
        assert_eq!((count, payload.len()), (expected, length));
        let (count, payload) = written(None, &[cause; 3], room);
        assert_eq!((count, payload.len()), (expected, if expected == 0 { 0 } else { length }));
    }
}
