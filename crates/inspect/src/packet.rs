//! What is known of one packet.

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
    /// What can be read before it is opened, or why that can not be read either.
    pub header: Result<HeaderForm, DecodeError>,
    /// Number of the connection in this capture, from 1; `None` if it is not known.
    pub connection: Option<u64>,
    /// Who sent it, if that is known.
    pub sender: Option<Side>,
    /// The path that its id belongs to; `None` in the set-up, and if the id was not seen being issued.
    pub path: Option<PathId>,
    /// What is inside.
    pub inside: Inside,
}

impl Packet {
    /// Which keys protect it; `None` if nothing does, or its header can not be read.
    pub fn level(&self) -> Option<Level> {
        match self.header.as_ref().ok()? {
            HeaderForm::Long { kind: LongKind::Open, .. } => Some(Level::Open),
            HeaderForm::Long { kind: LongKind::SetUp, .. } => Some(Level::SetUp),
            HeaderForm::Short { .. } => Some(Level::Data),
            HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => None,
        }
    }

    /// Whether something in it can not be read although its place is known to be right: the header, or a block.
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
    /// Keys that follow from the first destination id.
    Open,
    /// Keys of the TLS handshake.
    SetUp,
    /// Keys of the finished handshake.
    Data,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::SetUp => "set-up",
            Self::Data => "data",
        })
    }
}

/// The inside of a packet.
#[derive(Debug, Clone)]
pub enum Inside {
    /// A packet without any: another version, a list of versions, or a header that can not be read.
    Nothing,
    /// It stays closed.
    Sealed(Sealed),
    /// It was opened.
    Opened(Opened),
}

/// Why a packet could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sealed {
    /// The id belongs to no connection whose beginning is in the capture.
    UnknownConnection,
    /// The capture lacks what tells the cipher or the random number of the connection: its first packets.
    NoHello,
    /// The connection uses a cipher that is not known here, with this number in TLS.
    UnknownCipher(u16),
    /// The key log has no such line for this connection.
    NoSecret(Label),
    /// There are keys, but they do not open it: it is damaged, or not what it seems.
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

/// An opened packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The whole packet number.
    pub packet_number: u64,
    /// How often keys had changed; `None` but for data packets.
    pub key_phase: Option<u64>,
    /// Whether bits are set that must be zero (rules 4.4 and 4.5).
    pub reserved_bits_set: bool,
    /// The inside, in clear.
    pub payload: Vec<u8>,
}

impl Opened {
    /// The blocks inside.
    pub fn blocks(&self) -> BlocksAt<'_> {
        blocks(&self.payload)
    }
}
