//! What became of packets, for the owners of their content and for the path.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::PathId;

use super::delivery_rate::PeerTime;
use crate::io::EcnCounts;
use crate::observe::LossReason;
use crate::packet::content::Contents;
use crate::{ByteCount, Instant};

/// What an acknowledgement, a timeout or the end of a path brought. Kept by the caller and cleared before reuse, so
/// that nothing is allocated for a packet.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Contents that arrived, those of packets that had been called lost included.
    pub(crate) delivered: Vec<Contents>,
    /// Contents that were lost, without those that were reinjected on another path.
    pub(crate) lost: Vec<Contents>,
    /// The packets that were lost, each.
    pub(crate) lost_packets: Vec<LostNote>,
    /// Bytes that left flight by arriving.
    pub(crate) newly_acked_bytes: ByteCount,
    /// Bytes that left flight by being lost; without MTU probes.
    pub(crate) lost_bytes: ByteCount,
    /// Packets that had been called lost and arrived.
    pub(crate) spurious: u32,
    /// Whether anything arrived that was not known to have arrived.
    pub(crate) progress: bool,
    /// Size of the largest MTU probe that arrived.
    pub(crate) mtu_acked: Option<u16>,
    /// Size of the smallest MTU probe that was lost.
    pub(crate) mtu_lost: Option<u16>,
    /// Packets larger than every path must carry that were lost in a row, while smaller ones arrived; zero if none was
    /// lost now.
    pub(crate) large_lost: u32,
}

impl Outcome {
    /// Empties it, keeping its memory.
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

/// An acknowledgement as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedAck<I> {
    /// The path whose packets it is about.
    pub(crate) path: PathId,
    /// The path that it came on.
    pub(crate) carrier: PathId,
    /// The packet numbers, newest first.
    pub(crate) ranges: I,
    /// How long the peer says that it held the acknowledgement back.
    pub(crate) delay: Duration,
    /// When the peer says that the newest of the packets arrived.
    pub(crate) received_at: PeerTime,
    /// How the packets of the path were marked that the peer got so far.
    pub(crate) ecn: Option<EcnCounts>,
}

impl<I: Iterator<Item = RangeInclusive<u64>>> ReceivedAck<I> {
    /// One that came on the path that it is about. `receive_time` is that of the PATH-ACK, in µs.
    pub(crate) fn new(path: PathId, ranges: I, delay: Duration, receive_time: u32) -> Self {
        Self { path, carrier: path, ranges, delay, received_at: PeerTime(receive_time), ecn: None }
    }

    /// The same, with the peer's counts of marks.
    pub(crate) fn with_ecn(self, ecn: Option<EcnCounts>) -> Self {
        Self { ecn, ..self }
    }

    /// The same, come on this path.
    pub(crate) fn over(self, carrier: PathId) -> Self {
        Self { carrier, ..self }
    }
}

/// What may be sent on a path now, as far as congestion is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// So many bytes, at least one datagram.
    Ready {
        /// Bytes.
        bytes: ByteCount,
    },
    /// Nothing until something arrives or is lost: the window is full.
    Window,
    /// Nothing before this moment.
    PacedUntil(Instant),
}

/// What a timeout meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutKind {
    /// Nothing; it came too early.
    Nothing,
    /// Packets were called lost.
    Lost,
    /// Nothing was heard for long: send two probes that ask for an acknowledgement at once, whatever the window says.
    ProbeTimeout {
        /// How often in a row.
        count: u32,
    },
}
