//! What a capture consists of.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// One item of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A UDP datagram.
    Datagram(Datagram<'a>),
    /// A frame without a readable datagram.
    Skipped {
        /// Its number in the capture, from 1.
        number: u64,
        /// Its timestamp, since 1970; `None` if the capture has none.
        time: Option<Duration>,
        /// Why it was skipped.
        why: Skip,
    },
    /// Lines of a TLS key log, inside a pcapng file.
    KeyLog(&'a [u8]),
}

/// A UDP datagram in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Number of the frame in the capture, from 1.
    pub number: u64,
    /// Its timestamp, since 1970; `None` in hex text.
    pub time: Option<Duration>,
    /// Source and destination; `None` in hex text without IP headers.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The UDP payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Bytes at its end that were not captured.
    pub missing: usize,
}

/// Why a frame is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// It carries no UDP.
    NotUdp,
    /// It is a fragment of an IP packet; fragments are not reassembled.
    Fragment,
    /// It ends within its headers.
    Cut,
    /// Unknown link type, by its number in the registry of tcpdump.
    UnknownLink(i32),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUdp => write!(f, "no UDP"),
            Self::Fragment => write!(f, "fragment of an IP packet; fragments are not put together"),
            Self::Cut => write!(f, "ends within its headers"),
            Self::UnknownLink(number) => write!(f, "link type {number} is not known here"),
        }
    }
}
