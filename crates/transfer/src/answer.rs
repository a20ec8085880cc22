//! What the receiver already has of an announced file.

use crate::codec::{CodecError, Fields};

/// A prefix of a file: its length and its BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes from the start of the file, at least 1.
    pub(crate) length: u64,
    /// The hash of these bytes.
    pub(crate) hash: [u8; 32],
}

/// Answers an ENTRY. Without marks the whole file is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Which entry of the stream, counted from 0.
    pub(crate) entry: u64,
    /// The prefixes that the receiver has, the shortest first; at most [`Answer::MAX_MARKS`].
    pub(crate) marks: Vec<Mark>,
}

impl Answer {
    /// Most marks of one file.
    // transfer 4.13
    pub(crate) const MAX_MARKS: usize = 256;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.entry.to_be_bytes());
        out.extend_from_slice(&u16::try_from(self.marks.len()).unwrap_or(u16::MAX).to_be_bytes());
        for mark in &self.marks {
            out.extend_from_slice(&mark.length.to_be_bytes());
            out.extend_from_slice(&mark.hash);
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let entry = fields.u64("entry")?;
        let count = usize::from(fields.u16("number of marks")?);
        if count > Self::MAX_MARKS {
            return Err(CodecError::TooLong {
                field: "list of marks",
                length: count,
                limit: Self::MAX_MARKS,
            });
        }
        // The frame bounds what is read; no memory is reserved for a number that the peer merely claims.
        let mut marks: Vec<Mark> = Vec::new();
        for _ in 0..count {
            let mark = Mark { length: fields.u64("mark")?, hash: fields.array("hash of a mark")? };
            if mark.length <= marks.last().map_or(0, |last| last.length) {
                return Err(CodecError::Value { field: "mark", value: mark.length });
            }
            marks.push(mark);
        }
        Ok(Self { entry, marks })
    }
}

/// The lengths of the prefixes to hash of a prefix of `length` bytes, ascending; the last is `length` itself.
///
/// Every 16 MiB; farther apart in a file of more than 4 GiB, so that the list stays short: a wrong byte costs at most
/// 1/255 of the data that is there.
// transfer 4.13
pub(crate) fn places(length: u64) -> impl Iterator<Item = u64> {
    let step = (length / (Answer::MAX_MARKS as u64 - 1)).next_multiple_of(1 << 20).max(SHORTEST_STEP);
    let whole = length.saturating_sub(1) / step;
    (1..=whole).map(move |number| number * step).chain((length > 0).then_some(length))
}

const SHORTEST_STEP: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_ascend_to_the_whole_and_are_few(length in prop_oneof![0_u64..1 << 20, 0_u64..1 << 36, 0_u64..1 << 62]) {
            let places: Vec<_> = places(length).collect();
            prop_assert!(places.len() <= Answer::MAX_MARKS);
            prop_assert_eq!(places.last().copied().unwrap_or(0), length);
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            let widest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
            prop_assert!(widest <= (length / 255 + (1 << 20)).max(16 << 20));
        }
    }
}
