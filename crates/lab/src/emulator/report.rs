//! What the links did, as figures that can be written as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::RouteTotals;

/// What an emulator did from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmulatorReport {
    /// What each route delivered since [`begin`](super::Emulator::begin), in the order of the scenario.
    pub routes: Vec<RouteTotals>,
    /// All other figures.
    pub totals: Snapshot,
}

/// The figures of one moment, counted from the start of the emulator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time since [`begin`](super::Emulator::begin); `None` before it.
    pub at: Option<Duration>,
    /// In the order of the scenario.
    pub links: Vec<LinkReport>,
    /// Those of the client in order, then those of the server.
    pub interfaces: Vec<InterfaceReport>,
    /// How late the emulator itself was.
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

/// The books of one direction of a link: `offered + duplicated = delivered + all drops + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkCounters {
    /// Given to the link.
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
    /// Copies that the link made.
    pub duplicated: Count,
    /// Packets in which the link flipped a bit.
    pub corrupted: Count,
    /// Packets that got a congestion mark.
    pub marked: Count,
    /// Now on the link.
    pub held: Count,
}

/// What passed an interface and what did not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterfaceReport {
    /// `client` or `server`.
    pub side: String,
    /// Its name in the scenario.
    pub name: String,
    /// Taken from the host.
    pub sent: Count,
    /// Given to the host.
    pub received: Count,
    /// Taken from the host, but no route leads to its destination (the system's own multicasts among them).
    pub unrouted: Count,
    /// Not let through by the address translator, either way.
    pub untranslated: Count,
    /// Refused by the host, since the interface was down or damage had left no IP packet.
    pub refused: Count,
    /// Packets that the emulator did not take from the host in time: a sign that the machine is too slow or disturbed.
    pub overrun: u64,
}

/// How late the emulator handed out packets and carried out events, against their computed moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// How many moments were measured.
    pub count: u64,
    /// Of half of them, at most. Rounded up by at most a sixteenth, as the others.
    pub median: Duration,
    /// Of 99 in 100, at most.
    pub p99: Duration,
    /// The worst.
    pub worst: Duration,
}
