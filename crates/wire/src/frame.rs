//! The framing of every block, shared by MMSP/1 and MMSP/2, without knowledge of any block (spec 2.1 to 2.5).
//!
//! ```text
//!  0        1        2                 4
//! | type 8 | flags 8 |    length 16    | body … | 0-3 zero bytes to a multiple of 4 |
//! ```
//! `length` counts header and body, not the padding.

use crate::decode_error::{DecodeError, Part};
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of a block's header.
pub const BLOCK_HEADER_LEN: usize = 4;

/// A block before its type is interpreted.
#[derive(Debug, Clone)]
pub struct RawBlock<'a> {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Where it begins.
    pub offset: usize,
    /// What follows its header, without the padding.
    pub body: Reader<'a>,
}

/// Iterates over the raw blocks of a payload. After an error it ends.
///
/// # Example
///
/// ```
/// use manyway_wire::frame::RawBlocks;
///
/// let kinds: Vec<_> = RawBlocks::new(&[5, 0, 0, 4, 7, 0, 0, 5, 1]).map(|block| block.unwrap().kind).collect();
/// assert_eq!(kinds, [5, 7]);
/// ```
#[derive(Debug, Clone)]
pub struct RawBlocks<'a> {
    reader: Reader<'a>,
}

impl<'a> RawBlocks<'a> {
    /// Walks over `payload`, the whole inside of a packet.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }

    /// Where the next block begins; after the last one, where the trailing filler begins.
    pub fn offset(&self) -> usize {
        self.reader.offset()
    }

    /// Ends the iteration.
    pub fn stop(&mut self) {
        self.reader.rest();
    }

    #[inline]
    fn take(&mut self) -> Result<RawBlock<'a>, DecodeError> {
        let offset = self.reader.offset();
        let left = self.reader.remaining();
        let kind = self.reader.u8()?;
        let flags = self.reader.u8()?;
        let length = usize::from(self.reader.u16()?);
        // spec 2.2
        let Some(body_len) = length.checked_sub(BLOCK_HEADER_LEN).filter(|_| length <= left) else {
            return Err(DecodeError::BlockLength { kind, offset, length, left });
        };
        let body_offset = self.reader.offset();
        let body = Reader::within(Part::Block(kind), body_offset, self.reader.bytes(body_len)?);
        // spec 2.4: the last block may lack its padding, and the content of the padding is ignored
        let padding = padded(length).saturating_sub(length).min(self.reader.remaining());
        self.reader.bytes(padding)?;
        Ok(RawBlock { kind, flags, offset, body })
    }
}

impl<'a> Iterator for RawBlocks<'a> {
    type Item = Result<RawBlock<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // spec 2.5: fewer bytes than a header are filler
        if self.reader.remaining() < BLOCK_HEADER_LEN {
            return None;
        }
        let block = self.take();
        if block.is_err() {
            self.stop();
        }
        Some(block)
    }
}

impl std::iter::FusedIterator for RawBlocks<'_> {}

/// Appends the 0 to 3 zero bytes that pad a block of `block_len` bytes (header and body). Appends none if they do not
/// fit: then this was the last block.
pub fn encode_padding(w: &mut Writer<'_>, block_len: usize) {
    let padding = padded(block_len) - block_len;
    if padding <= w.remaining() {
        w.zeros(padding);
    }
}

/// `length` rounded up to a multiple of 4.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Bytes of a block whose body has `body_len`, with padding.
pub(crate) fn padded_block_len(body_len: usize) -> usize {
    padded(BLOCK_HEADER_LEN + body_len)
}

/// Type, flags and length of a block whose body has `body_len` bytes.
pub(crate) fn block_header(kind: u8, flags: u8, body_len: usize) -> [u8; BLOCK_HEADER_LEN] {
    let [high, low] = u16::try_from(BLOCK_HEADER_LEN + body_len).unwrap_or(u16::MAX).to_be_bytes();
    [kind, flags, high, low]
}

/// Appends type, flags and length of a block whose body has `body_len` bytes.
pub(crate) fn encode_header(w: &mut Writer<'_>, kind: u8, flags: u8, body_len: usize) {
    w.bytes(&block_header(kind, flags, body_len));
}

/// Appends a whole block: header, what `body` writes (`body_len` bytes), padding.
pub(crate) fn encode_block(
    w: &mut Writer<'_>,
    kind: u8,
    flags: u8,
    body_len: usize,
    body: impl FnOnce(&mut Writer<'_>),
) {
    encode_header(w, kind, flags, body_len);
    let start = w.position();
    body(w);
    debug_assert_eq!(w.position() - start, body_len, "block {kind:#04x} is not as long as it said");
    encode_padding(w, BLOCK_HEADER_LEN + body_len);
}

/// Refuses flags other than `known` (spec 2.3).
pub(crate) fn check_flags(flags: u8, known: u8, body: &Reader<'_>) -> Result<(), DecodeError> {
    let Part::Block(kind) = body.part() else { return Ok(()) };
    if flags & !known == 0 {
        return Ok(());
    }
    Err(DecodeError::UnknownFlags { kind, offset: body.offset(), flags })
}
