//! A connection as an application holds it.

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

/// Events that a slow listener may fall behind before it misses some. The room is taken for the first listener.
const EVENTS: usize = 128;

/// One connection over all networks; clones stand for the same one.
///
/// When the last clone and the last of its streams are dropped, the connection closes with code 0: what was written
/// still arrives, while its [`Endpoint`](crate::Endpoint) or the process lives. Every method may be cancelled by
/// dropping its future.
#[derive(Debug, Clone)]
pub struct Connection {
    link: Arc<Link>,
}

/// A path with the name of its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathInfo {
    /// Name of the local interface, where the path is bound to one.
    pub interface: Option<String>,
    /// Its figures.
    pub statistics: PathStatistics,
}

/// Figures of a connection and of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Every open path, by ascending id.
    pub paths: Vec<PathInfo>,
    /// All figures as the protocol machine has them.
    pub statistics: ConnectionStatistics,
    /// Stream bytes that the application has written and the peer has not acknowledged: those that the protocol machine
    /// holds, and those that wait for it in the queue of each stream.
    pub unacknowledged: ByteCount,
}

/// Where events go, once somebody listens: the room for them is 16 KiB, and most connections have no listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<OnceLock<broadcast::Sender<Event>>>);

impl Events {
    fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.get_or_init(|| broadcast::channel(EVENTS).0).subscribe()
    }

    /// Tells all who listen.
    pub(crate) fn send(&self, event: Event) {
        if let Some(sender) = self.0.get() {
            // They may all have gone.
            let _ = sender.send(event);
        }
    }
}

/// What handles share with the driver.
#[derive(Debug)]
pub(crate) struct Link {
    facts: LinkFacts,
    commands: mpsc::UnboundedSender<Command>,
    events: Events,
    closed: watch::Receiver<Option<Ended>>,
    accepted: tokio::sync::Mutex<mpsc::UnboundedReceiver<Arc<Pipes>>>,
}

/// What is known of a connection from its set-up on.
#[derive(Debug)]
pub(crate) struct LinkFacts {
    pub(crate) handle: ConnectionHandle,
    pub(crate) peer_key: Option<PublicKey>,
    pub(crate) max_message: Option<u64>,
}

/// What is known of a connection from its end on.
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

    /// Commands to a driver that is gone change nothing any more.
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

    /// Opens a stream; waits while the peer allows no more
    /// ([`peer_streams`](manyway_proto::StreamConfig::peer_streams) of its settings at a time). The peer learns of it
    /// with the first bytes.
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

    /// Takes the next stream that the peer opened; waits for it. What came before the end of the connection can still
    /// be taken and read after it.
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

    /// Listens to what happens on the connection, from now on: paths that come, fail, return and go, and its end. Ask
    /// [`info`](Self::info) afterwards for the paths that are there already. A listener that falls more than 128 events
    /// behind misses the oldest.
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

    /// Says of every pair of addresses, and of every address of this host that leads nowhere, whether it is used and why
    /// not: paths first. Costs a round to the driver.
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

    /// Changes the congestion control of all paths, which begin anew with it; false, and nothing changes, if there is
    /// none of that [name](manyway_proto::congestion::names).
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

    /// The path of that id; perhaps it is closed already.
    pub fn path(&self, id: PathId) -> Path {
        Path::new(self.clone(), id)
    }

    /// Leaves the choice of the primary path to the scheduler again, after [`Path::make_primary`].
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

    /// The key that the peer has proved to own; `None` of a server that showed a certificate.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.link.facts.peer_key
    }

    /// The size of the largest message that may be sent, in bytes; `None` if one of the ends takes none at all.
    pub fn max_message(&self) -> Option<u64> {
        self.link.max_message()
    }

    /// Ends the connection at once because the peer may not be here any longer. What was written may be lost; the peer
    /// sees [`ConnectionError::Authentication`] with `reason`, at most 512 bytes of it.
    pub fn revoke(&self, reason: &str) {
        self.link.send(Command::Revoke { handle: self.link.facts.handle, reason: reason.to_owned() });
    }

    /// Closes: what was written still arrives, then the peer learns `code` and `reason`, at most 512 bytes of it.
    /// Waits until that is done, a minute at most. It is also done if the wait is cancelled. Streams take nothing more
    /// from now on; those that were not finished end without an end.
    pub async fn close(&self, code: u64, reason: &str) -> ConnectionError {
        self.link.send(Command::Close { handle: self.link.facts.handle, code, reason: reason.to_owned() });
        self.closed().await
    }

    /// Waits for the end and tells why.
    pub async fn closed(&self) -> ConnectionError {
        let mut closed = self.link.closed.clone();
        let ended = closed.wait_for(Option::is_some).await.ok();
        let ended = ended.and_then(|end| end.as_ref().map(|end| end.error.clone()));
        // The driver tells the end of each connection before its own.
        ended.unwrap_or_else(|| ended_with_endpoint("the endpoint ended"))
    }

    /// Why the connection ended, if it has.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.link.end()
    }

    /// Stream bytes that the application had written and the peer had not acknowledged when the connection ended, as far
    /// as this end knows; `None` while it lives. Before, [`info`](Self::info) tells.
    pub fn unacknowledged_at_end(&self) -> Option<ByteCount> {
        self.link.closed.borrow().as_ref().map(|end| end.unacknowledged)
    }
}

/// The end of a connection whose driver ended: nothing can be told to the peer any more.
pub(crate) fn ended_with_endpoint(reason: &str) -> ConnectionError {
    ConnectionError::Closed { by: ClosedBy::Us, code: 0, reason: reason.to_owned() }
}
