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
        /// What was being done.
        doing: &'static str,
        /// What the stream said.
        source: io::Error,
    },
    /// The other side sent what cannot be understood: its fault.
    Codec(CodecError),
    /// The other side sent a frame that has no place here: its fault.
    Unexpected {
        /// What was waited for.
        wanted: &'static str,
    },
    /// The other side told nothing in time.
    Silent {
        /// What was waited for.
        wanted: &'static str,
    },
    /// The other side refused the request.
    Refused(Failure),
    /// The request cannot be made, for a reason on this side.
    Local(Failure),
    /// Only one file can be fetched so, and this is not one; the text says what to name instead.
    NotOneFile(String),
    /// The stream ended early; what had been verified until then stays.
    Incomplete {
        /// Files verified.
        verified: u64,
    },
    /// A worker thread of this process died: our bug.
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

    /// Whether it is worth to try again over a new connection.
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
            Self::Codec(error) => write!(f, "the other side sent something that makes no sense: {error}"),
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
