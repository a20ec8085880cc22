//! Ed25519 keys, public and private.

use std::fmt;
use std::sync::Arc;

use ring::{digest, hkdf};
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

/// Bytes of a hash that identifies a key.
pub const KEY_HASH_LENGTH: usize = 16;

/// An Ed25519 private key in PKCS#8, up to the 32 bytes of the seed (RFC 8410, section 7).
pub(super) const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// An Ed25519 public key as `SubjectPublicKeyInfo`, up to the 32 bytes of the key (RFC 8410, section 4).
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The public key of a server or a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(super) [u8; 32]);

impl PublicKey {
    /// Takes a key from its `SubjectPublicKeyInfo` in DER; `None` if it is no Ed25519 key.
    pub fn from_spki(der: &[u8]) -> Option<Self> {
        der.strip_prefix(&SPKI_HEAD)?.try_into().ok().map(Self)
    }

    /// The `SubjectPublicKeyInfo` in DER, as shown to the peer in TLS.
    pub fn to_spki(&self) -> Vec<u8> {
        [&SPKI_HEAD[..], &self.0].concat()
    }

    /// The hash of the key in tickets: the first 16 bytes of SHA-256 over its `SubjectPublicKeyInfo`.
    pub fn hash(&self) -> [u8; KEY_HASH_LENGTH] {
        let digest = digest::digest(&digest::SHA256, &self.to_spki());
        let mut hash = [0; KEY_HASH_LENGTH];
        for (to, from) in hash.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        hash
    }
}

/// Prints the hash, 32 hexadecimal digits.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hash().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A private key with its public key. Only the public one is ever printed.
#[derive(Clone)]
pub struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) public_key: PublicKey,
}

impl Identity {
    /// Takes the 32 secret bytes of an Ed25519 key (RFC 8032, section 5.1.5); they must be random.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "each seed is a key, and the encoding around it is fixed here"
    )]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let der = PrivatePkcs8KeyDer::from([&PKCS8_HEAD[..], seed].concat());
        let key = provider::sign::any_eddsa_type(&der).expect("any 32 bytes are a seed");
        let spki = key.public_key().expect("Ed25519 keys know their public key");
        let public_key = PublicKey::from_spki(&spki).expect("it is an Ed25519 key");
        let shown = CertificateDer::from(public_key.to_spki());
        Self { key: Arc::new(CertifiedKey::new(vec![shown], key)), public_key }
    }

    /// Derives the key by which a client proves that it has a ticket, by HKDF-SHA256 (RFC 5869).
    ///
    /// The secret must be random: an observer of the public key could otherwise guess it.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "HKDF fails only for outputs over 255 hashes long"
    )]
    pub fn from_ticket_secret(secret: &[u8; 16]) -> Self {
        let mut seed = [0; 32];
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"manyway ticket, version 1")
            .extract(secret)
            .expand(&[b"client key"], hkdf::HKDF_SHA256)
            .and_then(|output| output.fill(&mut seed))
            .expect("one hash of output is asked for");
        Self::from_seed(&seed)
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public_key", &self.public_key).finish_non_exhaustive()
    }
}
