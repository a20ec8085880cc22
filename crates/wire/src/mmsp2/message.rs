//! MESSAGE (spec 5.83): a piece of a message.
//!
//! ```text
//! | type 0x83 | flags: 0x01 E, 0x02 B, 0x04 U | length 16 |
//! | stream (varint) | number (varint) | payload protocol (varint) | data … |     with B: the message begins here
//! | stream (varint) | number (varint) | offset (varint)           | data … |     without B
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, check_flags, encode_header, encode_padding, padded_block_len};
use crate::ids::StreamId;
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

const END: u8 = 0x01;
const BEGIN: u8 = 0x02;
pub(super) const UNORDERED: u8 = 0x04;

/// Which message of a stream: ordered and unordered ones count apart, each from 0.
///
/// ```
/// use manyway_wire::mmsp2::MessageId;
/// assert!(MessageId::ordered(7) != MessageId::unordered(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// How many messages of its kind the stream had before this one, at most 2⁶² − 1.
    pub number: u64,
    /// Whether the message is delivered as soon as it is complete, regardless of earlier ones.
    pub unordered: bool,
}

impl MessageId {
    /// The ordered message of this number.
    pub const fn ordered(number: u64) -> Self {
        Self { number, unordered: false }
    }

    /// The unordered message of this number.
    pub const fn unordered(number: u64) -> Self {
        Self { number, unordered: true }
    }

    pub(super) fn flag(self) -> u8 {
        if self.unordered { UNORDERED } else { 0 }
    }
}

/// Position of a piece in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePlace {
    /// The beginning, which also names the payload protocol (MMSP, section 3.3.2.1: opaque to the transport).
    Begin {
        /// The application's identifier for the kind of content.
        protocol: u32,
    },
    /// This offset, which is not 0.
    At(u32),
}

impl MessagePlace {
    /// The position of `offset` in a message with this payload protocol.
    pub fn new(offset: u32, protocol: u32) -> Self {
        if offset == 0 { Self::Begin { protocol } } else { Self::At(offset) }
    }

    /// The offset of the piece in the message.
    pub fn offset(self) -> u32 {
        match self {
            Self::Begin { .. } => 0,
            Self::At(offset) => offset,
        }
    }

    fn value(self) -> u32 {
        match self {
            Self::Begin { protocol } => protocol,
            Self::At(offset) => offset,
        }
    }

    fn flag(self) -> u8 {
        match self {
            Self::Begin { .. } => BEGIN,
            Self::At(_) => 0,
        }
    }
}

/// A piece of a message, identified by its position, so that lost data can be sent in other pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageData<'a> {
    /// The stream.
    pub stream: StreamId,
    /// The message.
    pub message: MessageId,
    /// Position of the piece.
    pub place: MessagePlace,
    /// Whether the message ends with this piece.
    pub end: bool,
    /// The bytes; may be none.
    pub data: &'a [u8],
}

impl<'a> MessageData<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x83;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a field is cut or out of range: payload protocol and the end of the piece have 32 bits, and
    /// only a piece with B begins at 0.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, END | BEGIN | UNORDERED, &body)?;
        let stream = StreamId(body.varint()?);
        let message = MessageId { number: body.varint()?, unordered: flags & UNORDERED != 0 };
        let at = body.offset();
        let value = body.varint()?;
        let place = match u32::try_from(value) {
            Ok(protocol) if flags & BEGIN != 0 => MessagePlace::Begin { protocol },
            Ok(offset) if offset > 0 => MessagePlace::At(offset),
            Ok(_) => return Err(body.out_of_range(at, "offset", value)),
            Err(_) => {
                let field = if flags & BEGIN == 0 { "offset" } else { "payload protocol" };
                return Err(body.out_of_range(at, field, value));
            }
        };
        let room = u64::from(u32::MAX - place.offset());
        if body.remaining() as u64 > room {
            return Err(body.out_of_range(at, "offset", value));
        }
        Ok(Self { stream, message, place, end: flags & END != 0, data: body.rest() })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.overhead() - BLOCK_HEADER_LEN + self.data.len())
    }

    /// Appends the block; the padding only if it fits. The data must fit a block: see [`message_overhead`].
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_message_header(w, self, self.data.len());
        w.bytes(self.data);
        encode_padding(w, self.overhead() + self.data.len());
    }

    fn overhead(&self) -> usize {
        message_overhead(self.stream, self.message, self.place)
    }
}

/// Bytes of a MESSAGE block beside its data, without padding. Together with the data they are at most 65 535.
pub fn message_overhead(stream: StreamId, message: MessageId, place: MessagePlace) -> usize {
    let fields = [stream.0, message.number, u64::from(place.value())];
    BLOCK_HEADER_LEN + fields.into_iter().map(varint_len).sum::<usize>()
}

/// Appends a MESSAGE block up to its data, which `head` need not hold. The caller appends `length` bytes and then calls
/// [`encode_padding`] with [`message_overhead`] plus `length`.
pub fn encode_message_header(w: &mut Writer<'_>, head: &MessageData<'_>, length: usize) {
    let flags = head.message.flag() | head.place.flag() | if head.end { END } else { 0 };
    encode_header(w, MessageData::KIND, flags, head.overhead() - BLOCK_HEADER_LEN + length);
    w.varint(head.stream.0);
    w.varint(head.message.number);
    w.varint(u64::from(head.place.value()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{framed, refusal, round_trip};

    // spec 5.83
    #[test]
    fn a_piece_comes_back_with_its_position_and_flags() {
        for data in [&b""[..], b"a", b"abcd", &[9; 1100]] {
            for message in [MessageId::ordered(0), MessageId::unordered(70_000)] {
                let places = [MessagePlace::Begin { protocol: u32::MAX }, MessagePlace::At(70)];
                for (place, end) in places.into_iter().flat_map(|place| [(place, false), (place, true)]) {
                    let stream = StreamId(130);
                    round_trip(Block::Message(MessageData { stream, message, place, end, data }));
                }
            }
        }
    }

    // spec 5.83: the place 0 has one form only
    #[test]
    fn a_piece_at_0_says_that_the_message_begins() {
        assert_eq!(MessagePlace::new(0, 9), MessagePlace::Begin { protocol: 9 });
        assert_eq!(MessagePlace::new(5, 9), MessagePlace::At(5));
        let error = refusal(&framed(MessageData::KIND, 0, &[0, 0, 0, 1]));
        assert!(matches!(error, DecodeError::OutOfRange { field: "offset", value: 0, .. }));
    }

    // spec 5.83
    #[test]
    fn values_above_32_bits_are_refused() {
        let long = [0, 0, 0xc0, 0, 0, 1, 0, 0, 0, 0];
        let error = refusal(&framed(MessageData::KIND, 0, &long));
        assert!(matches!(error, DecodeError::OutOfRange { field: "offset", .. }));
        let error = refusal(&framed(MessageData::KIND, BEGIN, &long));
        assert!(matches!(error, DecodeError::OutOfRange { field: "payload protocol", .. }));
        let last = [0, 0, 0xc0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1];
        let error = refusal(&framed(MessageData::KIND, 0, &last));
        assert!(matches!(error, DecodeError::OutOfRange { field: "offset", .. }));
    }

    // spec 2.3
    #[test]
    fn a_flag_that_a_message_does_not_have_is_refused() {
        let error = refusal(&framed(MessageData::KIND, 8, &[0, 0, 1]));
        assert!(matches!(error, DecodeError::UnknownFlags { flags: 8, .. }));
    }
}
