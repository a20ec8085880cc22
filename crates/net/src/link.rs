//! What the handles of an application and the driver share: commands in one direction, facts and events in the other.
//!
//! The driver knows links and the queues of streams; the handles are made of them on the application's side.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use manyway_proto::identity::PublicKey;
use manyway_proto::scheduler::Binding;
use manyway_proto::{
    ByteCount, Class, ClientConfig, ClosedBy, ConnectionConfig, ConnectionError, ConnectionHandle, Event,
    LocalAddress, Observed, PathId, RelayKey, Role, StreamId, TargetRate,
};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::error::ConnectError;
use crate::info::ConnectionInfo;
use crate::interfaces::Excluded;
use crate::report::PathReport;
use crate::stream::pipe::{Ending, Pipes};
use crate::tcp::RecordStream;
use crate::ticket::HostPort;
use crate::wire::Wire;

/// Events by which a listener may lag before it loses some. The memory is allocated for the first listener.
const EVENTS: usize = 128;
/// Most streams of the peer that wait until the application accepts them.
const MOST_ACCEPTED: usize = 64;

/// Gives a caller its connection once the handshake is complete, or the reason why there is none.
pub(crate) type ConnectReply = oneshot::Sender<Result<Arc<Link>, ConnectError>>;
/// Gives a caller the stream that it asked for.
pub(crate) type StreamReply = oneshot::Sender<(SendHalf, ReceiveHalf)>;
/// Gives a caller the round-trip time of its ping; `None` if no response will come.
pub(crate) type PingReply = oneshot::Sender<Option<Duration>>;

/// How a client connects.
#[derive(Debug)]
pub(crate) enum Dial {
    Mmsp2(Box<ClientConfig>),
    Mmsp1(Arc<ConnectionConfig>),
}

impl Dial {
    /// The settings of the connection.
    pub(crate) fn connection(&self) -> &ConnectionConfig {
        match self {
            Self::Mmsp2(config) => &config.connection,
            Self::Mmsp1(config) => config,
        }
    }
}

/// A command of an application.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        dial: Dial,
        hosts: Vec<HostPort>,
        remotes: Vec<SocketAddr>,
        reply: ConnectReply,
    },
    Open {
        link: Weak<Link>,
        reply: StreamReply,
    },
    /// A stream whose send queue was empty has data, or its end.
    Written {
        handle: ConnectionHandle,
        stream: StreamId,
    },
    /// A stream whose receive queue was full has room.
    Drained {
        handle: ConnectionHandle,
        stream: StreamId,
    },
    Stop {
        handle: ConnectionHandle,
        stream: StreamId,
        code: u64,
    },
    Priority {
        handle: ConnectionHandle,
        stream: StreamId,
        priority: i8,
    },
    Class {
        handle: ConnectionHandle,
        stream: StreamId,
        class: Class,
    },
    TargetRate {
        handle: ConnectionHandle,
        stream: StreamId,
        target: Option<TargetRate>,
    },
    Info {
        handle: ConnectionHandle,
        reply: oneshot::Sender<ConnectionInfo>,
    },
    Ping {
        handle: ConnectionHandle,
        path: PathId,
        reply: PingReply,
    },
    Report {
        handle: ConnectionHandle,
        reply: oneshot::Sender<Vec<PathReport>>,
    },
    SetCongestion {
        handle: ConnectionHandle,
        name: String,
        reply: oneshot::Sender<bool>,
    },
    ClosePath {
        handle: ConnectionHandle,
        path: PathId,
    },
    BindStream {
        handle: ConnectionHandle,
        stream: StreamId,
        to: Option<Binding>,
        reply: oneshot::Sender<bool>,
    },
    SetPrimary {
        handle: ConnectionHandle,
        path: Option<PathId>,
    },
    AllowCostly {
        handle: ConnectionHandle,
        path: PathId,
    },
    /// The application accepted a stream while as many as may were waiting.
    Accepted {
        handle: ConnectionHandle,
    },
    Close {
        handle: ConnectionHandle,
        code: u64,
        reason: String,
    },
    /// Ends a connection whose peer's rights have ended.
    Revoke {
        handle: ConnectionHandle,
        reason: String,
    },
    Rendezvous(Errand),
    Shutdown {
        code: u64,
        reason: String,
        /// The instant after which connections are aborted.
        until: Instant,
        reply: oneshot::Sender<()>,
    },
}

/// The local addresses that lead to a server, with their roles; or why there is none.
pub(crate) type UsableLocals = Result<Vec<(LocalAddress, Role)>, Vec<Excluded>>;

/// What rendezvous servers are asked before there is a connection.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Asks which local addresses lead to a rendezvous server: one of each interface. If there is none, the reply has
    /// the reasons.
    FindLocals { server: SocketAddr, reply: oneshot::Sender<UsableLocals> },
    /// Asks rendezvous servers where they see the sockets of the endpoint.
    Observe { servers: Vec<SocketAddr>, answers: mpsc::Sender<Observed> },
    /// Asks a rendezvous server to relay for one socket of the endpoint: a server relays for one address of an end. It
    /// is another one in each turn, since some may not reach the server.
    BindRelay { server: SocketAddr, key: RelayKey, turn: usize },
    /// Serves the client at the other end of a TCP connection that a rendezvous server relays.
    ServeStream(Box<RecordStream>),
    /// Uses such a TCP connection where a client connects to its remote address.
    DialStream(Box<RecordStream>),
    /// Sends a knock to each of these addresses, so that a NAT of this host lets packets from there in.
    Knock { remotes: Vec<SocketAddr> },
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
    accepted: tokio::sync::Mutex<mpsc::Receiver<Arc<Pipes>>>,
}

/// Facts that are known once the handshake is complete.
#[derive(Debug)]
pub(crate) struct LinkFacts {
    pub(crate) handle: ConnectionHandle,
    pub(crate) wire: Wire,
    pub(crate) peer_key: Option<PublicKey>,
    pub(crate) max_message: Option<u64>,
}

/// Facts that are known once the connection has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) error: ConnectionError,
    pub(crate) unacknowledged: ByteCount,
    /// The last figures; `None` if the driver failed.
    pub(crate) info: Option<Arc<ConnectionInfo>>,
}

/// The driver's side of a [`Link`].
#[derive(Debug)]
pub(crate) struct LinkDriver {
    pub(crate) events: Events,
    pub(crate) closed: watch::Sender<Option<Ended>>,
    pub(crate) accepted: mpsc::Sender<Arc<Pipes>>,
}

impl LinkDriver {
    /// Whether the application can be given another stream of the peer now: while it takes none, only so many wait
    /// here, and the others in the protocol machine, where they use up the peer's credit. At the end of the connection
    /// there is room for these, too.
    pub(crate) fn takes_stream(&self, has_ended: bool) -> bool {
        let reserve = if has_ended { 0 } else { self.accepted.max_capacity() - MOST_ACCEPTED };
        self.accepted.capacity() > reserve
    }
}

impl Link {
    /// Makes both sides; `peer_streams` is how many streams of the peer may be open.
    pub(crate) fn new(
        commands: mpsc::UnboundedSender<Command>,
        facts: LinkFacts,
        peer_streams: u64,
    ) -> (Arc<Self>, LinkDriver) {
        let events = Events::default();
        let (closed_sender, closed) = watch::channel(None);
        let peer_streams = usize::try_from(peer_streams).unwrap_or(MOST_ACCEPTED);
        let (accepted_sender, accepted) = mpsc::channel(MOST_ACCEPTED + peer_streams);
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

    pub(crate) fn wire(&self) -> Wire {
        self.facts.wire
    }

    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.facts.peer_key
    }

    pub(crate) fn max_message(&self) -> Option<u64> {
        self.facts.max_message
    }

    /// Commands to a driver that has ended have no effect.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Asks the driver, which answers through the sender that `command` gets.
    ///
    /// # Errors
    /// If the connection ended.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ConnectionError> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply));
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.closed().await),
        }
    }

    /// Reads the figures of the connection and its paths.
    ///
    /// # Errors
    /// If the connection ended.
    pub(crate) async fn info(&self) -> Result<ConnectionInfo, ConnectionError> {
        self.ask(|reply| Command::Info { handle: self.handle(), reply }).await
    }

    /// Subscribes to the events of the connection, from now on. After its end that is the only one.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        let events = self.events.subscribe();
        // The end is set before it is sent, so that a listener misses neither.
        let Some(ended) = self.closed.borrow().as_ref().map(|ended| ended.error.clone()) else {
            return events;
        };
        let (sender, events) = broadcast::channel(1);
        let _ = sender.send(Event::Closed(ended));
        events
    }

    /// Takes the next stream that the peer opened; waits for one. `None` at the end of the connection.
    pub(crate) async fn accept(&self) -> Option<Arc<Pipes>> {
        let mut accepted = self.accepted.lock().await;
        let pipes = accepted.recv().await;
        if accepted.len() + 1 >= MOST_ACCEPTED {
            self.send(Command::Accepted { handle: self.handle() });
        }
        pipes
    }

    /// Waits for the end of the connection and returns the reason.
    pub(crate) async fn closed(&self) -> ConnectionError {
        let mut closed = self.closed.clone();
        let ended = closed.wait_for(Option::is_some).await.ok();
        let ended = ended.and_then(|end| end.as_ref().map(|end| end.error.clone()));
        // The driver reports the end of each connection before its own.
        ended.unwrap_or_else(|| ended_with_endpoint("the endpoint ended"))
    }

    /// What is known of the end of the connection, if it has ended.
    pub(crate) fn end(&self) -> Option<Ended> {
        self.closed.borrow().clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.send(Command::Close { handle: self.facts.handle, code: 0, reason: String::new() });
    }
}

/// The error of a connection whose driver ended: the peer cannot be told any more.
pub(crate) fn ended_with_endpoint(reason: &str) -> ConnectionError {
    ConnectionError::Closed { by: ClosedBy::Us, code: 0, reason: reason.to_owned() }
}

/// Makes the two halves of a stream for the application.
pub(crate) fn halves(link: &Arc<Link>, pipes: &Arc<Pipes>) -> (SendHalf, ReceiveHalf) {
    let (link, pipes) = (Arc::clone(link), Arc::clone(pipes));
    (SendHalf { link: Arc::clone(&link), pipes: Arc::clone(&pipes) }, ReceiveHalf { link, pipes })
}

/// The application's side of the sending half of a stream. If it is dropped unfinished, the stream is reset with
/// code 0.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) link: Arc<Link>,
    pub(crate) pipes: Arc<Pipes>,
}

impl SendHalf {
    /// Drops unsent data and sends the peer a reset.
    pub(crate) fn reset(&self, code: u64) {
        let wake = self.pipes.send().reset(code);
        self.wake_driver(wake);
    }

    /// Sends the driver word of new data or of the end, if the pipe asks for it.
    pub(crate) fn wake_driver(&self, wake: bool) {
        if wake {
            self.link.send(Command::Written { handle: self.link.handle(), stream: self.pipes.stream });
        }
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        if self.pipes.send().ending() == Ending::Open {
            self.reset(0);
        }
    }
}

/// The application's side of the receiving half of a stream. Dropping it before the end sends the peer a stop with
/// code 0.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    pub(crate) link: Arc<Link>,
    pub(crate) pipes: Arc<Pipes>,
}

impl ReceiveHalf {
    /// Drops what has arrived and sends the peer a stop.
    pub(crate) fn stop(&self, code: u64) {
        if self.pipes.receive().stop() {
            let (handle, stream) = (self.link.handle(), self.pipes.stream);
            self.link.send(Command::Stop { handle, stream, code });
        }
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        self.stop(0);
    }
}
