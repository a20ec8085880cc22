//! The ciphers that TLS may use.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring as provider;

/// Ciphers by their speed on this machine; the client's order counts.
pub(super) fn crypto() -> Arc<CryptoProvider> {
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
