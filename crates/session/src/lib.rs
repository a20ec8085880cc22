//! The interface between a connection and the protocols over it: a [`Session`] with streams that both sides may open.
//!
//! `manyway-transfer` and `manyway-egress` need nothing else, so the same code runs over a Manyway connection and, in
//! tests, over pipes in memory.
#![forbid(unsafe_code)]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection with streams that both sides may open.
///
/// `shutdown` ends a stream's sending half in order; dropping the half before resets the stream. Dropping the receiving
/// half tells the other side to stop.
pub trait Session: Send + Sync {
    /// The sending half of a stream.
    type Send: AsyncWrite + Unpin + Send + 'static;
    /// The receiving half of a stream.
    type Receive: AsyncRead + Unpin + Send + 'static;

    /// Opens a stream. Errors: the connection is gone.
    fn open(&self) -> impl Future<Output = io::Result<(Self::Send, Self::Receive)>> + Send;

    /// Waits for a stream that the other side opens; `None` when the connection has ended.
    fn accept(&self) -> impl Future<Output = Option<(Self::Send, Self::Receive)>> + Send;

    /// Whether a stream that the other side opened carries messages; waits until its first data tells. Default: none does.
    ///
    /// Errors: the stream was reset, or the connection is gone.
    fn carries_messages(receive: &mut Self::Receive) -> impl Future<Output = io::Result<bool>> + Send {
        let _ = receive;
        std::future::ready(Ok(false))
    }

    /// The halves of a stream, for messages. Default: there are none.
    fn messages(send: Self::Send, receive: Self::Receive) -> Option<MessageHalves> {
        let _ = (send, receive);
        None
    }

    /// Sets which data of a stream of bytes go first, beside those of others. Default: without effect.
    fn set_urgency(send: &mut Self::Send, urgency: Urgency) {
        let _ = (send, urgency);
    }

    /// Asks for a stream to arrive at a rate, in bits a second, on average. Default: without effect.
    fn hold(&self, receive: &mut Self::Receive, bits_per_second: u64) {
        let _ = (receive, bits_per_second);
    }

    /// The transport below, for measurements. Default: none.
    fn transport(&self) -> Option<Arc<dyn Transport>> {
        None
    }
}

/// The transport below the streams of a [`Session`].
pub trait Transport: Send + Sync {
    /// Its figures; `None` once it has ended.
    fn facts(&self) -> Pin<Box<dyn Future<Output = Option<TransportFacts>> + Send + '_>>;

    /// Changes its congestion control for sending; returns false if the name is unknown.
    fn set_congestion<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

    /// Opens a stream of messages. Default: there are none.
    fn open_messages(&self) -> Pin<Box<dyn Future<Output = Option<MessageHalves>> + Send + '_>> {
        Box::pin(async { None })
    }

    /// Takes the next stream that the other side opened, for messages. Default: there are none.
    fn accept_messages(&self) -> Pin<Box<dyn Future<Output = Option<MessageHalves>> + Send + '_>> {
        Box::pin(async { None })
    }
}

/// Both directions of a stream of messages.
pub type MessageHalves = (Box<dyn MessageSender>, Box<dyn MessageReceiver>);

/// How a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivery {
    /// A code for the kind of content, which the receiver is told. Default 0.
    pub protocol: u32,
    /// Arrives after the ordered messages that were sent before it. Default no.
    pub is_ordered: bool,
    /// The message is given up if it cannot arrive in this time. Default: it arrives for certain.
    pub lifetime: Option<Duration>,
    /// Which messages go first.
    pub urgency: Urgency,
}

/// Which messages go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Urgency {
    /// Before bulk data. Default.
    #[default]
    Interactive,
    /// Before bulk data, and with copies on other paths where it would be late otherwise.
    Deadline,
    /// As bulk data.
    Bulk,
}

/// A message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub data: Bytes,
    /// The sender's code for the kind of content.
    pub protocol: u32,
}

/// Sends messages. Dropping it before [`finish`](Self::finish) resets the stream.
pub trait MessageSender: Send {
    /// Sends a message. Waits for room.
    fn send(
        &mut self,
        message: Bytes,
        delivery: Delivery,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>;

    /// Sends a message if there is room for it now, and tells whether there was.
    ///
    /// # Errors
    /// The stream was stopped, or the connection is gone.
    fn try_send(&mut self, message: Bytes, delivery: Delivery) -> io::Result<bool>;

    /// Ends the messages.
    fn finish(&mut self);
}

/// Receives messages. Dropping it tells the other side to stop.
pub trait MessageReceiver: Send {
    /// Takes the next message; `None` at the end. Cancelling the wait loses nothing.
    fn receive(&mut self) -> Pin<Box<dyn Future<Output = io::Result<Option<Message>>> + Send + '_>>;
}

/// Figures of the transport since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransportFacts {
    /// Packets sent.
    pub packets_sent: u64,
    /// Of them, those that were lost.
    pub packets_lost: u64,
    /// Name of its congestion control; at most 64 bytes of it are transferred.
    pub congestion: String,
}
