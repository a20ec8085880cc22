//! FIN, FIN-ACK and FIN-DONE (spec 3.24 to 3.26): the three steps of the close.
//!
//! ```text
//! | type 6 | flags 0 | length 16 | ack TSEQ 32 |
//! | type 7 | flags 0 | length 16 |
//! | type 8 | flags: 0x01 T | length 16 |
//! ```

use super::Tseq;
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Flag T of RST and FIN-DONE: the connection id of the packet is the tag of its sender, which is all it knows.
pub(super) const REFLECTED: u8 = 0x01;

/// Tells that all DATA of its sender are acknowledged, and asks the peer to close, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fin {
    /// The last TSEQ received in order, as in SACK.
    pub ack: Tseq,
}

impl Fin {
    /// Type on the wire.
    pub const KIND: u8 = 6;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it does not have 4 bytes.
    pub fn decode(_flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        let ack = Tseq(body.u32()?);
        body.finish()?;
        Ok(Self { ack })
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(4)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 4, |w| w.u32(self.ack.0));
    }
}

/// Answers FIN when its sender has flushed, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinAck;

impl FinAck {
    /// Type on the wire.
    pub const KIND: u8 = 7;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if there is one.
    pub fn decode(_flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        body.finish()?;
        Ok(Self)
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(0)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, 0, |_| {});
    }
}

/// Answers FIN-ACK: the close is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FinDone {
    /// Flag T: its sender has forgotten the connection, and the connection id is that of the FIN-ACK it answers.
    pub reflected: bool,
}

impl FinDone {
    /// Type on the wire.
    pub const KIND: u8 = 8;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if there is one.
    pub fn decode(flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        body.finish()?;
        Ok(Self { reflected: flags & REFLECTED != 0 })
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(0)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, if self.reflected { REFLECTED } else { 0 }, 0, |_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp1::testing::{encoded, framed, refusal, round_trip, walk};
    use crate::mmsp1::{Block, ErrorCode, Response};

    // spec 3.24
    #[test]
    fn fin_carries_the_last_tseq_in_order() {
        for ack in [0, 1, 0x7fff_ffff, u32::MAX] {
            round_trip(Block::Fin(Fin { ack: Tseq(ack) }));
        }
        assert_eq!(encoded(&Block::Fin(Fin { ack: Tseq(0x0102_0304) })), [6, 0, 0, 8, 1, 2, 3, 4]);
    }

    // spec 3.24 to 3.26
    #[test]
    fn a_step_of_the_close_with_a_wrong_length_is_refused() {
        for (kind, body) in
            [(Fin::KIND, &[][..]), (Fin::KIND, &[0; 3]), (Fin::KIND, &[0; 5]), (7, &[0]), (8, &[0; 4])]
        {
            let error = refusal(&framed(kind, 0, body));
            assert_eq!(Response::to(&error), Response::Error(ErrorCode::INVALID_FIELD), "{kind} {body:?}");
        }
    }

    // spec 3.25, 3.26
    #[test]
    fn only_flag_t_of_fin_done_has_a_meaning() {
        round_trip(Block::FinAck);
        assert_eq!(walk(&framed(FinAck::KIND, 0xff, &[])), [Ok(Block::FinAck)]);
        for (flags, reflected) in [(0, false), (0x01, true), (0xfe, false), (0xff, true)] {
            let done = Block::FinDone(FinDone { reflected });
            round_trip(done);
            assert_eq!(walk(&framed(FinDone::KIND, flags, &[])), [Ok(done)]);
        }
    }
}
