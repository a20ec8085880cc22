//! The value of the parameters of PROBE and PROBE-ACK (spec 3.38).
//!
//! ```text
//! | sent time in µs 64 | path 16 | family 16: 4 or 6 | address 128 | nonce 64 | MAC 64 |
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::decode_error::DecodeError;
use crate::reader::Reader;

const V4: u16 = 4;
const V6: u16 = 6;

/// What a PROBE, and a PROBE-ACK for itself, says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeData {
    /// When the block was sent by the clock of its sender, in µs since a time of its choice.
    pub sent_micros: u64,
    /// The number that the sender of the block gave to the path.
    pub path: u16,
    /// In a PROBE the address to which it goes; in a PROBE-ACK the address of its sender.
    pub address: IpAddr,
    /// Random, and not used twice.
    pub nonce: u64,
    /// Message authentication code over what stands before it. Only its maker checks it.
    pub mac: u64,
}

impl ProbeData {
    /// Bytes on the wire.
    pub const LEN: usize = 44;
    /// Bytes before the MAC, which it covers.
    pub const COVERED: usize = Self::LEN - 8;

    /// The bytes on the wire; the first [`Self::COVERED`] of them are what the MAC covers.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let (family, address) = match self.address {
            IpAddr::V4(address) => (V4, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (V6, address.to_bits()),
        };
        let mut bytes = [0; Self::LEN];
        let mut rest = &mut bytes[..];
        put(&mut rest, self.sent_micros.to_be_bytes());
        put(&mut rest, self.path.to_be_bytes());
        put(&mut rest, family.to_be_bytes());
        put(&mut rest, address.to_be_bytes());
        put(&mut rest, self.nonce.to_be_bytes());
        put(&mut rest, self.mac.to_be_bytes());
        bytes
    }

    pub(super) fn decode(value: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (sent_micros, path) = (value.u64()?, value.u16()?);
        let offset = value.offset();
        let family = value.u16()?;
        let address = value.array::<16>()?;
        let address = match (family, address.as_chunks::<4>().0) {
            (V4, [v4, [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]) => IpAddr::V4(Ipv4Addr::from(*v4)),
            (V4, _) => return Err(value.out_of_range(offset + 6, "rest of the address", 1)),
            (V6, _) => IpAddr::V6(Ipv6Addr::from(address)),
            (family, _) => return Err(DecodeError::AddressFamily { offset, family }),
        };
        Ok(Self { sent_micros, path, address, nonce: value.u64()?, mac: value.u64()? })
    }
}

/// Writes `field` to the front of `rest`, and goes on behind it.
fn put<const N: usize>(rest: &mut &mut [u8], field: [u8; N]) {
    if let Some((front, tail)) = std::mem::take(rest).split_first_chunk_mut() {
        *front = field;
        *rest = tail;
    }
}
