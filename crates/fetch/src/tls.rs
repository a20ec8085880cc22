//! The settings of TLS.

use std::sync::Arc;

use rustls::ClientConfig;
pub use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;

/// The settings for a client that trusts these authorities: TLS 1.2 and 1.3, HTTP/1.1 only.
///
/// # Errors
/// If the cryptography cannot do that; it always can.
pub fn client_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let mut config =
        builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
