//! Internal events as typed facts: logs, qlog, counters and tests are observers.

pub(crate) mod log;
mod observers;
mod packet;
pub mod qlog;

use std::fmt;
use std::time::Duration;

use manyway_wire::PathId;

pub use self::observers::Observers;
pub use self::packet::{Beginning, Direction, ObservedPacket, PacketContent};
use crate::event::PathEvent;
use crate::{ByteCount, ConnectionError, Instant, Rate};

/// Receives facts of a connection as they happen. Without an observer each fact costs one branch.
pub trait Observer: Send + fmt::Debug {
    /// Handles a fact; must not block.
    fn on_fact(&mut self, now: Instant, fact: &Fact);

    /// Handles a packet with its decrypted payload; must not block. A sent packet comes after its
    /// [`Fact::PacketSent`], a received one before any reaction to it.
    fn on_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        let _ = (now, packet);
    }

    /// Reports the end of the connection, once; must not block. Some packets may still come and go.
    fn on_closed(&mut self, now: Instant, error: &ConnectionError) {
        let _ = (now, error);
    }
}

/// An event inside a connection, with the figures that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A packet of a path was passed to the driver.
    PacketSent {
        /// The path.
        path: PathId,
        /// Its number.
        packet_number: u64,
        /// Its size, header and tag included.
        size: u16,
        /// Whether it is ack-eliciting.
        ack_eliciting: bool,
    },
    /// A packet of a path was decrypted.
    PacketReceived {
        /// The path.
        path: PathId,
        /// Its number.
        packet_number: u64,
        /// Its size, without header and tag.
        size: u16,
    },
    /// Packets were declared lost.
    PacketsLost {
        /// The path.
        path: PathId,
        /// Number of packets.
        packets: u64,
        /// Number of bytes.
        bytes: ByteCount,
    },
    /// One of them; reported only to observers.
    PacketLost {
        /// The path.
        path: PathId,
        /// Its number.
        packet_number: u64,
        /// Its size, header and tag included.
        size: u16,
        /// Why it counts as lost.
        reason: LossReason,
    },
    /// Packets declared lost arrived after all.
    SpuriousLoss {
        /// The path.
        path: PathId,
        /// Number of packets.
        packets: u64,
    },
    /// Packets in flight on a path are reinjected on others, without being declared lost.
    Reinjected {
        /// The suspect path.
        path: PathId,
        /// Number of packets.
        packets: u64,
    },
    /// A path changed its state.
    Path(PathEvent),
    /// The datagram size of a path changed.
    DatagramSize {
        /// The path.
        path: PathId,
        /// UDP payload in bytes.
        size: u16,
    },
    /// This end updated the keys.
    KeyUpdate,
    /// The keys were updated because the peer did so.
    PeerKeyUpdate,
    /// TLS is complete, and the peer is authenticated.
    Established,
    /// The metrics of a path after an acknowledgement or a timeout; reported only to observers.
    Metrics(Metrics),
}

/// Why a packet counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Later packets arrived, or it was sent long enough ago.
    Detected,
    /// It was a PMTU probe; its loss is no sign of congestion.
    MtuProbe,
    /// Its path is dead or closed, and its packets in flight were given up.
    PathAbandoned,
}

/// Metrics of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The path.
    pub path: PathId,
    /// Newest RTT sample.
    pub latest_rtt: Duration,
    /// Smoothed RTT; the assumed one before the first sample.
    pub smoothed_rtt: Duration,
    /// Smallest RTT.
    pub minimum_rtt: Duration,
    /// RTT variation.
    pub rtt_variation: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes sent that are neither acknowledged nor lost.
    pub in_flight: ByteCount,
    /// The same in packets.
    pub packets_in_flight: u64,
    /// The pacing rate.
    pub pacing_rate: Rate,
    /// Whether the window grows exponentially in slow start.
    pub is_in_slow_start: bool,
}
