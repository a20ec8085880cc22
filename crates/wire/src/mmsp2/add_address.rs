//! ADD-ADDRESS (spec 5.92): the sender names an address of its own.
//!
//! ```text
//! | type 0x92 | flags 0 | length 16 |
//! | address id (varint) | sequence (varint) | priority 8 | cost 8 | port 16 | address 128 |
//! ```

use std::net::SocketAddr;

use crate::address::{SOCKET_ADDRESS_LEN, decode_socket_address, encode_socket_address};
use crate::decode_error::DecodeError;
use crate::frame::{check_flags, encode_block, padded_block_len};
use crate::reader::Reader;
use crate::varint::varint_len;
use crate::writer::Writer;

/// Names an address at which its sender can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddAddress {
    /// Names the address in later blocks.
    pub id: u64,
    /// Counts the changes of this address; only a higher one than seen before is taken.
    pub sequence: u64,
    /// Which address to try first: the higher one.
    pub priority: u8,
    /// What traffic costs there: 0 nothing, 255 most.
    pub cost: u8,
    /// Address and port; an IPv4 address travels as IPv4-mapped IPv6.
    pub address: SocketAddr,
}

impl AddAddress {
    /// Type on the wire.
    pub const KIND: u8 = 0x92;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if it is cut or too long.
    pub fn decode(flags: u8, mut body: Reader<'_>) -> Result<Self, DecodeError> {
        check_flags(flags, 0, &body)?;
        let id = body.varint()?;
        let sequence = body.varint()?;
        let priority = body.u8()?;
        let cost = body.u8()?;
        let address = decode_socket_address(&mut body)?;
        body.finish()?;
        Ok(Self { id, sequence, priority, cost, address })
    }

    /// Bytes on the wire, with header and padding.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.body_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.body_len(), |w| {
            w.varint(self.id);
            w.varint(self.sequence);
            w.u8(self.priority);
            w.u8(self.cost);
            encode_socket_address(w, self.address);
        });
    }

    fn body_len(&self) -> usize {
        varint_len(self.id) + varint_len(self.sequence) + 2 + SOCKET_ADDRESS_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mmsp2::Block;
    use crate::testing::round_trip;

    // spec 5.92
    #[test]
    fn every_field_comes_back() {
        for address in ["198.51.100.9:1", "[2001:db8::9]:443"] {
            let address = address.parse().unwrap();
            round_trip(Block::AddAddress(AddAddress {
                id: 1,
                sequence: 70,
                priority: 200,
                cost: 3,
                address,
            }));
        }
    }
}
