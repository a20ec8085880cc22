//! TLS around a TCP connection, for networks that let nothing else through.
//!
//! The server's certificate is self-signed, and the client accepts any: what travels inside is sealed, and its own
//! handshake authenticates both ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::FourTuple;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor, TlsConnector, TlsStream};

use super::RecordStream;
use super::pipe::Pipe;

/// A client that does not complete its TLS handshake is let go after this time.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// The certificate of a server.
pub(crate) struct Camouflage;

impl Camouflage {
    /// Makes a certificate, and what accepts connections with it.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(crate) fn acceptor() -> io::Result<TlsAcceptor> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(io::Error::other)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Completes the TLS handshake of a client, within 3 s.
pub(crate) async fn handshake(accept: Box<Accept<TcpStream>>, tuple: FourTuple) -> Option<RecordStream> {
    match tokio::time::timeout(HANDSHAKE, accept).await {
        Ok(Ok(stream)) => Some(RecordStream::new(Pipe::Tls(Box::new(TlsStream::Server(stream))), tuple, &[])),
        Ok(Err(error)) => {
            tracing::debug!(%tuple, %error, "no TLS");
            None
        }
        Err(_) => None,
    }
}

/// Wraps a connection of a client.
///
/// # Errors
/// The server does not speak TLS, or the connection broke.
pub(super) async fn wrap(stream: TcpStream) -> io::Result<Pipe> {
    let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider())))
        .with_no_client_auth();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Pipe::Tls(Box::new(TlsStream::Client(stream))))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
