//! MAX-STREAM-DATA (spec 5.86): credit of one stream.
//!
//! ```text
//! | type 0x86 | flags 0 | length 16 |
//! | stream (varint) | credit (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Lets the peer send on a stream up to an offset; the largest value ever received holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxStreamData {
    /// The stream.
    pub stream: StreamId,
    /// First offset that the peer may not send, in bytes.
    pub credit: u64,
}

impl MaxStreamData {
    /// Type on the wire.
    pub const KIND: u8 = 0x86;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has a value out of range.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let stream = StreamId(body.varint()?);
        let credit = body.varint()?;
        body.finish()?;
        Ok(Self { stream, credit })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.stream.0);
            w.varint(self.credit);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.stream.0) + varint_len(self.credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.86
    #[test]
    fn stream_and_credit_come_back() {
        round_trip(Block::MaxStreamData(MaxStreamData { stream: StreamId(5), credit: 1 << 20 }));
    }
}
