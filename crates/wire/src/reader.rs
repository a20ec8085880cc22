//! Decodes values from bytes of a peer, big-endian, within their bounds.

use crate::decode_error::{DecodeError, Part};
use crate::ids::PathId;

/// Reads from the front of a slice; every error names the offset and the missing bytes.
///
/// # Example
///
/// ```
/// let mut reader = manyway_wire::Reader::new(&[0x40, 0x25, 7]);
/// assert_eq!(reader.varint(), Ok(0x25));
/// assert_eq!(reader.u8(), Ok(7));
/// assert!(reader.u16().is_err());
/// ```
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    part: Part,
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`; errors count offsets from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::within(Part::Bytes, 0, bytes)
    }

    /// Reads `bytes`, the inside of `part`, which begins at offset `offset` as errors count it.
    pub fn within(part: Part, offset: usize, bytes: &'a [u8]) -> Self {
        Self { bytes, part, offset }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The part being read, for errors.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if none is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_be_bytes)
    }

    /// Takes two bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes four bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes eight bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Takes an integer of 1, 2, 4 or 8 bytes (RFC 9000, section 16); the shortest form is not required.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if its first byte announces more bytes than are left.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = self.bytes.first().copied().unwrap_or_default();
        match first >> 6 {
            0 => self.u8().map(u64::from),
            1 => self.u16().map(|value| u64::from(value & 0x3fff)),
            2 => self.u32().map(|value| u64::from(value & 0x3fff_ffff)),
            _ => self.u64().map(|value| value & 0x3fff_ffff_ffff_ffff),
        }
    }

    /// Takes `count` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((head, tail)) = self.bytes.split_at_checked(count) else {
            return Err(self.truncated(count));
        };
        self.bytes = tail;
        self.offset += count;
        Ok(head)
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((head, tail)) = self.bytes.split_first_chunk::<N>() else {
            return Err(self.truncated(N));
        };
        self.bytes = tail;
        self.offset += N;
        Ok(*head)
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes;
        self.offset += rest.len();
        self.bytes = &[];
        rest
    }

    /// Checks that nothing is left.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] if something is.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(DecodeError::TrailingBytes { part: self.part, offset: self.offset, left: self.bytes.len() })
    }

    /// Takes the number of a path: a varint below 2³².
    pub(crate) fn path(&mut self) -> Result<PathId, DecodeError> {
        let offset = self.offset;
        let value = self.varint()?;
        u32::try_from(value).map(PathId).map_err(|_| DecodeError::OutOfRange {
            part: self.part,
            offset,
            field: "path",
            value,
        })
    }

    /// The error for a value out of range that was taken at `offset`.
    pub(crate) fn out_of_range(&self, offset: usize, field: &'static str, value: u64) -> DecodeError {
        DecodeError::OutOfRange { part: self.part, offset, field, value }
    }

    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::Truncated { part: self.part, offset: self.offset, needed, left: self.bytes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_consumes_nothing() {
        let mut reader = Reader::within(Part::Block(0x82), 10, &[1, 2, 3]);
        let error = reader.u32().unwrap_err();
        assert_eq!(error, DecodeError::Truncated { part: Part::Block(0x82), offset: 10, needed: 4, left: 3 });
        assert_eq!(reader.u16(), Ok(0x0102));
        assert_eq!(reader.offset(), 12);
        assert_eq!(reader.rest(), &[3]);
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn left_over_bytes_are_reported_with_their_offset() {
        let mut reader = Reader::new(&[1, 2, 3]);
        reader.u8().unwrap();
        let error = reader.finish().unwrap_err();
        assert_eq!(error, DecodeError::TrailingBytes { part: Part::Bytes, offset: 1, left: 2 });
    }

    #[test]
    fn a_path_number_has_at_most_32_bits() {
        let bytes = [0xc0, 0, 0, 1, 0, 0, 0, 0];
        let error = Reader::new(&bytes).path().unwrap_err();
        assert!(matches!(error, DecodeError::OutOfRange { field: "path", value: 0x1_0000_0000, .. }));
    }
}
