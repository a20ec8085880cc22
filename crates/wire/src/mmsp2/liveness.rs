//! LIVENESS (spec 5.96): queries what arrived last on a path, and reports it, over another path.
//!
//! ```text
//! | type 0x96 | flags: 0x01 answer, 0x02 nothing received | length 16 |
//! | path (varint) |                                             query, or answer with 0x02
//! | path (varint) | largest (varint) | age in µs (varint) |      answer
//! ```

use std::time::Duration;

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

const ANSWER: u8 = 0x01;
const NOTHING: u8 = 0x02;

/// Query or report about a path that fell silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Asks for the newest packet received on the path, and its age.
    Query {
        /// The path.
        path: PathId,
    },
    /// The report.
    Answer {
        /// The path.
        path: PathId,
        /// Largest packet number received on the path, if any.
        largest: Option<u64>,
        /// Age of the newest packet when the report was made, in whole µs; zero if there was none.
        age: Duration,
    },
}

impl Liveness {
    /// Type on the wire.
    pub const KIND: u8 = 0x96;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or has flags that contradict each other.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        let known = if flags & ANSWER == 0 { 0 } else { ANSWER | NOTHING };
        check_flags(flags, known, &body)?;
        let path = body.path()?;
        let block = if flags & ANSWER == 0 {
            Self::Query { path }
        } else if flags & NOTHING == 0 {
            let largest = Some(body.varint()?);
            Self::Answer { path, largest, age: Duration::from_micros(body.varint()?) }
        } else {
            Self::Answer { path, largest: None, age: Duration::ZERO }
        };
        body.finish()?;
        Ok(block)
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let flags = match self {
            Self::Query { .. } => 0,
            Self::Answer { largest: Some(_), .. } => ANSWER,
            Self::Answer { largest: None, .. } => ANSWER | NOTHING,
        };
        encode_block(w, Self::KIND, flags, self.body_len(), |w| {
            w.varint(u64::from(self.path().0));
            if let Self::Answer { largest: Some(largest), age, .. } = self {
                w.varint(*largest);
                w.varint(micros(*age));
            }
        });
    }

    /// The path in question.
    pub fn path(&self) -> PathId {
        match self {
            Self::Query { path } | Self::Answer { path, .. } => *path,
        }
    }

    fn body_len(&self) -> usize {
        let path = varint_len(u64::from(self.path().0));
        match self {
            Self::Answer { largest: Some(largest), age, .. } => {
                path + varint_len(*largest) + varint_len(micros(*age))
            }
            Self::Query { .. } | Self::Answer { largest: None, .. } => path,
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.96
    #[test]
    fn query_and_both_reports_come_back() {
        let path = PathId(3);
        round_trip(Block::Liveness(Liveness::Query { path }));
        round_trip(Block::Liveness(Liveness::Answer { path, largest: None, age: Duration::ZERO }));
        let age = Duration::from_micros(123_456);
        round_trip(Block::Liveness(Liveness::Answer { path, largest: Some(0), age }));
    }

    // spec 5.96
    #[test]
    fn a_query_with_the_flag_nothing_received_is_refused() {
        let error = refusal(&framed(Liveness::KIND, NOTHING, &[3]));
        assert!(matches!(error, DecodeError::UnknownFlags { flags: NOTHING, .. }));
    }
}
