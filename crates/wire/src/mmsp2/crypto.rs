//! CRYPTO (spec 5.81): TLS bytes of the packet's own level.
//!
//! ```text
//! | type 0x81 | flags 0 | length 16 |
//! | offset (varint) | TLS bytes … |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_len};
use crate::writer::Writer;

/// A piece of a TLS byte stream; the open and the handshake level each have their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crypto<'a> {
    /// Where the piece begins in its level's byte stream.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> Crypto<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x81;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the offset is cut, or the piece ends beyond 2⁶² − 1.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let at = body.offset();
        let offset = body.varint()?;
        if body.remaining() as u64 > VARINT_MAX - offset {
            return Err(body.out_of_range(at, "offset", offset));
        }
        Ok(Self { offset, data: body.rest() })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block; the padding only if it fits. The data must fit a block: see [`crypto_overhead`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.offset);
            w.bytes(self.data);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.offset) + self.data.len()
    }
}

/// Bytes of a CRYPTO block beside its data, without padding.
pub fn crypto_overhead(offset: u64) -> usize {
    BLOCK_HEADER_LEN + varint_len(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{encoded, framed, refusal, round_trip};

    // spec 5.81
    #[test]
    fn offset_and_bytes_come_back() {
        for offset in [0, 63, 64, 1 << 20] {
            let block = Crypto { offset, data: b"hello" };
            round_trip(Block::Crypto(block));
            assert_eq!(crypto_overhead(offset) + 5, usize::from(encoded(&Block::Crypto(block))[3]));
        }
    }

    // spec 5.81
    #[test]
    fn bytes_beyond_the_last_offset_are_refused() {
        let mut body = vec![0xff; 8];
        assert_eq!(crate::testing::walk(&framed(0x81, 0, &body)).len(), 1);
        body.push(0);
        let error = refusal(&framed(0x81, 0, &body));
        assert!(matches!(error, DecodeError::OutOfRange { field: "offset", value: VARINT_MAX, .. }));
    }
}
