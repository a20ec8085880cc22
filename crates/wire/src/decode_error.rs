//! Why bytes of a peer could not be decoded, with the facts.

use std::fmt;

/// What was being read when it went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Plain bytes of unknown structure.
    Bytes,
    /// The header of a packet.
    Header,
    /// A block of this type.
    Block(u8),
    /// The list of TLS parameters, at the boundary of two of them.
    Parameters,
    /// A parameter of this type.
    Parameter(u16),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes => write!(f, "bytes"),
            Self::Header => write!(f, "packet header"),
            Self::Block(kind) => write!(f, "block {kind:#04x}"),
            Self::Parameters => write!(f, "parameters"),
            Self::Parameter(kind) => write!(f, "parameter {kind:#06x}"),
        }
    }
}

/// Bytes that break the specification.
///
/// Offsets count from the start of the datagram for headers, of the packet's payload for blocks, and of the
/// whole list for TLS parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended too early.
    Truncated {
        /// What was being read.
        part: Part,
        /// Where the missing value should have begun.
        offset: usize,
        /// How many bytes the value has.
        needed: usize,
        /// How many there were.
        left: usize,
    },
    /// The input is longer than its content.
    TrailingBytes {
        /// What was being read.
        part: Part,
        /// Where the surplus begins.
        offset: usize,
        /// How many bytes are too many.
        left: usize,
    },
    /// A block whose length is below 4 or beyond the end of the packet.
    BlockLength {
        /// Type of the block.
        kind: u8,
        /// Where the block begins.
        offset: usize,
        /// Its length as written.
        length: usize,
        /// How many bytes the packet has from there.
        left: usize,
    },
    /// A block type outside the set that both ends agreed on.
    UnknownBlock {
        /// Type of the block.
        kind: u8,
        /// Where the block begins.
        offset: usize,
    },
    /// A flag that the block does not define.
    UnknownFlags {
        /// Type of the block.
        kind: u8,
        /// Where its body begins.
        offset: usize,
        /// All flags as written.
        flags: u8,
    },
    /// A value outside the range of its field.
    OutOfRange {
        /// What was being read.
        part: Part,
        /// Where the value begins.
        offset: usize,
        /// Name of the field in the specification.
        field: &'static str,
        /// The value as written.
        value: u64,
    },
    /// An address of a family other than IPv4 and IPv6.
    AddressFamily {
        /// Where the family stands.
        offset: usize,
        /// The family as written.
        family: u16,
    },
    /// A first byte with which no packet of this protocol begins.
    FirstByte {
        /// The byte.
        first: u8,
    },
    /// An unknown parameter that must not be skipped.
    UnknownParameter {
        /// Type of the parameter.
        kind: u16,
        /// Where it begins.
        offset: usize,
    },
    /// A parameter that occurs a second time.
    DuplicateParameter {
        /// Type of the parameter.
        kind: u16,
        /// Where the second one begins.
        offset: usize,
    },
    /// A required parameter is missing.
    MissingParameter {
        /// Type of the parameter.
        kind: u16,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { part, offset, needed, left } => {
                write!(f, "{part} is cut at byte {offset}: {needed} bytes needed, {left} left")
            }
            Self::TrailingBytes { part, offset, left } => {
                write!(f, "{part} has {left} bytes too many, from byte {offset}")
            }
            Self::BlockLength { kind, offset, length, left } => {
                write!(f, "block {kind:#04x} at byte {offset} claims {length} bytes, {left} are there")
            }
            Self::UnknownBlock { kind, offset } => write!(f, "unknown block {kind:#04x} at byte {offset}"),
            Self::UnknownFlags { kind, offset, flags } => {
                write!(f, "block {kind:#04x} with unknown flags {flags:#04x} before byte {offset}")
            }
            Self::OutOfRange { part, offset, field, value } => {
                write!(f, "{part} has {field} = {value} at byte {offset}, which is out of range")
            }
            Self::AddressFamily { offset, family } => {
                write!(f, "an address of the unknown family {family} at byte {offset}")
            }
            Self::FirstByte { first } => write!(f, "no packet begins with {first:#04x}"),
            Self::UnknownParameter { kind, offset } => {
                write!(f, "unknown parameter {kind:#06x} at byte {offset}")
            }
            Self::DuplicateParameter { kind, offset } => {
                write!(f, "parameter {kind:#06x} again at byte {offset}")
            }
            Self::MissingParameter { kind } => write!(f, "parameter {kind:#06x} is missing"),
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_block_and_the_place() {
        let error = DecodeError::UnknownBlock { kind: 0xee, offset: 12 };
        assert_eq!(error.to_string(), "unknown block 0xee at byte 12");
    }
}
