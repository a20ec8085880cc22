//! The counters of a link.

use std::time::Duration;

use manyway_sim::link::LinkCounters;

/// Direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// The time of one entry of [`Figures::delivered`].
pub const SERIES_BIN: Duration = Duration::from_millis(50);

/// The counters of a link in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Figures {
    /// The counters of the link model, in datagrams and bytes of UDP payload.
    pub counters: LinkCounters,
    /// Datagrams from a wrong source, which never entered the link.
    pub foreign: u64,
    /// Delivered bytes of UDP payload, in bins of [`SERIES_BIN`] since the emulator started, by the link's model (a
    /// late relay does not blur it); at most two hours.
    pub delivered: Vec<u64>,
}

impl Figures {
    pub(super) fn add_delivered(&mut self, at: Duration, bytes: u64) {
        let bin = usize::try_from(at.as_nanos() / SERIES_BIN.as_nanos()).unwrap_or(usize::MAX);
        if bin >= MOST_BINS {
            return;
        }
        if self.delivered.len() <= bin {
            self.delivered.resize(bin + 1, 0);
        }
        if let Some(sum) = self.delivered.get_mut(bin) {
            *sum = sum.saturating_add(bytes);
        }
    }
}

const MOST_BINS: usize = 2 * 3600 * 20;
