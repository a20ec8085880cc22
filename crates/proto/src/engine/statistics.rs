//! Figures of the paths, as one snapshot.

use std::time::Duration;

use manyway_wire::PathId;

use super::Engine;
use crate::congestion::{Bottleneck, ControllerConfig};
use crate::path::{BASE_DATAGRAM, Path, PathAvailability, PathReason, PathState, Role};
use crate::recovery::EcnState;
use crate::{ByteCount, FourTuple, Instant, PathEvent, Rate};

/// Figures of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatistics {
    /// Its id.
    pub id: PathId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// Where it stands.
    pub state: PathState,
    /// Why it came into its state.
    pub reason: PathReason,
    /// When it came into its state.
    pub since: Instant,
    /// When any packet of the peer last came over it; when it was opened, before the first.
    pub heard_at: Instant,
    /// When bytes of streams last went over it, in either direction; `None` if none ever did.
    pub data_at: Option<Instant>,
    /// When bytes of streams were last sent on it; `None` if none ever were.
    pub data_sent_at: Option<Instant>,
    /// What the peer says of it.
    pub peer_says: PathAvailability,
    /// What its interface is meant for.
    pub role: Role,
    /// The lowest id of the live paths that share its bottleneck, or were not found not to; its own if there is none.
    pub group: PathId,
    /// Smoothed round-trip time; the assumed one before the first measurement.
    pub smoothed_rtt: Duration,
    /// Smallest round-trip time.
    pub minimum_rtt: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes on their way.
    pub in_flight: ByteCount,
    /// Measured delivery rate, zero before the first measurement.
    pub delivery_rate: Rate,
    /// Payload of its largest datagrams.
    pub datagram: u16,
    /// UDP payload sent.
    pub bytes_sent: ByteCount,
    /// UDP payload received and opened.
    pub bytes_received: ByteCount,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost, without those that arrived after all.
    pub packets_lost: u64,
    /// Whether what this end sends on it carries marks that survive (Explicit Congestion Notification).
    pub ecn: EcnState,
}

impl PathStatistics {
    /// The event that told of the present state.
    pub fn event(&self) -> PathEvent {
        let Self { id: path, tuple, role, state, reason, .. } = *self;
        PathEvent { path, tuple, role, state, reason }
    }
}

impl Engine {
    /// The figures of every open path, by ascending id; costs O(paths²).
    pub(crate) fn path_statistics(&self) -> Vec<PathStatistics> {
        self.paths.iter().map(|path| path_statistics(path, self.group_of(path))).collect()
    }

    fn group_of(&self, path: &Path) -> PathId {
        let shares = |other: &&Path| {
            other.is_live() && self.paths.bottleneck_of([path.id, other.id]) == Bottleneck::Same
        };
        let others = self.paths.iter().filter(|other| other.id < path.id);
        others.filter(shares).map(|other| other.id).next().unwrap_or(path.id)
    }

    /// Name of the congestion control.
    pub(crate) fn congestion(&self) -> &'static str {
        let path = self.paths.iter().next();
        let of_a_new_one = || (self.config.congestion)(&ControllerConfig::new(BASE_DATAGRAM)).name();
        path.map_or_else(of_a_new_one, |path| path.recovery.controller_name())
    }
}

fn path_statistics(path: &Path, group: PathId) -> PathStatistics {
    let (recovery, counters) = (&path.recovery, path.counters());
    PathStatistics {
        id: path.id,
        tuple: path.tuple(),
        state: path.state(),
        reason: path.reason(),
        since: path.since(),
        heard_at: path.last_heard(),
        data_at: path.last_data(),
        data_sent_at: path.last_data_sent(),
        peer_says: path.peer_availability(),
        role: path.role(),
        group,
        smoothed_rtt: recovery.rtt().smoothed(),
        minimum_rtt: recovery.rtt().minimum(),
        window: recovery.window(),
        in_flight: recovery.bytes_in_flight(),
        delivery_rate: recovery.delivery_rate(),
        datagram: path.mtu.current(),
        bytes_sent: ByteCount(counters.bytes_sent),
        bytes_received: ByteCount(counters.bytes_received),
        packets_sent: counters.packets_sent,
        packets_lost: counters.packets_lost.saturating_sub(counters.spurious_losses),
        ecn: recovery.ecn().state(),
    }
}
