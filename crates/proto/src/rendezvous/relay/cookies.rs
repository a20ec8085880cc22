//! Cookies of a rendezvous server: a client that returns one has received it at its address.

use std::net::{IpAddr, SocketAddr};

use manyway_wire::rendezvous::Cookie;
use ring::hmac;

use crate::Rng;

/// Separates these tags from any other use of a key.
const LABEL: &[u8] = b"manyway rendezvous cookie";

/// The key of all cookies.
pub(super) struct Cookies(hmac::Key);

impl Cookies {
    /// With a random key.
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut key = [0; 32];
        rng.fill(&mut key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// The cookie of an address.
    pub(super) fn of(&self, address: SocketAddr) -> Cookie {
        let tag = hmac::sign(&self.0, &bound(address));
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn is_of(&self, address: SocketAddr, cookie: &Cookie) -> bool {
        // The comparison need not take constant time: only a host that receives the answer can measure it, and it is
        // sent the cookie anyway.
        self.of(address) == *cookie
    }
}

fn bound(address: SocketAddr) -> Vec<u8> {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    [LABEL, &ip.octets(), &address.port().to_be_bytes()].concat()
}
