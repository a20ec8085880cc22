//! Start of an MMSP/2 connection, at either end.

use std::sync::Arc;

use manyway_wire::mmsp2::Parameters;
use manyway_wire::{ConnectionId, PathId};

use super::handshake::{Attempts, HandshakeState, Space};
use super::target::Targets;
use super::{Control, Counts, Ids, Life, LocalIds, Mmsp2, RemoteIds};
use crate::engine::{Beginnings, Engine, Features, handshake_recovery};
use crate::mmsp2::protection::Protector;
use crate::mmsp2::reset_token::ResetKey;
use crate::mmsp2::stream::set::StreamSet;
use crate::mmsp2::tls::Handshake;
use crate::observe::Beginning;
use crate::packet::ack_policy::AckPolicy;
use crate::path::candidates::candidate_order;
use crate::path::manager::PathManager;
use crate::path::{InterfaceMtus, PairMode};
use crate::{ConnectionConfig, FourTuple, Instant, Rng, Side};

/// The first Initial packet number of a server that keeps state (spec 4.13).
pub(crate) const FIRST_KEPT_NUMBER: u64 = 1 << 16;

/// The input of a new connection besides its configuration.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) now: Instant,
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) interfaces: InterfaceMtus,
    pub(crate) rng: Rng,
    pub(crate) reset_key: Arc<ResetKey>,
    pub(crate) original_destination: ConnectionId,
    pub(crate) local_id: ConnectionId,
    pub(crate) tls: Handshake,
}

impl Mmsp2 {
    /// Starts a handshake between candidate pairs of the manager, or over `stream` alone.
    pub(crate) fn client(
        start: Start,
        manager: PathManager,
        stream: Option<FourTuple>,
    ) -> Option<(Engine, Self)> {
        let manager = manager.with_mode(start.config.pairs);
        let candidates = stream.map_or_else(|| candidate_order(&manager), |tuple| vec![tuple]);
        let tuple = *candidates.first()?;
        let attempts = Attempts::new(start.now, candidates);
        let (mut engine, mmsp2) = Self::new(Side::Client, start, manager, tuple, attempts, None);
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            // A client may send without limit: the amplification limit protects hosts that did not initiate.
            path.on_validated();
        }
        Some((engine, mmsp2))
    }

    /// Answers a client; `is_validated` if a cookie has validated its address.
    pub(crate) fn server(
        start: Start,
        tuple: FourTuple,
        remote_id: ConnectionId,
        info: Vec<u8>,
        is_validated: bool,
    ) -> (Engine, Self) {
        let (manager, attempts) = (PathManager::default(), Attempts::settled(tuple));
        let (mut engine, mut mmsp2) =
            Self::new(Side::Server, start, manager, tuple, attempts, Some(remote_id));
        if let Some(handshake) = &mut mmsp2.handshake {
            handshake.info = info;
            // spec 4.13: lower numbers belong to answers without state
            handshake.initial_space.recovery.begin_at(FIRST_KEPT_NUMBER);
        }
        if let Some(path) = engine.paths.get_mut(PathId::FIRST).filter(|_| is_validated) {
            path.on_validated();
        }
        (engine, mmsp2)
    }

    fn new(
        side: Side,
        start: Start,
        manager: PathManager,
        tuple: FourTuple,
        attempts: Attempts,
        remote_id: Option<ConnectionId>,
    ) -> (Engine, Self) {
        let Start { now, config, interfaces, rng, reset_key, original_destination, local_id, tls } = start;
        let beginning = Beginning { now, side, original_destination, local_id, tuple };
        let observer = config.observers.as_ref().and_then(|observers| observers.observer(&beginning));
        let mut protector = Protector::new(side, config.key_limits);
        protector.set_initial_keys(&original_destination);
        let handshake = HandshakeState {
            original_destination,
            local_id,
            remote_id,
            peer_keeps_state: side == Side::Server,
            tls,
            initial_space: Space::new(handshake_recovery(&config)),
            handshake_space: Space::new(handshake_recovery(&config)),
            info: Vec::new(),
            infos_taken: 0,
            info_for: tuple.remote,
            attempts,
            initial_pto_probes: 0,
            handshake_pto_probes: 0,
        };
        let streams = StreamSet::new(side, &config.streams);
        let controller_seed = local_id.leading_u64();
        let mut engine = Engine::new(Beginnings {
            now,
            side,
            config,
            features: Features::ALL,
            interfaces,
            rng,
            observer,
            manager,
            tuple,
            controller_seed,
        });
        let mut ids = Ids { local: LocalIds::new(local_id, reset_key), remote: RemoteIds::default() };
        if let Some(id) = remote_id {
            ids.remote.set_first(id, None);
            engine.paths.set_reachable(PathId::FIRST, true);
        }
        let mmsp2 = Self {
            life: Life::Handshaking,
            handshake: Some(Box::new(handshake)),
            protector,
            rendezvous: None,
            ids,
            streams,
            targets: Targets::default(),
            control: Control::default(),
            counts: Counts::default(),
            peer_key: None,
        };
        (engine, mmsp2)
    }
}

/// The parameters of this end.
pub(crate) fn own_parameters(
    config: &ConnectionConfig,
    local_id: ConnectionId,
    server: Option<(ConnectionId, &ResetKey)>,
) -> Parameters {
    Parameters {
        version: manyway_wire::mmsp2::VERSION,
        original_destination: server.map(|(first, _)| first),
        source: local_id,
        idle_timeout: config.idle_timeout,
        initial_max_data: config.streams.connection_receive_window,
        initial_max_stream_data: config.streams.stream_receive_window,
        initial_max_streams: config.streams.peer_streams,
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
