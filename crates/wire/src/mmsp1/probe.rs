//! PROBE and PROBE-ACK (spec 3.38, 3.39): does an address answer, and how fast?
//!
//! ```text
//! | type 11 | flags 0 | length 16 | parameter 0x0010 |
//! | type 12 | flags 0 | length 16 | parameter 0x0011: the value of the PROBE | parameter 0x0010 |
//! ```

use super::ProbeData;
use super::parameters::{PROBE_DATA, PROBE_ECHO, Parameters, encode_list};
use crate::decode_error::DecodeError;
use crate::frame::{encode_block, padded_block_len};
use crate::reader::Reader;
use crate::writer::Writer;

/// Bytes of the bodies: parameters of 4 + 44 bytes.
const PROBE_LEN: usize = 48;
const PROBE_ACK_LEN: usize = 2 * PROBE_LEN;

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
