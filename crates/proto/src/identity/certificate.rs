//! Ordinary certificates (X.509): those that a server presents besides its key, and their verification by a client.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use super::crypto::crypto;

/// The certificate chain of a server with its private key; clones share it, so that [`replace`](Self::replace) renews
/// the certificate of a running server.
#[derive(Debug, Clone)]
pub struct ServerCertificate(Arc<RwLock<Arc<CertifiedKey>>>);

/// The authorities that a client trusts.
#[derive(Clone)]
pub struct RootCertificates(Arc<WebPkiServerVerifier>);

/// Why a text is no certificate, or no key for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// No `CERTIFICATE` section.
    NoCertificate,
    /// No private key section of any kind.
    NoKey,
    /// A section is not PEM.
    Pem(String),
    /// A certificate cannot be read.
    Certificate(String),
    /// The key cannot be used.
    Key(String),
    /// The key is not that of the first certificate.
    Mismatch,
}

impl ServerCertificate {
    /// Reads a chain, the server's own certificate first, and its private key, both in PEM.
    ///
    /// # Errors
    /// If one of them cannot be read, or they do not match.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateFault> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            let is_missing = matches!(error, rustls::pki_types::pem::Error::NoItemsFound);
            if is_missing { CertificateFault::NoKey } else { CertificateFault::Pem(error.to_string()) }
        })?;
        let key = crypto().key_provider.load_private_key(key);
        let key = key.map_err(|error| CertificateFault::Key(error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // A key without a known public half is tested by the first client.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                return Err(CertificateFault::Mismatch);
            }
            Err(other) => return Err(CertificateFault::Certificate(other.to_string())),
        }
        Ok(Self(Arc::new(RwLock::new(Arc::new(certified)))))
    }

    /// Presents `newer` from now on, here and in all clones.
    pub fn replace(&self, newer: &Self) {
        let newer = newer.current();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = newer;
    }

    /// The server's own certificate in DER.
    pub fn leaf(&self) -> Vec<u8> {
        self.current().cert.first().map(|leaf| leaf.to_vec()).unwrap_or_default()
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl RootCertificates {
    /// Reads authorities from PEM.
    ///
    /// # Errors
    /// If there is none, or one of them cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateFault> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem)? {
            roots.add(certificate).map_err(|error| CertificateFault::Certificate(error.to_string()))?;
        }
        Self::new(roots)
    }

    /// Takes authorities in DER, as from the system's store; unreadable ones are left out.
    ///
    /// # Errors
    /// [`CertificateFault::NoCertificate`] if none is left.
    pub fn from_der(certificates: impl IntoIterator<Item = Vec<u8>>) -> Result<Self, CertificateFault> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.into_iter().map(CertificateDer::from));
        Self::new(roots)
    }

    fn new(roots: RootCertStore) -> Result<Self, CertificateFault> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto()).build();
        verifier.map(Self).map_err(|_| CertificateFault::NoCertificate)
    }

    pub(super) fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::<WebPkiServerVerifier>::clone(&self.0)
    }
}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootCertificates").finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| CertificateFault::Pem(error.to_string()))?;
    if all.is_empty() { Err(CertificateFault::NoCertificate) } else { Ok(all) }
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => write!(f, "there is no certificate in it (a section BEGIN CERTIFICATE)"),
            Self::NoKey => write!(f, "there is no private key in it (a section BEGIN PRIVATE KEY)"),
            Self::Pem(reason) => write!(f, "it is not PEM: {reason}"),
            Self::Certificate(reason) => write!(f, "a certificate can not be read: {reason}"),
            Self::Key(reason) => write!(f, "the private key can not be used: {reason}"),
            Self::Mismatch => write!(f, "the private key is not that of the first certificate"),
        }
    }
}

impl std::error::Error for CertificateFault {}
