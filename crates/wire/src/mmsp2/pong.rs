//! PONG (spec 5.05): the server confirms the handshake.
//!
//! ```text
//! | type 0x05 | flags 0 | length 16 = 4 |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_block};
use crate::reader::Reader;
use crate::writer::Writer;

/// Confirms that the server has authenticated its client. Then handshake keys may be dropped and the 1-RTT keys may be
/// updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pong;

impl Pong {
    /// Type on the wire.
    pub const KIND: u8 = 0x05;

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

    // spec 5.05
    #[test]
    fn it_has_no_body() {
        round_trip(Block::Pong);
        assert!(matches!(refusal(&framed(Pong::KIND, 0, &[0])), DecodeError::TrailingBytes { .. }));
    }
}
