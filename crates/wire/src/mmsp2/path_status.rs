//! PATH-STATUS (spec 5.94): the sender's view of a path.
//!
//! ```text
//! | type 0x94 | flags 8 | length 16 |
//! | path (varint) | sequence (varint) | state 8 | cost 8 |
//! | rate (varint) |                                          with flag 0x01 only
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_len};
use crate::writer::Writer;

const RATE: u8 = 0x01;

/// Reports to the peer whether a path is worth sending on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStatus {
    /// The path.
    pub path: PathId,
    /// Counts the reports about this path; the receiver ignores one that is not higher than all before.
    pub sequence: u64,
    /// The sender's view of the path.
    pub state: PathAvailability,
    /// What traffic costs there: 0 nothing, 255 most.
    pub cost: u8,
    /// Delivery rate of what the sender of the block sends on the path, in bytes per second, below 2⁶². Sent only to an
    /// endpoint that named *rates* ([`Parameters::rates`](crate::mmsp2::Parameters::rates)).
    pub rate: Option<u64>,
}

/// How an endpoint judges a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAvailability {
    /// Carries data, or would.
    Available,
    /// Only if no available one works.
    Backup,
    /// Silent with data in flight.
    Suspect,
    /// Confirmed not to work.
    Dead,
}

impl PathAvailability {
    fn to_wire(self) -> u8 {
        match self {
            Self::Available => 0,
            Self::Backup => 1,
            Self::Suspect => 2,
            Self::Dead => 3,
        }
    }

    fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Available,
            1 => Self::Backup,
            2 => Self::Suspect,
            3 => Self::Dead,
            _ => return None,
        })
    }
}

impl PathStatus {
    /// Type on the wire.
    pub const KIND: u8 = 0x94;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or names no state.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, RATE, &body)?;
        let path = body.path()?;
        let sequence = body.varint()?;
        let offset = body.offset();
        let state = body.u8()?;
        let state = PathAvailability::from_wire(state)
            .ok_or_else(|| body.out_of_range(offset, "path state", u64::from(state)))?;
        let cost = body.u8()?;
        let rate = if flags & RATE == 0 { None } else { Some(body.varint()?) };
        body.finish()?;
        Ok(Self { path, sequence, state, cost, rate })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block. A rate beyond its range is clamped.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let flags = if self.rate.is_some() { RATE } else { 0 };
        encode_block(w, Self::KIND, flags, self.body_len(), |w| {
            w.varint(u64::from(self.path.0));
            w.varint(self.sequence);
            w.u8(self.state.to_wire());
            w.u8(self.cost);
            if let Some(rate) = self.rate {
                w.varint(rate.min(VARINT_MAX));
            }
        });
    }

    fn body_len(&self) -> usize {
        let rate = self.rate.map_or(0, |rate| varint_len(rate.min(VARINT_MAX)));
        varint_len(u64::from(self.path.0)) + varint_len(self.sequence) + 2 + rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.94
    #[test]
    fn each_state_comes_back_and_no_other_exists() {
        for state in 0..4 {
            let state = PathAvailability::from_wire(state).unwrap();
            for rate in [None, Some(0), Some(2_500_000), Some(VARINT_MAX)] {
                round_trip(Block::PathStatus(PathStatus {
                    path: PathId(2),
                    sequence: 1,
                    state,
                    cost: 9,
                    rate,
                }));
            }
        }
        let error = refusal(&framed(PathStatus::KIND, 0, &[2, 1, 4, 0]));
        assert!(matches!(error, DecodeError::OutOfRange { field: "path state", offset: 6, value: 4, .. }));
    }

    // spec 5.94
    #[test]
    fn the_flag_and_the_rate_belong_together() {
        let error = refusal(&framed(PathStatus::KIND, RATE, &[2, 1, 0, 0]));
        assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
        let error = refusal(&framed(PathStatus::KIND, 0, &[2, 1, 0, 0, 7]));
        assert!(matches!(error, DecodeError::TrailingBytes { .. }), "{error}");
    }
}
