//! RESET-STREAM (spec 5.88): the sender abandons its half of a stream.
//!
//! ```text
//! | type 0x88 | flags 0 | length 16 |
//! | stream (varint) | code (varint) | final size (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Abandons the sending half of a stream; bytes not yet delivered may be thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetStream {
    /// The stream.
    pub stream: StreamId,
    /// The application's reason.
    pub code: u64,
    /// Bytes that count against the credit: the highest offset ever sent.
    pub final_size: u64,
}

impl ResetStream {
    /// Type on the wire.
    pub const KIND: u8 = 0x88;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let stream = StreamId(body.varint()?);
        let code = body.varint()?;
        let final_size = body.varint()?;
        body.finish()?;
        Ok(Self { stream, code, final_size })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.stream.0);
            w.varint(self.code);
            w.varint(self.final_size);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.stream.0) + varint_len(self.code) + varint_len(self.final_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.88
    #[test]
    fn stream_code_and_size_come_back() {
        round_trip(Block::ResetStream(ResetStream { stream: StreamId(3), code: 77, final_size: 1 << 40 }));
    }
}
