//! SYN-ACK (spec 3.21): answers SYN with the server's INFO.
//!
//! ```text
//! | type 3 | flags 0 | length 16 |
//! | tag 32 | AWS 32 | outgoing streams 16 | incoming streams 16 | initial TSEQ 32 |
//! | addresses, thesis's list … | parameter INFO … | parameters … |
//! ```

use super::addresses::Addresses;
use super::parameters::{IPV4_LIST, IPV6_LIST, encode_list, list_len};
use super::syn::Opening;
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::parameter::INFO;
use crate::reader::Reader;
use crate::writer::Writer;

/// Answers SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynAck<'a> {
    /// The server's part of the agreement.
    pub opening: Opening,
    /// Its addresses beside the one from which the packet came.
    pub addresses: Addresses<'a>,
    /// What the client returns in PING, unread.
    pub info: &'a [u8],
    /// The first unknown parameter that may not be skipped. Not written.
    pub unrecognised: Option<u16>,
}

impl<'a> SynAck<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 3;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] as of SYN, and if INFO is missing or not the first parameter.
    pub fn decode(_flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        let opening = Opening::decode(&mut body)?;
        let known = [INFO, IPV4_LIST, IPV6_LIST];
        let (addresses, parameters) = Addresses::decode(body, opening.outgoing, &known, Some(INFO))?;
        let info = parameters.info.unwrap_or_default();
        Ok(Self { opening, addresses, info, unrecognised: parameters.unrecognised })
    }

    /// Bytes on the wire, with header.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            self.opening.encode(w);
            self.entries().for_each(|octets| w.bytes(octets));
            encode_list(w, self.parameters());
        });
    }

    fn body_len(&self) -> usize {
        let parameters = self.parameters().map(|(_, value)| value.len());
        Opening::LEN + 4 * self.entries().count() + list_len(parameters)
    }

    fn entries(&self) -> impl Iterator<Item = &'a [u8; 4]> + use<'a> {
        self.addresses.entries(self.opening.outgoing, false)
    }

    fn parameters(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        std::iter::once((INFO, self.info)).chain(self.addresses.parameters())
    }
}

#[cfg(test)]
#[path = "syn_ack/tests.rs"]
mod tests;
