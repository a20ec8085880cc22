//! Messages: whole or not at all, in order or not, for ever or for a while; beside the bytes of streams.
//!
//! Each direction of a stream carries bytes or messages (spec 8.28); here is what such a direction does with messages.
//! [`outbox`] has those on their way out, each an [`outgoing`] one from its first piece on; [`inbox`] those on their way
//! in, put together by an [`assembly`]. The credit is that of streams: a message costs [`cost`] of it, at both ends.

mod assembly;
pub(crate) mod inbox;
pub(crate) mod outbox;
mod outgoing;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::mmsp2::MessageId;

use crate::{Class, Misuse, WriteError};

/// What a message costs of the credit beyond its bytes (spec 8.32): about what it costs in memory.
pub(crate) const OVERHEAD: u64 = 128;

/// What a message costs of the credit that is, or was sent, as far as `reach`.
pub(crate) fn cost(reach: u32) -> u64 {
    OVERHEAD + u64::from(reach)
}

/// A message as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// What the peer sent, with its boundaries.
    pub data: Bytes,
    /// The peer's word for the content, of no meaning to the protocol.
    pub protocol: u32,
    /// Whether it came in order.
    pub order: Order,
}

/// What asking for a message found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageOutcome {
    /// The next message.
    Message(Message),
    /// Nothing now; [`Event::StreamReadable`](crate::Event::StreamReadable) follows.
    Blocked,
    /// The stream has ended; there are no more messages.
    End,
    /// The peer abandoned the stream for this reason; there are no more messages.
    Reset(u64),
}

/// When a message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Order {
    /// After all ordered messages of the stream that were sent before it.
    #[default]
    Ordered,
    /// As soon as it is whole.
    Unordered,
}

impl Order {
    pub(crate) fn of(id: MessageId) -> Self {
        if id.unordered { Self::Unordered } else { Self::Ordered }
    }
}

/// How a message is to be sent. The default: in order, reliably, with class and priority of its stream.
///
/// ```
/// use manyway_proto::{Class, MessageOptions, Order};
/// use std::time::Duration;
///
/// /// A position report: only the newest is of use.
/// let report = MessageOptions::default()
///     .order(Order::Unordered)
///     .class(Class::Deadline)
///     .lifetime(Duration::from_millis(200));
/// assert_eq!(report.lifetime, Some(Duration::from_millis(200)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageOptions {
    /// Whether it keeps its place among the others. Default ordered.
    pub order: Order,
    /// A word for the content that the peer is told. Default 0.
    pub protocol: u32,
    /// How long it is of use: what can't arrive in that time is not sent, and what did not arrive is not sent again.
    /// Among messages that wait with equal priority and class, the first to lose its use goes first. Default for ever.
    pub lifetime: Option<Duration>,
    /// How often each of its bytes may be sent, at least 1. Default as often as needed.
    pub transmissions: Option<u32>,
    /// What it is for. Default as its stream.
    pub class: Option<Class>,
    /// What goes first: the higher number. Default as its stream.
    pub priority: Option<i8>,
}

impl MessageOptions {
    /// Sets [`Self::order`].
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets [`Self::protocol`].
    #[must_use]
    pub fn protocol(self, protocol: u32) -> Self {
        Self { protocol, ..self }
    }

    /// Sets [`Self::lifetime`].
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        Self { lifetime: Some(lifetime), ..self }
    }

    /// Sets [`Self::transmissions`]; 0 counts as 1.
    #[must_use]
    pub fn transmissions(self, transmissions: u32) -> Self {
        Self { transmissions: Some(transmissions.max(1)), ..self }
    }

    /// Sets [`Self::class`].
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Sets [`Self::priority`].
    #[must_use]
    pub fn priority(self, priority: i8) -> Self {
        Self { priority: Some(priority), ..self }
    }
}

/// Names a message towards the application that sent it; the messages of a stream count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageToken(pub u64);

/// What became of the messages of a connection, and of those of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageStatistics {
    /// Of which the first piece left.
    pub sent: u64,
    /// That the peer has as a whole.
    pub delivered: u64,
    /// Of these, those whose acknowledgement came after their lifetime: not all of them came too late.
    pub late: u64,
    /// Given up before the peer had them as a whole, for their lifetime or the number of transmissions.
    pub abandoned: u64,
    /// Of these, those that never left: they could not have arrived in time.
    pub dropped: u64,
    /// That came from the peer as a whole.
    pub received: u64,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// It is larger than the peer takes; split it, or send its bytes on a stream.
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The most that the peer takes, in bytes.
        most: u64,
    },
    /// The peer takes no messages at all.
    NotAgreed,
    /// Too much waits already; [`Event::StreamWritable`](crate::Event::StreamWritable) follows.
    Full,
    /// The peer asked for no more on this stream, for this reason.
    Stopped(u64),
    /// The call has no place here.
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

/// What a direction of a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Nothing yet.
    Nothing,
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
}
