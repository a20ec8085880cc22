//! Start of a connection over MMSP/1, at either end.

use std::sync::Arc;
use std::time::Duration;

use manyway_wire::mmsp1::{Info, Opening, Tag, Tseq};
use manyway_wire::{ConnectionId, PathId};

use super::closing::Closing;
use super::errors::Errors;
use super::handshake::{ANSWER_DELAY, Handshake};
use super::monitor::Monitor;
use super::named::Named;
use super::peer_addresses::PeerAddresses;
use super::sack_policy::SackPolicy;
use super::streams::Streams;
use super::{Counts, Mmsp1};
use crate::engine::{Beginnings, Engine, Features};
use crate::observe::Beginning;
use crate::path::InterfaceMtus;
use crate::path::candidates::candidate_order;
use crate::path::manager::PathManager;
use crate::{ConnectionConfig, FourTuple, Instant, Rng, Side};

/// The port in the header at which every server listens: ports find no connection (spec 3.4).
const SERVER_PORT: u16 = 5001;
/// The shortest time between two PROBEs on a path that is not verified (spec 3.123).
const BETWEEN_PROBES: Duration = Duration::from_secs(1);

/// The input of a new connection.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) now: Instant,
    pub(crate) config: Arc<ConnectionConfig>,
    pub(crate) interfaces: InterfaceMtus,
    pub(crate) rng: Rng,
}

/// What an end says of itself under this tag.
pub(crate) fn opening(config: &ConnectionConfig, tag: Tag, rng: &mut Rng) -> Opening {
    let [.., a, b, c, d] = rng.next_u64().to_be_bytes();
    Opening {
        tag,
        window: u32::try_from(config.streams.connection_receive_window).unwrap_or(u32::MAX),
        outgoing: config.stream_numbers,
        incoming: config.stream_numbers,
        tseq: Tseq(u32::from_be_bytes([a, b, c, d])),
    }
}

impl Mmsp1 {
    /// Starts a handshake between candidate pairs of the manager; `None` if it has none.
    pub(crate) fn client(
        mut start: Start,
        (tag, port): (Tag, u16),
        manager: PathManager,
    ) -> Option<(Engine, Self)> {
        let manager = manager.with_mode(start.config.pairs);
        let pairs = candidate_order(&manager);
        let tuple = *pairs.first()?;
        let own = opening(&start.config, tag, &mut start.rng);
        let handshake = Handshake::client(start.now, pairs);
        let named = Named::new(manager.locals().iter().map(|local| local.address.ip()));
        let ports = [port, SERVER_PORT];
        let (mut engine, mut mmsp1) = Self::new(Side::Client, start, manager, tuple, (own, ports), handshake);
        mmsp1.named = named;
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            // A client may send without limit: the amplification limit protects hosts that did not initiate.
            path.on_validated();
        }
        Some((engine, mmsp1))
    }

    /// Serves the client of a valid INFO: the connection is established.
    pub(crate) fn server(start: Start, tuple: FourTuple, info: &Info<'_>) -> (Engine, Self) {
        let now = start.now;
        let agreed = (info.server, [info.ports[1], info.ports[0]]);
        let handshake = Handshake::server(now);
        let manager = PathManager::default();
        let (mut engine, mut mmsp1) = Self::new(Side::Server, start, manager, tuple, agreed, handshake);
        mmsp1.serve(&mut engine, now, tuple, info);
        (engine, mmsp1)
    }

    fn new(
        side: Side,
        start: Start,
        manager: PathManager,
        tuple: FourTuple,
        (own, ports): (Opening, [u16; 2]),
        handshake: Handshake,
    ) -> (Engine, Self) {
        let Start { now, config, interfaces, mut rng } = start;
        let id = ConnectionId::from_u64(own.tag.0.into());
        let beginning = Beginning { now, side, original_destination: id, local_id: id, tuple };
        let observer = config.observers.as_ref().and_then(|observers| observers.observer(&beginning));
        let controller_seed = rng.next_u64();
        let peer_addresses = PeerAddresses::new(&mut rng);
        let streams = Streams::new(side, &config.streams, &own);
        let features = Features {
            padding: false,
            ecn: false,
            between_challenges: BETWEEN_PROBES,
            detection: config.detection,
        };
        let mut engine = Engine::new(Beginnings {
            now,
            side,
            config,
            features,
            interfaces,
            rng,
            observer,
            manager,
            tuple,
            controller_seed,
        });
        engine.limits.peer_paths = engine.limits.own_paths;
        engine.limits.peer_ack_delay = ANSWER_DELAY;
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            path.recovery.set_max_ack_delay(ANSWER_DELAY);
        }
        for path in 0..=engine.limits.own_paths {
            engine.paths.set_reachable(PathId(path), true);
        }
        let mmsp1 = Self {
            own,
            peer: None,
            ports,
            named: Named::default(),
            handshake,
            closing: Closing::default(),
            streams,
            sacks: SackPolicy::default(),
            monitor: Monitor::default(),
            peer_addresses,
            errors: Errors::default(),
            answers: std::collections::VecDeque::new(),
            undelivered: None,
            close_reason: None,
            counts: Counts::default(),
            tag_changes: std::collections::VecDeque::new(),
        };
        (engine, mmsp1)
    }
}
