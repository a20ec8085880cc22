//! TCP-CONNECTIONS (spec 5.9f): how many TCP connections the server wants on each interface of the client.
//!
//! ```text
//! | type 0x9f | flags 0 | length 16 |
//! | sequence (varint) | count (varint) |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Tells the client, which alone opens paths, how many TCP connections the server wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConnections {
    /// Counts the blocks; the receiver ignores one that is not higher than all before.
    pub sequence: u64,
    /// Wanted TCP connections on each interface that uses TCP; 0 leaves the number to the client.
    pub count: u64,
}

impl TcpConnections {
    /// Type on the wire.
    pub const KIND: u8 = 0x9f;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut or too long.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let (sequence, count) = (body.varint()?, body.varint()?);
        body.finish()?;
        Ok(Self { sequence, count })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.sequence);
            w.varint(self.count);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.sequence) + varint_len(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.9f
    #[test]
    fn the_number_comes_back_and_a_longer_block_is_refused() {
        round_trip(Block::TcpConnections(TcpConnections { sequence: 1, count: 5 }));
        let error = refusal(&framed(TcpConnections::KIND, 0, &[1, 5, 0]));
        assert!(matches!(error, DecodeError::TrailingBytes { .. }), "{error}");
    }
}
