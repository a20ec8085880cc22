//! PROBE-ACK (spec 5.0c): the path response, on the path of the challenge.
//!
//! ```text
//! | type 0x0c | flags 0 | length 16 |
//! | nonce 64 | port 16 | address 128 |
//! ```

use std::net::SocketAddr;

use crate::address::{decode_socket_address, encode_socket_address};
use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Answers PROBE and reports the challenger's address as seen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeAck {
    /// The nonce of the challenge.
    pub nonce: u64,
    /// Source of the datagram with the challenge; an IPv4 address travels as IPv4-mapped IPv6.
    pub observed: SocketAddr,
}

impl ProbeAck {
    /// Type on the wire.
    pub const KIND: u8 = 0x0c;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not 26 bytes long.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let nonce = body.u64()?;
        let observed = decode_socket_address(&mut body)?;
        body.finish()?;
        Ok(Self { nonce, observed })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(26)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 26, |w| {
            w.u64(self.nonce);
            encode_socket_address(w, self.observed);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.0c
    #[test]
    fn nonce_and_observed_address_come_back() {
        for observed in ["192.0.2.7:4433", "[2001:db8::1]:65535"] {
            round_trip(Block::ProbeAck(ProbeAck { nonce: u64::MAX, observed: observed.parse().unwrap() }));
        }
    }
}
