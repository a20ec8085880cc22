//! Keys with which a server proves to itself that it made something, without remembering it: for cookies and for INFO.

use std::fmt;
use std::time::Duration;

use ring::hmac;

use crate::{Instant, Rng};

/// How long a key makes codes; it checks them for as long again.
pub(super) const KEY_LIFE: Duration = Duration::from_secs(3600);

/// The present key and its predecessor.
pub(super) struct MacKeys {
    rng: Rng,
    current: MacKey,
    previous: Option<MacKey>,
}

/// A key with its number on the wire.
pub(super) struct MacKey {
    pub(super) number: u8,
    key: hmac::Key,
    since: Instant,
}

impl MacKeys {
    /// Starts with a random key.
    pub(super) fn new(now: Instant, rng: &mut Rng) -> Self {
        let mut rng = rng.fork();
        let current = MacKey::random(0, now, &mut rng);
        Self { rng, current, previous: None }
    }

    /// The key for a new code; changes it once an hour.
    pub(super) fn present(&mut self, now: Instant) -> &MacKey {
        if now - self.current.since >= KEY_LIFE {
            let next = MacKey::random(self.current.number.wrapping_add(1), now, &mut self.rng);
            self.previous = Some(std::mem::replace(&mut self.current, next));
        }
        &self.current
    }

    /// The key with this number, if it is not forgotten.
    pub(super) fn find(&self, number: u8) -> Option<&MacKey> {
        std::iter::once(&self.current).chain(&self.previous).find(|key| key.number == number)
    }
}

impl MacKey {
    fn random(number: u8, now: Instant, rng: &mut Rng) -> Self {
        let mut bytes = [0; 32];
        rng.fill(&mut bytes);
        Self { number, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes), since: now }
    }

    /// The age of the key in whole ms. A code names it instead of a time, which tells a client nothing about this host.
    pub(super) fn age_millis(&self, now: Instant) -> u64 {
        u64::try_from((now - self.since).as_millis()).unwrap_or(u64::MAX)
    }

    /// When the key had this age.
    pub(super) fn at_age(&self, millis: u64) -> Instant {
        self.since + Duration::from_millis(millis)
    }

    /// The code of `bytes`, which begin with a label for their use.
    pub(super) fn sign(&self, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.key, bytes)
    }

    /// Whether `code` is that of `bytes`; takes the same time for every wrong one.
    pub(super) fn is_code_of(&self, bytes: &[u8], code: &[u8]) -> bool {
        hmac::verify(&self.key, bytes, code).is_ok()
    }

    /// The same for a code that is shortened to its first bytes. Compares the codes of both, so that the time tells
    /// nothing about them.
    pub(super) fn is_short_code_of(&self, bytes: &[u8], code: &[u8]) -> bool {
        let right = self.sign(bytes);
        let Some(right) = right.as_ref().get(..code.len()) else { return false };
        hmac::verify(&self.key, right, hmac::sign(&self.key, code).as_ref()).is_ok()
    }
}

impl fmt::Debug for MacKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MacKeys").field("current", &self.current.number).finish_non_exhaustive()
    }
}
