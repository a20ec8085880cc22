//! MAX-DATA (spec 5.85): credit of the connection.
//!
//! ```text
//! | type 0x85 | flags 0 | length 16 |
//! | credit (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Lets the peer send stream bytes up to a sum; the largest value ever received holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxData {
    /// Sum over all streams of the highest offset the peer may reach, in bytes.
    pub credit: u64,
}

impl MaxData {
    /// Type on the wire.
    pub const KIND: u8 = 0x85;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let credit = body.varint()?;
        body.finish()?;
        Ok(Self { credit })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.credit);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;
    use crate::varint::VARINT_MAX;

    // spec 5.85
    #[test]
    fn credit_of_any_size_comes_back() {
        round_trip(Block::MaxData(MaxData { credit: 0 }));
        round_trip(Block::MaxData(MaxData { credit: VARINT_MAX }));
    }
}
