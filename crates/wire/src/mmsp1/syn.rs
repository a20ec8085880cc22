//! SYN (spec 3.20): asks for a connection.
//!
//! ```text
//! | type 2 | flags 0 | length 16 |
//! | tag 32 | AWS 32 | outgoing streams 16 | incoming streams 16 | initial TSEQ 32 | addresses … |
//! ```

use super::addresses::Addresses;
use super::parameters::{IPV4_LIST, IPV6_LIST, encode_list, list_len};
use super::{Tag, Tseq};
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

const FIXED: usize = 16;

/// What each endpoint says about itself in SYN and SYN-ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The tag under which the sender of the block wants to receive; not 0.
    pub tag: Tag,
    /// Advertised window size (AWS): bytes of user data for which the sender of the block has room.
    pub window: u32,
    /// How many streams it wants to send on; not 0.
    pub outgoing: u16,
    /// How many streams it takes; not 0.
    pub incoming: u16,
    /// The TSEQ of its first DATA block.
    pub tseq: Tseq,
}

impl Opening {
    pub(super) const LEN: usize = FIXED;

    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let begin = body.offset();
        let opening = Self {
            tag: Tag(body.u32()?),
            window: body.u32()?,
            outgoing: body.u16()?,
            incoming: body.u16()?,
            tseq: Tseq(body.u32()?),
        };
        let not_zero = [
            (0, "tag", opening.tag.0),
            (8, "outgoing streams", opening.outgoing.into()),
            (10, "incoming streams", opening.incoming.into()),
        ];
        match not_zero.into_iter().find(|(_, _, value)| *value == 0) {
            Some((at, field, _)) => Err(body.out_of_range(begin + at, field, 0)),
            None => Ok(opening),
        }
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        w.u32(self.tag.0);
        w.u32(self.window);
        w.u16(self.outgoing);
        w.u16(self.incoming);
        w.u32(self.tseq.0);
    }
}

/// Asks for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syn<'a> {
    /// The client's part of the agreement.
    pub opening: Opening,
    /// Its addresses beside the one from which the packet came.
    pub addresses: Addresses<'a>,
    /// The first unknown parameter that may not be skipped. Not written.
    pub unrecognised: Option<u16>,
}

impl<'a> Syn<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 2;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is missing, tag or a number of streams is 0, or what follows is neither a list of
    /// addresses nor parameters.
    pub fn decode(_flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        let opening = Opening::decode(&mut body)?;
        let known = [IPV4_LIST, IPV6_LIST];
        let (addresses, parameters) = Addresses::decode(body, opening.outgoing, &known, None)?;
        Ok(Self { opening, addresses, unrecognised: parameters.unrecognised })
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
            encode_list(w, self.addresses.parameters());
        });
    }

    fn body_len(&self) -> usize {
        let parameters = self.addresses.parameters().map(|(_, value)| value.len());
        Opening::LEN + 4 * self.entries().count() + list_len(parameters)
    }

    /// The thesis's list. A SYN with parameters has the whole list before them, so that they are not taken for
    /// addresses.
    fn entries(&self) -> impl Iterator<Item = &'a [u8; 4]> + use<'a> {
        let has_parameters = self.addresses.parameters().next().is_some();
        self.addresses.entries(self.opening.outgoing, has_parameters)
    }
}

#[cfg(test)]
#[path = "syn/tests.rs"]
mod tests;
