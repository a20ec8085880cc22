//! PATH-ACK (spec 5.80): acknowledges packets of a path.
//!
//! ```text
//! | type 0x80 | flags: 0x01 ECN counts | length 16 |
//! | path (varint) | largest (varint) | delay in µs (varint) | receive time in µs 32 |
//! | ECT(0) (varint) | ECT(1) (varint) | CE (varint) |         with flag 0x01
//! | first length (varint) | gap (varint) | length (varint) | gap … to the end of the block
//! ```
//! Ranges as in RFC 9000, section 19.3.1: the first is `largest - first length ..= largest`; the next ends at
//! the smallest number before it minus `gap` minus 2.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_header, encode_padding, padded_block_len};
use crate::ids::PathId;
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_len};
use crate::writer::Writer;

const ECN: u8 = 0x01;

/// Acknowledges packets of one path. It may travel on any path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathAck<'a> {
    /// The path on which the packets arrived.
    pub path: PathId,
    /// Delay between the arrival of the largest packet and this acknowledgement, in whole µs.
    pub delay: Duration,
    /// When the largest packet arrived, by the receiver's clock, in µs modulo 2³². Only differences are meaningful.
    pub receive_time_micros: u32,
    /// The packets that arrived.
    pub ranges: AckRanges<'a>,
    /// ECN counts of the path, if the receiver can read the marks.
    pub ecn: Option<EcnCounts>,
}

/// Packets of a path by their mark (RFC 3168), since the path began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// Marked ECT(0).
    pub ect0: u64,
    /// Marked ECT(1).
    pub ect1: u64,
    /// Marked "congestion experienced".
    pub ce: u64,
}

impl<'a> PathAck<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x80;

    /// Reads the body and checks that every range lies above zero, without storing them.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut or a range reaches below packet 0.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, ECN, &body)?;
        let path = body.path()?;
        let largest = body.varint()?;
        let delay = Duration::from_micros(body.varint()?);
        let receive_time_micros = body.u32()?;
        let ecn = if flags & ECN == 0 {
            None
        } else {
            Some(EcnCounts { ect0: body.varint()?, ect1: body.varint()?, ce: body.varint()? })
        };
        let ranges = AckRanges::decode(largest, body)?;
        Ok(Self { path, delay, receive_time_micros, ranges, ecn })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        let steps: usize =
            Steps::new(self.ranges.iter()).map(|(jump, length)| varint_len(jump) + varint_len(length)).sum();
        padded_block_len(fixed_body_len(self.path, self.delay, self.ecn) + steps)
    }

    /// Appends the block with as many ranges as fit; with all of them if there is room for
    /// [`PathAck::encoded_len`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_path_ack(w, self.path, self.delay, self.receive_time_micros, self.ranges.iter(), self.ecn);
    }
}

/// Ranges of packet numbers, validated and still in their encoded form.
///
/// Two are equal if they cover the same numbers, whatever the length of their encoding.
#[derive(Debug, Clone, Copy)]
pub struct AckRanges<'a> {
    largest: u64,
    /// `first length, (gap, length)*`, validated.
    steps: &'a [u8],
}

impl<'a> AckRanges<'a> {
    /// Largest packet number that arrived.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The ranges, newest first; they neither touch nor overlap.
    pub fn iter(&self) -> AckRangesIter<'a> {
        AckRangesIter { reader: Reader::new(self.steps), next_largest: Some(self.largest) }
    }

    fn decode(largest: u64, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        let mut check = body.clone();
        let mut next_largest = Some(largest);
        while let Some(end) = next_largest {
            next_largest = take_range(&mut check, end)?.1;
        }
        Ok(Self { largest, steps: body.rest() })
    }
}

impl PartialEq for AckRanges<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for AckRanges<'_> {}

impl<'a> IntoIterator for AckRanges<'a> {
    type Item = RangeInclusive<u64>;
    type IntoIter = AckRangesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Takes the length of the range that ends at `end`, and where the next one ends, if there is another.
fn take_range(reader: &mut Reader<'_>, end: u64) -> Result<(RangeInclusive<u64>, Option<u64>), DecodeError> {
    let offset = reader.offset();
    let length = reader.varint()?;
    let Some(start) = end.checked_sub(length) else {
        return Err(reader.out_of_range(offset, "range length", length));
    };
    if reader.is_empty() {
        return Ok((start..=end, None));
    }
    let offset = reader.offset();
    let gap = reader.varint()?;
    let Some(next) = start.checked_sub(gap.saturating_add(2)) else {
        return Err(reader.out_of_range(offset, "gap", gap));
    };
    Ok((start..=end, Some(next)))
}

/// Iterator over [`AckRanges`], newest first.
#[derive(Debug, Clone)]
pub struct AckRangesIter<'a> {
    reader: Reader<'a>,
    next_largest: Option<u64>,
}

impl Iterator for AckRangesIter<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.next_largest.take()?;
        let (range, next) = take_range(&mut self.reader, end).ok()?;
        self.next_largest = next;
        Some(range)
    }
}

impl std::iter::FusedIterator for AckRangesIter<'_> {}

/// Appends PATH-ACK with as many of `ranges` as fit the room and the block, and returns their number. If it is 0, not
/// even one fitted or there was none, and nothing was written.
///
/// `ranges` come newest first and neither touch nor overlap; the first one that does ends the list. Cost: walks
/// `ranges` twice, allocates nothing.
pub fn encode_path_ack(
    w: &mut Writer<'_>,
    path: PathId,
    delay: Duration,
    receive_time_micros: u32,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    ecn: Option<EcnCounts>,
) -> usize {
    let room = w.remaining().min(usize::from(u16::MAX)).saturating_sub(BLOCK_HEADER_LEN);
    let mut body_len = fixed_body_len(path, delay, ecn);
    let mut count = 0;
    for (jump, length) in Steps::new(ranges.clone()) {
        let longer = body_len + varint_len(jump) + varint_len(length);
        if longer > room {
            break;
        }
        body_len = longer;
        count += 1;
    }
    if count == 0 {
        return 0;
    }
    encode_header(w, PathAck::KIND, if ecn.is_some() { ECN } else { 0 }, body_len);
    w.varint(u64::from(path.0));
    for (at, (jump, length)) in Steps::new(ranges).take(count).enumerate() {
        w.varint(jump);
        if at == 0 {
            encode_fixed_tail(w, delay, receive_time_micros, ecn);
        }
        w.varint(length);
    }
    encode_padding(w, BLOCK_HEADER_LEN + body_len);
    count
}

/// What stands between the largest number and the first length.
fn encode_fixed_tail(w: &mut Writer<'_>, delay: Duration, receive_time_micros: u32, ecn: Option<EcnCounts>) {
    w.varint(micros(delay));
    w.u32(receive_time_micros);
    if let Some(counts) = ecn {
        w.varint(counts.ect0);
        w.varint(counts.ect1);
        w.varint(counts.ce);
    }
}

/// Bytes of the body beside the largest number and the ranges.
fn fixed_body_len(path: PathId, delay: Duration, ecn: Option<EcnCounts>) -> usize {
    let counts = ecn.map_or(0, |ecn| varint_len(ecn.ect0) + varint_len(ecn.ect1) + varint_len(ecn.ce));
    varint_len(u64::from(path.0)) + varint_len(micros(delay)) + 4 + counts
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Turns ranges into the numbers on the wire: (largest, length), then (gap, length) for each further one.
#[derive(Debug, Clone)]
struct Steps<I> {
    ranges: I,
    /// Start of the range before.
    smallest: Option<u64>,
}

impl<I: Iterator<Item = RangeInclusive<u64>>> Steps<I> {
    fn new(ranges: I) -> Self {
        Self { ranges, smallest: None }
    }
}

impl<I: Iterator<Item = RangeInclusive<u64>>> Iterator for Steps<I> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let (start, end) = self.ranges.next()?.into_inner();
        let length = end.checked_sub(start).filter(|_| end <= VARINT_MAX)?;
        let jump = match self.smallest {
            None => end,
            Some(smallest) => smallest.checked_sub(end)?.checked_sub(2)?,
        };
        self.smallest = Some(start);
        Some((jump, length))
    }
}

#[cfg(test)]
#[path = "path_ack/tests.rs"]
mod tests;
