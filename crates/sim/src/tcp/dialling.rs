//! The TCP connections of a client that uses TCP alone: as many for each pair of addresses as are wanted, others in place
//! of those that fail.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{Connection, FourTuple, Instant, LocalAddress, PathState};

/// A connection that failed is replaced after this time.
const AGAIN: Duration = Duration::from_millis(250);

/// Which TCP connections a client opens.
#[derive(Debug, Clone, Default)]
pub struct TcpPlan {
    /// The addresses of both ends; the handshake goes over the first pair.
    pub pairs: Vec<(LocalAddress, SocketAddr)>,
    /// TCP connections for each pair, unless the server wants another number.
    pub connections: usize,
}

/// The connections of a plan.
#[derive(Debug)]
pub(super) struct Dialler {
    plan: TcpPlan,
    /// What is open, with the time when it was opened and whether it is to end.
    open: BTreeMap<FourTuple, (Instant, bool)>,
    /// No connection is opened before.
    again_at: Option<Instant>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Connections whose paths have ended.
    pub(super) ended: Vec<FourTuple>,
    /// Connections to open.
    pub(super) missing: Vec<(LocalAddress, SocketAddr)>,
}

impl Dialler {
    pub(super) fn new(plan: TcpPlan) -> Self {
        Self { plan, open: BTreeMap::new(), again_at: None }
    }

    /// The pair of the handshake.
    pub(super) fn first(&self) -> Option<(LocalAddress, SocketAddr)> {
        self.plan.pairs.first().copied()
    }

    pub(super) fn on_open(&mut self, now: Instant, tuple: FourTuple) {
        self.open.insert(tuple, (now, false));
    }

    /// Nothing is to be opened any more.
    pub(super) fn stop(&mut self) {
        self.again_at = None;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.again_at
    }

    /// Compares what is open with what is wanted.
    pub(super) fn advance(&mut self, now: Instant, connection: &mut Connection) -> Steps {
        let mut steps = Steps::default();
        let paths = connection.statistics().paths;
        let path_of = |tuple: &FourTuple| paths.iter().find(|path| path.tuple == *tuple);
        self.open.retain(|tuple, (since, _)| {
            let path = path_of(tuple);
            let has_failed = path.is_some_and(|path| path.state == PathState::Dead) && now >= *since + AGAIN;
            if let Some(path) = path.filter(|_| has_failed) {
                // A connection that waits for its retransmission timeout is slower than a new one.
                let _ = connection.close_path(now, path.id);
            }
            let remains = path.is_some() && !has_failed;
            steps.ended.extend((!remains).then_some(*tuple));
            remains
        });
        if !steps.ended.is_empty() {
            self.again_at = Some(now + AGAIN);
        }
        let wanted = connection.wanted_connections().map_or(self.plan.connections, usize::from).max(1);
        let mut room = connection.path_room();
        let may_open = self.again_at.is_none_or(|at| at <= now);
        if may_open {
            self.again_at = None;
        }
        for (local, remote) in &self.plan.pairs {
            let is_of = |tuple: &FourTuple| {
                tuple.local.address.ip() == local.address.ip() && tuple.remote.ip() == remote.ip()
            };
            let of_pair = self.open.iter_mut().filter(|(tuple, (_, ends))| is_of(tuple) && !*ends);
            let mut of_pair: Vec<_> =
                of_pair.filter_map(|(tuple, open)| Some((path_of(tuple)?, open))).collect();
            let count = of_pair.len();
            // The slowest end first.
            of_pair.sort_by_key(|(path, _)| path.delivery_rate);
            for (path, (_, ends)) in of_pair.into_iter().take(count.saturating_sub(wanted)) {
                *ends = true;
                let _ = connection.retire_path(now, path.id);
            }
            let missing = wanted.saturating_sub(count).min(room);
            if may_open {
                room -= missing;
                steps.missing.extend((0..missing).map(|_| (*local, *remote)));
            }
        }
        steps
    }
}
