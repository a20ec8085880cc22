//! INFO of this server (spec 3.59): everything that it needs to make the connection when PING comes back, so that it
//! keeps nothing for a SYN. The client returns it unread.
//!
//! ```text
//! | version 8: 1 | key 8 | IPv4 addresses 8 | IPv6 addresses 8 |
//! | made at, ms 64 | lifetime, ms 32 |
//! | client: tag 32 | AWS 32 | outgoing 16 | incoming 16 | initial TSEQ 32 |
//! | server: tag 32 | AWS 32 | outgoing 16 | incoming 16 | initial TSEQ 32 |
//! | client's inner port 16 | server's inner port 16 | 0 16 | client's UDP port 16 | client's address 128 |
//! | IPv4 address 32 | … | IPv6 address 128 | … |            those that SYN named
//! | MAC 128 |
//! ```
//! The MAC covers everything before it. The server makes and checks it; this module only knows its position.

use std::net::SocketAddr;
use std::time::Duration;

use super::syn::Opening;
use crate::address::{SOCKET_ADDRESS_LEN, decode_socket_address, encode_socket_address};
use crate::decode_error::{DecodeError, Part};
use crate::parameter::INFO;
use crate::reader::Reader;
use crate::writer::Writer;

const VERSION: u8 = 1;
const FIXED: usize = 4 + 8 + 4 + 2 * Opening::LEN + 3 * 2 + SOCKET_ADDRESS_LEN;

/// Message authentication code of an INFO.
pub type InfoMac = [u8; Info::MAC_LEN];

/// The content of an INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info<'a> {
    /// Which of the server's keys made the MAC.
    pub key: u8,
    /// When it was made by the server's clock, in ms since a time of the server's choice.
    pub made_at_millis: u64,
    /// How long it is good; whole ms, at most 2³² − 1.
    pub lifetime: Duration,
    /// What SYN said.
    pub client: Opening,
    /// What SYN-ACK says.
    pub server: Opening,
    /// Inner ports of client and server.
    pub ports: [u16; 2],
    /// From where SYN came.
    pub address: SocketAddr,
    /// The IPv4 addresses that SYN named, without filler; at most 255.
    pub ipv4: &'a [[u8; 4]],
    /// The IPv6 addresses that SYN named; at most 255.
    pub ipv6: &'a [[u8; 16]],
}

impl<'a> Info<'a> {
    /// Bytes of the MAC.
    pub const MAC_LEN: usize = 16;

    /// Bytes with the MAC.
    pub fn encoded_len(&self) -> usize {
        let (ipv4, ipv6) = self.addresses();
        FIXED + 4 * ipv4.len() + 16 * ipv6.len() + Self::MAC_LEN
    }

    /// Appends everything that the MAC covers. The caller appends the MAC.
    pub fn encode_covered(&self, w: &mut Writer<'_>) {
        let (ipv4, ipv6) = self.addresses();
        w.u8(VERSION);
        w.u8(self.key);
        w.u8(u8::try_from(ipv4.len()).unwrap_or(u8::MAX));
        w.u8(u8::try_from(ipv6.len()).unwrap_or(u8::MAX));
        w.u64(self.made_at_millis);
        w.u32(u32::try_from(self.lifetime.as_millis()).unwrap_or(u32::MAX));
        self.client.encode(w);
        self.server.encode(w);
        self.ports.into_iter().for_each(|port| w.u16(port));
        w.u16(0);
        encode_socket_address(w, self.address);
        w.bytes(ipv4.as_flattened());
        w.bytes(ipv6.as_flattened());
    }

    /// Reads an INFO, and also returns the bytes that its MAC covers, and the MAC. The caller must check the MAC before
    /// it trusts any value.
    ///
    /// # Errors
    /// [`DecodeError`] if no server of this kind can have made it: it is as invalid as one with a wrong MAC.
    pub fn decode(info: &'a [u8]) -> Result<(Self, &'a [u8], &'a InfoMac), DecodeError> {
        let Some((covered, mac)) = info.split_last_chunk() else {
            let (part, left) = (Part::Parameter(INFO), info.len());
            return Err(DecodeError::Truncated { part, offset: 0, needed: Self::MAC_LEN, left });
        };
        let mut reader = Reader::within(Part::Parameter(INFO), 0, covered);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.out_of_range(0, "version of INFO", version.into()));
        }
        let key = reader.u8()?;
        let counts = [reader.u8()?, reader.u8()?];
        let made_at_millis = reader.u64()?;
        let lifetime = Duration::from_millis(reader.u32()?.into());
        let client = Opening::decode(&mut reader)?;
        let server = Opening::decode(&mut reader)?;
        let ports = [reader.u16()?, reader.u16()?];
        reader.u16()?;
        let address = decode_socket_address(&mut reader)?;
        let (ipv4, _) = reader.bytes(4 * usize::from(counts[0]))?.as_chunks();
        let (ipv6, _) = reader.bytes(16 * usize::from(counts[1]))?.as_chunks();
        reader.finish()?;
        let found = Self { key, made_at_millis, lifetime, client, server, ports, address, ipv4, ipv6 };
        Ok((found, covered, mac))
    }

    /// The lists, cut at what their counts can say.
    fn addresses(&self) -> (&'a [[u8; 4]], &'a [[u8; 16]]) {
        let most = usize::from(u8::MAX);
        (self.ipv4.get(..most).unwrap_or(self.ipv4), self.ipv6.get(..most).unwrap_or(self.ipv6))
    }
}

#[cfg(test)]
#[path = "info/tests.rs"]
mod tests;
