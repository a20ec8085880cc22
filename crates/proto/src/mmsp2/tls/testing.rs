//! TLS configurations with raw public keys, and finished handshakes, for tests.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use super::*;
use manyway_wire::ConnectionId;
use manyway_wire::mmsp2::VERSION;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certified(seed: u8) -> Arc<CertifiedKey> {
    let mut der = vec![0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    der.extend([seed; 32]);
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der)).unwrap();
    let spki = key.public_key().unwrap().to_vec();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], key))
}

/// The public key of a seed.
pub(crate) fn public_key(seed: u8) -> Vec<u8> {
    certified(seed).cert[0].to_vec()
}

/// Accepts one key only.
#[derive(Debug)]
struct OnlyKey(Vec<u8>);

impl OnlyKey {
    fn check(&self, key: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        if key.as_ref() == self.0 {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

macro_rules! raw_key_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::PeerIncompatible::Tls13RequiredForQuic.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            let algorithms = provider().signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    raw_key_signatures!();
}

impl ClientCertVerifier for OnlyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    raw_key_signatures!();
}

/// A client with the key of `seed` that accepts the server with the key of `server`.
pub(crate) fn client_config(seed: u8, server: u8) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OnlyKey(public_key(server))))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(seed))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// A server with the key of `seed` that accepts the client with the key of `client`.
pub(crate) fn server_config(seed: u8, client: u8) -> Arc<ServerConfig> {
    Arc::new(server_config_of(provider(), seed, client))
}

/// As [`server_config`], with custom ciphers and groups.
pub(crate) fn server_config_of(provider: Arc<CryptoProvider>, seed: u8, client: u8) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(OnlyKey(public_key(client))))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(seed))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config
}

/// Parameters with a distinguishing name.
pub(crate) fn parameters(application: &str) -> Parameters {
    Parameters {
        version: VERSION,
        original_destination: None,
        source: ConnectionId::from_u64(9),
        idle_timeout: Duration::from_secs(30),
        initial_max_data: 1 << 20,
        initial_max_stream_data: 1 << 20,
        initial_max_streams: 16,
        path_limit: 7,
        max_ack_delay: Duration::from_millis(25),
        max_datagram: 1472,
        reset_token: None,
        application: application.as_bytes().to_vec(),
        max_message: 0,
        rendezvous: Vec::new(),
        rates: false,
    }
}

/// A client and a server that accept each other.
pub(crate) fn pair() -> (Handshake, Handshake) {
    pair_of(client_config(1, 2), server_config(2, 1))
}

/// A client and a server.
pub(crate) fn pair_of(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> (Handshake, Handshake) {
    let name = ServerName::try_from("peer").unwrap();
    let client = Handshake::client(client, name, &parameters("client")).unwrap();
    (client, Handshake::server(server, &parameters("server")).unwrap())
}

/// Writes the CRYPTO blocks of one packet.
pub(crate) fn write(handshake: &mut Handshake, level: EncryptionLevel, room: usize) -> (Vec<u8>, Contents) {
    let (mut buffer, mut contents) = (Vec::new(), Contents::new());
    handshake.write_into(level, &mut Writer::new(&mut buffer, room), &mut contents);
    (buffer, contents)
}

/// Passes the CRYPTO blocks of a packet to the other end.
pub(crate) fn read(
    handshake: &mut Handshake,
    level: EncryptionLevel,
    payload: &[u8],
) -> Result<(), Violation> {
    for block in manyway_wire::mmsp2::Blocks::new(payload) {
        let Ok(manyway_wire::mmsp2::Block::Crypto(bytes)) = block else { panic!("only CRYPTO is sent") };
        handshake.on_bytes(level, bytes.offset, bytes.data)?;
    }
    Ok(())
}

/// Runs a handshake without loss to its end, or to the first violation and the end that detected it.
pub(crate) fn run(client: &mut Handshake, server: &mut Handshake) -> Result<(), (Side, Violation)> {
    let mut quiet = false;
    while !quiet {
        quiet = true;
        for level in [EncryptionLevel::Initial, EncryptionLevel::Handshake] {
            while client.wants(level) {
                quiet = false;
                let (payload, _) = write(client, level, 1100);
                read(server, level, &payload).map_err(|violation| (Side::Server, violation))?;
            }
            while server.wants(level) {
                quiet = false;
                let (payload, _) = write(server, level, 1100);
                read(client, level, &payload).map_err(|violation| (Side::Client, violation))?;
            }
        }
    }
    Ok(())
}

/// The keys of a finished handshake: Handshake and 1-RTT keys.
pub(crate) fn keys(handshake: &mut Handshake) -> (Keys, (Keys, Secrets)) {
    let Some(NewKeys::Handshake(handshake_keys)) = handshake.poll_keys() else { panic!("no Handshake keys") };
    let Some(NewKeys::OneRtt(one_rtt, secrets)) = handshake.poll_keys() else { panic!("no 1-RTT keys") };
    (handshake_keys, (one_rtt, secrets))
}
