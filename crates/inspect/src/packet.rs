//! Everything known of one packet.

use std::fmt;

use manyway_wire::mmsp2::{HeaderForm, LongKind};
use manyway_wire::{DecodeError, PathId, Side};

use crate::blocks::{BlocksAt, blocks};
use crate::key_log::Label;

/// One packet of a datagram.
#[derive(Debug, Clone)]
pub struct Packet {
    /// Where it begins in the datagram.
    pub offset: usize,
    /// Its bytes, with header and tag.
    pub length: usize,
    /// The clear-text header, or why it cannot be read.
    pub header: Result<HeaderForm, DecodeError>,
    /// Number of the connection in this capture, from 1; `None` if it is unknown.
    pub connection: Option<u64>,
    /// The sender, if it is known.
    pub sender: Option<Side>,
    /// The path of its ID; `None` in the handshake, and if the issue of the ID was not captured.
    pub path: Option<PathId>,
    /// The content.
    pub inside: Inside,
}

impl Packet {
    /// Which keys protect it; `None` if nothing does, or its header can not be read.
    pub fn level(&self) -> Option<Level> {
        match self.header.as_ref().ok()? {
            HeaderForm::Long { kind: LongKind::Initial, .. } => Some(Level::Initial),
            HeaderForm::Long { kind: LongKind::Handshake, .. } => Some(Level::Handshake),
            HeaderForm::Short { .. } => Some(Level::OneRtt),
            HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => None,
        }
    }

    /// Whether a part of it is malformed although its position is certain: the header, or a block.
    pub fn is_malformed(&self) -> bool {
        match &self.inside {
            Inside::Opened(opened) => {
                opened.reserved_bits_set || opened.blocks().any(|block| block.block.is_err())
            }
            Inside::Nothing | Inside::Sealed(_) => self.header.is_err(),
        }
    }
}

/// Which keys protect a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Keys derived from the original destination connection ID.
    Initial,
    /// Keys of the TLS handshake.
    Handshake,
    /// 1-RTT keys.
    OneRtt,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::OneRtt => "1-RTT",
        })
    }
}

/// The content of a packet.
#[derive(Debug, Clone)]
pub enum Inside {
    /// No content: another version, a version list, or a header that cannot be read.
    Nothing,
    /// It could not be decrypted.
    Sealed(Sealed),
    /// It was decrypted.
    Opened(Opened),
}

/// Why a packet could not be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sealed {
    /// The ID belongs to no connection whose beginning is in the capture.
    UnknownConnection,
    /// The capture lacks the first packets of the connection, which have the cipher and the client random.
    NoHello,
    /// Unknown cipher suite of the connection, by its number in TLS.
    UnknownCipher(u16),
    /// The key log has no such secret for this connection.
    NoSecret(Label),
    /// Decryption failed: the packet is damaged, or not what it seems.
    Refused,
    /// It ends with the reset token of its id: a stateless reset.
    StatelessReset,
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownConnection => write!(f, "sealed; the connection's beginning is not in the capture"),
            Self::NoHello => write!(f, "sealed; the connection's TLS hello is not in the capture"),
            Self::UnknownCipher(number) => write!(f, "sealed with the unknown cipher {number:#06x}"),
            Self::NoSecret(label) => {
                write!(f, "sealed; a key log with {label} of this connection would open it")
            }
            Self::Refused => write!(f, "does not open: damaged, or no packet of this connection"),
            Self::StatelessReset => write!(f, "stateless reset"),
        }
    }
}

/// A decrypted packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The whole packet number.
    pub packet_number: u64,
    /// Number of key updates before it; `None` unless it is a 1-RTT packet.
    pub key_phase: Option<u64>,
    /// Whether reserved bits are set (rules 4.4 and 4.5).
    pub reserved_bits_set: bool,
    /// The payload in clear text.
    pub payload: Vec<u8>,
}

impl Opened {
    /// The blocks inside.
    pub fn blocks(&self) -> BlocksAt<'_> {
        blocks(&self.payload)
    }
}
