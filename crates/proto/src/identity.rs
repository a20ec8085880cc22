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

use std::sync::Arc;

use crate::ALPN;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, ResolvesServerCert};
use rustls::{ClientConfig, ServerConfig};

mod authoriser;
mod certificate;
mod crypto;
mod key;
mod seed;
mod verifier;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_with_certificates;

pub use self::authoriser::{AuthorisedKeys, Authoriser};
pub use self::certificate::{CertificateFault, RootCertificates, ServerCertificate};
use self::crypto::crypto;
pub use self::key::{Identity, KEY_HASH_LENGTH, PublicKey};
pub use self::seed::{Seed, SeedError};
pub(crate) use self::verifier::WrongServerKey;
use self::verifier::{AuthorisedClients, RawKeyServer};

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
