//! What the verbs need from a connection.

use std::future::Future;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection with streams that both sides may open.
///
/// A stream's sending half ends in order by `shutdown`; dropping it before resets the stream. Dropping the receiving
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
}
