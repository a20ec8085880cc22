//! All paths of a connection, by ascending id.

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::collections::range_set::RangeSet;
use crate::congestion::shared_bottleneck::SharedBottlenecks;
use crate::congestion::{Bottleneck, Subflow};
use crate::{FourTuple, Instant};

use super::{Path, PathState, Role};

/// Bounds what is computed from the probe timeout of a slow path.
const LONGEST_PTO: Duration = Duration::from_secs(3);

/// The open paths; closed ones are removed.
#[derive(Debug, Default)]
pub(crate) struct PathSet {
    paths: Vec<Path>,
    /// The paths, those that are not open yet included, on which the wire has a name for the peer.
    reachable: SmallVec<[PathId; 8]>,
    retired: RangeSet,
    bottlenecks: SharedBottlenecks,
}

impl PathSet {
    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.paths.iter().find(|path| path.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.paths.iter_mut().find(|path| path.id == id)
    }

    /// The path between these addresses.
    pub(crate) fn by_tuple(&self, tuple: &FourTuple) -> Option<PathId> {
        self.paths.iter().find(|path| path.tuple() == *tuple).map(|path| path.id)
    }

    /// The path that challenges these addresses.
    pub(crate) fn by_target(&self, tuple: &FourTuple) -> Option<PathId> {
        self.paths.iter().find(|path| path.challenger.is_target(tuple)).map(|path| path.id)
    }

    /// The paths for packets with the acknowledgements that are due.
    pub(crate) fn ack_carriers(&self, now: Instant) -> SmallVec<[PathId; 8]> {
        let due = self.paths.iter().filter(|path| path.receiving.acks.due(now));
        due.filter_map(|path| self.ack_carrier(path)).collect()
    }

    /// Adds a path at its place by id; at the server ids may arrive out of order.
    pub(crate) fn insert(&mut self, path: Path) -> Option<&mut Path> {
        let at = self.paths.partition_point(|other| other.id < path.id);
        self.paths.insert(at, path);
        self.paths.get_mut(at)
    }

    pub(crate) fn remove(&mut self, id: PathId) -> Option<Path> {
        let at = self.paths.iter().position(|path| path.id == id)?;
        self.retire(id);
        self.bottlenecks.forget(id);
        Some(self.paths.remove(at))
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.paths.shrink_to_fit();
    }

    /// Retires an id, so that no path can have it again.
    pub(crate) fn retire(&mut self, id: PathId) {
        self.retired.insert(u64::from(id.0)..u64::from(id.0) + 1);
    }

    /// Whether the path of this id was closed: a second one would repeat nonces.
    pub(crate) fn is_retired(&self, id: PathId) -> bool {
        self.retired.contains(u64::from(id.0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> + Clone {
        self.paths.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut()
    }

    pub(crate) fn ids(&self) -> SmallVec<[PathId; 8]> {
        self.paths.iter().map(|path| path.id).collect()
    }

    /// The best live path at turn 0, then the others on which a packet may go out, in their order, and so on in a cycle;
    /// any path if none is live.
    pub(crate) fn by_turn(&self, turn: u32) -> Option<&Path> {
        let best = self.best_live(None).or_else(|| self.paths.first())?;
        let others = self.paths.iter().filter(|path| path.is_live() && path.has_room() && path.id != best.id);
        let count = 1 + others.clone().count();
        let at = usize::try_from(turn).unwrap_or(0) % count;
        std::iter::once(best).chain(others).nth(at)
    }

    /// The live path with the smallest RTT, other than `except`; paths on which sending is permitted come first.
    pub(crate) fn best_live(&self, except: Option<PathId>) -> Option<&Path> {
        self.paths.iter().filter(|path| path.is_live() && Some(path.id) != except).min_by_key(|path| {
            let reserve = path.state() != PathState::Active || path.joint_role() >= Role::Backup;
            (!path.has_room(), reserve, path.recovery.rtt().smoothed())
        })
    }

    /// The path leads elsewhere now.
    pub(crate) fn forget_bottlenecks(&mut self, id: PathId) {
        self.bottlenecks.forget(id);
    }

    /// Updates, now and then, which paths share a bottleneck.
    pub(crate) fn judge_bottlenecks(&mut self, now: Instant) {
        let Self { paths, bottlenecks, .. } = self;
        bottlenecks.judge(now, paths.iter().map(|path| (path.id, path.recovery.delays())));
    }

    /// Where the packets of the second path queue, seen from the first one.
    pub(crate) fn bottleneck_of(&self, paths: [PathId; 2]) -> Bottleneck {
        if self.bottlenecks.shared(paths) { Bottleneck::Same } else { Bottleneck::Other }
    }

    /// Three probe timeouts: whatever is in flight has arrived by then.
    pub(crate) fn drain_time(&self) -> Duration {
        self.longest_pto() * 3
    }

    /// `time`, but at least [`Self::drain_time`], which is computed only if that can be longer.
    pub(crate) fn at_least_drain_time(&self, time: Duration) -> Duration {
        if time >= LONGEST_PTO * 3 { time } else { time.max(self.drain_time()) }
    }

    pub(crate) fn longest_pto(&self) -> Duration {
        let paths = self.iter().filter(|path| path.is_live()).map(|path| path.recovery.pto());
        paths.max().unwrap_or(Duration::from_secs(1)).min(LONGEST_PTO)
    }

    /// The longest smoothed RTT of the live paths.
    pub(crate) fn longest_rtt(&self) -> Option<Duration> {
        let live = self.iter().filter(|path| path.is_live());
        live.map(|path| path.recovery.rtt().smoothed()).max()
    }

    /// The shortest RTT ever seen on a live path; `None` until each of them has been measured.
    pub(crate) fn shortest_rtt(&self) -> Option<Duration> {
        let live = self.iter().filter(|path| path.is_live()).map(|path| path.recovery.rtt());
        live.map(|rtt| rtt.has_sample().then(|| rtt.minimum())).min().flatten()
    }

    /// Whether packets arrive on a path other than `id`: otherwise the whole network is down, and suspicion is
    /// pointless.
    pub(crate) fn another_works(&self, at: Instant, id: PathId) -> bool {
        self.iter().any(|path| path.id != id && path.works(at))
    }

    /// The shortest delay to the peer: half of the smallest RTT ever seen.
    pub(crate) fn fastest_way(&self) -> Duration {
        let live = self.iter().filter(|path| path.is_live());
        live.map(|path| path.recovery.rtt().minimum() / 2).min().unwrap_or_default()
    }

    /// Whether the wire format has a connection ID of the peer for a path: without one nothing can be sent there.
    pub(crate) fn is_reachable(&self, path: PathId) -> bool {
        self.reachable.contains(&path)
    }

    /// Sets whether the wire format has a connection ID of the peer for a path.
    pub(crate) fn set_reachable(&mut self, path: PathId, reachable: bool) {
        self.reachable.retain(|other| *other != path);
        if reachable {
            self.reachable.push(path);
        }
    }

    /// The path for an acknowledgement: the acknowledged path itself, which keeps its RTT samples clean and tests its
    /// return direction. While that path is suspect, the best other one.
    pub(crate) fn ack_carrier(&self, path: &Path) -> Option<PathId> {
        if path.is_live() && self.can_send(path) {
            return Some(path.id);
        }
        if let Some(other) = self.best_live(Some(path.id)).filter(|other| self.can_send(other)) {
            return Some(other.id);
        }
        let usable = path.state() != PathState::Validating && self.can_send(path);
        usable.then_some(path.id)
    }

    /// The paths whose acknowledgements go into a packet on `carrier`: its own if any waits, those of others once they
    /// are due and no path is better for them. Each comes with whether it may get lost there because the path is
    /// suspect: another path must carry it too then.
    pub(crate) fn due_acks(&self, now: Instant, carrier: PathId) -> SmallVec<[(PathId, bool); 8]> {
        let due = |path: &Path| {
            let is_own = path.id == carrier;
            let is_due = if is_own { path.receiving.acks.is_waiting() } else { path.receiving.acks.due(now) };
            if !is_due {
                return None;
            }
            let chosen = self.ack_carrier(path);
            let is_detour = chosen.is_some_and(|chosen| chosen != carrier);
            (is_own || chosen == Some(carrier)).then_some((path.id, is_detour))
        };
        self.iter().filter_map(due).collect()
    }

    /// Whether a packet could go on a path: else no deadline that wants one may be waited for.
    pub(crate) fn can_send(&self, path: &Path) -> bool {
        self.is_reachable(path.id) && path.has_room()
    }

    /// When an idle path sends its next keep-alive packet, if one goes out every `interval`.
    pub(crate) fn keep_alive_deadline(&self, id: PathId, interval: Duration) -> Option<Instant> {
        let path = self.get(id).filter(|path| path.is_live() && !path.has_pto_probes_due())?;
        let is_idle = self.can_send(path) && path.recovery.packets_in_flight() == 0;
        is_idle.then(|| path.last_ack_eliciting() + interval)
    }

    /// The lowest id of the live paths that share the bottleneck of a path; its own if there is none.
    pub(crate) fn group_of(&self, path: &Path) -> PathId {
        let shares =
            |other: &&Path| other.is_live() && self.bottleneck_of([path.id, other.id]) == Bottleneck::Same;
        let others = self.iter().filter(|other| other.id < path.id);
        others.filter(shares).map(|other| other.id).next().unwrap_or(path.id)
    }

    /// Whether nothing arrived on any live path within its round trip, so that the peer of this path, which is proven,
    /// may have moved.
    pub(crate) fn may_have_moved(&self, id: PathId, now: Instant) -> bool {
        let is_heard =
            |path: &Path| path.is_live() && now < path.last_heard() + path.recovery.rtt().smoothed();
        self.get(id).is_some_and(|path| path.state() != PathState::Validating) && !self.iter().any(is_heard)
    }

    /// The other live paths, for the controller of a path.
    pub(crate) fn subflows(&mut self, now: Instant, id: PathId) -> SmallVec<[Subflow; 8]> {
        self.judge_bottlenecks(now);
        // The system controls the congestion of a stream.
        let others = self.iter().filter(|path| path.id != id && path.is_live() && path.is_datagram());
        let subflow = |path: &Path| {
            // The window of an idle path takes no capacity from others.
            let bottleneck =
                if is_idle(path, now) { Bottleneck::Other } else { self.bottleneck_of([id, path.id]) };
            path.recovery.as_subflow().with_bottleneck(bottleneck)
        };
        others.map(subflow).collect()
    }
}

/// Whether a path that carried stream data is idle: no stream data for a while, and nothing in flight.
fn is_idle(path: &Path, now: Instant) -> bool {
    path.last_data().is_some_and(|at| now - at > IDLE_AFTER) && path.recovery.packets_in_flight() == 0
}

/// A path without stream data for this long competes with no other.
const IDLE_AFTER: Duration = Duration::from_secs(1);
