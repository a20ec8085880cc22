//! PROBE and PROBE-ACK (spec 3.38, 3.39): does an address answer, and how fast?
//!
//! ```text
//! | type 11 | flags 0 | length 16 | parameter 0x0010 |
//! | type 12 | flags 0 | length 16 | parameter 0x0011: the value of the PROBE | parameter 0x0010 |
//! value:  | sent time in µs 64 | path 16 | family 16 | address 128 | nonce 64 | MAC 64 |
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::parameters::{PROBE_DATA, PROBE_ECHO, Parameters, encode_list};
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of the bodies: parameters of 4 + 44 bytes.
const PROBE_LEN: usize = 48;
const PROBE_ACK_LEN: usize = 2 * PROBE_LEN;

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
            (family, _) => return Err(value.out_of_range(offset, "address family", family.into())),
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

/// Asks the endpoint at an address to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// What comes back unchanged.
    pub data: ProbeData,
    /// The first unknown parameter that may not be skipped. Not written.
    pub unrecognised: Option<u16>,
}

impl Probe {
    /// Type on the wire.
    pub const KIND: u8 = 11;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if the parameter is missing or malformed.
    pub fn decode(_flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        let Parameters { probe, unrecognised, .. } = Parameters::decode(body, &[PROBE_DATA])?;
        let data = probe.ok_or(DecodeError::MissingParameter { kind: PROBE_DATA })?;
        Ok(Self { data, unrecognised })
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(PROBE_LEN)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, PROBE_LEN, |w| {
            encode_list(w, [(PROBE_DATA, &self.data.to_bytes()[..])].into_iter());
        });
    }
}

/// Answers PROBE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeAck {
    /// What the PROBE said.
    pub echo: ProbeData,
    /// What the sender of this block says for itself.
    pub data: ProbeData,
    /// The first unknown parameter that may not be skipped. Not written.
    pub unrecognised: Option<u16>,
}

impl ProbeAck {
    /// Type on the wire.
    pub const KIND: u8 = 12;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a parameter is missing or malformed.
    pub fn decode(_flags: u8, body: Reader<'_>) -> Result<Self, DecodeError> {
        let found = Parameters::decode(body, &[PROBE_ECHO, PROBE_DATA])?;
        let echo = found.echo.ok_or(DecodeError::MissingParameter { kind: PROBE_ECHO })?;
        let data = found.probe.ok_or(DecodeError::MissingParameter { kind: PROBE_DATA })?;
        Ok(Self { echo, data, unrecognised: found.unrecognised })
    }

    /// Bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(PROBE_ACK_LEN)
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, PROBE_ACK_LEN, |w| {
            let (echo, data) = (self.echo.to_bytes(), self.data.to_bytes());
            encode_list(w, [(PROBE_ECHO, &echo[..]), (PROBE_DATA, &data[..])].into_iter());
        });
    }
}

#[cfg(test)]
#[path = "probe/tests.rs"]
mod tests;
