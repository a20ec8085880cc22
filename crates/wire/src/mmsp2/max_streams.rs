//! MAX-STREAMS (spec 5.87): how many streams the peer may open.
//!
//! ```text
//! | type 0x87 | flags 0 | length 16 |
//! | count (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Lets the peer open streams up to a number; the largest value ever received holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxStreams {
    /// Streams that the peer may open in total since the connection began, at most 2⁶⁰.
    pub count: u64,
}

impl MaxStreams {
    /// Type on the wire.
    pub const KIND: u8 = 0x87;
    /// Highest count: ids are varints with one bit for the opener.
    pub const MAX: u64 = 1 << 60;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let offset = body.offset();
        let count = body.varint()?;
        if count > Self::MAX {
            return Err(body.out_of_range(offset, "stream count", count));
        }
        body.finish()?;
        Ok(Self { count })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.count);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.87
    #[test]
    fn count_comes_back() {
        round_trip(Block::MaxStreams(MaxStreams { count: 1 << 60 }));
    }

    // spec 5.87: a higher count would leave no varint for the id of the last stream
    #[test]
    fn a_count_without_ids_is_refused() {
        let mut body = Vec::new();
        Writer::new(&mut body, 8).varint((1 << 60) + 1);
        let error = refusal(&framed(MaxStreams::KIND, 0, &body));
        assert!(matches!(error, DecodeError::OutOfRange { field: "stream count", .. }));
    }
}
