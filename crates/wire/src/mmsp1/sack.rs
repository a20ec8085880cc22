//! SACK (spec 3.40 to 3.46): acknowledges DATA blocks, and tells how much more the receiver takes.
//!
//! ```text
//! | type 1 | flags 0 | length 16 |
//! | ack TSEQ 32 | AWS 32 | ranges 16 | duplicates 16 |
//! | start 16 | end 16 | start …                           offsets from ack TSEQ of blocks that arrived
//! | TSEQ 32 | TSEQ …                                      blocks that arrived again
//! ```

use std::ops::RangeInclusive;

use super::Tseq;
use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

const FIXED: usize = 12;
const ENTRY: usize = 4;

/// Acknowledges DATA blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sack<'a> {
    /// The last TSEQ before the first gap; before any data, the peer's initial TSEQ − 1.
    pub ack: Tseq,
    /// Advertised window size (AWS): bytes of user data behind `ack` for which the sender of this block has room,
    /// or less where small blocks take its memory.
    pub window: u32,
    /// What arrived beyond `ack`.
    pub ranges: SackRanges<'a>,
    /// Each further copy of a block that arrived since the last SACK.
    pub duplicates: Duplicates<'a>,
}

impl<'a> Sack<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 1;
    /// Most ranges that [`encode_sack`] writes. A decoder takes any number. Between paths of different delay there are
    /// hundreds of gaps, and a SACK for each datagram.
    pub const MAX_RANGES: usize = 48;
    /// Most duplicates that [`encode_sack`] writes. A decoder takes any number.
    pub const MAX_DUPLICATES: usize = 16;

    /// Reads the body and checks each range, without storing them. Ranges may overlap and have any order.
    ///
    /// # Errors
    /// [`DecodeError`] if the counts do not fit the length, or a range is inverted or begins at 0.
    pub fn decode(_flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        let ack = Tseq(body.u32()?);
        let window = body.u32()?;
        let (ranges, duplicates) = (usize::from(body.u16()?), usize::from(body.u16()?));
        let ranges = SackRanges::decode(ack, &mut body, ranges)?;
        let (duplicates, _) = body.bytes(ENTRY * duplicates)?.as_chunks();
        body.finish()?;
        Ok(Self { ack, window, ranges, duplicates: Duplicates { encoded: duplicates } })
    }

    /// Bytes on the wire, with header.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(FIXED + ENTRY * (self.ranges.encoded.len() + self.duplicates.encoded.len()))
    }

    /// Appends the block with all ranges and duplicates.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let lists = [self.ranges.encoded, self.duplicates.encoded];
        encode_block(w, Self::KIND, 0, self.encoded_len() - BLOCK_HEADER_LEN, |w| {
            encode_fixed(w, self.ack, self.window, lists.map(<[_]>::len));
            lists.iter().for_each(|list| w.bytes(list.as_flattened()));
        });
    }

    /// The highest TSEQ that it acknowledges.
    pub fn highest(&self) -> Tseq {
        let highest = self.ranges.offsets().map(|range| *range.end()).max().unwrap_or_default();
        self.ack.plus(u32::from(highest))
    }
}

/// The ranges of a SACK as they stand on the wire, each of them checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackRanges<'a> {
    ack: Tseq,
    encoded: &'a [[u8; ENTRY]],
}

impl<'a> SackRanges<'a> {
    /// The offsets from ack TSEQ, at least 1: first and last block of each range, in the order of the wire.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = RangeInclusive<u16>> + Clone + use<'a> {
        self.encoded.iter().map(|[a, b, c, d]| u16::from_be_bytes([*a, *b])..=u16::from_be_bytes([*c, *d]))
    }

    /// First and last TSEQ of each range, in the order of the wire. The last may be the smaller number: TSEQs wrap.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Tseq, Tseq)> + Clone + use<'a> {
        let ack = self.ack;
        self.offsets().map(move |range| (ack.plus((*range.start()).into()), ack.plus((*range.end()).into())))
    }

    fn decode(ack: Tseq, body: &mut Reader<'a>, count: usize) -> Result<Self, DecodeError> {
        let begin = body.offset();
        let (encoded, _) = body.bytes(ENTRY * count)?.as_chunks();
        let ranges = Self { ack, encoded };
        for (at, range) in ranges.offsets().enumerate() {
            let offset = begin + ENTRY * at;
            let (start, end) = range.into_inner();
            if start == 0 {
                return Err(body.out_of_range(offset, "start offset", 0));
            }
            if end < start {
                return Err(body.out_of_range(offset + 2, "end offset", end.into()));
            }
        }
        Ok(ranges)
    }
}

/// The TSEQs of blocks that arrived more than once, as they stand on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duplicates<'a> {
    encoded: &'a [[u8; ENTRY]],
}

impl<'a> Duplicates<'a> {
    /// Each TSEQ once for each further copy, in the order of the wire.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tseq> + Clone + use<'a> {
        self.encoded.iter().map(|bytes| Tseq(u32::from_be_bytes(*bytes)))
    }
}

/// Appends a SACK with as many of `ranges` and then of `duplicates` as fit the room, and returns their numbers. `None`
/// if there is no room for a SACK: then nothing was written.
///
/// `ranges` are offsets from `ack`, lowest first, at least 1 and not inverted. At most [`Sack::MAX_RANGES`] and
/// [`Sack::MAX_DUPLICATES`] are written. Cost: walks both lists twice, allocates nothing.
pub fn encode_sack(
    w: &mut Writer<'_>,
    ack: Tseq,
    window: u32,
    ranges: impl Iterator<Item = RangeInclusive<u16>> + Clone,
    duplicates: impl Iterator<Item = Tseq> + Clone,
) -> Option<(usize, usize)> {
    let room = w.remaining().checked_sub(BLOCK_HEADER_LEN + FIXED)? / ENTRY;
    let range_count = ranges.clone().take(room.min(Sack::MAX_RANGES)).count();
    let duplicate_count = duplicates.clone().take((room - range_count).min(Sack::MAX_DUPLICATES)).count();
    let body_len = FIXED + ENTRY * (range_count + duplicate_count);
    encode_block(w, Sack::KIND, 0, body_len, |w| {
        encode_fixed(w, ack, window, [range_count, duplicate_count]);
        for range in ranges.take(range_count) {
            w.u16(*range.start());
            w.u16(*range.end());
        }
        duplicates.take(duplicate_count).for_each(|tseq| w.u32(tseq.0));
    });
    Some((range_count, duplicate_count))
}

fn encode_fixed(w: &mut Writer<'_>, ack: Tseq, window: u32, counts: [usize; 2]) {
    w.u32(ack.0);
    w.u32(window);
    counts.into_iter().for_each(|count| w.u16(u16::try_from(count).unwrap_or(u16::MAX)));
}

#[cfg(test)]
#[path = "sack/tests.rs"]
mod tests;
