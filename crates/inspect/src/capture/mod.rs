//! Reads datagrams from pcap, pcapng or hex text, and detects which it is.

mod framing;
mod hex;
mod link;
mod pcap;

use std::fmt;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

pub use hex::{HexError, parse_bytes};

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

/// Why a capture could not be read to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// A system error.
    Io(io::Error),
    /// Not hex text.
    Hex(HexError),
    /// The file is truncated or damaged after the frame with this number.
    Damaged {
        /// The last frame that was read; 0: none.
        after: u64,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Hex(error) => write!(f, "not a capture file (pcap or pcapng) and not hex text: {error}"),
            Self::Damaged { after: 0 } => write!(f, "the capture is cut or damaged at its start"),
            Self::Damaged { after } => write!(f, "the capture is cut or damaged behind frame {after}"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a capture to its end, or until `each` breaks. Every item is passed to `each` as soon as it is read, so that a
/// pipe from `tcpdump -w -` can be followed. Hex text is read as a whole: one datagram a line, or a dump of `xxd`,
/// `hexdump -C` or `tcpdump -x` (which shows IP packets).
///
/// # Errors
/// If the input cannot be read, is truncated or damaged, or is no capture. Items before the error have been passed to
/// `each`.
pub fn read(
    mut input: impl Read + Send,
    each: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
) -> Result<(), CaptureError> {
    let mut head = Vec::new();
    read_up_to(&mut input, &mut head, pcap::LEAST)?;
    if pcap::is_capture(&head) {
        // The reader needs the whole first block at once.
        let first = pcap::first_block(&head);
        read_up_to(&mut input, &mut head, first)?;
        return pcap::read(pcap::is_pcapng(&head), io::Cursor::new(head).chain(input), each);
    }
    input.take(hex::MOST_TEXT).read_to_end(&mut head)?;
    hex::read(&head, each).map_err(CaptureError::Hex)
}

fn read_up_to(input: &mut impl Read, head: &mut Vec<u8>, length: usize) -> io::Result<()> {
    let missing = length.saturating_sub(head.len()) as u64;
    input.take(missing).read_to_end(head).map(|_| ())
}
