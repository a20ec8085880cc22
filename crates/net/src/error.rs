//! The errors of this crate, joined from those of the system and the protocol.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use manyway_proto::ConnectionError;

use crate::interfaces::{Excluded, ExcludedList};
use crate::resolve::ResolveError;
use crate::udp::BindError;

/// Why an endpoint could not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindFailure {
    /// An address could not be bound.
    Socket(BindError),
    /// TCP connections could not be accepted at an address, and UDP was not to be used.
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused something else.
    System(io::Error),
    /// A setting is out of its range.
    Config(manyway_proto::ConfigError),
}

impl fmt::Display for BindFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => error.fmt(f),
            Self::Tcp { address, source } => write!(f, "cannot listen on TCP {address}: {source}"),
            Self::System(error) => write!(f, "the driver could not start: {error}"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BindFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket(error) => std::error::Error::source(error),
            Self::System(error) => Some(error),
            Self::Tcp { source, .. } => Some(source),
            Self::Config(_) => None,
        }
    }
}

/// Why a connection could not be established.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// No name of the peer has an address.
    Resolve(ResolveError),
    /// No interface leads to the peer; each with its reason.
    NoInterface(Vec<Excluded>),
    /// A socket could not be bound.
    Socket(BindError),
    /// The connection could not be started.
    Start(manyway_proto::ConnectError),
    /// The peer did not answer, or the handshake failed.
    Failed(ConnectionError),
    /// No TCP connection to the peer was possible, and UDP was not to be used.
    Tcp {
        /// The address of the last attempt.
        remote: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A setting is out of its range.
    Config(manyway_proto::ConfigError),
    /// The endpoint was closed.
    EndpointClosed,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => error.fmt(f),
            Self::NoInterface(excluded) => {
                write!(f, "no interface of this host leads to the peer")?;
                if excluded.is_empty() { Ok(()) } else { write!(f, ": {}", ExcludedList(excluded)) }
            }
            Self::Socket(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Failed(error) => error.fmt(f),
            Self::Tcp { remote, source } => write!(f, "no TCP connection to {remote}: {source}"),
            Self::Config(error) => error.fmt(f),
            Self::EndpointClosed => write!(f, "the endpoint was closed"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve(error) => std::error::Error::source(error),
            Self::Socket(error) => std::error::Error::source(error),
            Self::Tcp { source, .. } => Some(source),
            Self::NoInterface(_)
            | Self::Start(_)
            | Self::Failed(_)
            | Self::Config(_)
            | Self::EndpointClosed => None,
        }
    }
}

/// Why nothing can be written to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer stopped the stream with this code.
    Stopped(u64),
    /// This half was already finished.
    Finished,
    /// This half was reset before.
    Reset,
    /// The message is larger than the peer takes.
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The largest size that the peer accepts, in bytes.
        most: u64,
    },
    /// The message is empty, and MMSP/1 carries none without data.
    EmptyMessage,
    /// The payload protocol of the message, from 0x4D570000 to 0x4D57FFFF, is reserved in MMSP/1.
    ReservedProtocol(u32),
    /// The peer accepts no messages.
    NoMessages,
    /// This half carries bytes, so it accepts no messages.
    CarriesBytes,
    /// This half carries messages, so it accepts no bytes.
    CarriesMessages,
    /// The connection ended.
    Connection(ConnectionError),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => write!(f, "the peer wants no more of this stream (code {code})"),
            Self::Finished => write!(f, "the stream was already finished"),
            Self::Reset => write!(f, "the stream was already reset"),
            Self::TooLarge { size, most } => {
                write!(
                    f,
                    "the message has {size} bytes, the peer takes at most {most}: split it, or write bytes"
                )
            }
            Self::EmptyMessage => write!(f, "the message is empty, and MMSP/1 carries none without data"),
            Self::ReservedProtocol(protocol) => {
                write!(f, "the payload protocol {protocol:#010x} is reserved in MMSP/1: use another one")
            }
            Self::NoMessages => write!(f, "the peer takes no messages: write bytes"),
            Self::CarriesBytes => write!(f, "the stream carries bytes: open another one for messages"),
            Self::CarriesMessages => write!(f, "the stream carries messages: open another one for bytes"),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) | WriteError::Finished | WriteError::Reset => io::ErrorKind::BrokenPipe,
            WriteError::TooLarge { .. }
            | WriteError::EmptyMessage
            | WriteError::ReservedProtocol(_)
            | WriteError::NoMessages
            | WriteError::CarriesBytes
            | WriteError::CarriesMessages => io::ErrorKind::InvalidInput,
            WriteError::Connection(error) => kind_of(error),
        };
        Self::new(kind, error)
    }
}

/// Why a stream cannot be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream with this code.
    Reset(u64),
    /// This end stopped the stream before.
    Stopped,
    /// The peer sent bytes, not messages.
    CarriesBytes,
    /// The peer sent messages, not bytes.
    CarriesMessages,
    /// The connection ended.
    Connection(ConnectionError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => write!(f, "the peer gave this stream up (code {code})"),
            Self::Stopped => write!(f, "reading was stopped before"),
            Self::CarriesBytes => write!(f, "the stream carries bytes: read those"),
            Self::CarriesMessages => write!(f, "the stream carries messages: receive those"),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::Stopped => io::ErrorKind::BrokenPipe,
            ReadError::CarriesBytes | ReadError::CarriesMessages => io::ErrorKind::InvalidInput,
            ReadError::Connection(error) => kind_of(error),
        };
        Self::new(kind, error)
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
fn kind_of(error: &ConnectionError) -> io::ErrorKind {
    match error {
        ConnectionError::Closed { .. } => io::ErrorKind::ConnectionAborted,
        ConnectionError::IdleTimeout | ConnectionError::ConnectTimeout | ConnectionError::NoPath => {
            io::ErrorKind::TimedOut
        }
        ConnectionError::Authentication { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::ConnectionReset,
    }
}
