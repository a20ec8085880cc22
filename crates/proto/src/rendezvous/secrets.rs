//! Secrets of the two ends of a connection.

use std::fmt;
use std::net::SocketAddr;

use manyway_wire::rendezvous::{CLEAR_LEN, SEALED_LEN, Sealed, Token, decode_addresses, encode_addresses};
use manyway_wire::{Side, Writer};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

/// Bytes that TLS exports: the token, and a key for each end.
pub(crate) const SECRET_LEN: usize = 16 + 2 * KEY_LEN;
/// The exporter label (RFC 8446, section 7.5).
pub(crate) const LABEL: &[u8] = b"EXPORTER-manyway-rendezvous";
const KEY_LEN: usize = 32;
const SEQUENCE_LEN: usize = 8;

/// The token of a connection, and the keys for the addresses of both ends (spec 10.1).
pub(crate) struct Secrets {
    token: Token,
    own: LessSafeKey,
    peer: LessSafeKey,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Splits the exported bytes, for the end `side`.
    pub(crate) fn new(side: Side, derived: &[u8; SECRET_LEN]) -> Option<Self> {
        let (token, keys) = derived.split_first_chunk()?;
        let (client, server) = keys.split_at_checked(KEY_LEN)?;
        let key = |bytes| UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(LessSafeKey::new);
        let (own, peer) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        Some(Self { token: *token, own: key(own)?, peer: key(peer)? })
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Seals addresses of this end. A sequence must not be used for two lists: it is the nonce.
    pub(crate) fn seal(&self, sequence: u64, addresses: &[SocketAddr]) -> Option<Sealed> {
        let mut bytes = Vec::with_capacity(SEALED_LEN);
        let mut writer = Writer::new(&mut bytes, SEALED_LEN);
        writer.u64(sequence);
        encode_addresses(&mut writer, addresses);
        let clear = bytes.get_mut(SEQUENCE_LEN..)?;
        let tag = self.own.seal_in_place_separate_tag(nonce(sequence), Aad::from(&self.token), clear).ok()?;
        bytes.extend_from_slice(tag.as_ref());
        bytes.try_into().ok()
    }

    /// Decrypts addresses of the peer: their sequence, and the list; `None` if the peer did not seal them.
    pub(crate) fn open(&self, sealed: &Sealed) -> Option<(u64, Vec<SocketAddr>)> {
        let (sequence, rest) = sealed.split_first_chunk::<SEQUENCE_LEN>()?;
        let sequence = u64::from_be_bytes(*sequence);
        let mut rest: [u8; CLEAR_LEN + 16] = rest.try_into().ok()?;
        let clear = self.peer.open_in_place(nonce(sequence), Aad::from(&self.token), &mut rest).ok()?;
        Some((sequence, decode_addresses(clear).ok()?))
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    if let Some(end) = bytes.last_chunk_mut::<SEQUENCE_LEN>() {
        *end = sequence.to_be_bytes();
    }
    Nonce::assume_unique_for_key(bytes)
}
