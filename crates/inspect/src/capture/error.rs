//! Why a capture could not be read to its end.

use std::fmt;
use std::io;

use super::hex::HexError;

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
