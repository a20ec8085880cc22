//! Errors of the caller.

use std::fmt;

use manyway_wire::{PathId, StreamId};

/// A call that is invalid in the present state; it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// No such stream, or it has ended.
    UnknownStream {
        /// The stream.
        stream: StreamId,
    },
    /// No such path, or it has ended.
    UnknownPath {
        /// The path.
        path: PathId,
    },
    /// The sending half was finished or reset before.
    SendingEnded {
        /// The stream.
        stream: StreamId,
    },
    /// The receiving half was read to its end or stopped before.
    ReceivingEnded {
        /// The stream.
        stream: StreamId,
    },
    /// This direction of the stream carries bytes, and so no messages.
    CarriesBytes {
        /// The stream.
        stream: StreamId,
    },
    /// This direction of the stream carries messages, and so no bytes.
    CarriesMessages {
        /// The stream.
        stream: StreamId,
    },
    /// A message without data, which MMSP/1 cannot carry.
    EmptyMessage {
        /// The stream.
        stream: StreamId,
    },
    /// The payload protocol has a meaning of its own in MMSP/1.
    ReservedProtocol {
        /// The payload protocol.
        protocol: u32,
    },
    /// The peer allows no more streams now; an event follows when it does.
    NoStreamCredit {
        /// How many streams may be opened over the whole life of the connection, so far.
        allowed: u64,
    },
    /// The scheduler of this end binds no streams to paths; `stream-bound` does.
    SchedulerBindsNoStreams,
    /// The connection is closing or has ended.
    ConnectionClosed,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownStream { stream } => write!(f, "there is no stream {stream}"),
            Self::UnknownPath { path } => write!(f, "there is no path {path}"),
            Self::SendingEnded { stream } => write!(f, "nothing more can be written to stream {stream}"),
            Self::ReceivingEnded { stream } => write!(f, "nothing more can be read from stream {stream}"),
            Self::CarriesBytes { stream } => {
                write!(f, "stream {stream} carries bytes: use another one for messages")
            }
            Self::CarriesMessages { stream } => {
                write!(f, "stream {stream} carries messages: use another one for bytes")
            }
            Self::EmptyMessage { stream } => {
                write!(f, "a message of stream {stream} is empty: MMSP/1 carries none")
            }
            Self::ReservedProtocol { protocol } => {
                write!(f, "the payload protocol {protocol:#010x} is reserved: use another one")
            }
            Self::NoStreamCredit { allowed } => write!(f, "the peer allows only {allowed} streams for now"),
            Self::SchedulerBindsNoStreams => {
                f.write_str("the scheduler binds no streams to paths: use the scheduler stream-bound")
            }
            Self::ConnectionClosed => write!(f, "the connection has ended"),
        }
    }
}

impl std::error::Error for Misuse {}
