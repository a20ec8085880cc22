//! The application's handle of a connection.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use manyway_proto::identity::PublicKey;
use manyway_proto::{
    ByteCount, ClosedBy, ConnectionError, ConnectionHandle, ConnectionStatistics, Event, PathId,
    PathStatistics,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::driver::Command;
use crate::path::Path;
use crate::report::PathReport;
use crate::stream::pipe::Pipes;
use crate::stream::{ReceiveStream, SendStream, halves};

/// Events by which a listener may lag before it loses some. The memory is allocated for the first listener.
const EVENTS: usize = 128;

/// One connection over all networks; clones are handles of the same connection.
///
/// When the last clone and the last of its streams are dropped, the connection closes with code 0. Written data still
/// arrives as long as its [`Endpoint`](crate::Endpoint) or the process lives. Every method may be cancelled by dropping
/// its future.
#[derive(Debug, Clone)]
pub struct Connection {
    link: Arc<Link>,
}

/// A path with the name of its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathInfo {
    /// Name of the local interface, if the path is bound to one.
    pub interface: Option<String>,
    /// The figures of the path.
    pub statistics: PathStatistics,
}

/// Figures of a connection and of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Every open path, by ascending id.
    pub paths: Vec<PathInfo>,
    /// All figures of the protocol machine.
    pub statistics: ConnectionStatistics,
    /// Stream bytes that the application has written and the peer has not acknowledged: those in the protocol machine
    /// and those in the queue of each stream.
    pub unacknowledged: ByteCount,
}

/// The channel of events, once there is a listener: it takes 16 KiB, and most connections have no listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<OnceLock<broadcast::Sender<Event>>>);

impl Events {
    fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.get_or_init(|| broadcast::channel(EVENTS).0).subscribe()
    }

    /// Sends an event to all listeners.
    pub(crate) fn send(&self, event: Event) {
        if let Some(sender) = self.0.get() {
            // All listeners may have gone.
            let _ = sender.send(event);
        }
    }
}

/// What the handles share with the driver.
#[derive(Debug)]
pub(crate) struct Link {
    facts: LinkFacts,
    commands: mpsc::UnboundedSender<Command>,
    events: Events,
    closed: watch::Receiver<Option<Ended>>,
    accepted: tokio::sync::Mutex<mpsc::UnboundedReceiver<Arc<Pipes>>>,
}

/// Facts that are known once the handshake is complete.
#[derive(Debug)]
pub(crate) struct LinkFacts {
    pub(crate) handle: ConnectionHandle,
    pub(crate) peer_key: Option<PublicKey>,
    pub(crate) max_message: Option<u64>,
}

/// Facts that are known once the connection has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) error: ConnectionError,
    pub(crate) unacknowledged: ByteCount,
}

/// The driver's side of a [`Link`].
#[derive(Debug)]
pub(crate) struct LinkDriver {
    pub(crate) events: Events,
    pub(crate) closed: watch::Sender<Option<Ended>>,
    pub(crate) accepted: mpsc::UnboundedSender<Arc<Pipes>>,
}

impl Link {
    pub(crate) fn new(commands: mpsc::UnboundedSender<Command>, facts: LinkFacts) -> (Arc<Self>, LinkDriver) {
        let events = Events::default();
        let (closed_sender, closed) = watch::channel(None);
        let (accepted_sender, accepted) = mpsc::unbounded_channel();
        let link = Self {
            facts,
            commands,
            events: events.clone(),
            closed,
            accepted: tokio::sync::Mutex::new(accepted),
        };
        (Arc::new(link), LinkDriver { events, closed: closed_sender, accepted: accepted_sender })
    }

    pub(crate) fn handle(&self) -> ConnectionHandle {
        self.facts.handle
    }

    pub(crate) fn max_message(&self) -> Option<u64> {
        self.facts.max_message
    }

    /// Commands to a driver that has ended have no effect.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    fn end(&self) -> Option<ConnectionError> {
        self.closed.borrow().as_ref().map(|end| end.error.clone())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.send(Command::Close { handle: self.facts.handle, code: 0, reason: String::new() });
    }
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
        let (reply, answer) = oneshot::channel();
        self.link.send(Command::Open { link: Arc::downgrade(&self.link), reply });
        match answer.await {
            Ok(streams) => Ok(streams),
            Err(_) => Err(self.closed().await),
        }
    }

    /// Takes the next stream that the peer opened; waits for one. Streams that arrived before the end of the connection
    /// can still be taken and read after it.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn accept(&self) -> Result<(SendStream, ReceiveStream), ConnectionError> {
        let next = self.link.accepted.lock().await.recv().await;
        match next {
            Some(pipes) => Ok(halves(&self.link, &pipes)),
            None => Err(self.closed().await),
        }
    }

    /// Reads the figures of the connection and its paths.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn info(&self) -> Result<ConnectionInfo, ConnectionError> {
        let (reply, answer) = oneshot::channel();
        self.link.send(Command::Info { handle: self.link.facts.handle, reply });
        match answer.await {
            Ok(info) => Ok(info),
            Err(_) => Err(self.closed().await),
        }
    }

    /// Subscribes to the events of the connection, from now on: paths that come, fail, return and go, and its end. Call
    /// [`info`](Self::info) afterwards for the paths that exist already. A listener that lags by more than 128 events
    /// misses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.link.events.subscribe()
    }

    /// The paths that are open now, by ascending id.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn paths(&self) -> Result<Vec<Path>, ConnectionError> {
        let info = self.info().await?;
        Ok(info.paths.iter().map(|path| Path::new(self.clone(), path.statistics.id)).collect())
    }

    /// Reports for every address pair, and every local address that leads nowhere, whether it is used, and why or why
    /// not: paths first. Costs a round trip to the driver thread.
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn report(&self) -> Result<Vec<PathReport>, ConnectionError> {
        let (reply, answer) = oneshot::channel();
        self.link.send(Command::Report { handle: self.link.facts.handle, reply });
        match answer.await {
            Ok(report) => Ok(report),
            Err(_) => Err(self.closed().await),
        }
    }

    /// Changes the congestion control of all paths, which restart with it. Returns false, and changes nothing, if no
    /// controller has that [name](manyway_proto::congestion::names).
    ///
    /// # Errors
    /// If the connection ended.
    pub async fn set_congestion(&self, name: &str) -> Result<bool, ConnectionError> {
        let (reply, answer) = oneshot::channel();
        let name = name.to_owned();
        self.link.send(Command::SetCongestion { handle: self.link.facts.handle, name, reply });
        match answer.await {
            Ok(known) => Ok(known),
            Err(_) => Err(self.closed().await),
        }
    }

    /// As [`Path::ping`].
    pub(crate) async fn ping(&self, path: PathId) -> Result<Option<Duration>, ConnectionError> {
        let (reply, answer) = oneshot::channel();
        self.link.send(Command::Ping { handle: self.link.facts.handle, path, reply });
        match answer.await {
            Ok(rtt) => Ok(rtt),
            Err(_) => Err(self.closed().await),
        }
    }

    /// The path with that ID, which may be closed already.
    pub fn path(&self, id: PathId) -> Path {
        Path::new(self.clone(), id)
    }

    /// Returns the choice of the primary path to the scheduler, after [`Path::make_primary`].
    pub fn leave_primary(&self) {
        self.link.send(Command::SetPrimary { handle: self.link.handle(), path: None });
    }

    pub(crate) fn make_primary(&self, path: PathId) {
        self.link.send(Command::SetPrimary { handle: self.link.handle(), path: Some(path) });
    }

    pub(crate) fn allow_costly(&self, path: PathId) {
        self.link.send(Command::AllowCostly { handle: self.link.handle(), path });
    }

    pub(crate) fn close_path(&self, path: PathId) {
        self.link.send(Command::ClosePath { handle: self.link.facts.handle, path });
    }

    /// The key that the peer has proved to own; `None` if the peer is a server that presented a certificate.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.link.facts.peer_key
    }

    /// Size of the largest message that may be sent, in bytes; `None` if either end accepts none.
    pub fn max_message(&self) -> Option<u64> {
        self.link.max_message()
    }

    /// Ends the connection at once because the peer's rights have ended. Written data may be lost. The peer sees
    /// [`ConnectionError::Authentication`] with `reason`, at most 512 bytes of it.
    pub fn revoke(&self, reason: &str) {
        self.link.send(Command::Revoke { handle: self.link.facts.handle, reason: reason.to_owned() });
    }

    /// Closes: written data still arrives, then the peer learns `code` and `reason`, at most 512 bytes of it. Waits for
    /// that, a minute at most. Cancelling the wait does not cancel the close. From now on streams accept no data;
    /// unfinished ones end without a final size.
    pub async fn close(&self, code: u64, reason: &str) -> ConnectionError {
        self.link.send(Command::Close { handle: self.link.facts.handle, code, reason: reason.to_owned() });
        self.closed().await
    }

    /// Waits for the end of the connection and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        let mut closed = self.link.closed.clone();
        let ended = closed.wait_for(Option::is_some).await.ok();
        let ended = ended.and_then(|end| end.as_ref().map(|end| end.error.clone()));
        // The driver reports the end of each connection before its own.
        ended.unwrap_or_else(|| ended_with_endpoint("the endpoint ended"))
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.link.end()
    }

    /// Stream bytes that the application had written and the peer had not acknowledged when the connection ended, as
    /// far as this end knows; `None` while the connection lives. Until then use [`info`](Self::info).
    pub fn unacknowledged_at_end(&self) -> Option<ByteCount> {
        self.link.closed.borrow().as_ref().map(|end| end.unacknowledged)
    }
}

/// The error of a connection whose driver ended: the peer cannot be told any more.
pub(crate) fn ended_with_endpoint(reason: &str) -> ConnectionError {
    ConnectionError::Closed { by: ClosedBy::Us, code: 0, reason: reason.to_owned() }
}
