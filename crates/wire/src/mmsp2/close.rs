//! CLOSE (spec 5.9b): the end of the connection, in steps.
//!
//! ```text
//! | type 0x9b | flags 0 | length 16 |
//! | step 8: 0 FIN, 1 FIN-ACK, 2 FIN-DONE, 3 ABORT | code (varint) | text, 0-512 bytes |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Ends the connection; in an Initial packet, only the connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close<'a> {
    /// The step of the close.
    pub step: CloseStep,
    /// Why, as an [`ErrorCode`](crate::mmsp2::ErrorCode).
    pub code: u64,
    /// The reason for people, UTF-8 unless the peer is careless; at most [`Close::MAX_TEXT`] bytes.
    pub text: &'a [u8],
}

/// A step of the close. The names are those of the blocks of MMSP; ABORT is its RST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseStep {
    /// The sender will write no new data; both ends flush.
    Fin,
    /// The sender has flushed too.
    FinAck,
    /// The close is complete.
    FinDone,
    /// Ends at once; unsent data is lost.
    Abort,
}

impl CloseStep {
    fn to_wire(self) -> u8 {
        match self {
            Self::Fin => 0,
            Self::FinAck => 1,
            Self::FinDone => 2,
            Self::Abort => 3,
        }
    }

    fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Fin,
            1 => Self::FinAck,
            2 => Self::FinDone,
            3 => Self::Abort,
            _ => return None,
        })
    }
}

impl<'a> Close<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x9b;
    /// Longest text, in bytes.
    pub const MAX_TEXT: usize = 512;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, names no step or its text is too long.
    pub fn decode(flags: u8, mut body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let offset = body.offset();
        let step = body.u8()?;
        let step = CloseStep::from_wire(step)
            .ok_or_else(|| body.out_of_range(offset, "close step", u64::from(step)))?;
        let code = body.varint()?;
        let length = body.remaining();
        if length > Self::MAX_TEXT {
            return Err(body.out_of_range(body.offset(), "text length", length as u64));
        }
        Ok(Self { step, code, text: body.rest() })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block, with the first [`Close::MAX_TEXT`] bytes of the text.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.u8(self.step.to_wire());
            w.varint(self.code);
            w.bytes(self.cut_text());
        });
    }

    fn body_len(&self) -> usize {
        1 + varint_len(self.code) + self.cut_text().len()
    }

    fn cut_text(&self) -> &'a [u8] {
        self.text.get(..Self::MAX_TEXT).unwrap_or(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{encoded, framed, refusal, round_trip, walk};

    // spec 5.9b
    #[test]
    fn each_step_comes_back_and_no_other_exists() {
        for step in [CloseStep::Fin, CloseStep::FinAck, CloseStep::FinDone, CloseStep::Abort] {
            round_trip(Block::Close(Close { step, code: 0x1000, text: b"done" }));
            round_trip(Block::Close(Close { step, code: 0, text: b"" }));
        }
        let error = refusal(&framed(Close::KIND, 0, &[4, 0]));
        assert!(matches!(error, DecodeError::OutOfRange { field: "close step", value: 4, .. }));
    }

    // spec 5.9b
    #[test]
    fn text_is_cut_at_512_bytes_and_more_is_refused() {
        let text = [b'x'; 513];
        let payload = encoded(&Block::Close(Close { step: CloseStep::Abort, code: 1, text: &text }));
        let expected = Close { step: CloseStep::Abort, code: 1, text: &text[..512] };
        assert_eq!(walk(&payload), [Ok(Block::Close(expected))]);
        let error = refusal(&framed(Close::KIND, 0, &[&[3, 1], &text[..]].concat()));
        assert!(matches!(error, DecodeError::OutOfRange { field: "text length", value: 513, .. }));
    }
}
