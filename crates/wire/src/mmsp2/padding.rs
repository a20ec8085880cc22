//! PADDING (spec 5.9d): filler that makes a packet larger.
//!
//! ```text
//! | type 0x9d | flags 0 | length 16 | any number of zero bytes |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_header};
use crate::reader::Reader;
use crate::writer::Writer;

/// Fills a packet to an exact size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    /// Bytes to fill, with the header; if that is no multiple of 4, nothing may follow in the packet.
    pub length: usize,
}

impl Default for Padding {
    /// The shortest PADDING: 4 bytes.
    fn default() -> Self {
        Self { length: BLOCK_HEADER_LEN }
    }
}

impl Padding {
    /// Type on the wire.
    pub const KIND: u8 = 0x9d;

    /// Reads the body, whose content is ignored.
    ///
    /// # Errors
    /// [`DecodeError`] if it has flags.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        Ok(Self { length: BLOCK_HEADER_LEN + body.rest().len() })
    }

    /// Bytes on the wire: exactly [`Padding::length`].
    pub fn encoded_len(&self) -> usize {
        self.length
    }

    /// Appends exactly [`Padding::length`] bytes: a block, or bare zeros where no header fits (spec 2.5). At most
    /// 65 535.
    pub fn encode(&self, w: &mut Writer<'_>) {
        match self.length.checked_sub(BLOCK_HEADER_LEN) {
            None => w.zeros(self.length),
            Some(body_len) => {
                encode_header(w, Self::KIND, 0, body_len);
                w.zeros(body_len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::walk;

    // spec 5.9d
    #[test]
    fn it_fills_a_packet_to_the_byte() {
        for length in 0..40 {
            let mut payload = Vec::new();
            Padding { length }.encode(&mut Writer::new(&mut payload, length));
            assert_eq!(payload.len(), length);
            let blocks = walk(&payload);
            assert!(blocks == [Ok(Block::Padding)] || (length < 4 && blocks.is_empty()));
        }
    }

    // spec 5.9d
    #[test]
    fn content_is_ignored() {
        assert_eq!(walk(&[Padding::KIND, 0, 0, 8, 1, 2, 3, 4]), [Ok(Block::Padding)]);
    }
}
