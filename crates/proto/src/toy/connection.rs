//! A connection over the toy wire, for drivers.

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_wire::PathId;

use super::Toy;
use crate::engine::{Beginnings, Engine, Features, Phase, path_statistics};
use crate::event::Event;
use crate::path::manager::PathManager;
use crate::path::{InterfaceMtus, LocalCandidate, PathReason};
use crate::wire::Wire;
use crate::{ConnectionConfig, Ecn, FourTuple, Instant, PathStatistics, Rng, SendRefusal, Side, Transmit};

/// A connection over the toy wire. It starts established, and sends bytes that are computed from their offset.
#[derive(Debug)]
pub struct ToyConnection {
    engine: Engine,
    wire: Wire,
}

impl ToyConnection {
    /// Starts at the client; `None` if no pair of addresses fits.
    pub fn client(
        now: Instant,
        config: Arc<ConnectionConfig>,
        locals: &[LocalCandidate],
        remotes: &[SocketAddr],
        rng: Rng,
    ) -> Option<Self> {
        let manager = PathManager::new(locals, remotes).with_mode(config.pairs);
        let tuple = manager.missing(&[]).first()?.targets.first().copied()?;
        let mut toy = Self::new(now, Side::Client, config, manager, tuple, rng);
        toy.engine.open_missing_paths(now);
        toy.wire.carry_out(&mut toy.engine, now);
        Some(toy)
    }

    /// Answers a client whose first datagram came between the addresses of `tuple`.
    pub fn server(now: Instant, config: Arc<ConnectionConfig>, tuple: FourTuple, rng: Rng) -> Self {
        Self::new(now, Side::Server, config, PathManager::default(), tuple, rng)
    }

    fn new(
        now: Instant,
        side: Side,
        config: Arc<ConnectionConfig>,
        manager: PathManager,
        tuple: FourTuple,
        mut rng: Rng,
    ) -> Self {
        let (controller_seed, paths) = (rng.next_u64(), config.path_limit);
        let mut engine = Engine::new(Beginnings {
            now,
            side,
            config,
            features: Features::ALL,
            interfaces: InterfaceMtus::default(),
            rng,
            observer: None,
            manager,
            tuple,
            controller_seed,
        });
        engine.phase = Phase::Established;
        engine.limits.peer_paths = paths;
        for path in 0..=paths {
            engine.paths.set_reachable(PathId(path), true);
        }
        if let Some(first) = engine.paths.get_mut(PathId::FIRST) {
            first.on_validated();
            let working = first.working_state();
            engine.advance_path(now, PathId::FIRST, working, PathReason::Connected);
        }
        Self { engine, wire: Wire::Toy(Box::default()) }
    }

    fn toy(&mut self) -> Option<&mut Toy> {
        match &mut self.wire {
            Wire::Toy(toy) => Some(toy),
            Wire::Mmsp2(_) | Wire::Mmsp1(_) => None,
        }
    }

    /// Writes this many further bytes.
    pub fn write(&mut self, bytes: u64) {
        if let Some(toy) = self.toy() {
            toy.streams.write(bytes);
        }
    }

    /// Number of correct bytes in order, and of wrong bytes.
    pub fn received(&mut self) -> (u64, u64) {
        self.toy().map_or((0, 0), |toy| (toy.streams.in_order(), toy.streams.wrong()))
    }

    /// Whether the peer has all written bytes.
    pub fn is_idle(&self) -> bool {
        self.wire.is_idle()
    }

    /// The statistics of every open path.
    pub fn paths(&self) -> Vec<PathStatistics> {
        path_statistics(&self.engine.paths)
    }

    /// The next event of the paths.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.engine.events.pop()
    }

    /// Handles a datagram.
    pub fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &[u8]) {
        let Self { engine, wire: Wire::Toy(toy) } = self else { return };
        toy.on_datagram(engine, now, (tuple, ecn), datagram);
    }

    /// Writes the next datagrams into the empty `buffer`.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.engine.poll_transmit(&mut self.wire, now, buffer)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.engine.phase.is_open().then(|| self.engine.poll_timeout(&self.wire)).flatten()
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.engine.phase.is_open() {
            self.engine.handle_timeout(&mut self.wire, now);
        }
    }

    /// The system refuses to send from an address.
    pub fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        self.engine.on_send_refused(now, tuple, refusal);
        self.wire.carry_out(&mut self.engine, now);
    }

    /// The addresses of this host changed.
    pub fn set_local_addresses(&mut self, now: Instant, locals: &[LocalCandidate]) {
        self.engine.manager.set_locals(locals);
        self.engine.on_locals_changed(now);
        self.wire.carry_out(&mut self.engine, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalAddress;
    use crate::engine::carriers;
    use crate::path::PathState;

    // spec 6.127
    #[test]
    fn a_parked_path_is_retired_as_an_active_one_is() {
        let now = Instant::from_nanos(0);
        let local = LocalAddress { interface: 1, address: "192.0.2.1:4433".parse().unwrap() };
        let tuple = FourTuple::tcp(local, "198.51.100.1:4433".parse().unwrap());
        for state in [PathState::Active, PathState::Parked] {
            let mut toy = ToyConnection::server(now, Arc::default(), tuple, Rng::from_seed([1; 32]));
            let engine = &mut toy.engine;
            engine.advance_path(now, PathId::FIRST, state, PathReason::TriedWithout);
            assert_eq!(engine.paths.get(PathId::FIRST).unwrap().state(), state);
            carriers::retire(engine, now, PathId::FIRST);
            let path = engine.paths.get(PathId::FIRST).unwrap();
            assert_eq!((path.state(), path.retires_at().is_some()), (PathState::Backup, true));
        }
    }
}
