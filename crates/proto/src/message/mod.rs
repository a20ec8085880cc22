//! Messages: complete or not at all, in order or not, reliable or with a limited lifetime; besides the bytes of
//! streams.
//!
//! The interface for applications, the same over every wire.

mod error;

use std::time::Duration;

use bytes::Bytes;

use crate::Class;
pub use error::SendError;

/// Credit that a message costs beyond its bytes (spec 8.32): about its cost in memory.
pub(crate) const OVERHEAD: u64 = 128;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The data that the peer sent, with its boundaries.
    pub data: Bytes,
    /// The peer's code for the kind of content, without meaning for the protocol.
    pub protocol: u32,
    /// Whether it was sent in order.
    pub order: Order,
}

/// The result of reading a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageOutcome {
    /// The next message.
    Message(Message),
    /// No message yet; [`Event::StreamReadable`](crate::Event::StreamReadable) follows.
    Blocked,
    /// The stream has ended; there are no more messages.
    End,
    /// The peer abandoned the stream with this code; there are no more messages.
    Reset(u64),
}

/// When a message is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Order {
    /// After all ordered messages of the stream that were sent before it.
    #[default]
    Ordered,
    /// As soon as it is complete.
    Unordered,
}

/// Options of a message. The default: in order, reliably, with class and priority of its stream.
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
    /// A code for the kind of content, delivered to the peer. Default 0.
    pub protocol: u32,
    /// Its lifetime: a message that cannot arrive in that time is not sent, and lost pieces are not retransmitted
    /// after it. Among waiting messages of equal priority and class, the first to expire goes first. Default
    /// unlimited.
    pub lifetime: Option<Duration>,
    /// How often each of its bytes may be sent, at least 1. Default as often as needed.
    pub transmissions: Option<u32>,
    /// Its class. Default that of its stream.
    pub class: Option<Class>,
    /// Its priority: the higher number goes first. Default that of its stream.
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

/// Identifies a message to the application that sent it; the messages of a stream count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageToken(pub u64);

/// Statistics of the messages of a connection, sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageStatistics {
    /// Messages of which the first piece was sent.
    pub sent: u64,
    /// Messages that the peer has received completely.
    pub delivered: u64,
    /// The part of these whose acknowledgement came after their lifetime: not all of them arrived too late.
    pub late: u64,
    /// Messages given up before the peer had received them completely, because of their lifetime or the number of
    /// transmissions.
    pub abandoned: u64,
    /// The part of these that were never sent: they could not have arrived in time.
    pub dropped: u64,
    /// Messages received completely from the peer.
    pub received: u64,
}

/// The kind of data in a direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// Nothing yet.
    Nothing,
    /// Bytes.
    Bytes,
    /// Messages.
    Messages,
}
