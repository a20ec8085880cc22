//! Fields of a frame's body: integers big-endian, text with a 16-bit length.

use std::fmt;

use crate::link::LinkError;
use crate::name::NameError;

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
    /// A field or frame is longer than allowed.
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length in bytes, or number of entries.
        length: usize,
        /// The most allowed.
        limit: usize,
    },
    /// A text is not UTF-8.
    NotText {
        /// The field.
        field: &'static str,
    },
    /// A field has an undefined value.
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// Bytes follow the last field.
    Trailing {
        /// How many.
        left: usize,
    },
    /// A name that is not allowed.
    Name(NameError),
    /// A target of a symbolic link that is not allowed.
    Link(LinkError),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { field, needed, left } => {
                write!(f, "{field} needs {needed} bytes where {left} are left")
            }
            Self::TooLong { field, length, limit } => {
                write!(f, "{field} is {length} long, {limit} are allowed")
            }
            Self::NotText { field } => write!(f, "{field} is not UTF-8"),
            Self::Value { field, value } => write!(f, "{field} has the unknown value {value}"),
            Self::Trailing { left } => write!(f, "{left} bytes follow the last field"),
            Self::Name(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CodecError {}

impl From<NameError> for CodecError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<LinkError> for CodecError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
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

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, CodecError> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, CodecError> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, CodecError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, CodecError> {
        self.array(field).map(u64::from_be_bytes)
    }

    pub(crate) fn text(&mut self, field: &'static str, limit: usize) -> Result<&'a str, CodecError> {
        let length = usize::from(self.u16(field)?);
        if length > limit {
            return Err(CodecError::TooLong { field, length, limit });
        }
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(CodecError::Truncated { field, needed: length, left: self.rest.len() });
        };
        self.rest = rest;
        std::str::from_utf8(taken).map_err(|_| CodecError::NotText { field })
    }

    /// Checks that nothing is left.
    // transfer 1.4: unknown bytes at the end of a body are an error, new fields need a new version
    pub(crate) fn finish(&self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing { left: self.rest.len() }) }
    }
}

/// Appends a text with its length. Texts are bounded by their callers, far below 64 KiB; a longer one is cut.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = cut(text, usize::from(u16::MAX));
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The longest prefix of `text` that has at most `limit` bytes and ends between two characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
