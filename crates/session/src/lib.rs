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

/// Sends messages.
pub trait MessageSender: Send {
    /// Sends a message of the class interactive, unordered: within its lifetime, or reliably if it has none. Waits for
    /// room.
    fn send(
        &mut self,
        message: Bytes,
        lifetime: Option<Duration>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>>;

    /// Ends the messages.
    fn finish(&mut self);
}

/// Receives messages.
pub trait MessageReceiver: Send {
    /// Takes the next message; `None` at the end. Cancelling the wait loses nothing.
    fn receive(&mut self) -> Pin<Box<dyn Future<Output = io::Result<Option<Bytes>>> + Send + '_>>;
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
