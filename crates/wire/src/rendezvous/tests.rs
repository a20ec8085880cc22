use super::*;

const TOKEN: Token = [7; 16];
const COOKIE: Cookie = [9; 16];
const SEALED: Sealed = [5; SEALED_LEN];

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
    ]
}

fn written(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![1, 2];
    message.encode(&mut Writer::new(&mut bytes, 1200));
    bytes.split_off(2)
}

// spec 10.2, 10.5
#[test]
fn everything_comes_back_and_nothing_is_longer_than_a_request() {
    for (body, length) in bodies() {
        let message = Message { token: TOKEN, body };
        let bytes = written(&message);
        assert_eq!(bytes.len(), length);
        assert!(bytes.len() <= REQUEST_LEN && Message::is_meant(&bytes));
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
}

// spec 10.2
#[test]
fn a_datagram_of_another_length_version_or_kind_is_refused() {
    for (body, _) in bodies() {
        let bytes = written(&Message { token: TOKEN, body });
        for length in 0..bytes.len() {
            // An answer without sealed addresses is complete too.
            let whole = length == 46 && matches!(body, Body::Answer { .. });
            assert_eq!(Message::decode(&bytes[..length]).is_ok(), whole, "{body:?} {length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        Message::decode(&longer).unwrap_err();
        for at in 0..3 {
            let mut other = bytes.clone();
            other[at] ^= 0x40;
            Message::decode(&other).unwrap_err();
        }
        for kind in (0..=u8::MAX).filter(|kind| !(1..=5).contains(kind)) {
            let mut other = bytes.clone();
            other[3] = kind;
            assert!(matches!(Message::decode(&other), Err(DecodeError::OutOfRange { field: "kind", .. })));
        }
    }
}

// spec 10.2
#[test]
fn content_of_padding_is_ignored() {
    let message = Message { token: TOKEN, body: bodies()[0].0 };
    let mut bytes = written(&message);
    bytes[REQUEST_LEN - 1] = 1;
    assert_eq!(Message::decode(&bytes), Ok(message));
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
