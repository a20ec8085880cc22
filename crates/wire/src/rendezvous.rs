//! Datagrams between an endpoint of a connection, or an end of a mailbox, and a rendezvous server (spec 10.2, 10.17).
//!
//! ```text
//! | 0 16 | version 8 = 1 | kind 8 | token 128 | …
//! request (1 client's, 2 server's): | nonce 64 | cookie 128 | sealed 1352 | padding to 256 bytes
//! retry (3):                        | nonce 64 | cookie 128 |
//! answer (4):                       | nonce 64 | seen: port 16, address 128 | sealed 1352, or nothing |
//! knock (5):                        nothing
//! ```
//! Kinds 6 to 12 are those of a [`mailbox`] and of the relay for its ends.
//!
//! Two zero bytes begin neither a packet of MMSP/2 (spec 4.1) nor one of MMSP/1, which has no port 0.

use std::net::SocketAddr;

use crate::address::{SOCKET_ADDRESS_LEN, decode_socket_address, encode_socket_address};
use crate::decode_error::DecodeError;
use crate::ids::Side;
use crate::reader::Reader;
use crate::writer::Writer;

pub mod mailbox;

use mailbox::{Ask, LONG_LEN, SHORT_LEN, State};

/// The most addresses that an end names.
pub const MAX_ADDRESSES: usize = 8;
/// Bytes of the addresses before they are sealed: how many, and room for all.
pub const CLEAR_LEN: usize = 1 + MAX_ADDRESSES * SOCKET_ADDRESS_LEN;
/// Bytes of sealed addresses: sequence, addresses, tag.
pub const SEALED_LEN: usize = 8 + CLEAR_LEN + 16;
/// Bytes of every request. No answer is longer, so a request with a forged source address amplifies nothing.
pub const REQUEST_LEN: usize = 256;
/// Bytes of the longest datagram.
pub const MAX_LEN: usize = LONG_LEN;

const VERSION: u8 = 1;
const CLIENT: u8 = 1;
const SERVER: u8 = 2;
const RETRY: u8 = 3;
const ANSWER: u8 = 4;
const KNOCK: u8 = 5;
const ASK_OF_CLIENT: u8 = 6;
const ASK_OF_SERVER: u8 = 7;
const STATE: u8 = 8;
const LEAVE: u8 = 9;
const OBSERVE: u8 = 10;
const BIND: u8 = 11;
const BOUND: u8 = 12;

/// Identifies a connection at the rendezvous server.
pub type Token = [u8; 16];
/// Proves an address to the rendezvous server, which gives it to that address alone.
pub type Cookie = [u8; 16];
/// Addresses of an endpoint that only the other endpoint can read: sequence (the nonce), then the output of the AEAD.
pub type Sealed = [u8; SEALED_LEN];

/// One datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The connection.
    pub token: Token,
    /// The content.
    pub body: Body<'a>,
}

/// The content of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// Registers the addresses of an endpoint and asks for those of the other one.
    Request {
        /// The endpoint that asks.
        side: Side,
        /// Returned in the answer.
        nonce: u64,
        /// As the rendezvous server gave it; zeros in the first request.
        cookie: Cookie,
        /// The addresses of the asking end.
        sealed: &'a Sealed,
    },
    /// The rendezvous server stored nothing and wants the same request with this cookie.
    Retry {
        /// That of the request.
        nonce: u64,
        /// To be returned in the next request.
        cookie: Cookie,
    },
    /// The rendezvous server has stored the addresses.
    Answer {
        /// That of the request.
        nonce: u64,
        /// Where the request came from.
        seen: SocketAddr,
        /// The newest addresses of the other endpoint, if it registered any.
        sealed: Option<&'a Sealed>,
    },
    /// From a server to an address of its client, to be ignored: it opens a NAT before the server for the client's
    /// packets.
    Knock,
    /// An end of a mailbox leaves a letter, and asks for that of the other end.
    Ask(Ask<'a>),
    /// What is in the mailbox.
    State(State<'a>),
    /// The offering end closes its mailbox.
    Leave {
        /// Returned in the answer.
        nonce: u64,
        /// As in [`Ask`].
        cookie: Cookie,
    },
    /// An end of a mailbox asks for a relay to the other end, for the address from which it asks.
    Bind {
        /// Returned in the answer.
        nonce: u64,
        /// As in [`Ask`].
        cookie: Cookie,
        /// The mailbox.
        number: u32,
    },
    /// The answer to [`Bind`](Self::Bind).
    Bound {
        /// That of the request.
        nonce: u64,
        /// Whether packets from the address go to the other end.
        is_bound: bool,
    },
    /// Asks where the request comes from; an [`Answer`](Self::Answer) tells.
    Observe {
        /// Returned in the answer.
        nonce: u64,
    },
}

impl<'a> Message<'a> {
    /// Whether a datagram is a rendezvous message; its remainder may still be malformed.
    pub fn is_meant(datagram: &[u8]) -> bool {
        datagram.starts_with(&[0, 0])
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// [`DecodeError`] if it is too short or too long, or of another version or an unknown kind.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram);
        for (offset, field, expected) in [(0, "first", 0), (1, "second", 0), (2, "version", VERSION)] {
            let value = reader.u8()?;
            if value != expected {
                return Err(reader.out_of_range(offset, field, value.into()));
            }
        }
        let kind = reader.u8()?;
        let token = reader.array()?;
        let body = match kind {
            CLIENT => decode_request(Side::Client, &mut reader)?,
            SERVER => decode_request(Side::Server, &mut reader)?,
            RETRY => Body::Retry { nonce: reader.u64()?, cookie: reader.array()? },
            ANSWER => Body::Answer {
                nonce: reader.u64()?,
                seen: decode_socket_address(&mut reader)?,
                sealed: if reader.is_empty() { None } else { Some(take_sealed(&mut reader)?) },
            },
            KNOCK => Body::Knock,
            ASK_OF_CLIENT => Body::Ask(Ask::decode(Side::Client, &mut reader, datagram.len() > SHORT_LEN)?),
            ASK_OF_SERVER => Body::Ask(Ask::decode(Side::Server, &mut reader, datagram.len() > SHORT_LEN)?),
            STATE => Body::State(State::decode(&mut reader)?),
            LEAVE => Body::Leave { nonce: reader.u64()?, cookie: reader.array()? },
            OBSERVE => Body::Observe { nonce: reader.u64()? },
            BIND => Body::Bind { nonce: reader.u64()?, cookie: reader.array()?, number: reader.u32()? },
            BOUND => Body::Bound { nonce: reader.u64()?, is_bound: decode_bool(&mut reader)? },
            _ => return Err(reader.out_of_range(3, "kind", kind.into())),
        };
        let message = Self { token, body };
        reader.bytes(message.padded_len().saturating_sub(reader.offset()))?;
        reader.finish()?;
        Ok(message)
    }

    /// Bytes of a request, with its padding; 0 for other messages, which have none.
    fn padded_len(&self) -> usize {
        match &self.body {
            Body::Request { .. } => REQUEST_LEN,
            Body::Ask(ask) => ask.length(),
            Body::Leave { .. } | Body::Observe { .. } | Body::Bind { .. } => SHORT_LEN,
            Body::Retry { .. } | Body::Answer { .. } | Body::Knock | Body::State(_) | Body::Bound { .. } => 0,
        }
    }

    /// Appends the datagram, which is at most [`MAX_LEN`] bytes long.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let begin = w.position();
        w.u16(0);
        w.u8(VERSION);
        w.u8(self.kind());
        w.bytes(&self.token);
        match self.body {
            Body::Request { nonce, cookie, sealed, .. } => {
                w.u64(nonce);
                w.bytes(&cookie);
                w.bytes(sealed);
            }
            Body::Retry { nonce, cookie } | Body::Leave { nonce, cookie } => {
                w.u64(nonce);
                w.bytes(&cookie);
            }
            Body::Answer { nonce, seen, sealed } => {
                w.u64(nonce);
                encode_socket_address(w, seen);
                w.bytes(sealed.map_or(&[], |sealed| &sealed[..]));
            }
            Body::Knock => {}
            Body::Ask(ask) => ask.encode(w),
            Body::State(state) => state.encode(w),
            Body::Observe { nonce } => w.u64(nonce),
            Body::Bind { nonce, cookie, number } => {
                w.u64(nonce);
                w.bytes(&cookie);
                w.u32(number);
            }
            Body::Bound { nonce, is_bound } => {
                w.u64(nonce);
                w.u8(is_bound.into());
            }
        }
        w.zeros(self.padded_len().saturating_sub(w.position() - begin));
    }

    fn kind(&self) -> u8 {
        match self.body {
            Body::Request { side: Side::Client, .. } => CLIENT,
            Body::Request { side: Side::Server, .. } => SERVER,
            Body::Retry { .. } => RETRY,
            Body::Answer { .. } => ANSWER,
            Body::Knock => KNOCK,
            Body::Ask(Ask { side: Side::Client, .. }) => ASK_OF_CLIENT,
            Body::Ask(Ask { side: Side::Server, .. }) => ASK_OF_SERVER,
            Body::State(_) => STATE,
            Body::Leave { .. } => LEAVE,
            Body::Observe { .. } => OBSERVE,
            Body::Bind { .. } => BIND,
            Body::Bound { .. } => BOUND,
        }
    }
}

fn decode_request<'a>(side: Side, reader: &mut Reader<'a>) -> Result<Body<'a>, DecodeError> {
    let nonce = reader.u64()?;
    let cookie = reader.array()?;
    let sealed = take_sealed(reader)?;
    Ok(Body::Request { side, nonce, cookie, sealed })
}

fn decode_bool(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    let offset = reader.offset();
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(reader.out_of_range(offset, "bound", other.into())),
    }
}

fn take_sealed<'a>(reader: &mut Reader<'a>) -> Result<&'a Sealed, DecodeError> {
    let offset = reader.offset();
    let bytes = reader.bytes(SEALED_LEN)?;
    bytes.try_into().map_err(|_| reader.out_of_range(offset, "sealed length", bytes.len() as u64))
}

/// Appends the addresses before they are sealed, [`CLEAR_LEN`] bytes; those beyond [`MAX_ADDRESSES`] are left out.
pub fn encode_addresses(w: &mut Writer<'_>, addresses: &[SocketAddr]) {
    let end = w.position() + CLEAR_LEN;
    let named = addresses.get(..MAX_ADDRESSES).unwrap_or(addresses);
    w.u8(u8::try_from(named.len()).unwrap_or(u8::MAX));
    named.iter().for_each(|address| encode_socket_address(w, *address));
    w.zeros(end - w.position());
}

/// Reads decrypted addresses; bytes after them are ignored.
///
/// # Errors
/// [`DecodeError`] if there are more than [`MAX_ADDRESSES`], or fewer than announced.
pub fn decode_addresses(clear: &[u8]) -> Result<Vec<SocketAddr>, DecodeError> {
    let mut reader = Reader::new(clear);
    let count = usize::from(reader.u8()?);
    if count > MAX_ADDRESSES {
        return Err(reader.out_of_range(0, "addresses", count as u64));
    }
    (0..count).map(|_| decode_socket_address(&mut reader)).collect()
}

#[cfg(test)]
#[path = "rendezvous/tests.rs"]
mod tests;
