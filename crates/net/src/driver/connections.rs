//! The connections as the applications see them: handles, waiting callers, events, the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::task::Context;
use std::time::Duration;

use manyway_proto::identity::{Authoriser, PublicKey};
use manyway_proto::{
    ByteCount, ClosedBy, Connection, ConnectionError, ConnectionHandle, Endpoint, Event, Instant,
    LocalCandidate, PathEvent, PathId, PathState, PathStatistics, Side, StreamConfig, StreamId,
};
use tokio::sync::mpsc;
use tokio::time::Instant as TokioInstant;

use super::attempts::{Attempt, Attempts};
use super::peer::{ClientId, Peer};
use super::pings::Pings;
use crate::Wire;
use crate::error::{ReadError, WriteError};
use crate::info::{ConnectionInfo, PathInfo};
use crate::link::{Command, Ended, Link, LinkDriver, LinkFacts, PingReply, StreamReply, ended_with_endpoint};
use crate::stream::budget::Budget;
use crate::stream::pipe::Pipes;
use crate::zone::interface_name;

/// Longest time for writers' queues to reach the protocol machine after a close; flushing may take as long again.
const HAND_OVER: Duration = Duration::from_secs(30);

/// Number of departing connections that are kept without checking whether they have ended.
const FEW_DEPARTING: usize = 64;

/// One connection.
pub(super) struct Entry {
    pub(super) driver: LinkDriver,
    pub(super) streams: BTreeMap<StreamId, Arc<Pipes>>,
    /// Callers that wait for a stream. A waiting caller keeps the connection alive, not the other way round.
    pub(super) openers: VecDeque<(Weak<Link>, StreamReply)>,
    pub(super) budget: Arc<Budget>,
    pub(super) pings: Pings,
    closing: Option<Closing>,
}

/// The application closed the connection, but its writers' queues are not handed over yet.
struct Closing {
    code: u64,
    reason: String,
    until: TokioInstant,
    /// Streams with queued bytes.
    waiting: BTreeSet<StreamId>,
}

pub(super) struct Connections {
    pub(super) entries: BTreeMap<ConnectionHandle, Entry>,
    pub(super) attempts: Attempts,
    /// The peers of client connections.
    peers: BTreeMap<ConnectionHandle, Peer>,
    /// Client connections whose paths changed since the last call.
    path_news: BTreeSet<ConnectionHandle>,
    /// Clients whose TCP connections are to be reconsidered, for the same reason.
    client_news: BTreeSet<ClientId>,
    /// Connections whose paths or target rates changed: the windows of their TCP connections may have to be set.
    window_news: BTreeSet<ConnectionHandle>,
    /// Connections that the peer closed and whose close may still be in progress.
    departing: BTreeSet<ConnectionHandle>,
    /// Above this number, ended ones are removed.
    most_departing: usize,
    /// Connections closed by the application whose writers' queues are not handed over yet.
    hand_overs: BTreeSet<ConnectionHandle>,
    /// The sockets of a server, from which it reaches its rendezvous servers.
    pub(super) listening: Vec<LocalCandidate>,
    /// The addresses advertised to clients, if they changed since the start.
    pub(super) advertised: Option<Vec<SocketAddr>>,
    /// Client connections whose peer's addresses have changed.
    address_news: BTreeSet<ConnectionHandle>,
    streams: StreamConfig,
    commands: mpsc::WeakUnboundedSender<Command>,
    /// `None` once the endpoint accepts no more clients.
    incoming: Option<mpsc::Sender<Arc<Link>>>,
    /// Server only: notified of refused clients.
    pub(super) authoriser: Option<Arc<dyn Authoriser>>,
}

impl Connections {
    pub(super) fn new(
        streams: StreamConfig,
        commands: mpsc::WeakUnboundedSender<Command>,
        incoming: mpsc::Sender<Arc<Link>>,
    ) -> Self {
        Self {
            entries: BTreeMap::new(),
            attempts: Attempts::default(),
            peers: BTreeMap::new(),
            path_news: BTreeSet::new(),
            client_news: BTreeSet::new(),
            window_news: BTreeSet::new(),
            departing: BTreeSet::new(),
            most_departing: FEW_DEPARTING,
            hand_overs: BTreeSet::new(),
            listening: Vec::new(),
            advertised: None,
            address_news: BTreeSet::new(),
            streams,
            commands,
            incoming: Some(incoming),
            authoriser: None,
        }
    }

    pub(super) fn add_attempt(&mut self, attempt: Attempt) -> ClientId {
        let client = self.attempts.add(attempt);
        self.client_news.insert(client);
        client
    }

    /// Something happened to a client, of which its TCP has to know.
    pub(super) fn note_client(&mut self, client: ClientId) {
        self.client_news.insert(client);
    }

    /// Client connections, including those in the handshake.
    pub(super) fn clients(&self) -> Vec<ConnectionHandle> {
        self.attempts.handles().chain(self.peers.keys().copied()).collect()
    }

    /// The established connection of a client.
    pub(super) fn connection_of(&self, client: ClientId) -> Option<ConnectionHandle> {
        self.peers.iter().find(|(_, peer)| peer.client == client).map(|(handle, _)| *handle)
    }

    pub(super) fn servers(&self) -> Vec<ConnectionHandle> {
        self.entries.keys().filter(|handle| !self.peers.contains_key(handle)).copied().collect()
    }

    pub(super) fn peer(&mut self, handle: ConnectionHandle) -> Option<&mut Peer> {
        let Self { attempts, peers, .. } = self;
        attempts.of(handle).map(|attempt| &mut attempt.peer).or_else(|| peers.get_mut(&handle))
    }

    /// The addresses of this host have changed.
    pub(super) fn tell_all_clients(&mut self) {
        let Self { client_news, peers, attempts, .. } = self;
        client_news.extend(peers.values().map(|peer| peer.client).chain(attempts.clients()));
    }

    /// A target rate was set or ended.
    pub(super) fn note_windows(&mut self, handle: ConnectionHandle) {
        self.window_news.insert(handle);
        if let Some(peer) = self.peers.get(&handle) {
            self.client_news.insert(peer.client);
        }
    }

    /// Takes the connections whose TCP connections may need other receive windows.
    pub(super) fn take_window_news(&mut self) -> BTreeSet<ConnectionHandle> {
        std::mem::take(&mut self.window_news)
    }

    pub(super) fn has_client_news(&self) -> bool {
        !self.client_news.is_empty()
    }

    /// Takes the clients that have connected or ended, or whose paths have changed, since the last call.
    pub(super) fn take_client_news(&mut self) -> BTreeSet<ClientId> {
        std::mem::take(&mut self.client_news)
    }

    /// Takes the clients whose paths changed since the last call.
    pub(super) fn take_path_news(&mut self) -> BTreeSet<ConnectionHandle> {
        std::mem::take(&mut self.path_news)
    }

    /// Aborts handshakes whose caller has gone.
    pub(super) fn poll_abandoned(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        context: &mut Context<'_>,
    ) {
        for handle in self.attempts.poll_abandoned(context) {
            if let Some(connection) = endpoint.connection(handle) {
                connection.close(now, 0, "");
            }
        }
    }

    pub(super) fn all_ended(&mut self, endpoint: &Endpoint) -> bool {
        if self.entries.is_empty() && self.attempts.is_empty() {
            self.forget_departed(endpoint);
            return self.departing.is_empty();
        }
        false
    }

    fn forget_departed(&mut self, endpoint: &Endpoint) {
        self.departing.retain(|handle| endpoint.contains(*handle));
        // The next scan follows when the number has doubled, so that each entry costs a few steps in total.
        self.most_departing = (self.departing.len() * 2).max(FEW_DEPARTING);
    }

    /// The addresses of a client's peer have changed: other interfaces and TCP connections may lead there.
    pub(super) fn note_addresses(&mut self, handle: ConnectionHandle) {
        self.address_news.insert(handle);
        self.client_news.extend(self.peers.get(&handle).map(|peer| peer.client));
    }

    /// Takes the client connections whose peer's addresses have changed since the last call.
    pub(super) fn take_address_news(&mut self) -> BTreeSet<ConnectionHandle> {
        std::mem::take(&mut self.address_news)
    }

    /// Passes on the events of the protocol machine.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol's list is open")]
    pub(super) fn tell_events(&mut self, endpoint: &mut Endpoint, now: Instant) {
        while let Some((handle, event)) = endpoint.poll_event() {
            match event {
                Event::Connected => self.connected(endpoint, handle, now),
                Event::StreamOpened => self.accept_streams(endpoint, handle, false),
                Event::StreamsAvailable => self.serve_openers(endpoint, handle),
                Event::StreamReadable(stream) => self.read(endpoint, handle, stream),
                Event::StreamWritable(stream) => self.write(endpoint, now, handle, stream),
                Event::StreamFinished(stream) => self.delivered(handle, stream),
                Event::StreamStopped { stream, code } => {
                    self.stopped(endpoint, now, (handle, stream), code);
                }
                Event::Closed(error) => self.closed(endpoint, handle, error),
                Event::Pong { path, token, rtt } => {
                    if let Some(entry) = self.entries.get_mut(&handle) {
                        entry.pings.answer(path, token, rtt);
                    }
                }
                other @ (Event::Path(_) | Event::TargetRate(_)) => {
                    self.note_windows(handle);
                    self.tell(handle, other);
                }
                Event::TcpConnections => self.note_windows(handle),
                other @ (Event::AddressObserved { .. }
                | Event::PrimaryPath(_)
                | Event::CostlyPathNeeded(_)) => self.tell(handle, other),
                event @ Event::MessageAbandoned { .. } => {
                    if let Some(entry) = self.entries.get(&handle) {
                        entry.driver.events.send(event);
                    }
                }
                Event::PeerAddresses => self.note_addresses(handle),
                Event::ClientRefused { remote } => {
                    if let Some(authoriser) = &self.authoriser {
                        authoriser.on_refused(remote);
                    }
                }
                _ => {}
            }
        }
    }

    /// Sends a ping on a path; the reply carries the round-trip time.
    pub(super) fn ping(
        &mut self,
        endpoint: &mut Endpoint,
        handle: ConnectionHandle,
        path: PathId,
        reply: PingReply,
    ) {
        let (Some(entry), Some(connection)) = (self.entries.get_mut(&handle), endpoint.connection(handle))
        else {
            return;
        };
        match connection.ping(path) {
            Ok(token) => entry.pings.add(path, token, reply),
            Err(_) => drop(reply.send(None)),
        }
    }

    fn tell(&mut self, handle: ConnectionHandle, event: Event) {
        let Some(entry) = self.entries.get_mut(&handle) else { return };
        if let Event::Path(PathEvent { path, state: PathState::Closed, .. }) = event {
            entry.pings.forget(path);
        }
        entry.driver.events.send(event);
        if let Some(peer) = self.peers.get(&handle) {
            self.path_news.insert(handle);
            self.client_news.insert(peer.client);
        }
    }

    fn connected(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, now: Instant) {
        let Some(connection) = endpoint.connection(handle) else { return };
        let Some(commands) = self.commands.upgrade() else {
            return connection.close(now, 0, "the endpoint is closing");
        };
        let peer_key = connection.peer_public_key().and_then(PublicKey::from_spki);
        let wire = if connection.is_mmsp1() { Wire::Mmsp1 } else { Wire::Mmsp2 };
        let facts = LinkFacts { handle, wire, peer_key, max_message: connection.max_message() };
        let (link, driver) = Link::new(commands, facts, self.streams.peer_streams);
        let budget = Arc::new(Budget::new(&self.streams));
        let entry = Entry {
            driver,
            streams: BTreeMap::new(),
            openers: VecDeque::new(),
            budget,
            pings: Pings::default(),
            closing: None,
        };
        self.entries.insert(handle, entry);
        // If there is no receiver for the link, dropping it closes the connection.
        match connection.side() {
            Side::Client => {
                if let Some(attempt) = self.attempts.take_of(handle) {
                    if attempt.over_tcp == Some(handle) {
                        // It has no address for UDP yet.
                        connection.add_remote_addresses(now, &attempt.peer.remotes);
                        self.address_news.insert(handle);
                    }
                    self.welcome(endpoint, now, handle, attempt, link);
                }
            }
            Side::Server => {
                connection.set_local_addresses(now, &self.listening);
                if let Some(addresses) = &self.advertised {
                    connection.set_advertised_addresses(addresses);
                }
                match self.incoming.as_ref().map(|incoming| incoming.try_send(link)) {
                    Some(Ok(())) => {}
                    Some(Err(mpsc::error::TrySendError::Full(_))) => {
                        tracing::warn!("too many clients wait to be accepted, one is turned away");
                        connection.close(now, 0, "the server is busy");
                    }
                    Some(Err(mpsc::error::TrySendError::Closed(_))) | None => {
                        connection.close(now, 0, "the server is closing");
                    }
                }
            }
        }
    }

    /// A client is connected by one of its handshakes: the others end.
    fn welcome(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        handle: ConnectionHandle,
        attempt: Attempt,
        link: Arc<Link>,
    ) {
        for other in attempt.handles.into_iter().filter(|other| *other != handle) {
            if let Some(connection) = endpoint.connection(other) {
                connection.close(now, 0, "another carrier was faster");
            }
        }
        self.client_news.insert(attempt.peer.client);
        self.peers.insert(handle, attempt.peer);
        let _ = attempt.reply.send(Ok(link));
    }

    /// Starts the close of a connection: the writers' queues are sent first.
    pub(super) fn close(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        handle: ConnectionHandle,
        code_and_reason: (u64, &str),
    ) {
        let (code, reason) = code_and_reason;
        let Some(entry) = self.entries.get_mut(&handle).filter(|entry| entry.closing.is_none()) else {
            return;
        };
        let end = ConnectionError::Closed { by: ClosedBy::Us, code, reason: reason.to_owned() };
        for pipes in entry.streams.values() {
            pipes.send().refuse(WriteError::Connection(end.clone()));
        }
        // Their callers then check for the end of the connection.
        entry.openers.clear();
        let waiting: BTreeSet<_> =
            entry.streams.iter().filter(|(_, pipes)| !pipes.send().is_drained()).map(|(id, _)| *id).collect();
        let streams = waiting.clone();
        let until = TokioInstant::now() + HAND_OVER;
        self.hand_overs.insert(handle);
        entry.closing = Some(Closing { code, reason: reason.to_owned(), until, waiting });
        for stream in streams {
            self.write(endpoint, now, handle, stream);
        }
        self.finish_close(endpoint, now, handle, false);
    }

    /// Closes every connection.
    pub(super) fn close_all(&mut self, endpoint: &mut Endpoint, now: Instant, code_and_reason: (u64, &str)) {
        self.incoming = None;
        let handles: Vec<_> = self.entries.keys().copied().collect();
        for handle in handles {
            self.close(endpoint, now, handle, code_and_reason);
        }
        for handle in endpoint.handles() {
            // The handshake is not complete.
            if !self.entries.contains_key(&handle)
                && let Some(connection) = endpoint.connection(handle)
            {
                connection.close(now, code_and_reason.0, code_and_reason.1);
            }
        }
    }

    /// A stream of a closing connection has handed over its queue, or cannot.
    pub(super) fn note_handed_over(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        handle: ConnectionHandle,
        stream: StreamId,
    ) {
        let closing = self.entries.get_mut(&handle).and_then(|entry| entry.closing.as_mut());
        if closing.is_some_and(|closing| closing.waiting.remove(&stream)) {
            self.finish_close(endpoint, now, handle, false);
        }
    }

    fn finish_close(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        handle: ConnectionHandle,
        at_once: bool,
    ) {
        let closing = self.entries.get(&handle).and_then(|entry| entry.closing.as_ref());
        if let Some(closing) = closing.filter(|closing| at_once || closing.waiting.is_empty())
            && self.hand_overs.remove(&handle)
            && let Some(connection) = endpoint.connection(handle)
        {
            connection.close(now, closing.code, &closing.reason);
        }
    }

    /// When a close stops waiting for its writers.
    pub(super) fn deadline(&self) -> Option<TokioInstant> {
        self.hand_overs.iter().filter_map(|handle| self.entries.get(handle)?.hand_over_ends()).min()
    }

    pub(super) fn on_timeout(&mut self, endpoint: &mut Endpoint, now: Instant) {
        if self.hand_overs.is_empty() {
            return;
        }
        let at = TokioInstant::now();
        for handle in self.hand_overs.clone() {
            let ends = self.entries.get(&handle).and_then(Entry::hand_over_ends);
            if ends.is_none_or(|until| until <= at) {
                self.finish_close(endpoint, now, handle, true);
            }
        }
    }

    fn closed(&mut self, endpoint: &mut Endpoint, handle: ConnectionHandle, error: ConnectionError) {
        if let Some(attempt) = self.attempts.of(handle) {
            let error = attempt.peer.explain(error);
            attempt.on_failed(handle, error);
            self.client_news.insert(attempt.peer.client);
            return;
        }
        if matches!(error, ConnectionError::Closed { by: ClosedBy::Peer, .. }) {
            self.departing.insert(handle);
            if self.departing.len() > self.most_departing {
                self.forget_departed(endpoint);
            }
        }
        // What arrived before the end can still be taken and read.
        self.accept_streams(endpoint, handle, true);
        let peer = self.peers.remove(&handle);
        self.client_news.extend(peer.as_ref().map(|peer| peer.client));
        let error = peer.iter().fold(error, |error, peer| peer.explain(error));
        self.hand_overs.remove(&handle);
        self.drain(endpoint, handle);
        let Some(entry) = self.entries.remove(&handle) else { return };
        let machine = endpoint.connection(handle);
        let unacknowledged =
            machine.as_ref().map_or(ByteCount::ZERO, |it| entry.unacknowledged(it.unacknowledged()));
        let info = machine.map(|machine| Arc::new(entry.info(machine, interface_name)));
        entry.end(Ended { error, unacknowledged, info });
    }
}

impl Entry {
    /// Stream bytes that the peer has not acknowledged; `held` of them are in the protocol machine.
    pub(super) fn unacknowledged(&self, held: ByteCount) -> ByteCount {
        held + ByteCount::of(self.streams.values().map(|pipes| pipes.send().queued()).sum())
    }

    /// The figures of the connection; `name` names an interface.
    pub(super) fn info(
        &self,
        connection: &Connection,
        name: impl Fn(u32) -> Option<String>,
    ) -> ConnectionInfo {
        let statistics = connection.statistics();
        let info = |path: &PathStatistics| PathInfo {
            interface: name(path.tuple.local.interface),
            statistics: *path,
        };
        let paths = statistics.paths.iter().map(info).collect();
        let unacknowledged = self.unacknowledged(connection.unacknowledged());
        ConnectionInfo { at: std::time::Instant::now(), paths, statistics, unacknowledged }
    }

    fn hand_over_ends(&self) -> Option<TokioInstant> {
        self.closing.as_ref().map(|closing| closing.until)
    }

    /// Wakes every caller that waits on the connection. The reason is set first, since a caller that is woken through a
    /// stream reads it, and a new listener looks at it.
    fn end(self, ended: Ended) {
        let error = ended.error.clone();
        self.driver.closed.send_replace(Some(ended));
        for pipes in self.streams.values() {
            pipes.fail(&WriteError::Connection(error.clone()), &ReadError::Connection(error.clone()));
        }
        self.driver.events.send(Event::Closed(error));
    }
}

/// The driver ends, perhaps by a panic: no caller may wait any longer.
impl Drop for Connections {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let reason = if failed { "the driver failed" } else { "the endpoint ended" };
        for entry in std::mem::take(&mut self.entries).into_values() {
            let unacknowledged = entry.unacknowledged(ByteCount::ZERO);
            entry.end(Ended { error: ended_with_endpoint(reason), unacknowledged, info: None });
        }
    }
}
