//! Fields of a frame: integers big-endian.

use std::fmt;

use crate::destination::DestinationError;

/// Why bytes from the other side could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// A field reaches beyond the end of its frame.
    Truncated {
        /// The field.
        field: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A frame is longer than allowed.
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The most allowed.
        limit: usize,
    },
    /// A field has an undefined value.
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// A text is not UTF-8.
    NotText {
        /// The field.
        field: &'static str,
    },
    /// Bytes follow the last field.
    Trailing {
        /// How many.
        left: usize,
    },
    /// An invalid destination.
    Destination(DestinationError),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { field, needed, left } => {
                write!(f, "{field} needs {needed} bytes where {left} are left")
            }
            Self::TooLong { length, limit } => write!(f, "a frame of {length} bytes, {limit} are allowed"),
            Self::Value { field, value } => write!(f, "{field} has the unknown value {value}"),
            Self::NotText { field } => write!(f, "{field} is not UTF-8"),
            Self::Trailing { left } => write!(f, "{left} bytes follow the last field"),
            Self::Destination(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CodecError {}

impl From<DestinationError> for CodecError {
    fn from(error: DestinationError) -> Self {
        Self::Destination(error)
    }
}

/// Takes fields from the front of a frame's body.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CodecError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(CodecError::Truncated { field, needed: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], CodecError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(CodecError::Truncated { field, needed: length, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, CodecError> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, CodecError> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    // egress 1.3: a body is exactly its fields
    pub(crate) fn finish(&self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing { left: self.rest.len() }) }
    }
}
