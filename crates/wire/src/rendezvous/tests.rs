use super::mailbox::{Letter, Status};
use super::*;

const TOKEN: Token = [7; 16];
const COOKIE: Cookie = [9; 16];
const SEALED: Sealed = [5; SEALED_LEN];
const LETTER: Letter = [3; mailbox::LETTER_LEN];

fn bodies() -> Vec<(Body<'static>, usize)> {
    let seen = "[2001:db8::1]:443".parse().unwrap();
    let request = |side| Body::Request { side, nonce: 1, cookie: COOKIE, sealed: &SEALED };
    vec![
        (request(Side::Client), REQUEST_LEN),
        (request(Side::Server), REQUEST_LEN),
        (Body::Retry { nonce: u64::MAX, cookie: COOKIE }, 44),
        (Body::Answer { nonce: 3, seen, sealed: None }, 46),
        (Body::Answer { nonce: 3, seen: "192.0.2.1:5".parse().unwrap(), sealed: Some(&SEALED) }, 215),
        (Body::Knock, 20),
        (ask(Side::Client, None), SHORT_LEN),
        (ask(Side::Server, None), SHORT_LEN),
        (ask(Side::Client, Some(&LETTER)), LONG_LEN),
        (ask(Side::Server, Some(&LETTER)), LONG_LEN),
        (state(Status::Open, None), 35),
        (state(Status::Gone, None), 35),
        (state(Status::Taken, None), 35),
        (state(Status::Full, Some(&LETTER)), 435),
        (Body::Leave { nonce: 3, cookie: COOKIE }, SHORT_LEN),
        (Body::Observe { nonce: 3 }, SHORT_LEN),
        (Body::Bind { nonce: 3, cookie: COOKIE, number: 70_000 }, SHORT_LEN),
        (Body::Bound { nonce: 3, is_bound: true }, 29),
    ]
}

fn ask(side: Side, letter: Option<&Letter>) -> Body<'_> {
    Body::Ask(Ask { side, nonce: 1, cookie: COOKIE, number: 70_000, posted: 2, taken: 1, letter })
}

fn state(status: Status, letter: Option<&Letter>) -> Body<'_> {
    Body::State(State { nonce: 1, number: 70_000, status, held: 2, posted: 1, letter })
}

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![1, 2];
    message.encode(&mut Writer::new(&mut bytes, 1200));
    bytes.split_off(2)
}

// spec 10.2, 10.5, 10.17
#[test]
fn everything_comes_back_and_nothing_is_longer_than_its_request() {
    for (body, length) in bodies() {
        let message = Message { token: TOKEN, body };
        let bytes = written(&message);
        assert_eq!(bytes.len(), length);
        assert!(bytes.len() <= MAX_LEN && Message::is_meant(&bytes));
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
}

// spec 10.2
#[test]
fn a_datagram_of_another_length_version_or_kind_is_refused() {
    for (body, _) in bodies() {
        let bytes = written(&Message { token: TOKEN, body });
        for length in 0..bytes.len() {
            // An answer without sealed addresses is complete too, and so are request and answer without a letter.
            let whole = match body {
                Body::Answer { .. } => length == 46,
                Body::Ask(_) => length == SHORT_LEN,
                Body::State(_) => length == 35,
                Body::Request { .. }
                | Body::Retry { .. }
                | Body::Knock
                | Body::Leave { .. }
                | Body::Bind { .. }
                | Body::Bound { .. }
                | Body::Observe { .. } => false,
            };
            assert_eq!(Message::decode(&bytes[..length]).is_ok(), whole, "{body:?} {length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        Message::decode(&longer).unwrap_err();
        for at in 0..3 {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            Message::decode(&other).unwrap_err();
        }
        for kind in (0..=u8::MAX).filter(|kind| !(1..=12).contains(kind)) {
            let mut other = bytes.clone();
            other[3] = kind;
            assert!(matches!(Message::decode(&other), Err(DecodeError::OutOfRange { field: "kind", .. })));
        }
    }
}

// spec 10.2
#[test]
fn content_of_padding_is_ignored() {
    for (body, length) in
        bodies().into_iter().filter(|(_, length)| [256, SHORT_LEN, LONG_LEN].contains(length))
    {
        let message = Message { token: TOKEN, body };
        let mut bytes = written(&message);
        bytes[length - 1] = 1;
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
}

// spec 10.17
#[test]
fn an_unknown_status_of_a_mailbox_is_refused() {
    let mut bytes = written(&Message { token: TOKEN, body: state(Status::Open, None) });
    bytes[32] = 4;
    assert!(matches!(Message::decode(&bytes), Err(DecodeError::OutOfRange { field: "status", .. })));
}

// spec 10.6
#[test]
fn sealed_addresses_have_the_same_length_whatever_their_number() {
    let all: Vec<SocketAddr> = (0..10).map(|port| ([192, 0, 2, 1], port).into()).collect();
    for count in 0..=all.len() {
        let mut clear = Vec::new();
        encode_addresses(&mut Writer::new(&mut clear, CLEAR_LEN), &all[..count]);
        assert_eq!(clear.len(), CLEAR_LEN);
        assert_eq!(decode_addresses(&clear), Ok(all[..count.min(MAX_ADDRESSES)].to_vec()));
    }
    assert!(matches!(decode_addresses(&[9; CLEAR_LEN]), Err(DecodeError::OutOfRange { value: 9, .. })));
    assert!(matches!(decode_addresses(&[2; 30]), Err(DecodeError::Truncated { .. })));
    decode_addresses(&[]).unwrap_err();
}
