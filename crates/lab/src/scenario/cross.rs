//! Cross traffic: what others send over the links of a scenario.

use std::time::Duration;

use manyway_sim::CrossKind;

use super::{Direction, Route, Scenario};

/// Flows of others that are alike and run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossTraffic {
    /// What each flow is.
    pub kind: CrossKind,
    /// Number of flows, from 1.
    pub count: u32,
    /// The route that they take: an index of [`Scenario::all_routes`].
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
    /// When they end, from the start of the measured traffic, in this scenario.
    pub fn end(&self, scenario: &Scenario) -> Duration {
        let most = scenario.limit();
        self.lasts.map_or(most, |lasts| self.at.saturating_add(lasts).min(most))
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

impl Scenario {
    /// The routes of contenders, then those that only others use.
    pub fn all_routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().chain(&self.cross_routes)
    }

    /// A route of this scenario by its index among [`Self::all_routes`].
    pub fn any_route(&self, place: usize) -> Option<&Route> {
        let of_others = || self.cross_routes.get(place.checked_sub(self.routes.len())?);
        self.routes.get(place).or_else(of_others)
    }

    /// Number of flows of others.
    pub fn cross_flows(&self) -> u32 {
        self.cross_traffic.iter().map(|traffic| traffic.count).sum()
    }
}
