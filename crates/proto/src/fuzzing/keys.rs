//! Keys of connections without a handshake of their own.

use std::fmt;
use std::sync::Arc;

use manyway_wire::Side;
use rustls::Side as TlsSide;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, Connection, KeyChange, Keys, Secrets, ServerConnection, Version};

/// The keys that both ends of an established connection share.
///
/// The keys of the first phase are derived from a constant, so that another process can decrypt a recorded datagram;
/// the secrets of later phases come from a handshake of this process.
#[derive(Clone)]
pub struct SharedKeys {
    server_config: Arc<rustls::ServerConfig>,
    client: Secrets,
    server: Secrets,
}

impl SharedKeys {
    /// Runs one handshake between these two.
    ///
    /// # Errors
    /// The error of TLS, if they do not accept each other.
    pub fn new(
        client: Arc<rustls::ClientConfig>,
        server: Arc<rustls::ServerConfig>,
    ) -> Result<Self, rustls::Error> {
        let name = rustls::pki_types::ServerName::try_from("fuzzing")
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let server_config = Arc::clone(&server);
        let mut client = Connection::Client(ClientConnection::new(client, Version::V1, name, Vec::new())?);
        let mut server = Connection::Server(ServerConnection::new(server, Version::V1, Vec::new())?);
        let (mut of_client, mut of_server) = (None, None);
        // Three flights complete TLS 1.3.
        for _ in 0..3 {
            carry(&mut client, &mut server, &mut of_client)?;
            carry(&mut server, &mut client, &mut of_server)?;
        }
        let incomplete = || rustls::Error::HandshakeNotComplete;
        let (client, server) = (of_client.ok_or_else(incomplete)?, of_server.ok_or_else(incomplete)?);
        Ok(Self { server_config, client, server })
    }

    pub(crate) fn server_config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.server_config)
    }

    #[expect(clippy::expect_used, reason = "the suite is a constant")]
    pub(crate) fn of(&self, side: Side) -> (Keys, Secrets) {
        let (tls_side, secrets) = match side {
            Side::Client => (TlsSide::Client, self.client.clone()),
            Side::Server => (TlsSide::Server, self.server.clone()),
        };
        let suite = TLS13_AES_128_GCM_SHA256
            .tls13()
            .and_then(rustls::Tls13CipherSuite::quic_suite)
            .expect("this suite of TLS 1.3 has keys for QUIC");
        (suite.keys(b"fuzzing", tls_side, Version::V1), secrets)
    }
}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKeys").finish_non_exhaustive()
    }
}

/// Passes all output of one end to the other, and keeps the 1-RTT secrets.
fn carry(
    from: &mut Connection,
    to: &mut Connection,
    secrets: &mut Option<Secrets>,
) -> Result<(), rustls::Error> {
    loop {
        let mut bytes = Vec::new();
        let change = from.write_hs(&mut bytes);
        if !bytes.is_empty() {
            to.read_hs(&bytes)?;
        }
        match change {
            Some(KeyChange::OneRtt { next, .. }) => *secrets = Some(next),
            Some(KeyChange::Handshake { .. }) => {}
            None if bytes.is_empty() => return Ok(()),
            None => {}
        }
    }
}
