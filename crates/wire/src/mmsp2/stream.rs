//! STREAM (spec 5.82): bytes of a stream.
//!
//! ```text
//! | type 0x82 | flags: 0x01 end of stream | length 16 |
//! | stream (varint) | offset (varint) | data … |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, block_header, check_flags, encode_padding, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::{VARINT_MAX, varint_bytes, varint_len};
use crate::writer::{Gathered, Writer};

const END: u8 = 0x01;

/// A piece of a stream, identified by its offset, so that lost data can be sent in other pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamData<'a> {
    /// The stream.
    pub stream: StreamId,
    /// Where the piece begins.
    pub offset: u64,
    /// Whether the stream ends with this piece.
    pub end: bool,
    /// The bytes; none if the block only opens or ends the stream.
    pub data: &'a [u8],
}

impl<'a> StreamData<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x82;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if stream or offset are cut, or the piece ends beyond 2⁶² − 1.
    #[inline]
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, END, &body)?;
        let stream = StreamId(body.varint()?);
        let at = body.offset();
        let offset = body.varint()?;
        if body.remaining() as u64 > VARINT_MAX - offset {
            return Err(body.out_of_range(at, "offset", offset));
        }
        Ok(Self { stream, offset, end: flags & END != 0, data: body.rest() })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(stream_overhead(self.stream, self.offset) - BLOCK_HEADER_LEN + self.data.len())
    }

    /// Appends the block; the padding only if it fits. The data must fit a block: see [`stream_overhead`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_stream_header(w, self.stream, self.offset, self.data.len(), self.end);
        w.bytes(self.data);
        encode_padding(w, stream_overhead(self.stream, self.offset) + self.data.len());
    }
}

/// Bytes of a STREAM block beside its data, without padding. Together with the data they are at most 65 535.
pub fn stream_overhead(stream: StreamId, offset: u64) -> usize {
    BLOCK_HEADER_LEN + varint_len(stream.0) + varint_len(offset)
}

/// Appends a STREAM block up to its data. The caller appends `length` bytes and then calls
/// [`encode_padding`] with [`stream_overhead`] plus `length`.
pub fn encode_stream_header(w: &mut Writer<'_>, stream: StreamId, offset: u64, length: usize, end: bool) {
    let flags = if end { END } else { 0 };
    let (stream, stream_len) = varint_bytes(stream.0);
    let (offset, offset_len) = varint_bytes(offset);
    let mut header = Gathered::<20>::new();
    header.add(block_header(StreamData::KIND, flags, stream_len + offset_len + length), BLOCK_HEADER_LEN);
    header.add(stream, stream_len);
    header.add(offset, offset_len);
    header.append_to(w);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.82
    #[test]
    fn a_piece_comes_back_with_its_offset_and_end_flag() {
        for data in [&b""[..], b"a", b"abcd", &[9; 1100]] {
            for end in [false, true] {
                for offset in [0, 70, 1 << 33] {
                    round_trip(Block::Stream(StreamData { stream: StreamId(130), offset, end, data }));
                }
            }
        }
    }

    // spec 2.15: a block may fill its packet to the last byte
    #[test]
    fn a_block_that_fills_the_packet_has_no_padding() {
        let (stream, offset) = (StreamId(1), 100);
        let overhead = stream_overhead(stream, offset);
        let mut buffer = Vec::new();
        let mut w = Writer::new(&mut buffer, overhead + 6);
        encode_stream_header(&mut w, stream, offset, 6, false);
        w.bytes(&[5; 6]);
        encode_padding(&mut w, overhead + 6);
        assert_eq!(w.remaining(), 0);
        let expected = StreamData { stream, offset, end: false, data: &[5; 6] };
        assert_eq!(crate::testing::walk(&buffer), [Ok(Block::Stream(expected))]);
    }

    // spec 5.82
    #[test]
    fn bytes_beyond_the_last_offset_are_refused() {
        let body = [0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        let error = refusal(&framed(StreamData::KIND, 0, &body));
        assert!(matches!(error, DecodeError::OutOfRange { field: "offset", offset: 5, .. }));
    }
}
