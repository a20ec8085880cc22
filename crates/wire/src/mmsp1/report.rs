//! RST and ERROR (spec 3.27, 3.28): abort a connection, or report errors that do not end it. Both carry causes.
//!
//! ```text
//! | type 9  | flags: 0x01 T | length 16 | cause … |
//! | type 10 | flags 0       | length 16 | cause … |          at least one
//! cause:  | code 16 | length 16 | information … | 0-3 zero bytes to a multiple of 4 |
//! ```

use super::ErrorCode;
use super::fin::REFLECTED;
use super::parameters::{encode_list, list_len, longer};
use crate::decode_error::DecodeError;
use crate::frame::{BLOCK_HEADER_LEN, encode_block, padded_block_len};
use crate::parameter::next_parameter;
use crate::reader::Reader;
use crate::writer::Writer;

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause<'a> {
    /// The kind of error.
    pub code: ErrorCode,
    /// What the code adds (spec 3.71); a receiver takes any length.
    pub information: &'a [u8],
}

impl Cause<'_> {
    /// How many milliseconds ago INFO expired, if the cause says that (spec 3.71).
    pub fn expired_millis(&self) -> Option<u32> {
        let bytes = self.information.first_chunk().filter(|_| self.code == ErrorCode::STALE_INFO)?;
        Some(u32::from_be_bytes(*bytes))
    }
}

/// The causes of an RST or ERROR as they stand on the wire, each of them readable.
#[derive(Debug, Clone, Copy)]
pub struct Causes<'a> {
    encoded: &'a [u8],
}

impl<'a> Causes<'a> {
    /// No cause.
    pub const NONE: Self = Self { encoded: &[] };

    /// Each cause, in the order of the wire.
    pub fn iter(&self) -> impl Iterator<Item = Cause<'a>> + Clone + use<'a> {
        let mut list = Reader::new(self.encoded);
        std::iter::from_fn(move || {
            let mut cause = next_parameter(&mut list).ok()??;
            Some(Cause { code: ErrorCode(cause.kind), information: cause.value.rest() })
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    fn decode(mut body: Reader<'a>) -> Result<Self, DecodeError> {
        let mut walk = body.clone();
        while next_parameter(&mut walk)?.is_some() {}
        Ok(Self { encoded: body.rest() })
    }

    fn encoded_len(&self) -> usize {
        list_len(self.iter().map(|cause| cause.information.len()))
    }

    fn encode(&self, w: &mut Writer<'_>) {
        encode_causes(w, self.iter());
    }
}

impl PartialEq for Causes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Causes<'_> {}

fn encode_causes<'c>(w: &mut Writer<'_>, causes: impl Iterator<Item = Cause<'c>>) {
    encode_list(w, causes.map(|cause| (cause.code.0, cause.information)));
}

/// Ends the connection at once. Nothing answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rst<'a> {
    /// Flag T: its sender knows no connection, and the connection id is that of the packet it answers.
    pub reflected: bool,
    /// Why; may be none.
    pub causes: Causes<'a>,
}

impl<'a> Rst<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 9;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a cause is cut.
    pub fn decode(flags: u8, body: Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { reflected: flags & REFLECTED != 0, causes: Causes::decode(body)? })
    }

    /// Bytes on the wire, with header.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.causes.encoded_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        let flags = if self.reflected { REFLECTED } else { 0 };
        encode_block(w, Self::KIND, flags, self.causes.encoded_len(), |w| self.causes.encode(w));
    }
}

/// Reports errors that do not end the connection: the block ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReport<'a> {
    /// What was wrong; at least one.
    pub causes: Causes<'a>,
}

impl<'a> ErrorReport<'a> {
    /// Type on the wire.
    pub const KIND: u8 = 10;

    /// Reads the body.
    ///
    /// # Errors
    /// [`DecodeError`] if a cause is cut, or there is none.
    pub fn decode(_flags: u8, body: Reader<'a>) -> Result<Self, DecodeError> {
        if body.is_empty() {
            return Err(body.out_of_range(body.offset(), "number of causes", 0));
        }
        Ok(Self { causes: Causes::decode(body)? })
    }

    /// Bytes on the wire, with header.
    pub fn encoded_len(&self) -> usize {
        padded_block_len(self.causes.encoded_len())
    }

    /// Appends the block.
    pub fn encode(&self, w: &mut Writer<'_>) {
        encode_block(w, Self::KIND, 0, self.causes.encoded_len(), |w| self.causes.encode(w));
    }
}

/// Appends an RST with as many of `causes` as fit, and returns their number. Allocates nothing.
pub fn encode_rst<'c>(
    w: &mut Writer<'_>,
    reflected: bool,
    causes: impl Iterator<Item = Cause<'c>> + Clone,
) -> usize {
    encode_report(w, Rst::KIND, if reflected { REFLECTED } else { 0 }, causes)
}

/// Appends an ERROR with as many of `causes` as fit, and returns their number; nothing if not even one fits. Allocates
/// nothing.
pub fn encode_error<'c>(w: &mut Writer<'_>, causes: impl Iterator<Item = Cause<'c>> + Clone) -> usize {
    let first = causes.clone().next().map(|cause| BLOCK_HEADER_LEN + longer(0, cause.information.len()));
    if first.is_none_or(|len| len > w.remaining()) {
        return 0;
    }
    encode_report(w, ErrorReport::KIND, 0, causes)
}

fn encode_report<'c>(
    w: &mut Writer<'_>,
    kind: u8,
    flags: u8,
    causes: impl Iterator<Item = Cause<'c>> + Clone,
) -> usize {
    let room = w.remaining().min(usize::from(u16::MAX)).saturating_sub(BLOCK_HEADER_LEN);
    let (mut body_len, mut count) = (0, 0);
    for cause in causes.clone() {
        let with_cause = longer(body_len, cause.information.len());
        if with_cause > room {
            break;
        }
        body_len = with_cause;
        count += 1;
    }
    encode_block(w, kind, flags, body_len, |w| encode_causes(w, causes.take(count)));
    count
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
