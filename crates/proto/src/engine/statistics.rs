//! Statistics of the paths, as one snapshot.

use std::time::Duration;

use manyway_wire::PathId;

use crate::path::{Path, PathAvailability, PathReason, PathSet, PathState, Role};
use crate::recovery::EcnState;
use crate::{ByteCount, FourTuple, Instant, PathEvent, Rate};

/// Statistics of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatistics {
    /// Its id.
    pub id: PathId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// Its state.
    pub state: PathState,
    /// Why it entered its state.
    pub reason: PathReason,
    /// When it entered its state.
    pub since: Instant,
    /// When any packet of the peer last arrived on it; before the first, when it was opened.
    pub heard_at: Instant,
    /// When stream data last went over it, in either direction; `None` if none ever did.
    pub data_at: Option<Instant>,
    /// When stream data was last sent on it; `None` if none ever was.
    pub data_sent_at: Option<Instant>,
    /// The availability that the peer reports.
    pub peer_says: PathAvailability,
    /// The role of its interface.
    pub role: Role,
    /// The lowest id of the live paths that may share its bottleneck; its own if there is none.
    pub group: PathId,
    /// Smoothed RTT; the assumed one before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest RTT.
    pub minimum_rtt: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes in flight.
    pub in_flight: ByteCount,
    /// Measured delivery rate, zero before the first measurement.
    pub delivery_rate: Rate,
    /// Payload of its largest datagrams.
    pub datagram: u16,
    /// UDP payload sent.
    pub bytes_sent: ByteCount,
    /// UDP payload received and decrypted.
    pub bytes_received: ByteCount,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost, without those that arrived after all.
    pub packets_lost: u64,
    /// State of Explicit Congestion Notification for packets that this end sends on it.
    pub ecn: EcnState,
}

impl PathStatistics {
    /// The event of the present state.
    pub fn event(&self) -> PathEvent {
        let Self { id: path, tuple, role, state, reason, .. } = *self;
        PathEvent { path, tuple, role, state, reason }
    }
}

/// The figures of every open path, by ascending id; costs O(paths²).
pub(crate) fn path_statistics(paths: &PathSet) -> Vec<PathStatistics> {
    paths.iter().map(|path| of_path(path, paths.group_of(path))).collect()
}

fn of_path(path: &Path, group: PathId) -> PathStatistics {
    let (recovery, counters, rtt) = (&path.recovery, path.counters(), path.rtt());
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
        smoothed_rtt: rtt.smoothed,
        minimum_rtt: rtt.minimum,
        window: recovery.window(),
        in_flight: recovery.bytes_in_flight(),
        delivery_rate: recovery.delivery_rate(),
        datagram: path.mtu.current(),
        bytes_sent: ByteCount(counters.bytes_sent),
        bytes_received: ByteCount(counters.bytes_received),
        packets_sent: counters.packets_sent,
        packets_lost: counters.packets_lost.saturating_sub(counters.spurious_losses),
        ecn: recovery.ecn_state(),
    }
}
