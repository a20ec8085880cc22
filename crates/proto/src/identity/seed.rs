//! The secret seed of an identity and its derived keys, and its text form.

use std::fmt;
use std::io;
use std::str::FromStr;

use ring::hkdf;

use super::key::{Identity, PKCS8_HEAD};

/// The 32 secret bytes of an identity.
///
/// The text form is PKCS#8 in PEM (RFC 8410), which other programs read and write too:
/// `openssl genpkey -algorithm ed25519`. [`Debug`](fmt::Debug) prints none of it.
///
/// ```
/// use manyway_proto::identity::Seed;
/// let seed = Seed::generate()?;
/// assert_eq!(seed.to_pem().parse(), Ok(seed));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

/// Why a text is no Ed25519 private key in PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeedError {
    /// There is no `PRIVATE KEY` section, or it is incomplete.
    NoPrivateKey,
    /// It is a private key of another kind, or protected by a password.
    OtherKind,
}

impl Seed {
    /// Takes 32 bytes; they must be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Creates a new one from the system's random numbers, to be stored by [`Self::to_pem`].
    ///
    /// # Errors
    /// If the system gives none.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(Self(bytes))
    }

    /// The key pair of the identity.
    pub fn identity(&self) -> Identity {
        Identity::from_seed(&self.0)
    }

    /// The key of stateless resets: after a restart a server can then end the connections that it has forgotten, so
    /// their clients need not wait. Derived by HKDF-SHA256 (RFC 5869).
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "HKDF fails only for outputs over 255 hashes long"
    )]
    pub fn reset_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"manyway identity, version 1")
            .extract(&self.0)
            .expand(&[b"reset key"], hkdf::HKDF_SHA256)
            .and_then(|output| output.fill(&mut key))
            .expect("one hash of output is asked for");
        key
    }

    /// The text to store in a file that only the owner can read.
    pub fn to_pem(&self) -> String {
        let der = [&PKCS8_HEAD[..], &self.0].concat();
        format!("{BEGIN}\n{}\n{END}\n", data_encoding::BASE64.encode(&der))
    }
}

impl Identity {
    /// Creates a new key pair from the system's random numbers. A [`Seed`] gives one that outlives the process.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn generate() -> io::Result<Self> {
        Ok(Seed::generate()?.identity())
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        let (_, rest) = text.split_once(BEGIN).ok_or(SeedError::NoPrivateKey)?;
        let (code, _) = rest.split_once(END).ok_or(SeedError::NoPrivateKey)?;
        let code: String = code.split_whitespace().collect();
        let der = data_encoding::BASE64.decode(code.as_bytes()).map_err(|_| SeedError::NoPrivateKey)?;
        der.strip_prefix(&PKCS8_HEAD)
            .and_then(|seed| seed.try_into().ok())
            .map(Self)
            .ok_or(SeedError::OtherKind)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(hidden)")
    }
}

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrivateKey => write!(f, "there is no whole section {BEGIN:?} in it"),
            Self::OtherKind => write!(f, "it is not an Ed25519 private key (PKCS#8 without a password)"),
        }
    }
}

impl std::error::Error for SeedError {}

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_from_openssl_is_read() {
        // The private key of RFC 8410, section 10.3.
        let text = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        let seed: Seed = text.parse().unwrap();
        assert_eq!(seed.0[..4], [0xd4, 0xee, 0x72, 0xdb]);
        assert_eq!(seed.to_pem(), text);
        assert_eq!(format!("{seed:?}"), "Seed(hidden)");
    }

    #[test]
    fn other_texts_are_no_seed() {
        for text in ["", BEGIN, "-----BEGIN PUBLIC KEY-----\nMC4C\n-----END PUBLIC KEY-----\n"] {
            assert_eq!(text.parse::<Seed>(), Err(SeedError::NoPrivateKey), "{text}");
        }
        let other = format!("{BEGIN}\nAAAA\n{END}\n");
        assert_eq!(other.parse::<Seed>(), Err(SeedError::OtherKind));
    }

    #[test]
    fn the_reset_key_is_derived_from_the_seed_and_does_not_reveal_it() {
        let key = |byte| Seed::new([byte; 32]).reset_key();
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
        assert_ne!(key(1), [1; 32]);
    }
}
