//! REMOVE-ADDRESS (spec 5.93): withdraws an address of the sender.
//!
//! ```text
//! | type 0x93 | flags 0 | length 16 |
//! | address id (varint) | sequence (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Withdraws an address that ADD-ADDRESS named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoveAddress {
    /// Which address.
    pub id: u64,
    /// Counts the changes of this address; only a higher one than seen before is taken.
    pub sequence: u64,
}

impl RemoveAddress {
    /// Type on the wire.
    pub const KIND: u8 = 0x93;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let id = body.varint()?;
        let sequence = body.varint()?;
        body.finish()?;
        Ok(Self { id, sequence })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.id);
            w.varint(self.sequence);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.id) + varint_len(self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.93
    #[test]
    fn id_and_sequence_come_back() {
        round_trip(Block::RemoveAddress(RemoveAddress { id: 2, sequence: 9 }));
    }
}
