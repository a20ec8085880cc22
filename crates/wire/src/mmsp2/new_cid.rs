//! NEW-CID (spec 5.90): issues a connection ID for a path.
//!
//! ```text
//! | type 0x90 | flags 0 | length 16 |
//! | path (varint) | sequence (varint) | retire prior to (varint) | id 64 | reset token 128 |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::ids::{ConnectionId, PathId};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Issues a connection ID under which the peer addresses the sender on one path (as in RFC 9000, section 19.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewCid {
    /// The path of the ID.
    pub path: PathId,
    /// Counts the ids of the path from 0.
    pub sequence: u64,
    /// The peer must retire the path's IDs with a lower number; at most `sequence`.
    pub retire_prior_to: u64,
    /// The id, of [`ConnectionId::LENGTH`] bytes.
    pub id: ConnectionId,
    /// The last bytes of a stateless reset for this ID.
    pub reset_token: [u8; 16],
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
        let id = ConnectionId::from_u64(body.u64()?);
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
            w.u64(self.id.leading_u64());
            w.bytes(&self.reset_token);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(u64::from(self.path.0))
            + varint_len(self.sequence)
            + varint_len(self.retire_prior_to)
            + ConnectionId::LENGTH
            + self.reset_token.len()
    }
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

    // spec 5.90
    #[test]
    fn an_id_that_retires_itself_is_refused() {
        let error = refusal(&encoded(&Block::NewCid(sample(1, 2))));
        assert!(matches!(error, DecodeError::OutOfRange { field: "retire prior to", value: 2, .. }));
    }
}
