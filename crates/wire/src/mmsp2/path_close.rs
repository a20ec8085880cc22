//! PATH-CLOSE (spec 5.95): a path ends for good.
//!
//! ```text
//! | type 0x95 | flags 0 | length 16 |
//! | path (varint) | code (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Ends a path; its id is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathClose {
    /// The path.
    pub path: PathId,
    /// Why, as an [`ErrorCode`](crate::mmsp2::ErrorCode).
    pub code: u64,
}

impl PathClose {
    /// Type on the wire.
    pub const KIND: u8 = 0x95;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let path = body.path()?;
        let code = body.varint()?;
        body.finish()?;
        Ok(Self { path, code })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(u64::from(self.path.0));
            w.varint(self.code);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(u64::from(self.path.0)) + varint_len(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.95
    #[test]
    fn path_and_code_come_back() {
        round_trip(Block::PathClose(PathClose { path: PathId(u32::MAX), code: 0 }));
    }
}
