//! RECEIVE-LIMIT (spec 5.97): how much its receiver wants in flight on a path.
//!
//! ```text
//! | type 0x97 | flags 8 | length 16 |
//! | path (varint) | sequence (varint) | window (varint) |
//! | rate (varint) |                                          with flag 0x01 only
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_len};
use crate::writer::Writer;

const RATE: u8 = 0x01;

/// Bounds what the peer has in flight on a path, and how fast it sends there, below its congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveLimit {
    /// The path.
    pub path: PathId,
    /// Counts the blocks about this path; the receiver ignores one that is not higher than all before.
    pub sequence: u64,
    /// Most bytes in flight, below 2⁶²; [`UNLIMITED`](Self::UNLIMITED) lifts the limit.
    pub window: u64,
    /// Most bytes a second, below 2⁶²; `None` does not limit the rate.
    pub rate: Option<u64>,
}

impl ReceiveLimit {
    /// Type on the wire.
    pub const KIND: u8 = 0x97;
    /// The window that limits nothing.
    pub const UNLIMITED: u64 = VARINT_MAX;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut or too long.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, RATE, &body)?;
        let (path, sequence, window) = (body.path()?, body.varint()?, body.varint()?);
        let rate = if flags & RATE == 0 { None } else { Some(body.varint()?) };
        body.finish()?;
        Ok(Self { path, sequence, window, rate })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block. A window or a rate beyond its range is clamped.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let flags = if self.rate.is_some() { RATE } else { 0 };
        encode_block(w, Self::KIND, flags, self.body_len(), |w| {
            w.varint(u64::from(self.path.0));
            w.varint(self.sequence);
            w.varint(self.window.min(VARINT_MAX));
            if let Some(rate) = self.rate {
                w.varint(rate.min(VARINT_MAX));
            }
        });
    }

    fn body_len(&self) -> usize {
        let window = varint_len(self.window.min(VARINT_MAX));
        let rate = self.rate.map_or(0, |rate| varint_len(rate.min(VARINT_MAX)));
        varint_len(u64::from(self.path.0)) + varint_len(self.sequence) + window + rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.97
    #[test]
    fn every_window_and_rate_comes_back_and_a_cut_block_is_refused() {
        for window in [0, 1, 8000, ReceiveLimit::UNLIMITED] {
            for rate in [None, Some(0), Some(100_000), Some(VARINT_MAX)] {
                round_trip(Block::ReceiveLimit(ReceiveLimit { path: PathId(3), sequence: 7, window, rate }));
            }
        }
        let error = refusal(&framed(ReceiveLimit::KIND, RATE, &[3, 7, 9]));
        assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
        let error = refusal(&framed(ReceiveLimit::KIND, 0, &[3, 7]));
        assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
    }
}
