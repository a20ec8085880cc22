//! SYN (spec 5.02): a client requests a connection.
//!
//! ```text
//! | type 0x02 | flags 0 | length 16 | nothing, or: |
//! | parameter type 16 = 0 | length 16 | INFO … | padding |
//! ```

use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::parameter::{decode_info, encode_info, info_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Requests a connection; the TLS `ClientHello` travels beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syn<'a> {
    /// State of an earlier connection for this one; empty today.
    pub info: &'a [u8],
}

impl<'a> Syn<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 0x02;

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

    // spec 5.02
    #[test]
    fn it_carries_info_or_nothing() {
        for info in [&[][..], &[1], &[1, 2, 3, 4], &[7; 200]] {
            round_trip(Block::Syn(Syn { info }));
        }
        assert_eq!(encoded(&Block::Syn(Syn { info: &[] })), [Syn::KIND, 0, 0, 4]);
    }
}
