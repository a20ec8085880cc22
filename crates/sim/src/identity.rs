//! Keys for simulated hosts: Ed25519 raw public keys (RFC 7250) from numbers. They are no secret to anybody.
//!
//! All keys and signatures of this kind have one size each, so a simulation takes the same course in every run even
//! though the TLS library draws its own random numbers.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, ServerConfig,
    SignatureScheme,
};

/// Application-layer protocol name of MMSP/2 (spec 4).
const ALPN: &[u8] = b"mmsp/2";

/// An Ed25519 private key in PKCS#8, up to the 32 bytes of the seed (RFC 8410, section 7).
const PKCS8_HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A host's key.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    public_key: SubjectPublicKeyInfoDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("public_key", &self.public_key).finish_non_exhaustive()
    }
}

impl Identity {
    /// Makes the key with this number.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "any 32 bytes are an Ed25519 seed")]
    pub fn number(number: u8) -> Self {
        let der = PrivatePkcs8KeyDer::from([&PKCS8_HEAD[..], &[number; 32]].concat());
        let key = provider::sign::any_eddsa_type(&der).expect("any 32 bytes are an Ed25519 seed");
        let public_key = key.public_key().expect("an Ed25519 key knows its public half").into_owned();
        let shown = CertificateDer::from(public_key.to_vec());
        Self { key: Arc::new(CertifiedKey::new(vec![shown], key)), public_key }
    }

    /// The public key as `SubjectPublicKeyInfo` in DER.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// A server with this key that lets in the client with that key only.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "the provider speaks TLS 1.3")]
    pub fn server_config(&self, client: &Self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(ring_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider speaks TLS 1.3")
            .with_client_cert_verifier(OnlyKey::of(client))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.key))));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Arc::new(config)
    }

    /// A client with this key that talks to the server with that key only.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "the provider speaks TLS 1.3")]
    pub fn client_config(&self, server: &Self) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(ring_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider speaks TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(OnlyKey::of(server))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(
                &self.key,
            ))));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Arc::new(config)
    }
}

/// The name by which clients ask for a simulated server; it plays no part in the check.
#[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a fixed name")]
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("server.invalid").expect("a domain name")
}

fn ring_provider() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// Accepts one key.
#[derive(Debug)]
struct OnlyKey(SubjectPublicKeyInfoDer<'static>);

impl OnlyKey {
    fn of(identity: &Identity) -> Arc<Self> {
        Arc::new(Self(identity.public_key.clone()))
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if shown.as_ref() == self.0.as_ref() {
            return Ok(());
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    fn check_signature(
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = provider::default_provider().signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
    }
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
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
        Self::check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OnlyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
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
        Self::check_signature(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use rustls::quic;

    use super::*;

    /// Runs TLS in memory; gives the sizes of all flights.
    fn shake(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> Result<Vec<usize>, Error> {
        let parameters = || vec![1, 2, 3];
        let mut client = quic::ClientConnection::new(client, quic::Version::V1, server_name(), parameters())?;
        let mut server = quic::ServerConnection::new(server, quic::Version::V1, parameters())?;
        let mut sizes = Vec::new();
        while client.is_handshaking() || server.is_handshaking() {
            sizes.push(hand_over(|out| client.write_hs(out), |flight| server.read_hs(flight))?);
            sizes.push(hand_over(|out| server.write_hs(out), |flight| client.read_hs(flight))?);
        }
        Ok(sizes)
    }

    /// Hands over all that one end has to say, each level by itself.
    fn hand_over(
        mut write: impl FnMut(&mut Vec<u8>) -> Option<quic::KeyChange>,
        mut read: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut size = 0;
        loop {
            let mut flight = Vec::new();
            let change = write(&mut flight);
            size += flight.len();
            read(&flight)?;
            if change.is_none() {
                return Ok(size);
            }
        }
    }

    #[test]
    fn the_right_keys_find_each_other_and_sizes_never_vary() {
        let (client, server) = (Identity::number(1), Identity::number(2));
        let run = || shake(client.client_config(&server), server.server_config(&client)).unwrap();
        assert_eq!(run(), run());
    }

    #[test]
    fn a_wrong_key_is_refused_by_either_end() {
        let (client, server, other) = (Identity::number(1), Identity::number(2), Identity::number(3));
        assert!(shake(client.client_config(&other), server.server_config(&client)).is_err());
        assert!(shake(other.client_config(&server), server.server_config(&client)).is_err());
    }
}
