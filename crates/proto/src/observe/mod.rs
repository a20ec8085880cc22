//! What goes on inside, as typed facts: logs, qlog, counters and tests are observers.

pub(crate) mod log;
mod packet;
pub mod qlog;

use std::fmt;
use std::time::Duration;

use manyway_wire::PathId;

pub use self::packet::{Beginning, Direction, ObservedPacket, Observers};
use crate::event::PathEvent;
use crate::{ByteCount, ConnectionError, Instant, Rate};

/// Hears facts of a connection as they happen. Without an observer each fact costs one branch.
pub trait Observer: Send + fmt::Debug {
    /// Takes a fact; must not block.
    fn on_fact(&mut self, now: Instant, fact: &Fact);

    /// Takes a packet with its inside in clear; must not block. A packet that was sent comes behind its
    /// [`Fact::PacketSent`], one that was received before anything is done with it.
    fn on_packet(&mut self, now: Instant, packet: &ObservedPacket<'_>) {
        let _ = (now, packet);
    }

    /// Is told how the connection ends, once; must not block. Some packets may still come and go.
    fn on_closed(&mut self, now: Instant, error: &ConnectionError) {
        let _ = (now, error);
    }
}

/// Something that happened inside a connection, with the figures that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// A packet of a path was handed to the driver.
    PacketSent {
        /// The path.
        path: PathId,
        /// Its number.
        packet_number: u64,
        /// Its size, header and tag included.
        size: u16,
        /// Whether it asks for an acknowledgement.
        asks_for_ack: bool,
    },
    /// A packet of a path was opened.
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
        /// How many.
        packets: u64,
        /// How many bytes.
        bytes: ByteCount,
    },
    /// One of them; told only to observers.
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
        /// How many.
        packets: u64,
    },
    /// What was in flight on a path is sent again on others, without being declared lost.
    Reinjected {
        /// The path that is suspect.
        path: PathId,
        /// How many packets.
        packets: u64,
    },
    /// A path came into another state.
    Path(PathEvent),
    /// A path's datagrams changed in size.
    DatagramSize {
        /// The path.
        path: PathId,
        /// UDP payload in bytes.
        size: u16,
    },
    /// The keys were changed by this end.
    KeyUpdate,
    /// The keys were changed because the peer did.
    PeerKeyUpdate,
    /// TLS is complete, the peer is who it should be.
    Established,
    /// The figures of a path after an acknowledgement or a timeout; told only to observers.
    Metrics(Metrics),
}

/// Why a packet counts as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Later ones arrived, or long enough ago.
    Detected,
    /// It tried a larger datagram; that is no sign of congestion.
    MtuProbe,
    /// Its path is dead or closed, and what was in flight is given up.
    PathAbandoned,
}

/// Figures of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The path.
    pub path: PathId,
    /// Newest measurement of the round trip.
    pub latest_rtt: Duration,
    /// Smoothed round trip; the assumed one before the first measurement.
    pub smoothed_rtt: Duration,
    /// Smallest round trip.
    pub minimum_rtt: Duration,
    /// How much round trips vary.
    pub rtt_variation: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes sent and neither arrived nor lost.
    pub in_flight: ByteCount,
    /// The same in packets.
    pub packets_in_flight: u64,
    /// The rate at which packets may leave.
    pub pacing_rate: Rate,
    /// Whether the window still grows exponentially.
    pub is_in_slow_start: bool,
}
