//! Stream events for the application, and results of its calls.

use std::fmt;

use bytes::Bytes;
use manyway_wire::StreamId;

use crate::{MessageToken, Misuse};

/// Events of streams.
///
/// Events are edges, not states: `Readable` comes once when data becomes readable after a read found nothing,
/// `Writable` once when space becomes free after a write was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened streams; accept until there are no more.
    Opened,
    /// Bytes, the end or the reset of the stream can be read.
    Readable(StreamId),
    /// The stream takes bytes again.
    Writable(StreamId),
    /// All data written to the stream, and its end, reached the peer.
    Finished(StreamId),
    /// The peer wants no more bytes of the stream; unsent and unacknowledged ones are dropped.
    Stopped(StreamId, u64),
    /// The peer abandoned the stream.
    Reset(StreamId, u64),
    /// A message was given up before all of it reached the peer.
    Abandoned(StreamId, MessageToken),
    /// Streams can be opened again after the peer's limit prevented it.
    Available,
}

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// The next bytes, at least one.
    Data(Bytes),
    /// No data yet; [`StreamEvent::Readable`] follows.
    Blocked,
    /// The stream has ended; there is nothing more to read.
    End,
    /// The peer abandoned the stream with this code; there is nothing more to read.
    Reset(u64),
}

/// Why nothing can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer stopped the stream with this code.
    Stopped(u64),
    /// The call is invalid in this state.
    Misuse(Misuse),
}

impl From<Misuse> for WriteError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => write!(f, "the peer wants no more bytes of this stream (code {code})"),
            Self::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}
