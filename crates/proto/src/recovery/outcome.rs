//! The fate of packets, for the owners of their content and for the path.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::PathId;

use super::delivery_rate::PeerTime;
use crate::io::EcnCounts;
use crate::observe::LossReason;
use crate::packet::content::Contents;
use crate::{ByteCount, Instant};

/// The result of an acknowledgement, a timeout or the end of a path. The caller keeps and clears it, so no packet
/// costs an allocation.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Contents that arrived, including those of packets that had been declared lost.
    pub(crate) delivered: Vec<Contents>,
    /// Contents that were lost, without those that were reinjected on another path.
    pub(crate) lost: Vec<Contents>,
    /// One entry for each lost packet.
    pub(crate) lost_packets: Vec<LostNote>,
    /// Bytes that left flight because they were acknowledged.
    pub(crate) newly_acked_bytes: ByteCount,
    /// Bytes that left flight because they were lost, without PMTU probes.
    pub(crate) lost_bytes: ByteCount,
    /// Packets that arrived after they were declared lost.
    pub(crate) spurious: u32,
    /// Whether any packet was newly acknowledged.
    pub(crate) progress: bool,
    /// Size of the largest PMTU probe that arrived.
    pub(crate) mtu_acked: Option<u16>,
    /// Size of the smallest PMTU probe that was lost.
    pub(crate) mtu_lost: Option<u16>,
    /// How many packets above the size that every path must carry were lost in a row while smaller ones arrived; zero
    /// if none was lost now.
    pub(crate) large_lost: u32,
}

impl Outcome {
    /// Clears the outcome, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        let Self { delivered, lost, lost_packets, .. } = self;
        let (mut delivered, mut lost) = (std::mem::take(delivered), std::mem::take(lost));
        let mut lost_packets = std::mem::take(lost_packets);
        delivered.clear();
        lost.clear();
        lost_packets.clear();
        *self = Self { delivered, lost, lost_packets, ..Self::default() };
    }
}

/// A packet that was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostNote {
    pub(crate) packet_number: u64,
    pub(crate) size: u16,
    pub(crate) reason: LossReason,
}

/// An acknowledgement as it arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedAck<I> {
    /// The path whose packets it acknowledges.
    pub(crate) path: PathId,
    /// The path on which it arrived.
    pub(crate) carrier: PathId,
    /// The packet numbers, newest first.
    pub(crate) ranges: I,
    /// How long the peer delayed it, by its own account.
    pub(crate) delay: Duration,
    /// When the newest of the packets arrived, by the peer's account, if it tells.
    pub(crate) received_at: Option<PeerTime>,
    /// Whether it measures the RTT: not if the content of its packets was sent more than once.
    pub(crate) is_timed: bool,
    /// ECN counts of the packets that the peer received on the path.
    pub(crate) ecn: Option<EcnCounts>,
}

impl<I: Iterator<Item = RangeInclusive<u64>>> ReceivedAck<I> {
    /// An acknowledgement that arrived on the path that it acknowledges. `receive_time` is that of the PATH-ACK, in
    /// µs.
    pub(crate) fn new(path: PathId, ranges: I, delay: Duration, receive_time: u32) -> Self {
        let received_at = Some(PeerTime(receive_time));
        Self { path, carrier: path, ranges, delay, received_at, is_timed: true, ecn: None }
    }

    /// The same of a peer that does not tell when the packets arrived.
    pub(crate) fn without_times(path: PathId, ranges: I) -> Self {
        let delay = Duration::ZERO;
        Self { path, carrier: path, ranges, delay, received_at: None, is_timed: true, ecn: None }
    }

    /// Its packets measure no RTT.
    pub(crate) fn untimed(self) -> Self {
        Self { is_timed: false, ..self }
    }

    /// Adds the peer's ECN counts.
    pub(crate) fn with_ecn(self, ecn: Option<EcnCounts>) -> Self {
        Self { ecn, ..self }
    }

    /// Sets the path on which it arrived.
    pub(crate) fn over(self, carrier: PathId) -> Self {
        Self { carrier, ..self }
    }
}

/// What congestion control permits on a path now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// This many bytes, at least one datagram.
    Ready { bytes: ByteCount },
    /// Nothing until a packet arrives or is lost: the congestion window is full.
    Window,
    /// Nothing before this instant.
    PacedUntil(Instant),
}

/// The meaning of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutKind {
    /// Nothing; the call came too early.
    Nothing,
    /// Packets were declared lost.
    Lost,
    /// Probe timeout: send two PTO probes that elicit an immediate acknowledgement, regardless of the window.
    ProbeTimeout {
        /// Number of consecutive probe timeouts.
        count: u32,
    },
}
