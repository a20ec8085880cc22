//! BLOCKED (spec 5.8a): names the limit that blocks the sender.
//!
//! ```text
//! | type 0x8a | flags 0 | length 16 |
//! | 0 | limit (varint) |                        credit of the connection, in bytes
//! | 1 | stream (varint) | limit (varint) |      credit of a stream, in bytes
//! | 2 | limit (varint) |                        number of streams
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

const CONNECTION: u8 = 0;
const STREAM: u8 = 1;
const STREAMS: u8 = 2;

/// Reports that the sender has more to send than a limit allows. The peer may tune its windows by it, and sees when to
/// grant credit again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// The limit.
    pub by: BlockedBy,
}

/// A limit that blocks a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedBy {
    /// Credit of the connection.
    Connection {
        /// The exhausted limit, in bytes.
        limit: u64,
    },
    /// Credit of a stream.
    Stream {
        /// The stream.
        stream: StreamId,
        /// The exhausted limit, in bytes.
        limit: u64,
    },
    /// Number of streams.
    Streams {
        /// The exhausted limit.
        limit: u64,
    },
}

impl Blocked {
    /// Type on the wire.
    pub const KIND: u8 = 0x8a;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or names no limit.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let offset = body.offset();
        let by = match body.u8()? {
            CONNECTION => BlockedBy::Connection { limit: body.varint()? },
            STREAM => BlockedBy::Stream { stream: StreamId(body.varint()?), limit: body.varint()? },
            STREAMS => BlockedBy::Streams { limit: body.varint()? },
            other => return Err(body.out_of_range(offset, "limit kind", u64::from(other))),
        };
        body.finish()?;
        Ok(Self { by })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| match self.by {
            BlockedBy::Connection { limit } => {
                w.u8(CONNECTION);
                w.varint(limit);
            }
            BlockedBy::Stream { stream, limit } => {
                w.u8(STREAM);
                w.varint(stream.0);
                w.varint(limit);
            }
            BlockedBy::Streams { limit } => {
                w.u8(STREAMS);
                w.varint(limit);
            }
        });
    }

    fn body_len(&self) -> usize {
        1 + match self.by {
            BlockedBy::Connection { limit } | BlockedBy::Streams { limit } => varint_len(limit),
            BlockedBy::Stream { stream, limit } => varint_len(stream.0) + varint_len(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.8a
    #[test]
    fn each_limit_comes_back_and_no_other_exists() {
        for by in [
            BlockedBy::Connection { limit: 1 << 20 },
            BlockedBy::Stream { stream: StreamId(4), limit: 9 },
            BlockedBy::Streams { limit: 256 },
        ] {
            round_trip(Block::Blocked(Blocked { by }));
        }
        let error = refusal(&framed(Blocked::KIND, 0, &[3, 1]));
        assert!(matches!(error, DecodeError::OutOfRange { field: "limit kind", value: 3, .. }));
    }
}
