//! The TLS 1.3 handshake: bytes in and out at two levels, with keys and the peer's parameters as results.
//!
//! rustls implements TLS. This module passes it the peer's bytes in order, keeps its bytes until they were delivered,
//! and enforces that nothing is used too early. A [`Handshake`] never sees packets; its caller names the level of the
//! bytes.

mod alert;
mod byte_stream;
mod ranges;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use manyway_wire::mmsp2::{Crypto, Parameters};
use manyway_wire::{Side, Writer};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, KeyChange, Keys, Secrets, ServerConnection, Version};
use rustls::{AlertDescription, CertificateError};

pub use self::alert::is_authentication_alert;
use self::byte_stream::{ReceiveBytes, SendBytes};
use crate::EncryptionLevel;
use crate::Violation;
use crate::identity::{PublicKey, WrongServerKey};
use crate::packet::content::{Contents, SentContent};

/// `internal_error` (RFC 8446, section 6): used where rustls names no alert.
const INTERNAL_ERROR: u8 = 80;

/// The TLS engine of one connection, with the bytes of both levels.
pub(crate) struct Handshake {
    tls: Connection,
    side: Side,
    initial: Bytes,
    handshake: Bytes,
    /// Level of the bytes that TLS writes next.
    writing: EncryptionLevel,
    /// Level of the bytes that TLS reads next.
    reading: EncryptionLevel,
    keys: VecDeque<NewKeys>,
    parameters: PeerParameters,
    alert: Option<u8>,
    unexpected_key: Option<PublicKey>,
    fallback: Option<Box<Fallback>>,
}

/// The fallback of a server with a certificate for clients that accept no raw keys. rustls makes that choice before
/// it has seen the client's, so the `ClientHello` is read a second time.
struct Fallback {
    tls: Arc<rustls::ServerConfig>,
    parameters: Vec<u8>,
    /// The bytes read so far; bounded as all bytes of a level are.
    hello: Vec<u8>,
}

#[derive(Debug, Default)]
struct Bytes {
    send: SendBytes,
    receive: ReceiveBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerParameters {
    Waiting,
    Taken,
}

/// Keys that the handshake has agreed on.
pub(crate) enum NewKeys {
    /// For the rest of the handshake.
    Handshake(Keys),
    /// For everything after it, with the secrets of later keys.
    OneRtt(Keys, Secrets),
}

impl fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(_) => write!(f, "Handshake"),
            Self::OneRtt(..) => write!(f, "OneRtt"),
        }
    }
}

/// The name of the protocol in TLS (RFC 7301); a configuration names exactly this one.
pub const ALPN: &[u8] = b"mmsp/2";

/// A handshake could not start: the TLS configuration is unsuitable.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// It does not name [`ALPN`] as the only application protocol.
    ApplicationProtocol,
    /// It allows a server to issue session tickets or to accept early data; this version of the protocol excludes
    /// both.
    Resumption,
    /// The reason from rustls.
    Tls(rustls::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApplicationProtocol => {
                write!(f, "the TLS configuration must have the ALPN mmsp/2 and no other")
            }
            Self::Resumption => {
                write!(f, "the TLS configuration must not allow session tickets and early data")
            }
            Self::Tls(error) => write!(f, "the TLS configuration cannot be used: {error}"),
        }
    }
}

impl std::error::Error for HandshakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ApplicationProtocol | Self::Resumption => None,
            Self::Tls(error) => Some(error),
        }
    }
}

impl Handshake {
    /// Starts as client; the `ClientHello` is ready to be written.
    ///
    /// # Errors
    /// [`HandshakeError`] if the configuration names another application protocol, or lacks TLS 1.3 or a cipher that
    /// rustls can use in packets.
    pub(crate) fn client(
        tls: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
        parameters: &Parameters,
    ) -> Result<Self, HandshakeError> {
        check_alpn(&tls.alpn_protocols)?;
        let tls = ClientConnection::new(tls, Version::V1, name, parameters.encode())
            .map_err(HandshakeError::Tls)?;
        let mut handshake = Self::new(Connection::Client(tls), Side::Client);
        handshake.pump();
        Ok(handshake)
    }

    /// Starts as server and waits for a `ClientHello`.
    ///
    /// # Errors
    /// As for [`Self::client`], and if the configuration allows session tickets or early data.
    pub(crate) fn server(
        tls: Arc<rustls::ServerConfig>,
        parameters: &Parameters,
    ) -> Result<Self, HandshakeError> {
        check_server(&tls)?;
        let tls =
            ServerConnection::new(tls, Version::V1, parameters.encode()).map_err(HandshakeError::Tls)?;
        Ok(Self::new(Connection::Server(tls), Side::Server))
    }

    /// Sets the configuration, with a certificate, for a client that accepts no raw keys.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub(crate) fn with_fallback(
        mut self,
        tls: Arc<rustls::ServerConfig>,
        parameters: &Parameters,
    ) -> Result<Self, HandshakeError> {
        check_server(&tls)?;
        self.fallback = Some(Box::new(Fallback { tls, parameters: parameters.encode(), hello: Vec::new() }));
        Ok(self)
    }

    fn new(tls: Connection, side: Side) -> Self {
        Self {
            tls,
            side,
            initial: Bytes::default(),
            handshake: Bytes::default(),
            writing: EncryptionLevel::Initial,
            reading: EncryptionLevel::Initial,
            keys: VecDeque::new(),
            parameters: PeerParameters::Waiting,
            alert: None,
            unexpected_key: None,
            fallback: None,
        }
    }

    /// Takes bytes of the peer from a packet of `level`, repeated and reordered ones too.
    ///
    /// # Errors
    /// A [`Violation`] if TLS refuses them (then [`Self::alert`] gives the alert to close with), if they are too far
    /// ahead, or if this level accepts no more bytes (RFC 9001, section 4.1.3).
    pub(crate) fn on_bytes(
        &mut self,
        level: EncryptionLevel,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Violation> {
        const MISPLACED: Violation = Violation::UnexpectedBlock { kind: Crypto::KIND };
        if let Some(alert) = self.alert {
            return Err(Violation::Tls { alert, reason: "the handshake has failed before".into() });
        }
        let ended = level < self.reading || self.is_complete();
        let bytes = self.bytes_mut(level).ok_or(MISPLACED)?;
        if !bytes.receive.is_new(offset, data) {
            return Ok(());
        }
        if ended {
            return Err(MISPLACED);
        }
        bytes.receive.insert(offset, data, most_ahead(level))?;
        if level == self.reading { self.read() } else { Ok(()) }
    }

    /// Passes the bytes in order to TLS, level by level.
    fn read(&mut self) -> Result<(), Violation> {
        loop {
            let level = self.reading;
            let Some(bytes) = self.bytes_mut(level).and_then(|bytes| bytes.receive.take()) else {
                return Ok(());
            };
            if let Err(error) = self.give(&bytes) {
                return Err(self.fail(&error));
            }
            self.pump();
            if !self.is_waiting_for_hello() {
                self.fallback = None;
            }
            let ended = level != self.reading || self.is_complete();
            if ended && self.bytes_mut(level).is_some_and(|bytes| bytes.receive.has_gap()) {
                return Err(Violation::UnexpectedBlock { kind: Crypto::KIND });
            }
        }
    }

    /// Passes bytes in order to TLS; a server restarts with them if only its certificate is acceptable (spec 7.40).
    fn give(&mut self, bytes: &[u8]) -> Result<(), rustls::Error> {
        if let Some(fallback) = &mut self.fallback {
            fallback.hello.extend_from_slice(bytes);
        }
        let read = self.tls.read_hs(bytes);
        match (read, self.fallback.take()) {
            (Err(error), Some(fallback)) if is_about_certificate_type(&error) => {
                let Fallback { tls, parameters, hello } = *fallback;
                self.tls = Connection::Server(ServerConnection::new(tls, Version::V1, parameters)?);
                self.tls.read_hs(&hello)
            }
            (read, fallback) => {
                self.fallback = fallback;
                read
            }
        }
    }

    /// Whether nothing was answered yet, not even with a `HelloRetryRequest`.
    fn is_waiting_for_hello(&self) -> bool {
        self.reading == EncryptionLevel::Initial && !self.initial.send.wants()
    }

    fn fail(&mut self, error: &rustls::Error) -> Violation {
        // spec 7.40: rustls uses the unspecific handshake_failure for it
        let alert = if is_about_certificate_type(error) {
            u8::from(AlertDescription::UnsupportedCertificate)
        } else {
            self.tls.alert().map_or(INTERNAL_ERROR, u8::from)
        };
        self.alert = Some(alert);
        if let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error {
            self.unexpected_key = other.0.downcast_ref::<WrongServerKey>().map(|wrong| wrong.shown);
        }
        Violation::Tls { alert, reason: reason_of(error) }
    }

    /// Takes the output of TLS, and new keys.
    fn pump(&mut self) {
        let mut buffer = Vec::new();
        loop {
            let change = self.tls.write_hs(&mut buffer);
            let wrote = !buffer.is_empty();
            let writing = self.writing;
            if let Some(bytes) = self.bytes_mut(writing) {
                bytes.send.push(&buffer);
            } else {
                debug_assert!(!wrote, "TLS writes nothing after the handshake: tickets are off");
            }
            buffer.clear();
            match change {
                Some(KeyChange::Handshake { keys }) => {
                    (self.writing, self.reading) = (EncryptionLevel::Handshake, EncryptionLevel::Handshake);
                    self.keys.push_back(NewKeys::Handshake(keys));
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.writing = EncryptionLevel::OneRtt;
                    self.keys.push_back(NewKeys::OneRtt(keys, next));
                }
                None if !wrote => return,
                None => {}
            }
        }
    }

    /// The next keys to install, in the order of levels.
    ///
    /// A server gets the 1-RTT keys only after the client's Finished and its authentication, so no data can be sent
    /// to or accepted from an unauthorised client.
    pub(crate) fn poll_keys(&mut self) -> Option<NewKeys> {
        let held_back = self.side == Side::Server && !self.is_complete();
        match self.keys.front()? {
            NewKeys::OneRtt(..) if held_back => None,
            NewKeys::Handshake(_) | NewKeys::OneRtt(..) => self.keys.pop_front(),
        }
    }

    /// Whether there are bytes to send at this level, for the first time or again.
    pub(crate) fn wants(&self, level: EncryptionLevel) -> bool {
        self.bytes(level).is_some_and(|bytes| bytes.send.wants())
    }

    /// Writes CRYPTO blocks of this level as far as they fit, and records them in `contents`.
    pub(crate) fn write_into(
        &mut self,
        level: EncryptionLevel,
        writer: &mut Writer<'_>,
        contents: &mut Contents,
    ) {
        if let Some(bytes) = self.bytes_mut(level) {
            bytes.send.write_into(writer, contents);
        }
    }

    /// A packet of this level arrived; contents of other modules are ignored.
    pub(crate) fn on_delivered(&mut self, level: EncryptionLevel, content: &SentContent) {
        if let (Some(bytes), Some((offset, length))) = (self.bytes_mut(level), handshake_range(content)) {
            bytes.send.on_delivered(offset, length);
        }
    }

    /// A packet of this level was lost; contents of other modules are ignored.
    pub(crate) fn on_lost(&mut self, level: EncryptionLevel, content: &SentContent) {
        if let (Some(bytes), Some((offset, length))) = (self.bytes_mut(level), handshake_range(content)) {
            bytes.send.on_lost(offset, length);
        }
    }

    /// Sends all undelivered bytes of this level again.
    pub(crate) fn resend_all(&mut self, level: EncryptionLevel) {
        if let Some(bytes) = self.bytes_mut(level) {
            bytes.send.resend_all();
        }
    }

    /// Whether both Finished messages were exchanged, as far as this end can know: a client is complete when its own
    /// is written, so the server may still refuse it.
    pub(crate) fn is_complete(&self) -> bool {
        self.alert.is_none() && !self.tls.is_handshaking()
    }

    /// The peer's parameters, once, as soon as the handshake authenticates them.
    pub(crate) fn take_peer_parameters(&mut self) -> Option<Result<Parameters, Violation>> {
        if !self.is_complete() || self.parameters == PeerParameters::Taken {
            return None;
        }
        self.parameters = PeerParameters::Taken;
        let refused = Violation::Parameters { reason: "they are missing or cannot be read" };
        let bytes = self.tls.quic_transport_parameters().unwrap_or_default();
        Some(Parameters::decode(bytes).map_err(|_| refused))
    }

    /// Bytes that only the two ends of this handshake can derive, once it is complete (RFC 8446, section 7.5).
    pub(crate) fn derive<const N: usize>(&self, label: &[u8]) -> Option<[u8; N]> {
        self.tls.export_keying_material([0; N], label, None).ok()
    }

    /// The peer's public key as `SubjectPublicKeyInfo` in DER, once the peer has proved that it owns it.
    pub(crate) fn peer_public_key(&self) -> Option<Vec<u8>> {
        if !self.is_complete() {
            return None;
        }
        self.tls.peer_certificates()?.first().map(|key| key.as_ref().to_vec())
    }

    /// The key of a server that showed another one than the expected, and was refused for it.
    pub(crate) fn unexpected_key(&self) -> Option<PublicKey> {
        self.unexpected_key
    }

    /// Whether TLS last read bytes under the handshake keys: only a peer that received the answer to its hello has
    /// them.
    pub(crate) fn was_answered(&self) -> bool {
        self.reading == EncryptionLevel::Handshake
    }

    /// The alert to close with, if the handshake has failed.
    #[cfg(test)]
    pub(crate) fn alert(&self) -> Option<u8> {
        self.alert
    }

    fn bytes(&self, level: EncryptionLevel) -> Option<&Bytes> {
        match level {
            EncryptionLevel::Initial => Some(&self.initial),
            EncryptionLevel::Handshake => Some(&self.handshake),
            EncryptionLevel::OneRtt => None,
        }
    }

    fn bytes_mut(&mut self, level: EncryptionLevel) -> Option<&mut Bytes> {
        match level {
            EncryptionLevel::Initial => Some(&mut self.initial),
            EncryptionLevel::Handshake => Some(&mut self.handshake),
            EncryptionLevel::OneRtt => None,
        }
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("side", &self.side)
            .field("reading", &self.reading)
            .field("writing", &self.writing)
            .field("complete", &self.is_complete())
            .field("alert", &self.alert)
            .finish_non_exhaustive()
    }
}

/// How far ahead of the bytes in order the peer may send (spec 7.24). A server holds Initial bytes for unvalidated
/// clients, so the limit is the size of the largest `ClientHello`.
fn most_ahead(level: EncryptionLevel) -> u64 {
    match level {
        EncryptionLevel::Initial => 16 << 10,
        EncryptionLevel::Handshake | EncryptionLevel::OneRtt => 64 << 10,
    }
}

fn check_alpn(names: &[Vec<u8>]) -> Result<(), HandshakeError> {
    if names == [ALPN] { Ok(()) } else { Err(HandshakeError::ApplicationProtocol) }
}

fn check_server(tls: &rustls::ServerConfig) -> Result<(), HandshakeError> {
    check_alpn(&tls.alpn_protocols)?;
    if tls.send_tls13_tickets != 0 || tls.max_early_data_size != 0 {
        return Err(HandshakeError::Resumption);
    }
    Ok(())
}

/// Whether one end accepts raw keys only, and the other has or accepts certificates only.
fn is_about_certificate_type(error: &rustls::Error) -> bool {
    *error == rustls::PeerIncompatible::IncorrectCertificateTypeExtension.into()
}

/// The reason of an error, worded for users if it is about keys.
fn reason_of(error: &rustls::Error) -> String {
    if is_about_certificate_type(error) {
        return "one end asks for a certificate and the other has none, only a key".into();
    }
    if let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error {
        match other.0.to_string().as_str() {
            "CaUsedAsEndEntity" => {
                "the server's certificate is that of an authority (CA:TRUE); a CA certificate cannot identify a server"
                    .into()
            }
            reason if other.0.is::<WrongServerKey>() => reason.to_owned(),
            reason => format!("the server's certificate can not be used: {reason}"),
        }
    } else if *error == CertificateError::ApplicationVerificationFailure.into() {
        "the key that the peer showed is not accepted here".into()
    } else if *error == CertificateError::UnknownIssuer.into() {
        "the server's certificate comes from an authority that is not trusted here".into()
    } else {
        error.to_string()
    }
}

fn handshake_range(content: &SentContent) -> Option<(u64, u32)> {
    if let SentContent::Handshake { offset, length } = *content { Some((offset, length)) } else { None }
}
