//! Makes and checks INFO, the proof of a server to itself that it answered a SYN (spec 3.51, 3.55, 3.56).
//!
//! The wire crate has the layout. Its time is the age of the key, and its MAC the first half of HMAC-SHA256 over a label
//! and everything before the MAC.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Info, Tag};

use crate::endpoint::mac_keys::{MacKey, MacKeys};
use crate::{Instant, Rng};

/// Lifetime of an INFO.
pub(crate) const LIFETIME: Duration = Duration::from_secs(10);
/// Separates these codes from any other use of a key.
const LABEL: &[u8] = b"mmsp/1 info";

/// Why an INFO is none of this server's for its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InfoError {
    /// It was not made by this process, or its key is forgotten: RST with 0x0009.
    Forged,
    /// It was made for another address or port: no answer, because that could reach another host.
    Elsewhere,
}

impl fmt::Display for InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forged => write!(f, "the INFO was not made here"),
            Self::Elsewhere => write!(f, "the INFO was made for another address"),
        }
    }
}

impl std::error::Error for InfoError {}

/// The keys of INFO.
#[derive(Debug)]
pub(crate) struct InfoKeys(MacKeys);

impl InfoKeys {
    /// Starts with a random key.
    pub(crate) fn new(now: Instant, rng: &mut Rng) -> Self {
        Self(MacKeys::new(now, rng))
    }

    /// Makes an INFO with the content of `info`, but with key, time and lifetime of its own; changes the key once an
    /// hour.
    pub(crate) fn seal(&mut self, now: Instant, info: &Info<'_>) -> Vec<u8> {
        let key = self.0.present(now);
        let info = Info { key: key.number, made_at_millis: key.age_millis(now), lifetime: LIFETIME, ..*info };
        let length = info.encoded_len();
        let mut bytes = Vec::with_capacity(length);
        info.encode_covered(&mut Writer::new(&mut bytes, length));
        let code = key.sign(&labelled(&bytes));
        bytes.extend_from_slice(
            code.as_ref().first_chunk::<{ Info::MAC_LEN }>().unwrap_or(&[0; Info::MAC_LEN]),
        );
        bytes
    }

    /// Reads an INFO that came back in a PING under `tag` from `from`, and how long ago it expired, if it did. An expired
    /// one holds the values for a new one, and is as good as a valid one for a connection that exists.
    ///
    /// # Errors
    /// [`InfoError::Forged`], [`InfoError::Elsewhere`].
    pub(crate) fn open<'a>(
        &self,
        now: Instant,
        bytes: &'a [u8],
        (tag, from): (Tag, SocketAddr),
    ) -> Result<(Info<'a>, Option<Duration>), InfoError> {
        let (info, covered, mac) = Info::decode(bytes).map_err(|_| InfoError::Forged)?;
        let key = self.0.find(info.key).ok_or(InfoError::Forged)?;
        if !key.is_short_code_of(&labelled(covered), mac) {
            return Err(InfoError::Forged);
        }
        if info.server.tag != tag {
            return Err(InfoError::Forged);
        }
        if canonical(info.address) != canonical(from) {
            return Err(InfoError::Elsewhere);
        }
        Ok((info, expired(key, now, &info)))
    }
}

fn expired(key: &MacKey, now: Instant, info: &Info<'_>) -> Option<Duration> {
    let age = now - key.at_age(info.made_at_millis);
    age.checked_sub(info.lifetime).filter(|over| !over.is_zero())
}

fn labelled(covered: &[u8]) -> Vec<u8> {
    [LABEL, covered].concat()
}

/// An address as a socket for IPv4 alone would see it, without zone and flow.
fn canonical(address: SocketAddr) -> (std::net::IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

#[cfg(test)]
#[path = "info/tests.rs"]
mod tests;
