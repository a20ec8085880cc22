//! PROBE (spec 5.0b): a path challenge, which only a receiver at the address can answer.
//!
//! ```text
//! | type 0x0b | flags 0 | length 16 |
//! | nonce 64 |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Carries a nonce that the peer returns: validates an address and measures the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Random, so that only a receiver of the block can answer.
    pub nonce: u64,
}

impl Probe {
    /// Type on the wire.
    pub const KIND: u8 = 0x0b;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not 8 bytes long.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let nonce = body.u64()?;
        body.finish()?;
        Ok(Self { nonce })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(8)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 8, |w| {
            w.u64(self.nonce);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.0b
    #[test]
    fn the_nonce_comes_back() {
        round_trip(Block::Probe(Probe { nonce: 0x0102_0304_0506_0708 }));
    }
}
