//! The figures of the links, serialisable as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::RouteTotals;

/// The figures of an emulator from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmulatorReport {
    /// Data delivered by each route since [`begin`](super::Emulator::begin), in the order of the scenario.
    pub routes: Vec<RouteTotals>,
    /// All other figures.
    pub totals: Snapshot,
}

/// The figures at one moment, counted from the start of the emulator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time since [`begin`](super::Emulator::begin); `None` before it.
    pub at: Option<Duration>,
    /// In the order of the scenario.
    pub links: Vec<LinkReport>,
    /// Those of the client in order, then those of the server.
    pub interfaces: Vec<InterfaceReport>,
    /// Delays of the emulator itself.
    pub lateness: Lateness,
    /// Processor time of the emulator's thread, user and system.
    pub busy: Duration,
}

/// Both directions of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkReport {
    /// Its name in the scenario.
    pub name: String,
    /// From client to server.
    pub up: LinkCounters,
    /// From server to client.
    pub down: LinkCounters,
}

/// Packets and their bytes, IP headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The counters of one direction of a link: `offered + duplicated = delivered + all drops + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Entered the link.
    pub offered: Count,
    /// Left it at the other end.
    pub delivered: Count,
    /// Dropped because the queue was full.
    pub queue_full: Count,
    /// Dropped by active queue management.
    pub queue_law: Count,
    /// Lost on the medium.
    pub lost: Count,
    /// Dropped because the link was cut.
    pub outage: Count,
    /// Dropped because larger than the link's MTU.
    pub too_large: Count,
    /// Dropped because they carried an ECN mark.
    #[serde(default)]
    pub black_hole: Count,
    /// Dropped because the link drops UDP.
    #[serde(default)]
    pub filtered: Count,
    /// Copies made by the link.
    pub duplicated: Count,
    /// Packets in which the link flipped a bit.
    pub corrupted: Count,
    /// Packets marked with CE.
    pub marked: Count,
    /// Currently on the link.
    pub held: Count,
}

/// Traffic of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterfaceReport {
    /// `client` or `server`.
    pub side: String,
    /// Its name in the scenario.
    pub name: String,
    /// Received from the host.
    pub sent: Count,
    /// Delivered to the host.
    pub received: Count,
    /// Received from the host, but without a route to the destination (including the system's own multicasts).
    pub unrouted: Count,
    /// Dropped by the NAT, in either direction.
    pub untranslated: Count,
    /// Refused by the host, because the interface was down or the damaged packet was no IP packet any more.
    pub refused: Count,
    /// Packets that the emulator did not read from the host in time: a sign that the machine is too slow or disturbed.
    pub overrun: u64,
}

/// How late the emulator delivered packets and executed events, relative to their computed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Number of measurements.
    pub count: u64,
    /// The median, rounded up by at most a sixteenth, as the others.
    pub median: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The maximum.
    pub worst: Duration,
}
