//! The application's handle of a connection.

use std::sync::Arc;

use manyway_proto::identity::PublicKey;
use manyway_proto::{ByteCount, ConnectionError, Event, PathId};
use tokio::sync::broadcast;

use crate::info::ConnectionInfo;
use crate::link::{Command, Link, halves};
use crate::path::Path;
use crate::report::PathReport;
use crate::stream::{ReceiveStream, SendStream, streams};
use crate::wire::Wire;

/// One connection over all networks; clones are handles of the same connection.
///
/// When the last clone and the last of its streams are dropped, the connection closes with code 0. Written data still
/// arrives as long as its [`Endpoint`](crate::Endpoint) or the process lives. Every method may be cancelled by dropping
/// its future.
#[derive(Debug, Clone)]
pub struct Connection {
    link: Arc<Link>,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// Opens a stream; waits while the peer's limit is reached
    /// ([`peer_streams`](manyway_proto::StreamConfig::peer_streams) of its settings at a time). The peer learns of the
    /// stream with its first bytes.
    ///
    /// # Errors
    /// If the connection was closed or ended.
    pub async fn open(&self) -> Result<(SendStream, ReceiveStream), ConnectionError> {
        let open = |reply| Command::Open { link: Arc::downgrade(&self.link), reply };
        self.link.ask(open).await.map(streams)
    }

    /// Takes the next stream that the peer opened; waits for one. Streams that arrived before the end of the connection
    /// can still be taken and read after it.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn accept(&self) -> Result<(SendStream, ReceiveStream), ConnectionError> {
        match self.link.accept().await {
            Some(pipes) => Ok(streams(halves(&self.link, &pipes))),
            None => Err(self.closed().await),
        }
    }

    /// Reads the figures of the connection and its paths.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn info(&self) -> Result<ConnectionInfo, ConnectionError> {
        self.link.info().await
    }

    /// Subscribes to the events of the connection, from now on: paths that come, fail, return and go, and its end. Call
    /// [`info`](Self::info) afterwards for the paths that exist already. A listener that lags by more than 128 events
    /// misses the oldest. One that comes after the end gets that event alone.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.link.events()
    }

    /// The paths that are open now, by ascending id.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn paths(&self) -> Result<Vec<Path>, ConnectionError> {
        let info = self.info().await?;
        Ok(info.paths.iter().map(|path| self.path(path.statistics.id)).collect())
    }

    /// Reports for every address pair, and every local address that leads nowhere, whether it is used, and why or why
    /// not: paths first. Costs a round trip to the driver thread.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn report(&self) -> Result<Vec<PathReport>, ConnectionError> {
        self.link.ask(|reply| Command::Report { handle: self.link.handle(), reply }).await
    }

    /// Changes the congestion control of all paths, which restart with it. Returns false, and changes nothing, if no
    /// controller has that [name](manyway_proto::congestion::names).
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn set_congestion(&self, name: &str) -> Result<bool, ConnectionError> {
        let name = name.to_owned();
        self.link.ask(|reply| Command::SetCongestion { handle: self.link.handle(), name, reply }).await
    }

    /// The path with that ID, which may be closed already.
    pub fn path(&self, id: PathId) -> Path {
        Path::new(Arc::clone(&self.link), id)
    }

    /// Returns the choice of the primary path to the scheduler, after [`Path::make_primary`].
    pub fn leave_primary(&self) {
        self.link.send(Command::SetPrimary { handle: self.link.handle(), path: None });
    }

    /// The wire protocol of the connection.
    pub fn wire(&self) -> Wire {
        self.link.wire()
    }

    /// The key that the peer has proved to own; `None` if the peer is a server that presented a certificate, and over
    /// MMSP/1, which has no keys.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.link.peer_key()
    }

    /// Size of the largest message that may be sent, in bytes; `None` if either end accepts none.
    pub fn max_message(&self) -> Option<u64> {
        self.link.max_message()
    }

    /// Ends the connection at once because the peer's rights have ended. Written data may be lost. The peer sees
    /// [`ConnectionError::Authentication`] with `reason`, at most 512 bytes of it.
    pub fn revoke(&self, reason: &str) {
        self.link.send(Command::Revoke { handle: self.link.handle(), reason: reason.to_owned() });
    }

    /// Closes: written data still arrives, then the peer learns `code` and `reason`, at most 512 bytes of it. Waits for
    /// that, a minute at most. Cancelling the wait does not cancel the close. From now on streams accept no data;
    /// unfinished ones end without a final size. What the peer has not acknowledged by then is lost, also where the
    /// result is [`ConnectionError::Closed`]: [`unacknowledged_at_end`](Self::unacknowledged_at_end) tells how much.
    pub async fn close(&self, code: u64, reason: &str) -> ConnectionError {
        self.link.send(Command::Close { handle: self.link.handle(), code, reason: reason.to_owned() });
        self.closed().await
    }

    /// Waits for the end of the connection and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        self.link.closed().await
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.link.end().map(|end| end.error)
    }

    /// Stream bytes that the application had written and the peer had not acknowledged when the connection ended, as
    /// far as this end knows; `None` while the connection lives. Until then use [`info`](Self::info).
    pub fn unacknowledged_at_end(&self) -> Option<ByteCount> {
        self.link.end().map(|end| end.unacknowledged)
    }

    /// The figures of the connection and its paths when it ended; `None` while it lives, and if its endpoint failed.
    /// Until the end use [`info`](Self::info).
    pub fn info_at_end(&self) -> Option<ConnectionInfo> {
        self.link.end()?.info.map(Arc::unwrap_or_clone)
    }
}
