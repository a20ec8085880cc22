//! SYN-ACK (spec 5.03): a server answers SYN.
//!
//! ```text
//! | type 0x03 | flags 0 | length 16 | nothing, or: |
//! | parameter type 16 = 0 | length 16 | INFO … | padding |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::parameter::{decode_info, encode_info, info_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Answers SYN, with the TLS answer in the same datagram or, from a server under load, alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynAck<'a> {
    /// The server's sealed state of the SYN, to be returned in PING.
    pub info: &'a [u8],
}

impl<'a> SynAck<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x03;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if there is anything but INFO and parameters that may be skipped.
    pub fn decode(flags: u8, body: Reader<'a>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        Ok(Self { info: decode_info(body)? })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(info_len(self.info))
    }

    /// Appends the block. INFO longer than 65 527 bytes does not fit a block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, info_len(self.info), |w| encode_info(w, self.info));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::{encoded, round_trip};

    // spec 5.03
    #[test]
    fn it_carries_info_or_nothing() {
        for info in [&[][..], &[1], &[1, 2, 3, 4], &[7; 200]] {
            round_trip(Block::SynAck(SynAck { info }));
        }
        assert_eq!(encoded(&Block::SynAck(SynAck { info: &[] })), [SynAck::KIND, 0, 0, 4]);
    }
}
