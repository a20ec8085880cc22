//! Verification of the other end's key, in the form that rustls requires.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible,
    SignatureScheme,
};

use super::authoriser::Authoriser;
use super::key::{KEY_HASH_LENGTH, PublicKey};

/// Accepts the server whose raw public key has a known hash, or any server that owns the key it shows.
#[derive(Debug)]
pub(super) struct RawKeyServer {
    expected: Option<[u8; KEY_HASH_LENGTH]>,
}

impl RawKeyServer {
    pub(super) fn with_hash(hash: [u8; KEY_HASH_LENGTH]) -> Self {
        Self { expected: Some(hash) }
    }

    pub(super) fn any() -> Self {
        Self { expected: None }
    }
}

/// The server showed another key than that of the ticket.
#[derive(Debug)]
pub(crate) struct WrongServerKey {
    pub(crate) shown: PublicKey,
}

impl fmt::Display for WrongServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server showed the key {}, which is not the expected one", self.shown)
    }
}

impl std::error::Error for WrongServerKey {}

impl ServerCertVerifier for RawKeyServer {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = read_key(key)?;
        if self.expected.is_none_or(|expected| shown.hash() == expected) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::Other(OtherError(Arc::new(WrongServerKey { shown }))).into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Accepts the clients that an [`Authoriser`] permits.
#[derive(Debug)]
pub(super) struct AuthorisedClients {
    authoriser: Arc<dyn Authoriser>,
}

impl AuthorisedClients {
    pub(super) fn new(authoriser: Arc<dyn Authoriser>) -> Self {
        Self { authoriser }
    }
}

impl ClientCertVerifier for AuthorisedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.authoriser.is_authorised(&read_key(key)?) {
            Ok(ClientCertVerified::assertion())
        } else {
            // Causes the alert access_denied.
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls13RequiredForQuic.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn read_key(key: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    PublicKey::from_spki(key).ok_or_else(|| CertificateError::BadEncoding.into())
}

fn verify_signature(
    message: &[u8],
    key: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = SubjectPublicKeyInfoDer::from(key.as_ref());
    let algorithms = ring::default_provider().signature_verification_algorithms;
    verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
}
