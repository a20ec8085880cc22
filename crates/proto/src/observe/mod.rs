//! What goes on inside, as typed facts: logs, qlog, counters and tests are observers.

pub(crate) mod log;

use std::fmt;

use manyway_wire::PathId;

use crate::event::PathEvent;
use crate::{ByteCount, Instant};

/// Hears facts of a connection as they happen. Without an observer each fact costs one branch.
pub trait Observer: Send + fmt::Debug {
    /// Takes a fact; must not block.
    fn on_fact(&mut self, now: Instant, fact: &Fact);
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
}
