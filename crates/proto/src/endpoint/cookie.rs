//! Cookies: proof that a client receives at its claimed address, without memory per client.
//!
//! A server under load answers SYN with a cookie (the INFO of SYN-ACK) and keeps no state. The client returns the
//! cookie in PING. A client that does so within ten seconds from the same address and port has not forged its address
//! (spec 4.12, 4.14).
//!
//! ```text
//! key number u8 | age of the key when made, ms u32 | HMAC-SHA256(key, both | address | port | first dcid | scid)
//! ```
//! The packet that returns the cookie contains the facts that it is bound to, so the cookie does not repeat them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_wire::ConnectionId;

use super::mac_keys::MacKeys;
use crate::{Instant, Rng};

/// Lifetime of a cookie.
const LIFETIME: Duration = Duration::from_secs(10);
/// Separates these tags from any other use of a key.
const LABEL: &[u8] = b"mmsp/2 cookie";
/// Size of key number and age.
const HEAD: usize = 5;

/// The facts that a cookie is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookieFacts {
    /// Source address of the client's packet.
    pub(crate) client: SocketAddr,
    /// The original destination id.
    pub(crate) original_destination: ConnectionId,
    /// The source id of the client.
    pub(crate) source: ConnectionId,
}

/// Why a cookie is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// It expired this long ago: the client earns a fresh one.
    Stale(Duration),
    /// It was not made by this process, or for another client, or its key is forgotten.
    Forged,
}

impl fmt::Display for CookieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(since) => write!(f, "the cookie expired {since:?} ago"),
            Self::Forged => write!(f, "the cookie was not made here for this client"),
        }
    }
}

impl std::error::Error for CookieError {}

/// The keys of cookies.
#[derive(Debug)]
pub(crate) struct CookieKeys(MacKeys);

impl CookieKeys {
    /// Length of a cookie in bytes.
    pub(crate) const COOKIE_LENGTH: usize = HEAD + 32;

    /// Starts with a random key.
    pub(crate) fn new(now: Instant, rng: &mut Rng) -> Self {
        Self(MacKeys::new(now, rng))
    }

    /// Creates a cookie for a client, and changes the key once an hour.
    pub(crate) fn seal(&mut self, now: Instant, facts: &CookieFacts) -> Vec<u8> {
        let key = self.0.present(now);
        let mut cookie = Vec::with_capacity(Self::COOKIE_LENGTH);
        let age = u32::try_from(key.age_millis(now)).unwrap_or(u32::MAX);
        cookie.push(key.number);
        cookie.extend_from_slice(&age.to_be_bytes());
        let tag = key.sign(&bound(&cookie, facts));
        cookie.extend_from_slice(tag.as_ref());
        cookie
    }

    /// Checks a returned cookie; returns its age.
    pub(crate) fn open(
        &self,
        now: Instant,
        cookie: &[u8],
        facts: &CookieFacts,
    ) -> Result<Duration, CookieError> {
        let (head, tag) = cookie.split_at_checked(HEAD).ok_or(CookieError::Forged)?;
        let &[number, a, b, c, d] = head else { return Err(CookieError::Forged) };
        let key = self.0.find(number).ok_or(CookieError::Forged)?;
        if !key.is_code_of(&bound(head, facts), tag) {
            return Err(CookieError::Forged);
        }
        let age = now - key.at_age(u32::from_be_bytes([a, b, c, d]).into());
        match age.checked_sub(LIFETIME) {
            Some(over) if !over.is_zero() => Err(CookieError::Stale(over)),
            Some(_) | None => Ok(age),
        }
    }
}

/// The input of the tag; every part has a fixed length or contains it.
fn bound(head: &[u8], facts: &CookieFacts) -> Vec<u8> {
    let address = match facts.client.ip().to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut bytes = Vec::with_capacity(LABEL.len() + HEAD + 18 + 2 * (1 + ConnectionId::MAX_LENGTH));
    bytes.extend_from_slice(LABEL);
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(&address.octets());
    bytes.extend_from_slice(&facts.client.port().to_be_bytes());
    for id in [&facts.original_destination, &facts.source] {
        bytes.push(u8::try_from(id.as_slice().len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(id.as_slice());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::mac_keys::KEY_LIFE;

    const START: Instant = Instant::from_nanos(77_000_000_000);

    fn keys() -> CookieKeys {
        CookieKeys::new(START, &mut Rng::from_seed([3; 32]))
    }

    fn facts() -> CookieFacts {
        CookieFacts {
            client: "192.0.2.1:4433".parse().unwrap(),
            original_destination: ConnectionId::from_u64(1),
            source: ConnectionId::from_u64(2),
        }
    }

    #[test]
    fn a_cookie_is_valid_for_ten_seconds() {
        let mut keys = keys();
        let cookie = keys.seal(START + Duration::from_secs(5), &facts());
        assert_eq!(cookie.len(), CookieKeys::COOKIE_LENGTH);
        let at = |seconds| keys.open(START + Duration::from_secs(seconds), &cookie, &facts());
        assert_eq!(at(5), Ok(Duration::ZERO));
        assert_eq!(at(15), Ok(LIFETIME));
        assert_eq!(at(18), Err(CookieError::Stale(Duration::from_secs(3))));
    }

    #[test]
    fn a_cookie_with_any_bit_flipped_or_cut_is_refused() {
        let mut keys = keys();
        let cookie = keys.seal(START, &facts());
        for bit in 0..cookie.len() * 8 {
            let mut forged = cookie.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(keys.open(START, &forged, &facts()), Err(CookieError::Forged), "bit {bit}");
        }
        for length in 0..cookie.len() {
            assert_eq!(keys.open(START, &cookie[..length], &facts()), Err(CookieError::Forged));
        }
    }

    #[test]
    fn a_cookie_is_of_no_use_to_another_client() {
        let mut keys = keys();
        let cookie = keys.seal(START, &facts());
        let others = [
            CookieFacts { client: "192.0.2.2:4433".parse().unwrap(), ..facts() },
            CookieFacts { client: "192.0.2.1:4434".parse().unwrap(), ..facts() },
            CookieFacts { original_destination: ConnectionId::from_u64(3), ..facts() },
            CookieFacts { source: ConnectionId::from_u64(3), ..facts() },
            CookieFacts { source: ConnectionId::from_slice(&[]).unwrap(), ..facts() },
        ];
        for other in others {
            assert_eq!(keys.open(START, &cookie, &other), Err(CookieError::Forged), "{other:?}");
        }
        let another_process = CookieKeys::new(START, &mut Rng::from_seed([4; 32]));
        assert_eq!(another_process.open(START, &cookie, &facts()), Err(CookieError::Forged));
    }

    #[test]
    fn an_address_seen_through_a_dual_stack_socket_is_the_same() {
        let mut keys = keys();
        let cookie = keys.seal(START, &facts());
        let mapped = CookieFacts { client: "[::ffff:192.0.2.1]:4433".parse().unwrap(), ..facts() };
        assert_eq!(keys.open(START, &cookie, &mapped), Ok(Duration::ZERO));
    }

    #[test]
    fn after_a_key_change_the_previous_key_still_counts_but_not_the_one_before() {
        let mut keys = keys();
        let made = START + KEY_LIFE - Duration::from_secs(1);
        let cookie = keys.seal(made, &facts());
        let fresh = keys.seal(START + KEY_LIFE, &facts());
        assert_ne!(cookie[0], fresh[0]);
        assert_eq!(keys.open(START + KEY_LIFE, &cookie, &facts()), Ok(Duration::from_secs(1)));
        assert_eq!(keys.open(START + KEY_LIFE, &fresh, &facts()), Ok(Duration::ZERO));
        keys.seal(START + 2 * KEY_LIFE, &facts());
        assert_eq!(keys.open(START + 2 * KEY_LIFE, &cookie, &facts()), Err(CookieError::Forged));
    }
}
