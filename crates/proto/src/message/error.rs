//! Why a message was refused.

use std::fmt;

use crate::{Misuse, WriteError};

/// Why a message was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// It is larger than the peer accepts; split it, or send its bytes on a stream.
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The most that the peer accepts, in bytes.
        most: u64,
    },
    /// The peer accepts no messages at all.
    NotAgreed,
    /// Too much data waits already; [`Event::StreamWritable`](crate::Event::StreamWritable) follows.
    Full,
    /// The peer stopped this stream with this code.
    Stopped(u64),
    /// The call is invalid in this state.
    Misuse(Misuse),
}

impl From<Misuse> for SendError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl From<WriteError> for SendError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Stopped(code),
            WriteError::Misuse(misuse) => Self::Misuse(misuse),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size, most } => {
                write!(
                    f,
                    "the message has {size} bytes, the peer takes at most {most}: split it, or use a byte stream"
                )
            }
            Self::NotAgreed => write!(f, "the peer takes no messages: use a byte stream"),
            Self::Full => write!(f, "too many messages wait on this stream: try again when it is writable"),
            Self::Stopped(code) => write!(f, "the peer wants no more messages of this stream (code {code})"),
            Self::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}
