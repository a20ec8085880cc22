use manyway_wire::mmsp1::{Opening, Tag, Tseq};

use super::*;
use crate::endpoint::mac_keys::KEY_LIFE;

const START: Instant = Instant::from_nanos(77_000_000_000);
const FROM: &str = "192.0.2.1:4433";

fn keys() -> InfoKeys {
    InfoKeys::new(START, &mut Rng::from_seed([3; 32]))
}

fn opening(tag: u32) -> Opening {
    Opening { tag: Tag(tag), window: 65_536, outgoing: 16, incoming: 17, tseq: Tseq(tag.wrapping_mul(3)) }
}

fn content() -> Info<'static> {
    Info {
        key: 0,
        made_at_millis: 0,
        lifetime: Duration::ZERO,
        client: opening(1),
        server: opening(u32::MAX),
        ports: [1000, 5001],
        address: address(FROM),
        ipv4: &[[192, 0, 2, 9], [198, 51, 100, 7]],
        ipv6: &[[0x20; 16]],
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn open(keys: &InfoKeys, now: Instant, bytes: &[u8], from: &str) -> Result<Option<Duration>, InfoError> {
    keys.open(now, bytes, (Tag(u32::MAX), address(from))).map(|(info, expired)| {
        let content = content();
        assert_eq!((info.client, info.server, info.ports), (content.client, content.server, content.ports));
        assert_eq!((info.address, info.ipv4, info.ipv6), (content.address, content.ipv4, content.ipv6));
        expired
    })
}

#[test]
fn an_info_comes_back_with_all_that_it_holds() {
    let mut keys = keys();
    let info = keys.seal(START, &content());
    assert_eq!(info.len(), content().encoded_len());
    assert_eq!(open(&keys, START, &info, FROM), Ok(None));
}

#[test]
fn a_stale_info_reports_how_long_it_has_been_stale() {
    let mut keys = keys();
    let info = keys.seal(START + Duration::from_secs(5), &content());
    let at = |seconds| open(&keys, START + Duration::from_secs(seconds), &info, FROM);
    assert_eq!((at(5), at(15)), (Ok(None), Ok(None)));
    assert_eq!(at(18), Ok(Some(Duration::from_secs(3))), "its values serve for a new one");
}

#[test]
fn info_for_another_address_gets_no_answer() {
    let mut keys = keys();
    let info = keys.seal(START, &content());
    for other in ["192.0.2.2:4433", "192.0.2.1:4434", "[2001:db8::1]:4433"] {
        assert_eq!(open(&keys, START, &info, other), Err(InfoError::Elsewhere), "{other}");
    }
    let late = START + Duration::from_secs(60);
    let stale = open(&keys, late, &info, "192.0.2.2:4433");
    assert_eq!(stale, Err(InfoError::Elsewhere), "an answer could reach a host that sent no PING");
    assert_eq!(
        open(&keys, START, &info, "[::ffff:192.0.2.1]:4433"),
        Ok(None),
        "a dual-stack socket sees the same"
    );
}

#[test]
fn an_info_with_any_bit_flipped_or_cut_is_forged() {
    let mut keys = keys();
    let info = keys.seal(START, &content());
    for bit in 0..info.len() * 8 {
        let mut forged = info.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&keys, START, &forged, FROM), Err(InfoError::Forged), "bit {bit}");
    }
    for length in 0..info.len() {
        assert_eq!(open(&keys, START, &info[..length], FROM), Err(InfoError::Forged), "{length} bytes");
    }
    let another_process = InfoKeys::new(START, &mut Rng::from_seed([4; 32]));
    assert_eq!(open(&another_process, START, &info, FROM), Err(InfoError::Forged));
}

#[test]
fn rotated_key_still_opens() {
    let mut keys = keys();
    let made = START + KEY_LIFE - Duration::from_secs(1);
    let info = keys.seal(made, &content());
    let fresh = keys.seal(START + KEY_LIFE, &content());
    assert_ne!(info[1], fresh[1], "the key has another number");
    assert_eq!(open(&keys, START + KEY_LIFE, &info, FROM), Ok(None));
    assert_eq!(open(&keys, START + KEY_LIFE, &fresh, FROM), Ok(None));
    keys.seal(START + 2 * KEY_LIFE, &content());
    assert_eq!(
        open(&keys, START + 2 * KEY_LIFE, &info, FROM),
        Err(InfoError::Forged),
        "the key before is forgotten"
    );
}
