//! STOP-SENDING (spec 5.89): asks the peer to stop sending on a stream.
//!
//! ```text
//! | type 0x89 | flags 0 | length 16 |
//! | stream (varint) | code (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Asks the peer to stop sending on a stream; it answers with RESET-STREAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSending {
    /// The stream.
    pub stream: StreamId,
    /// The application's reason.
    pub code: u64,
}

impl StopSending {
    /// Type on the wire.
    pub const KIND: u8 = 0x89;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let stream = StreamId(body.varint()?);
        let code = body.varint()?;
        body.finish()?;
        Ok(Self { stream, code })
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
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.stream.0) + varint_len(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.89
    #[test]
    fn stream_and_code_come_back() {
        round_trip(Block::StopSending(StopSending { stream: StreamId(0), code: 1 }));
    }
}
