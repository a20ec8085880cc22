//! PATH-LIMIT (spec 5.9e): how far path ids may count.
//!
//! ```text
//! | type 0x9e | flags 0 | length 16 |
//! | limit (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Lets the peer use path ids up to a number; the largest value ever received holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLimit {
    /// Highest path id allowed.
    pub limit: u32,
}

impl PathLimit {
    /// Type on the wire.
    pub const KIND: u8 = 0x9e;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let limit = body.path()?.0;
        body.finish()?;
        Ok(Self { limit })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(u64::from(self.limit));
        });
    }

    fn body_len(&self) -> usize {
        varint_len(u64::from(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.9e
    #[test]
    fn the_limit_comes_back() {
        round_trip(Block::PathLimit(PathLimit { limit: 7 }));
        round_trip(Block::PathLimit(PathLimit { limit: u32::MAX }));
    }
}
