//! Why a whole request failed, as opposed to one file of it.

use std::fmt;
use std::io;

use crate::codec::CodecError;
use crate::failure::Failure;
use crate::name::printable;

/// Why a request failed as a whole.
#[derive(Debug)]
#[non_exhaustive]
pub enum TransferError {
    /// The connection or stream broke.
    Stream {
        /// The operation.
        doing: &'static str,
        /// The error of the stream.
        source: io::Error,
    },
    /// The other side sent bytes that cannot be decoded: a fault of its own.
    Codec(CodecError),
    /// The other side sent a frame out of order: a fault of its own.
    Unexpected {
        /// The expected frame.
        wanted: &'static str,
    },
    /// The other side sent nothing in time.
    Silent {
        /// The expected frame.
        wanted: &'static str,
    },
    /// The other side refused the request.
    Refused(Failure),
    /// The request cannot be made, for a reason on this side.
    Local(Failure),
    /// This operation fetches exactly one file; the text says what to name instead.
    NotOneFile(String),
    /// The stream ended early; files verified until then stay.
    Incomplete {
        /// Files verified.
        verified: u64,
    },
    /// A worker thread of this process died: a bug of this program.
    Internal,
}

impl TransferError {
    pub(crate) fn stream(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                Self::Incomplete { verified: 0 }
            } else {
                Self::Stream { doing, source }
            }
        }
    }

    /// Whether a retry over a new connection may succeed.
    pub fn is_resumable(&self) -> bool {
        match self {
            Self::Stream { .. } | Self::Incomplete { .. } => true,
            Self::Codec(_)
            | Self::Unexpected { .. }
            | Self::Silent { .. }
            | Self::Refused(_)
            | Self::Local(_)
            | Self::NotOneFile(_)
            | Self::Internal => false,
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream { doing, source } => write!(f, "connection lost while {doing}: {source}"),
            Self::Codec(error) => write!(f, "the other side sent an invalid message: {error}"),
            Self::Unexpected { wanted } => {
                write!(f, "the other side sent something else instead of {wanted}")
            }
            Self::Silent { wanted } => write!(f, "the other side did not tell {wanted} in time"),
            Self::Refused(failure) => write!(f, "refused: {}", failure.refusal()),
            Self::Local(failure) => failure.fmt(f),
            Self::NotOneFile(text) => f.write_str(&printable(text)),
            Self::Incomplete { verified: 0 } => f.write_str("connection lost"),
            Self::Incomplete { verified } => write!(f, "connection lost after {verified} verified files"),
            Self::Internal => f.write_str("a worker thread of this program died; this is a bug"),
        }
    }
}

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream { source, .. } => Some(source),
            Self::Codec(error) => Some(error),
            Self::Refused(failure) | Self::Local(failure) => Some(failure),
            Self::Unexpected { .. }
            | Self::Silent { .. }
            | Self::NotOneFile(_)
            | Self::Incomplete { .. }
            | Self::Internal => None,
        }
    }
}

impl From<CodecError> for TransferError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}
