//! The key exchange by a code (SPAKE2), and letters under its keys.

use std::fmt;

use manyway_wire::Side;
use manyway_wire::rendezvous::mailbox::{LETTER_LEN, Letter};
use rand_core::{CryptoRng, RngCore};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use spake2::{Ed25519Group, Identity, Password, Spake2};

use super::ShortCode;
use crate::Rng;

/// Names of the two ends in the key exchange (spec 10.41).
const OFFERING: &[u8] = b"manyway offering end";
const FETCHING: &[u8] = b"manyway fetching end";
const KEY_LEN: usize = 32;
const TAG_LEN: usize = 32;
const AEAD_TAG_LEN: usize = 16;
/// Bytes that are sealed: a length, the content, zeros.
const CLEAR_LEN: usize = LETTER_LEN - TAG_LEN - AEAD_TAG_LEN;
/// Bytes of the length of the content.
const LENGTH_LEN: usize = 2;
/// The most bytes of content.
pub(super) const MAX_CONTENT: usize = CLEAR_LEN - LENGTH_LEN;

/// A key exchange under way.
pub(super) struct Exchange {
    side: Side,
    spake2: Spake2<Ed25519Group>,
    message: Vec<u8>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl Exchange {
    /// Begins; the offering end is [`Side::Server`].
    pub(super) fn new(side: Side, code: &ShortCode, rng: &mut Rng) -> Self {
        Self::with_random(side, code, Random(rng))
    }

    fn with_random(side: Side, code: &ShortCode, random: impl RngCore + CryptoRng) -> Self {
        let password = Password::new(code.to_string());
        let (offering, fetching) = (Identity::new(OFFERING), Identity::new(FETCHING));
        let (spake2, message) = match side {
            Side::Server => Spake2::start_a_with_rng(&password, &offering, &fetching, random),
            Side::Client => Spake2::start_b_with_rng(&password, &offering, &fetching, random),
        };
        Self { side, spake2, message }
    }

    /// The first letter of this end.
    pub(super) fn letter(&self) -> Letter {
        let mut letter = [0; LETTER_LEN];
        if let Some(head) = letter.get_mut(..self.message.len()) {
            head.copy_from_slice(&self.message);
        }
        letter
    }

    /// The keys, by the first letter of the other end; `None` if that is no message of the exchange. Ends with
    /// different codes get different keys.
    pub(super) fn finish(self, other: &Letter) -> Option<Keys> {
        let key = self.spake2.finish(other.get(..self.message.len())?).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let derive = |label: &[u8]| hmac::sign(&key, label).as_ref().first_chunk::<KEY_LEN>().copied();
        let direction = |side| match side {
            Side::Server => Direction::new(derive(b"offering tag")?, derive(b"offering seal")?),
            Side::Client => Direction::new(derive(b"fetching tag")?, derive(b"fetching seal")?),
        };
        Some(Keys { own: direction(self.side)?, peer: direction(self.side.other())? })
    }
}

/// The keys of both ends.
pub(super) struct Keys {
    own: Direction,
    peer: Direction,
}

/// The keys for the letters of one end.
struct Direction {
    /// Shows that the end has the key: unlike the tag of the AEAD, it can be right for one key only.
    tag: hmac::Key,
    seal: LessSafeKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Seals a letter of this end; `None` if it is too long. No index may be used for two letters: it is the nonce.
    pub(super) fn seal(&self, index: u8, content: &[u8]) -> Option<Letter> {
        let length = u16::try_from(content.len()).ok().filter(|_| content.len() <= MAX_CONTENT)?;
        let mut clear = [&length.to_be_bytes(), content].concat();
        clear.resize(CLEAR_LEN, 0);
        let aad = Aad::from([index]);
        let aead_tag = self.own.seal.seal_in_place_separate_tag(nonce(index), aad, &mut clear).ok()?;
        clear.extend_from_slice(aead_tag.as_ref());
        let tag = hmac::sign(&self.own.tag, &[&[index], &clear[..]].concat());
        [tag.as_ref(), &clear].concat().try_into().ok()
    }

    /// Opens a letter of the other end; `None` if that end has another key.
    pub(super) fn open(&self, index: u8, letter: &Letter) -> Option<Vec<u8>> {
        let (tag, sealed) = letter.split_first_chunk::<TAG_LEN>()?;
        hmac::verify(&self.peer.tag, &[&[index], sealed].concat(), tag).ok()?;
        let mut sealed = sealed.to_vec();
        let clear = self.peer.seal.open_in_place(nonce(index), Aad::from([index]), &mut sealed).ok()?;
        let (length, content) = clear.split_first_chunk::<LENGTH_LEN>()?;
        content.get(..u16::from_be_bytes(*length).into()).map(<[u8]>::to_vec)
    }
}

impl Direction {
    fn new(tag: [u8; KEY_LEN], seal: [u8; KEY_LEN]) -> Option<Self> {
        let seal = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &seal).ok()?);
        Some(Self { tag: hmac::Key::new(hmac::HMAC_SHA256, &tag), seal })
    }
}

fn nonce(index: u8) -> Nonce {
    let mut bytes = [0; 12];
    bytes[11] = index;
    Nonce::assume_unique_for_key(bytes)
}

/// The random numbers of this crate as those of the key exchange.
struct Random<'a>(&'a mut Rng);

impl CryptoRng for Random<'_> {}

impl RngCore for Random<'_> {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random numbers that count up from a byte.
    struct Counting(u8);

    impl CryptoRng for Counting {}

    impl RngCore for Counting {
        fn next_u32(&mut self) -> u32 {
            rand_core::impls::next_u32_via_fill(self)
        }

        fn next_u64(&mut self) -> u64 {
            rand_core::impls::next_u64_via_fill(self)
        }

        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0;
                self.0 += 1;
            }
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
            self.fill_bytes(bytes);
            Ok(())
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What python-spake2 0.9 and pyca/cryptography 48 make of the same code and the same scalars.
    // spec 10.20, 10.32
    #[test]
    fn the_letters_of_an_exchange_are_those_of_another_implementation() {
        let code = "7-guitar-island".parse().unwrap();
        let offering = Exchange::with_random(Side::Server, &code, Counting(0));
        let fetching = Exchange::with_random(Side::Client, &code, Counting(64));
        let first = [offering.letter(), fetching.letter()];
        assert_eq!(
            hex(&first[0][..33]),
            "413d76bc25173504705d049f0787e2c4f554e3c056f543ec89e4afd5e7c71356f3"
        );
        assert_eq!(
            hex(&first[1][..33]),
            "424cebca76c2c65521643b91f8d5247321818e9e3419b51ea14ee385a90c7764b7"
        );
        let offering = offering.finish(&first[1]).unwrap();
        let fetching = fetching.finish(&first[0]).unwrap();
        let confirmation = fetching.seal(2, b"").unwrap();
        let content = offering.seal(2, b"content").unwrap();
        let ends = |letter: &Letter| format!("{} … {}", hex(&letter[..32]), hex(&letter[392..]));
        assert_eq!(
            ends(&confirmation),
            "b1784571127bdb253010e03ae1f651e449ac784d5ce79f6d0481390c7659b17f … 103d998eadce281c"
        );
        assert_eq!(
            ends(&content),
            "e71ef064790e60c1ce68420ac14faf60d01ceb481887cdd997f6742b77a9977f … d3096813b18a7958"
        );
        assert_eq!(fetching.open(2, &content).unwrap(), b"content");
    }
}
