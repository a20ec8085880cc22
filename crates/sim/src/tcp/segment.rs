//! Segments as they travel: in a UDP datagram, but with as many bytes on a link as one of TCP.

use std::ops::Range;

/// What a segment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It carries data.
    Data,
    /// It carries ranges that arrived early.
    Ack,
    /// It ends the connection.
    Reset,
    /// It begins the connection.
    Open,
}

/// The fields of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// The number of its first byte of data.
    pub(crate) begin: u64,
    /// Every byte before this one has arrived.
    pub(crate) ack: u64,
    /// So many bytes from there on may be sent, rounded up to [`WINDOW_UNIT`]; [`NO_LIMIT`] if that is not limited.
    pub(crate) window: u64,
}

/// The unit of receive windows, as by Linux's usual window scale.
pub(crate) const WINDOW_UNIT: u64 = 128;
/// A receive window that limits nothing.
pub(crate) const NO_LIMIT: u64 = u64::MAX;
/// How [`NO_LIMIT`] is written.
const UNLIMITED: u32 = 0xFF_FFFF;

impl Header {
    /// Bytes of the fields. With the headers of IP and UDP these are those of IP and of TCP with timestamps.
    pub(crate) const LENGTH: usize = 24;
    /// Most ranges in an acknowledgement beside timestamps (RFC 2018).
    pub(crate) const MOST_RANGES: usize = 3;
    /// Bytes before the ranges: kind and length of the option, and alignment.
    const OPTION: usize = 4;
    const CHECKSUM: Range<usize> = 17..21;

    /// Writes a segment into an empty buffer.
    pub(crate) fn write(self, data: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Ack => 1,
            Kind::Reset => 2,
            Kind::Open => 3,
        };
        out.push(kind);
        out.extend_from_slice(&self.begin.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        // The checksum follows.
        out.extend_from_slice(&[0; 4]);
        let window =
            u32::try_from(self.window.div_ceil(WINDOW_UNIT)).map_or(UNLIMITED, |units| units.min(UNLIMITED));
        out.extend_from_slice(window.to_be_bytes().get(1..).unwrap_or_default());
        out.extend(data);
        let sum = sum(out).to_be_bytes();
        if let Some(field) = out.get_mut(Self::CHECKSUM) {
            field.copy_from_slice(&sum);
        }
    }

    /// Writes an acknowledgement with the first of these ranges, which lie beyond what it acknowledges.
    pub(crate) fn write_ack(self, early: impl Iterator<Item = Range<u64>>, out: &mut Vec<u8>) {
        let mut option = Vec::new();
        for range in early.take(Self::MOST_RANGES) {
            option.resize(option.len().max(Self::OPTION), 0);
            for edge in [range.start, range.end] {
                let offset = u32::try_from(edge.saturating_sub(self.ack)).unwrap_or(u32::MAX);
                option.extend_from_slice(&offset.to_be_bytes());
            }
        }
        self.write(option.into_iter(), out);
    }

    /// Reads the fields; returns them with what follows, `None` if the segment is damaged.
    pub(crate) fn read(segment: &[u8]) -> Option<(Self, &[u8])> {
        let field = segment.get(Self::CHECKSUM)?;
        let own: u32 = field.iter().map(|byte| u32::from(*byte)).sum();
        if sum(segment).wrapping_sub(own).to_be_bytes() != *field {
            return None;
        }
        let (fields, rest) = segment.split_first_chunk::<{ Self::LENGTH }>()?;
        let kind = match fields.first()? {
            0 => Kind::Data,
            1 => Kind::Ack,
            2 => Kind::Reset,
            3 => Kind::Open,
            _ => return None,
        };
        let number = |at: usize| Some(u64::from_be_bytes(fields.get(at..at + 8)?.try_into().ok()?));
        let window = match fields.last_chunk().map(|field| u32::from_be_bytes(*field) & UNLIMITED)? {
            UNLIMITED => NO_LIMIT,
            units => u64::from(units) * WINDOW_UNIT,
        };
        Some((Self { kind, begin: number(1)?, ack: number(9)?, window }, rest))
    }

    /// The ranges of an acknowledgement, from what follows its fields.
    pub(crate) fn ranges(self, rest: &[u8]) -> impl Iterator<Item = Range<u64>> + '_ {
        let ranges = rest.get(Self::OPTION..).unwrap_or_default();
        ranges.chunks_exact(8).filter_map(move |range| {
            let edge = |at: usize| {
                let offset = u32::from_be_bytes(range.get(at..at + 4)?.try_into().ok()?);
                self.ack.checked_add(u64::from(offset))
            };
            Some(edge(0)?..edge(4)?)
        })
    }
}

/// The sum of all bytes: a flipped bit changes it.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| u32::from(*byte)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_has_the_size_of_one_of_tcp_and_keeps_three_ranges() {
        let header = Header { kind: Kind::Ack, begin: 7, ack: 1 << 40, window: NO_LIMIT };
        let early = [1_u64, 3, 5, 7].map(|at| (header.ack + at)..(header.ack + at + 1));
        for (count, length) in [(0, 24), (1, 36), (2, 44), (3, 52), (4, 52)] {
            let mut segment = Vec::new();
            header.write_ack(early.iter().take(count).cloned(), &mut segment);
            assert_eq!(segment.len(), length, "{count} ranges");
            let (read, rest) = Header::read(&segment).unwrap();
            assert_eq!(read, header);
            assert!(read.ranges(rest).eq(early.iter().take(count.min(3)).cloned()));
        }
        assert_eq!(Header::read(&[0; 23]), None);
    }

    #[test]
    fn a_segment_with_a_flipped_bit_is_refused() {
        let mut segment = Vec::new();
        let header = Header { kind: Kind::Data, begin: 3, ack: 700, window: 8_000 };
        header.write([5; 100].into_iter(), &mut segment);
        for bit in 0..segment.len() * 8 {
            let mut damaged = segment.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&damaged), None, "bit {bit}");
        }
        let (read, _) = Header::read(&segment).unwrap();
        assert_eq!(read, Header { window: 8_064, ..header }, "windows are rounded up");
    }
}
