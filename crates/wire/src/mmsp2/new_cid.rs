//! NEW-CID (spec 5.90): issues a connection ID for a path.
//!
//! ```text
//! | type 0x90 | flags 0 | length 16 |
//! | path (varint) | sequence (varint) | retire prior to (varint) | id 64-160 | reset token 128 |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::{ConnectionId, PathId};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

const RESET_TOKEN_LENGTH: usize = 16;

/// Issues a connection ID under which the peer addresses the sender on one path (as in RFC 9000, section 19.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCid {
    /// The path of the ID.
    pub path: PathId,
    /// Counts the ids of the path from 0.
    pub sequence: u64,
    /// The peer must retire the path's IDs with a lower number; at most `sequence`.
    pub retire_prior_to: u64,
    /// The id, of [`MIN_ISSUED`](ConnectionId::MIN_ISSUED) to [`MAX_LENGTH`](ConnectionId::MAX_LENGTH) bytes.
    pub id: ConnectionId,
    /// The last bytes of a stateless reset for this ID.
    pub reset_token: [u8; RESET_TOKEN_LENGTH],
}

impl NewCid {
    /// Type on the wire.
    pub const KIND: u8 = 0x90;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut, too long or retires the ID that it issues.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let path = body.path()?;
        let sequence = body.varint()?;
        let offset = body.offset();
        let retire_prior_to = body.varint()?;
        if retire_prior_to > sequence {
            return Err(body.out_of_range(offset, "retire prior to", retire_prior_to));
        }
        let id = take_id(&mut body)?;
        let reset_token = body.array()?;
        body.finish()?;
        Ok(Self { path, sequence, retire_prior_to, id, reset_token })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(u64::from(self.path.0));
            w.varint(self.sequence);
            w.varint(self.retire_prior_to);
            w.bytes(self.id.as_slice());
            w.bytes(&self.reset_token);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(u64::from(self.path.0))
            + varint_len(self.sequence)
            + varint_len(self.retire_prior_to)
            + self.id.as_slice().len()
            + self.reset_token.len()
    }
}

/// Reads an ID, which extends to the reset token at the end of the body.
fn take_id(body: &mut Reader<'_>) -> Result<ConnectionId, DecodeError> {
    let length = body.remaining().saturating_sub(RESET_TOKEN_LENGTH).max(ConnectionId::MIN_ISSUED);
    let offset = body.offset();
    ConnectionId::from_slice(body.bytes(length)?)
        .ok_or_else(|| body.out_of_range(offset, "connection id length", length as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{encoded, refusal, round_trip};

    fn sample(sequence: u64, retire_prior_to: u64) -> NewCid {
        let id = ConnectionId::from_u64(0x1122_3344_5566_7788);
        NewCid { path: PathId(1), sequence, retire_prior_to, id, reset_token: [0xab; 16] }
    }

    // spec 5.90
    #[test]
    fn every_field_comes_back() {
        round_trip(Block::NewCid(sample(100, 99)));
        round_trip(Block::NewCid(sample(0, 0)));
    }

    // spec 4.2, 5.90
    #[test]
    fn ids_of_8_to_20_bytes_come_back_and_others_are_refused() {
        for length in 0..=24 {
            let id = ConnectionId::from_slice(&vec![7; length.min(20)]).unwrap();
            let block = NewCid { id, ..sample(1, 0) };
            if (8..=20).contains(&length) {
                round_trip(Block::NewCid(block));
                continue;
            }
            let mut bytes = Vec::new();
            encode_block(&mut Writer::new(&mut bytes, 100), NewCid::KIND, 0, 3 + length + 16, |w| {
                w.bytes(&vec![0; 3 + length + 16]);
            });
            let error = refusal(&bytes);
            if length < 8 {
                assert!(matches!(error, DecodeError::Truncated { .. }), "{length}: {error}");
            } else {
                let value = length as u64;
                let field = "connection id length";
                assert!(
                    matches!(error, DecodeError::OutOfRange { field: f, value: v, .. } if (f, v) == (field, value))
                );
            }
        }
    }

    // spec 5.90
    #[test]
    fn an_id_that_retires_itself_is_refused() {
        let error = refusal(&encoded(&Block::NewCid(sample(1, 2))));
        assert!(matches!(error, DecodeError::OutOfRange { field: "retire prior to", value: 2, .. }));
    }
}
