//! ACK-NOW (spec 5.98): asks for an immediate acknowledgement.
//!
//! ```text
//! | type 0x98 | flags 0 | length 16 = 4 |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_block};
use crate::reader::Reader;
use crate::writer::Writer;

/// Asks for an acknowledgement of this packet without delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckNow;

impl AckNow {
    /// Type on the wire.
    pub const KIND: u8 = 0x98;

    /// Reads the body, which is empty.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not.
    pub fn decode(flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        body.finish().map(|()| Self)
    }

    /// Bytes on the wire: 4.
    pub fn encoded_len(&self) -> usize {
        BLOCK_HEADER_LEN
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 0, |_| ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.98
    #[test]
    fn it_has_no_body() {
        round_trip(Block::AckNow);
        assert!(matches!(refusal(&framed(AckNow::KIND, 0, &[0])), DecodeError::TrailingBytes { .. }));
    }
}
