//! SKIP (spec 5.84): messages that their sender has abandoned.
//!
//! ```text
//! | type 0x84 | flags: 0x04 U | length 16 |
//! | stream (varint) | number (varint) | reach (varint) | number | reach …      to the end of the block
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_block, padded_block_len};
use crate::ids::StreamId;
use crate::mmsp2::message::{MessageId, UNORDERED};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Lists messages that will not be completed, and how much of each counts against the credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Whether the numbers are those of unordered messages.
    pub unordered: bool,
    /// The messages.
    pub messages: SkippedMessages<'a>,
}

/// One abandoned message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// Its number.
    pub number: u64,
    /// The highest offset of it that was ever sent, at most 2³² − 1.
    pub reach: u32,
}

/// The messages of a SKIP as they stand on the wire: at least one, each of them readable.
#[derive(Debug, Clone, Copy)]
pub struct SkippedMessages<'a> {
    encoded: &'a [u8],
}

impl PartialEq for SkippedMessages<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.into_iter().eq(*other)
    }
}

impl Eq for SkippedMessages<'_> {}

impl<'a> Skip<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x84;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is cut, a reach has more than 32 bits, or no message is named.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, UNORDERED, &body)?;
        let stream = StreamId(body.varint()?);
        let mut walk = body.clone();
        loop {
            walk.varint()?;
            let at = walk.offset();
            let reach = walk.varint()?;
            if u32::try_from(reach).is_err() {
                return Err(walk.out_of_range(at, "reach", reach));
            }
            if walk.is_empty() {
                break;
            }
        }
        let messages = SkippedMessages { encoded: body.rest() };
        Ok(Self { stream, unordered: flags & UNORDERED != 0, messages })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let flag = MessageId { number: 0, unordered: self.unordered }.flag();
        encode_block(w, Self::KIND, flag, self.body_len(), |w| {
            w.varint(self.stream.0);
            for skipped in self.messages {
                put(w, skipped);
            }
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.stream.0) + self.messages.into_iter().map(entry_len).sum::<usize>()
    }
}

impl<'a> IntoIterator for SkippedMessages<'a> {
    type Item = Skipped;
    type IntoIter = SkippedIter<'a>;

    fn into_iter(self) -> SkippedIter<'a> {
        SkippedIter { reader: Reader::new(self.encoded) }
    }
}

/// Walks over the messages of a SKIP.
#[derive(Debug, Clone)]
pub struct SkippedIter<'a> {
    reader: Reader<'a>,
}

impl Iterator for SkippedIter<'_> {
    type Item = Skipped;

    fn next(&mut self) -> Option<Skipped> {
        let number = self.reader.varint().ok()?;
        let reach = u32::try_from(self.reader.varint().ok()?).ok()?;
        Some(Skipped { number, reach })
    }
}

/// Appends a SKIP with as many of `skipped` as fit, all ordered or all unordered, and returns their number. Writes
/// nothing if not even one fits.
pub fn encode_skip(
    w: &mut Writer<'_>,
    stream: StreamId,
    unordered: bool,
    skipped: impl Iterator<Item = Skipped> + Clone,
) -> usize {
    let mut body_len = varint_len(stream.0);
    let mut count = 0;
    for entry in skipped.clone() {
        let longer = body_len + entry_len(entry);
        if BLOCK_HEADER_LEN + longer > w.remaining().min(usize::from(u16::MAX)) {
            break;
        }
        body_len = longer;
        count += 1;
    }
    if count > 0 {
        let flag = MessageId { number: 0, unordered }.flag();
        encode_block(w, Skip::KIND, flag, body_len, |w| {
            w.varint(stream.0);
            skipped.take(count).for_each(|entry| put(w, entry));
        });
    }
    count
}

fn entry_len(skipped: Skipped) -> usize {
    varint_len(skipped.number) + varint_len(u64::from(skipped.reach))
}

fn put(w: &mut Writer<'_>, skipped: Skipped) {
    w.varint(skipped.number);
    w.varint(u64::from(skipped.reach));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip, walk};

    fn entries(count: u64) -> impl Iterator<Item = Skipped> + Clone {
        (0..count).map(|number| Skipped { number: number * 40, reach: 1_000 })
    }

    // spec 5.84
    #[test]
    fn the_messages_come_back() {
        let mut payload = Vec::new();
        let mut w = Writer::new(&mut payload, 1200);
        assert_eq!(encode_skip(&mut w, StreamId(5), true, entries(9)), 9);
        let [Ok(Block::Skip(skip))] = walk(&payload)[..] else { panic!("one SKIP: {payload:?}") };
        assert_eq!((skip.stream, skip.unordered), (StreamId(5), true));
        assert!(skip.messages.into_iter().eq(entries(9)));
        round_trip(Block::Skip(skip));
    }

    #[test]
    fn messages_beyond_the_room_are_left_for_another_block() {
        for room in 0..60 {
            let mut payload = Vec::new();
            let written = encode_skip(&mut Writer::new(&mut payload, room), StreamId(5), false, entries(20));
            assert!(payload.len() <= room);
            assert_eq!(written == 0, payload.is_empty());
            if let [Ok(Block::Skip(skip))] = walk(&payload)[..] {
                assert!(skip.messages.into_iter().eq(entries(20).take(written)));
            }
        }
    }

    // spec 5.84
    #[test]
    fn a_skip_names_at_least_one_complete_message() {
        for body in [&[0][..], &[0, 1], &[0, 1, 2, 3]] {
            let error = refusal(&framed(Skip::KIND, 0, body));
            assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
        }
        let error = refusal(&framed(Skip::KIND, 0, &[0, 1, 0xc0, 0, 0, 1, 0, 0, 0, 0]));
        assert!(matches!(error, DecodeError::OutOfRange { field: "reach", .. }));
    }
}
