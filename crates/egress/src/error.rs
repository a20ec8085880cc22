//! Why a request failed.

use std::fmt;
use std::io;

use crate::answer::{Reason, Refusal};
use crate::codec::CodecError;
use crate::destination::Destination;
use crate::request::{Unknown, VERSION};

/// Why a request failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum EgressError {
    /// The connection to the other side, or the stream, broke.
    Stream(io::Error),
    /// The other side sent bytes that cannot be decoded: a fault of its own.
    Codec(CodecError),
    /// The other side did not send its request in time.
    Late,
    /// The connection was refused, for this reason.
    Refused(Refusal),
}

/// Why a server did not serve a client's request.
#[derive(Debug)]
pub struct RequestError {
    /// The requested destination; `None` if the request was another one or could not be decoded.
    pub destination: Option<Destination>,
    /// Why the request was refused, or why the connection broke.
    pub error: EgressError,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(destination) = &self.destination {
            write!(f, "{destination}: ")?;
        }
        self.error.fmt(f)
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => write!(f, "the connection to the server broke: {error}"),
            Self::Codec(error) => write!(f, "the other side sent an invalid message: {error}"),
            Self::Late => f.write_str("the request did not come in time"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for EgressError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Codec(error) => Some(error),
            Self::Refused(refusal) => Some(refusal),
            Self::Late => None,
        }
    }
}

impl From<CodecError> for EgressError {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl From<Refusal> for EgressError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for EgressError {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

// egress 1.4
impl From<Unknown> for Refusal {
    fn from(unknown: Unknown) -> Self {
        let text = match unknown {
            Unknown::Version(version) => format!("version {version}; this side speaks version {VERSION}"),
            Unknown::Request(kind) => format!("request {kind}"),
        };
        Self::with_text(Reason::Unsupported, text)
    }
}
