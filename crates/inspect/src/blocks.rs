//! The blocks of a packet with their offsets.

use manyway_wire::DecodeError;
use manyway_wire::mmsp2::{Block, Blocks};

/// A block, or a decoding error, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockAt<'a> {
    /// Where it begins, from the start of the payload.
    pub offset: usize,
    /// Bytes that it occupies, padding included.
    pub length: usize,
    /// The block. After an error nothing follows.
    pub block: Result<Block<'a>, DecodeError>,
}

/// Iterator over the blocks of a payload; see [`blocks`].
#[derive(Debug, Clone)]
pub struct BlocksAt<'a> {
    blocks: Blocks<'a>,
}

/// Iterates over the blocks of a payload.
pub fn blocks(payload: &[u8]) -> BlocksAt<'_> {
    BlocksAt { blocks: Blocks::new(payload) }
}

impl<'a> Iterator for BlocksAt<'a> {
    type Item = BlockAt<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.blocks.offset();
        let block = self.blocks.next()?;
        Some(BlockAt { offset, length: self.blocks.offset() - offset, block })
    }
}

/// The name of the TLS message that begins with this byte (RFC 8446, section 4).
pub fn handshake_message(first: u8) -> Option<&'static str> {
    Some(match first {
        1 => "ClientHello",
        2 => "ServerHello",
        4 => "NewSessionTicket",
        8 => "EncryptedExtensions",
        11 => "Certificate",
        13 => "CertificateRequest",
        15 => "CertificateVerify",
        20 => "Finished",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_offsets_and_an_error_ends_them() {
        let payload = [0x98, 0, 0, 4, 0x85, 0, 0, 5, 7, 0, 0, 0, 0xee, 0, 0, 4, 0x98, 0, 0, 4];
        let found: Vec<_> = blocks(&payload).map(|at| (at.offset, at.length, at.block.is_ok())).collect();
        assert_eq!(found, [(0, 4, true), (4, 8, true), (12, 8, false)]);
    }
}
