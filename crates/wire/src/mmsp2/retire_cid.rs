//! RETIRE-CID (spec 5.91): retires a connection ID.
//!
//! ```text
//! | type 0x91 | flags 0 | length 16 |
//! | path (varint) | sequence (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Retires an ID that the peer issued; the peer then issues another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetireCid {
    /// Path for which the id was issued.
    pub path: PathId,
    /// Number of the id among those of the path.
    pub sequence: u64,
}

impl RetireCid {
    /// Type on the wire.
    pub const KIND: u8 = 0x91;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let path = body.path()?;
        let sequence = body.varint()?;
        body.finish()?;
        Ok(Self { path, sequence })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(u64::from(self.path.0));
            w.varint(self.sequence);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(u64::from(self.path.0)) + varint_len(self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.91
    #[test]
    fn path_and_sequence_come_back() {
        round_trip(Block::RetireCid(RetireCid { path: PathId(7), sequence: 300 }));
    }
}
