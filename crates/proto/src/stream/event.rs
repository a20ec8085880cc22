//! What the application hears of its streams, and what its calls return.

use std::fmt;

use bytes::Bytes;
use manyway_wire::StreamId;

use crate::{MessageToken, Misuse};

/// News of streams.
///
/// Events are edges, not states: `Readable` comes once when something may be read again after a read found
/// nothing, `Writable` once when there is room again after a write was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened streams; accept until there are no more.
    Opened,
    /// Bytes, the end or the reset of the stream can be read.
    Readable(StreamId),
    /// The stream takes bytes again.
    Writable(StreamId),
    /// Everything that was written to the stream, and its end, reached the peer.
    Finished(StreamId),
    /// The peer wants no more bytes of the stream; those that were on the way are dropped.
    Stopped(StreamId, u64),
    /// The peer abandoned the stream.
    Reset(StreamId, u64),
    /// A message was given up before the peer had it as a whole.
    Abandoned(StreamId, MessageToken),
    /// Streams can be opened again after the peer's limit stood in the way.
    Available,
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOutcome {
    /// The next bytes, at least one.
    Data(Bytes),
    /// Nothing now; [`StreamEvent::Readable`] follows.
    Blocked,
    /// The stream has ended; there is nothing more to read.
    End,
    /// The peer abandoned the stream for this reason; there is nothing more to read.
    Reset(u64),
}

/// Why nothing can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer asked for no more, for this reason.
    Stopped(u64),
    /// The call has no place here.
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
