//! Identities of the two ends: Ed25519 keys, shown to each other as raw public keys (RFC 7250).
//!
//! The client knows the server by a hash of its key, which is part of the ticket. The client proves the ticket's
//! secret by a key that both derive from it, or it has a key of its own that the server is configured to accept. A
//! server may have an ordinary certificate as well, for clients that know its name but not its key. No client is
//! accepted without proof: no setting turns the checks off.
//!
//! ```
//! use std::sync::Arc;
//! use manyway_proto::identity::{AuthorisedKeys, Identity, client_config, server_config};
//!
//! let server = Identity::from_seed(&[1; 32]); // from the system's random numbers, kept in a file
//! let secret = [2; 16]; // stands in the ticket, as does the hash of the server's key
//! let client = Identity::from_ticket_secret(&secret);
//!
//! let for_server = server_config(&server, Arc::new(AuthorisedKeys::from_iter([*client.public_key()])));
//! let for_client = client_config(server.public_key().hash(), &client);
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::ALPN;
use ring::{digest, hkdf};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig};

mod certificate;
mod seed;
mod verifier;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_with_certificates;

pub use self::certificate::{CertificateFault, RootCertificates, ServerCertificate};
pub use self::seed::{Seed, SeedError};
pub(crate) use self::verifier::WrongServerKey;
use self::verifier::{AuthorisedClients, RawKeyServer};

/// Bytes of a hash that identifies a key.
pub const KEY_HASH_LENGTH: usize = 16;

/// An Ed25519 private key in PKCS#8, up to the 32 bytes of the seed (RFC 8410, section 7).
const PKCS8_HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// An Ed25519 public key as `SubjectPublicKeyInfo`, up to the 32 bytes of the key (RFC 8410, section 4).
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// The public key of a server or a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

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
    key: Arc<CertifiedKey>,
    public_key: PublicKey,
}

impl Identity {
    /// Creates a new key pair from the system's random numbers. A [`Seed`] gives one that outlives the process.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn generate() -> std::io::Result<Self> {
        Ok(Seed::generate()?.identity())
    }

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

/// Decides which clients a server accepts.
///
/// It is called once in every handshake, before the client has proved that it owns the key; the proof is checked
/// next.
pub trait Authoriser: fmt::Debug + Send + Sync {
    /// Whether the client with this key is accepted. Must be quick: the connections of all others wait.
    fn is_authorised(&self, client: &PublicKey) -> bool;

    /// A client at this address was refused: its key was not accepted, or it did not own it. Must be quick, too.
    fn on_refused(&self, from: SocketAddr) {
        let _ = from;
    }
}

/// Accepts the clients with the keys of a fixed list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorisedKeys(BTreeSet<PublicKey>);

impl FromIterator<PublicKey> for AuthorisedKeys {
    fn from_iter<I: IntoIterator<Item = PublicKey>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl Authoriser for AuthorisedKeys {
    fn is_authorised(&self, client: &PublicKey) -> bool {
        self.0.contains(client)
    }
}

/// How a client verifies a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerTrust {
    /// Its key has this hash.
    KeyHash([u8; KEY_HASH_LENGTH]),
    /// It proves that it owns the key it shows, whichever that is. For the first connection to a server: before it
    /// sends anything, the application compares [`peer_public_key`](crate::Connection::peer_public_key) with a value
    /// from elsewhere, or asks its user.
    AnyKey,
    /// It has a certificate from one of these authorities, valid now by the system's clock, for the
    /// [`server_name`](crate::ClientConfig::server_name).
    Certificate(RootCertificates),
}

impl From<[u8; KEY_HASH_LENGTH]> for ServerTrust {
    fn from(key_hash: [u8; KEY_HASH_LENGTH]) -> Self {
        Self::KeyHash(key_hash)
    }
}

/// The TLS settings of a server: shows `identity`, accepts the clients that `authoriser` permits.
///
/// TLS 1.3 only, no resumption, no early data. A refused client gets the alert `access_denied`.
pub fn server_config(identity: &Identity, authoriser: Arc<dyn Authoriser>) -> Arc<ServerConfig> {
    server_config_with(
        Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&identity.key))),
        authoriser,
    )
}

/// The TLS settings of a server for clients that request a certificate; otherwise as with [`server_config`].
pub fn certificate_config(
    certificate: &ServerCertificate,
    authoriser: Arc<dyn Authoriser>,
) -> Arc<ServerConfig> {
    server_config_with(Arc::new(certificate.clone()), authoriser)
}

#[expect(clippy::expect_used, reason = "the provider is chosen here, it has suites of TLS 1.3")]
fn server_config_with(
    shown: Arc<dyn ResolvesServerCert>,
    authoriser: Arc<dyn Authoriser>,
) -> Arc<ServerConfig> {
    let mut config = ServerConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider speaks TLS 1.3")
        .with_client_cert_verifier(Arc::new(AuthorisedClients::new(authoriser)))
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// The TLS settings of a client: shows `identity`, accepts only a server that `trust` permits, such as the one whose
/// key has a hash.
///
/// TLS 1.3 only, no resumption, no early data, and no name of the server in the clear.
#[expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "the provider is chosen here, it has suites of TLS 1.3"
)]
pub fn client_config(trust: impl Into<ServerTrust>, identity: &Identity) -> Arc<ClientConfig> {
    let verifier: Arc<dyn ServerCertVerifier> = match trust.into() {
        ServerTrust::KeyHash(hash) => Arc::new(RawKeyServer::with_hash(hash)),
        ServerTrust::AnyKey => Arc::new(RawKeyServer::any()),
        ServerTrust::Certificate(roots) => roots.verifier(),
    };
    let mut config = ClientConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider speaks TLS 1.3")
        .dangerous() // rustls uses this word for any verification but that of certificates by its own rules
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(
            &identity.key,
        ))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    Arc::new(config)
}

/// Ciphers by their speed on this machine; the client's order counts.
fn crypto() -> Arc<CryptoProvider> {
    use rustls::crypto::ring::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let cipher_suites = if has_fast_aes() {
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256]
    } else {
        vec![TLS13_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384]
    };
    Arc::new(CryptoProvider { cipher_suites, ..provider::default_provider() })
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn has_fast_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_fast_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn has_fast_aes() -> bool {
    false
}
