//! Cross traffic: what others send over the links of a scenario.

use std::time::Duration;

use manyway_sim::CrossKind;
use manyway_sim::pair::Direction;

/// Flows of others that are alike and run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossTraffic {
    /// What each flow is.
    pub kind: CrossKind,
    /// Number of flows, from 1.
    pub count: u32,
    /// The route that they take: an index of all routes of the scenario, those of others last.
    pub route: usize,
    /// When they begin, from the start of the measured traffic.
    pub at: Duration,
    /// How long they last; `None` until the end of the run.
    pub lasts: Option<Duration>,
    /// From client to server, or back; [`Direction::Both`] is the former.
    pub direction: Direction,
    /// Bytes of a full IP packet.
    pub packet: u16,
}

impl CrossTraffic {
    /// When they end in a run of at most this length, from the start of the measured traffic.
    pub fn end(&self, limit: Duration) -> Duration {
        self.lasts.map_or(limit, |lasts| self.at.saturating_add(lasts).min(limit))
    }

    /// Its name in scenario files.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            CrossKind::Cubic => "tcp-cubic",
            CrossKind::Reno => "tcp-reno",
            CrossKind::Udp(_) => "udp",
        }
    }
}
