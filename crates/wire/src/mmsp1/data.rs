//! DATA (spec 3.30 to 3.35): a message, or a fragment of one.
//!
//! ```text
//! | type 0 | flags: 0x01 E, 0x02 B, 0x04 U | length 16 |
//! | TSEQ 32 | stream 16 | SSEQ 16 | payload protocol 32 | data … |
//! ```

use super::{Sseq, Tseq};
use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, encode_header, encode_padding, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

const END: u8 = 0x01;
const BEGIN: u8 = 0x02;
const UNORDERED: u8 = 0x04;

/// Bytes of a DATA block beside its data, without padding. Together with the data they are at most 65 535.
pub const DATA_OVERHEAD: usize = 16;

/// Which part of its message a DATA block carries: the flags B and E (Table 3.2 of the thesis).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// The whole message: B and E.
    Whole,
    /// The beginning: B alone.
    First,
    /// Neither beginning nor end.
    Middle,
    /// The end: E alone.
    Last,
}

impl Fragment {
    const fn from_flags(flags: u8) -> Self {
        match flags & (BEGIN | END) {
            0 => Self::Middle,
            END => Self::Last,
            BEGIN => Self::First,
            _ => Self::Whole,
        }
    }

    /// Whether the message begins with it.
    pub const fn begins(self) -> bool {
        matches!(self, Self::Whole | Self::First)
    }

    /// Whether the message ends with it.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Whole | Self::Last)
    }

    /// Whether a fragment with the next TSEQ may be `next`: only a message that has not ended goes on.
    ///
    /// ```
    /// use manyway_wire::mmsp1::Fragment;
    ///
    /// assert!(Fragment::First.may_precede(Fragment::Last));
    /// assert!(!Fragment::First.may_precede(Fragment::Whole));
    /// ```
    pub const fn may_precede(self, next: Self) -> bool {
        self.ends() == next.begins()
    }

    const fn flags(self) -> u8 {
        match self {
            Self::Whole => BEGIN | END,
            Self::First => BEGIN,
            Self::Middle => 0,
            Self::Last => END,
        }
    }
}

/// A message or a fragment of one. Cut once: lost data are sent again under their TSEQ and unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// Number of the block in its direction of the connection.
    pub tseq: Tseq,
    /// The stream.
    pub stream: u16,
    /// Number of the message in its direction of the stream. Without meaning, and 0, in an unordered one.
    pub sseq: Sseq,
    /// The application's identifier for the kind of content; 0 says nothing.
    pub protocol: u32,
    /// Whether the message is delivered as soon as it is complete, regardless of earlier ones.
    pub unordered: bool,
    /// The part of the message.
    pub fragment: Fragment,
    /// The bytes. A sender never leaves them out; a receiver acknowledges a block without any and reports it (spec
    /// 3.35).
    pub data: &'a [u8],
}

impl<'a> Data<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0;

    /// Reads the body. Reserved flags are ignored.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            tseq: Tseq(body.u32()?),
            stream: body.u16()?,
            sseq: Sseq(body.u16()?),
            protocol: body.u32()?,
            unordered: flags & UNORDERED != 0,
            fragment: Fragment::from_flags(flags),
            data: body.rest(),
        })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(DATA_OVERHEAD - BLOCK_HEADER_LEN + self.data.len())
    }

    /// Appends the block; the padding only if it fits. The data must fit a block: see [`DATA_OVERHEAD`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_data_header(w, self, self.data.len());
        w.bytes(self.data);
        encode_padding(w, DATA_OVERHEAD + self.data.len());
    }

    /// Whether this block, with the TSEQ behind that of `before`, does not contradict it (spec 3.118).
    pub fn may_follow(&self, before: &Data<'_>) -> bool {
        let same_message = self.stream == before.stream
            && self.unordered == before.unordered
            && (self.unordered || self.sseq == before.sseq);
        before.fragment.may_precede(self.fragment) && (before.fragment.ends() || same_message)
    }
}

/// Appends a DATA block up to its data, which `head` need not hold. The caller appends `length` bytes and then calls
/// [`encode_padding`] with [`DATA_OVERHEAD`] plus `length`.
pub fn encode_data_header(w: &mut Writer<'_>, head: &Data<'_>, length: usize) {
    let unordered = if head.unordered { UNORDERED } else { 0 };
    let flags = head.fragment.flags() | unordered;
    encode_header(w, Data::KIND, flags, DATA_OVERHEAD - BLOCK_HEADER_LEN + length);
    w.u32(head.tseq.0);
    w.u16(head.stream);
    w.u16(head.sseq.0);
    w.u32(head.protocol);
}

#[cfg(test)]
#[path = "data/tests.rs"]
mod tests;
