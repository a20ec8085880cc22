//! A connection: it routes between its parts, the parts do the work.

mod close;
mod control;
mod data;
mod datagram_size;
mod deadline;
mod dispatch;
mod events;
#[cfg(feature = "fuzzing")]
mod forge;
mod handshaking;
mod health;
mod ids;
mod input;
mod links;
mod messages;
mod output;
mod output_setup;
mod pairs;
mod paths;
mod persist;
mod probing;
mod rates;
mod relocation;
mod rendezvous;
mod selection;
mod sending;
mod settle;
mod setup;
mod state;
mod statistics;
mod still_there;
mod tidy;
mod unreachable;
mod wake;
mod wishes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::mmsp2::Parameters;
use manyway_wire::{ConnectionId, Initiator, PathId, StreamId};

pub(crate) use ids::IdChange;
pub(crate) use input::Arrival;
pub use links::LinkNews;
pub use pairs::{AddressPair, PairUse};
pub use statistics::{ConnectionStatistics, PathStatistics};

use crate::congestion::{self, ControllerConfig};
use crate::endpoint::ResetKey;
use crate::event::{Event, PathEvent};
use crate::handshake::Handshake;
use crate::observe::{Beginning, Fact, ObservedPacket, Observer};
use crate::packet::ack_policy::AckPolicy;
use crate::path::manager::PathManager;
use crate::path::{
    BASE_DATAGRAM, InterfaceMtus, LocalCandidate, PairMode, Path, PathReason, PathSet, PathState, Space,
};
use crate::protection::Protector;
use crate::recovery::{Outcome, PathRecovery, RecoveryConfig};
use crate::rendezvous::Meeting;
use crate::scheduler;
use crate::stream::set::StreamSet;
use crate::stream::{ReadOutcome, StreamEvent, WriteError};
use crate::{ConfigError, ConnectionConfig, ConnectionError, FourTuple, Instant, Misuse, Rng, Violation};

use control::Control;
use events::Events;
use ids::{LocalIds, RemoteIds};
use persist::Persist;
use sending::Sending;
use setup::{Race, Setup, race_order};
use state::Life;

/// Ids of both directions.
#[derive(Debug)]
struct Ids {
    local: LocalIds,
    remote: RemoteIds,
}

/// What both ends agreed on, and what follows from it.
#[derive(Debug)]
struct Agreed {
    idle_timeout: Duration,
    max_datagram: u16,
    /// How long the peer may hold an acknowledgement back.
    peer_ack_delay: Duration,
    /// Highest path id that the peer allows.
    peer_path_limit: u32,
    /// Highest path id that this end allows.
    own_path_limit: u32,
    /// The next path id that this end opens; only a client does.
    next_path: PathId,
    /// DER of the peer's `SubjectPublicKeyInfo`.
    peer_key: Option<Vec<u8>>,
}

/// Moments that belong to the connection as a whole.
#[derive(Debug)]
struct Clock {
    /// From when on the time for the set-up counts.
    set_up_since: Instant,
    /// The last packet of the peer, or the first packet sent after it.
    last_activity: Instant,
    asked_since_heard: bool,
    /// When the pacer lets the next data go.
    paced_until: Option<Instant>,
    /// Whether the peer was asked if it is still there.
    asked: still_there::Asked,
    /// Since when no path is live.
    pathless_since: Option<Instant>,
    /// The last packet in or out.
    stirred_at: Instant,
    /// When to look whether the connection rests; `None` once memory was given back.
    tidy_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Counts {
    heard: bool,
    /// TLS was complete once.
    established: bool,
    /// When this server refused the client's key, until the endpoint has heard of it.
    refused_client: Option<Instant>,
    refused: u64,
    key_updates: u64,
}

/// One connection over any number of paths.
///
/// Got from [`Endpoint::connection`](crate::Endpoint::connection).
#[derive(Debug)]
pub struct Connection {
    side: Initiator,
    config: Arc<ConnectionConfig>,
    life: Life,
    setup: Option<Box<Setup>>,
    protector: Protector,
    paths: PathSet,
    manager: PathManager,
    /// With the rendezvous servers, if there are any.
    meeting: Option<Box<Meeting>>,
    ids: Ids,
    streams: StreamSet,
    control: Control,
    sending: Sending,
    agreed: Agreed,
    clock: Clock,
    persist: Persist,
    events: Events,
    shared: Shared,
    counts: Counts,
}

/// What every part may need for a moment.
#[derive(Debug)]
struct Shared {
    rng: Rng,
    outcome: Outcome,
    observer: Option<Box<dyn Observer>>,
    interfaces: InterfaceMtus,
    /// Differs between connections; with the number of a path it decides when that path is probed for bandwidth.
    probing_seed: u64,
}

/// What the endpoint gives to a new connection, beside its configuration.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) now: Instant,
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) interfaces: InterfaceMtus,
    pub(crate) rng: Rng,
    pub(crate) reset_key: Arc<ResetKey>,
    pub(crate) first_destination: ConnectionId,
    pub(crate) local_id: ConnectionId,
    pub(crate) handshake: Handshake,
}

impl Connection {
    /// Starts a set-up towards `remotes` from `locals`.
    pub(crate) fn client(start: Start, locals: &[LocalCandidate], remotes: &[SocketAddr]) -> Option<Self> {
        let manager = PathManager::new(locals, remotes).with_mode(start.config.pairs);
        let legs = race_order(&manager);
        let tuple = *legs.first()?;
        let now = start.now;
        let mut connection = Self::new(Initiator::Client, start, manager, tuple, Race::new(now, legs), None);
        if let Some(path) = connection.paths.get_mut(PathId::FIRST) {
            // The client may send what it likes: the limit protects those who did not ask.
            path.on_proven();
        }
        Some(connection)
    }

    /// Answers a client; `proven` if its address was proven by a cookie before.
    pub(crate) fn server(
        start: Start,
        tuple: FourTuple,
        remote_id: ConnectionId,
        info: Vec<u8>,
        proven: bool,
    ) -> Self {
        let race = Race::settled(tuple);
        let mut connection =
            Self::new(Initiator::Server, start, PathManager::default(), tuple, race, Some(remote_id));
        if let Some(setup) = &mut connection.setup {
            setup.info = info;
            // spec 4.13: those below belong to answers without state
            setup.open.recovery.begin_at(FIRST_KEPT_NUMBER);
        }
        if let Some(path) = connection.paths.get_mut(PathId::FIRST).filter(|_| proven) {
            path.on_proven();
        }
        connection
    }

    fn new(
        side: Initiator,
        start: Start,
        manager: PathManager,
        tuple: FourTuple,
        race: Race,
        remote_id: Option<ConnectionId>,
    ) -> Self {
        let Start { now, config, interfaces, rng, reset_key, first_destination, local_id, handshake } = start;
        let beginning = Beginning { now, side, first_destination, local_id, tuple };
        let observer = config.observers.as_ref().and_then(|observers| observers.observer(&beginning));
        let mut protector = Protector::new(side, config.key_limits);
        protector.set_open_keys(&first_destination);
        let setup = Setup {
            first_destination,
            local_id,
            remote_id,
            peer_keeps_state: side == Initiator::Server,
            handshake,
            open: setup_space(&config),
            set_up: setup_space(&config),
            info: Vec::new(),
            infos_taken: 0,
            info_for: tuple.remote,
            race,
            open_probes: 0,
            set_up_probes: 0,
        };
        let mut paths = PathSet::default();
        let role = manager.role_of(&tuple.local);
        let probing_seed = local_id.leading_u64();
        let space = data_space(&config, PathId::FIRST, probing_seed);
        paths.insert(Path::new(PathId::FIRST, tuple, role, space, now));
        let streams = StreamSet::new(side, &config.streams);
        let mut ids = Ids { local: LocalIds::new(local_id, reset_key), remote: RemoteIds::default() };
        if let Some(id) = remote_id {
            ids.remote.set_first(id, None);
        }
        Self {
            side,
            life: Life::Handshaking,
            setup: Some(Box::new(setup)),
            protector,
            paths,
            manager,
            meeting: None,
            ids,
            streams,
            control: Control::default(),
            sending: Sending::new(config.scheduler.make()),
            agreed: Agreed {
                idle_timeout: config.idle_timeout,
                max_datagram: BASE_DATAGRAM,
                peer_ack_delay: AckPolicy::MAX_ACK_DELAY,
                peer_path_limit: 0,
                own_path_limit: config.path_limit,
                next_path: PathId(1),
                peer_key: None,
            },
            clock: Clock {
                set_up_since: now,
                last_activity: now,
                asked_since_heard: false,
                asked: still_there::Asked::default(),
                paced_until: None,
                pathless_since: None,
                stirred_at: now,
                tidy_at: None,
            },
            persist: Persist::new(now),
            events: Events::default(),
            shared: Shared { rng, outcome: Outcome::default(), observer, interfaces, probing_seed },
            counts: Counts::default(),
            config,
        }
    }

    /// Whether this end opened the connection.
    pub fn side(&self) -> Initiator {
        self.side
    }

    /// Whether streams may be used.
    pub fn is_established(&self) -> bool {
        self.life.is_established()
    }

    /// Whether TLS is not complete yet; a server counts these against its limit.
    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.life, Life::Handshaking)
    }

    /// Whether the connection has ended and may be forgotten.
    pub fn is_closed(&self) -> bool {
        matches!(self.life, Life::Closed)
    }

    /// The peer's key as DER of its `SubjectPublicKeyInfo`, once TLS showed it.
    pub fn peer_public_key(&self) -> Option<&[u8]> {
        self.agreed.peer_key.as_deref()
    }

    /// Whether any packet of the peer was opened.
    pub(crate) fn has_heard(&self) -> bool {
        self.counts.heard
    }

    /// Whether the set-up was complete, now or before the end.
    pub(crate) fn was_established(&self) -> bool {
        self.counts.established
    }

    /// When this server refused the client's key, told once.
    pub(crate) fn take_refused(&mut self) -> Option<Instant> {
        self.counts.refused_client.take()
    }

    /// Tells `observer` what happens from now on.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.shared.observer = Some(observer);
    }

    /// Changes the congestion control of every path, also of those that come later. Each begins anew with it, as a path
    /// on which nothing was sent yet. Default is that of the [`ConnectionConfig`].
    ///
    /// # Errors
    /// If there is none of that name; nothing is changed then.
    pub fn set_congestion(&mut self, name: &str) -> Result<(), ConfigError> {
        let mut config = ConnectionConfig::clone(&self.config);
        config.set_congestion(name)?;
        for path in self.paths.iter_mut() {
            let controller = controller_config(path.mtu.current(), path.id, self.shared.probing_seed);
            path.space.recovery.set_controller((config.congestion)(&controller));
        }
        self.config = Arc::new(config);
        Ok(())
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`Misuse::NoStreamCredit`] if the peer allows no more now, [`Misuse::ConnectionClosed`] at the end.
    pub fn open_stream(&mut self) -> Result<StreamId, Misuse> {
        self.check_usable()?;
        self.streams.open()
    }

    /// Takes the next stream that the peer opened.
    pub fn accept_stream(&mut self) -> Option<StreamId> {
        self.streams.accept()
    }

    /// Gives bytes to a stream without copying them; returns how many were taken. When that is less than all,
    /// [`Event::StreamWritable`] follows.
    ///
    /// # Errors
    /// If nothing more can be written to the stream, or the peer stopped it.
    pub fn write(&mut self, stream: StreamId, data: Bytes) -> Result<usize, WriteError> {
        self.check_usable()?;
        self.streams.write(stream, data)
    }

    /// Marks the end of what is written to a stream; [`Event::StreamFinished`] follows when the peer has all of it.
    ///
    /// # Errors
    /// If the stream's sending half has ended, or the peer stopped it.
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.check_usable()?;
        self.streams.finish(stream)
    }

    /// Gives up the sending half of a stream; the peer learns `code`.
    ///
    /// # Errors
    /// If the stream's sending half has ended.
    pub fn reset(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.check_usable()?;
        self.streams.reset(stream, code)
    }

    /// Asks the peer to send no more on a stream.
    ///
    /// # Errors
    /// If the stream's receiving half has ended.
    pub fn stop(&mut self, stream: StreamId, code: u64) -> Result<(), Misuse> {
        self.check_usable()?;
        self.streams.stop(stream, code)
    }

    /// Sets a stream's priority: higher goes first, equal ones share. Default 0.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn set_priority(&mut self, stream: StreamId, priority: i8) -> Result<(), Misuse> {
        self.streams.set_priority(stream, priority)
    }

    /// Takes at most `max` bytes from a stream, in order.
    ///
    /// # Errors
    /// If the stream's receiving half has ended.
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<ReadOutcome, Misuse> {
        self.streams.read(stream, max)
    }

    /// The next thing to tell the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop() {
            return Some(event);
        }
        Some(match self.streams.poll_event()? {
            StreamEvent::Opened => Event::StreamOpened,
            StreamEvent::Available => Event::StreamsAvailable,
            StreamEvent::Readable(stream) => Event::StreamReadable(stream),
            StreamEvent::Reset(stream, _) => Event::StreamReadable(stream),
            StreamEvent::Writable(stream) => Event::StreamWritable(stream),
            StreamEvent::Finished(stream) => Event::StreamFinished(stream),
            StreamEvent::Stopped(stream, code) => Event::StreamStopped { stream, code },
            StreamEvent::Abandoned(stream, message) => Event::MessageAbandoned { stream, message },
        })
    }

    pub(crate) fn poll_id_change(&mut self) -> Option<IdChange> {
        self.ids.local.poll_change().or_else(|| self.ids.remote.poll_change())
    }

    fn check_usable(&self) -> Result<(), Misuse> {
        if self.life.is_established() { Ok(()) } else { Err(Misuse::ConnectionClosed) }
    }

    fn observe(&mut self, now: Instant, fact: &Fact) {
        crate::observe::log::log(fact);
        if let Some(observer) = &mut self.shared.observer {
            observer.on_fact(now, fact);
        }
    }

    fn observe_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        if let Some(observer) = &mut self.shared.observer {
            observer.on_packet(now, packet);
        }
    }

    /// Tells everybody how the connection ends.
    fn conclude(&mut self, now: Instant, error: ConnectionError) {
        if let Some(observer) = &mut self.shared.observer {
            observer.on_closed(now, &error);
        }
        self.events.push(Event::Closed(error));
    }

    /// The number space of a path that is added to the first.
    fn another_space(&self, id: PathId) -> Space {
        let mut space = data_space(&self.config, id, self.shared.probing_seed);
        space.recovery.set_max_ack_delay(self.agreed.peer_ack_delay);
        space
    }

    /// Moves a path to `state` and tells everybody; nothing happens if the table does not allow it.
    fn advance_path(&mut self, now: Instant, id: PathId, state: PathState, reason: PathReason) -> bool {
        let Some(path) = self.paths.get_mut(id) else { return false };
        if !path.advance(now, state, reason) {
            return false;
        }
        path.space.recovery.set_in_doubt(state == PathState::Suspect);
        let event = PathEvent { path: id, tuple: path.tuple(), role: path.role(), state, reason };
        self.announce_path(now, event);
        true
    }

    /// The path stays in its state, for another reason.
    fn change_reason(&mut self, now: Instant, id: PathId, reason: PathReason) {
        let Some(path) = self.paths.get_mut(id) else { return };
        path.set_reason(reason);
        let event =
            PathEvent { path: id, tuple: path.tuple(), role: path.role(), state: path.state(), reason };
        self.announce_path(now, event);
    }

    fn announce_path(&mut self, now: Instant, event: PathEvent) {
        self.observe(now, &Fact::Path(event));
        let PathEvent { path, state, .. } = event;
        self.sending.scheduler.on_event(&scheduler::Event::Path { path, state });
        if matches!(state, PathState::Suspect | PathState::Dead | PathState::Closed)
            && let Some(guard) = &mut self.sending.guard
        {
            guard.forget(path);
        }
        self.events.push(Event::Path(event));
        self.manager.reconsider();
        self.weigh_paths(now);
    }

    /// Whether any path is live, and which have live ones beside them, changes with every word about a path.
    fn weigh_paths(&mut self, now: Instant) {
        let live = self.paths.iter().any(Path::is_live);
        if live {
            self.clock.pathless_since = None;
        } else if self.clock.pathless_since.is_none() && !self.is_handshaking() {
            self.clock.pathless_since = Some(now);
            self.manager.on_stuck();
        }
        if let Some(meeting) = &mut self.meeting {
            meeting.set_pathless(now, self.clock.pathless_since.is_some());
        }
        let live_paths = self.paths.iter().filter(|path| path.is_live()).count();
        for path in self.paths.iter_mut() {
            let others = live_paths - usize::from(path.is_live());
            path.space.recovery.set_other_path_alive(others > 0);
        }
    }
}

fn setup_space(config: &ConnectionConfig) -> Space {
    let controller = congestion::Fixed::new(&ControllerConfig::new(BASE_DATAGRAM));
    Space::new(PathRecovery::new(Box::new(controller), &recovery_config(config)))
}

fn data_space(config: &ConnectionConfig, id: PathId, probing_seed: u64) -> Space {
    let controller = (config.congestion)(&controller_config(BASE_DATAGRAM, id, probing_seed));
    Space::new(PathRecovery::new(controller, &recovery_config(config)))
}

fn controller_config(datagram: u16, id: PathId, probing_seed: u64) -> ControllerConfig {
    ControllerConfig { seed: probing_seed.wrapping_add(id.0.into()), ..ControllerConfig::new(datagram) }
}

fn recovery_config(config: &ConnectionConfig) -> RecoveryConfig {
    RecoveryConfig { initial_rtt: config.initial_rtt, ..RecoveryConfig::default() }
}

/// The parameters of this end.
pub(crate) fn own_parameters(
    config: &ConnectionConfig,
    local_id: ConnectionId,
    server: Option<(ConnectionId, &ResetKey)>,
) -> Parameters {
    Parameters {
        version: manyway_wire::mmsp2::VERSION,
        first_destination: server.map(|(first, _)| first),
        source: local_id,
        idle_timeout: config.idle_timeout,
        connection_window: config.streams.connection_window,
        stream_window: config.streams.stream_window,
        stream_limit: config.streams.peer_streams,
        path_limit: config.path_limit,
        max_ack_delay: AckPolicy::MAX_ACK_DELAY,
        max_datagram: config.max_datagram,
        reset_token: server.map(|(_, key)| key.token(&local_id)),
        application: config.application.clone(),
        max_message: config.streams.message_limit(),
        rendezvous: server.map_or_else(Vec::new, |_| config.rendezvous.clone()),
        rates: server.is_none() && config.pairs == PairMode::Disjoint,
    }
}

/// The packet number in the open space with which a server that keeps state begins (spec 4.13).
pub(crate) const FIRST_KEPT_NUMBER: u64 = 1 << 16;

/// A breach of the protocol, or the wish to end.
type Checked = Result<(), Violation>;
