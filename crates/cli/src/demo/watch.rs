//! What the user sees of the paths while a transfer runs.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use manyway::{ConnectionInfo, PathEvent, PathState, PathStatistics};
use manyway_proto::{ByteCount, Rate};

use super::emulator::{Direction, LinkHandle, SERIES_BIN};
use crate::output::progress::PathLine;

/// Looks at the links, and at the paths over them.
#[derive(Debug)]
pub(super) struct Watch {
    links: Vec<LinkHandle>,
    /// When bin 0 of the links' figures began.
    epoch: Instant,
}

impl Watch {
    pub(super) fn new(links: &[LinkHandle], epoch: Instant) -> Self {
        Self { links: links.to_vec(), epoch }
    }

    /// One line for each link.
    pub(super) fn lines(&self, info: &ConnectionInfo) -> Vec<PathLine> {
        let bins = self.epoch.elapsed().as_nanos() / SERIES_BIN.as_nanos();
        let bins = usize::try_from(bins).unwrap_or(usize::MAX);
        let figures: Vec<_> = self.links.iter().map(|link| link.figures(Direction::Up)).collect();
        let sum: u64 = figures.iter().map(|figures| figures.counters.delivered.bytes.get()).sum();
        let mut lines = Vec::new();
        for ((index, link), figures) in self.links.iter().enumerate().zip(&figures) {
            let path = self.path(info, link.client());
            let delivered = figures.counters.delivered.bytes.get();
            lines.push(PathLine {
                name: format!("{} ({})", link_name(index), link.spec().rate),
                state: path.map_or_else(|| "-".to_owned(), |path| path.state.to_string()),
                rtt: path.filter(|path| path.state != PathState::Validating).map(|path| path.smoothed_rtt),
                rate: recent_rate(&figures.delivered, bins),
                share: share(delivered, sum),
            });
        }
        lines
    }

    /// An address of the server that no link leads to but that the connection uses all the same.
    pub(super) fn way_around(&self, info: &ConnectionInfo) -> Option<String> {
        let fronts: Vec<_> = self.links.iter().map(LinkHandle::front).collect();
        let strays = info.paths.iter().filter(|path| path.statistics.state.carries_data());
        strays
            .map(|path| path.statistics.tuple.remote)
            .find(|remote| !fronts.contains(remote))
            .map(|remote| remote.to_string())
    }

    /// What happened to a path, in words.
    pub(super) fn message(&self, event: &PathEvent) -> String {
        let local = event.tuple.local.address.ip();
        let name = self.links.iter().position(|link| link.client() == local).map(link_name);
        let name = name.unwrap_or_else(|| format!("path {}", event.path.0));
        format!("{name} {}: {}", event.state, event.reason)
    }

    /// Whether the connection gives data to the path over a link.
    pub(super) fn is_used(&self, info: &ConnectionInfo, link: usize) -> bool {
        let client = self.links.get(link).map(LinkHandle::client);
        client.and_then(|client| self.path(info, client)).is_some_and(|path| path.state.carries_data())
    }

    /// Whether an event is about a path over a link.
    pub(super) fn is_over(&self, event: &PathEvent, link: usize) -> bool {
        self.links.get(link).is_some_and(|link| link.client() == event.tuple.local.address.ip())
    }

    fn path<'a>(&self, info: &'a ConnectionInfo, local: IpAddr) -> Option<&'a PathStatistics> {
        let mut paths = info.paths.iter().map(|path| &path.statistics);
        paths.rfind(|path| path.tuple.local.address.ip() == local)
    }
}

/// The name of a link, counted from zero.
pub(super) fn link_name(index: usize) -> String {
    format!("link {}", index + 1)
}

/// A moment of the transfer, as it stands before each message.
pub(super) fn moment(time: Duration) -> String {
    format!("{:>6.2} s ", time.as_secs_f64())
}

/// The rate in the last whole bins of a series.
fn recent_rate(series: &[u64], bins: usize) -> Rate {
    let first = bins.saturating_sub(RECENT_BINS);
    let bytes = series.iter().take(bins).skip(first).sum();
    let count = u32::try_from(bins - first).unwrap_or(1).max(1);
    ByteCount(bytes).per(SERIES_BIN * count)
}

fn share(part: u64, whole: u64) -> u8 {
    let rounded = (u128::from(part) * 100 + u128::from(whole) / 2).checked_div(u128::from(whole));
    rounded.and_then(|percent| u8::try_from(percent).ok()).unwrap_or(0)
}

/// Half a second.
const RECENT_BINS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_rate_is_that_of_whole_bins_only() {
        let rate = |series: &[u64], bins| recent_rate(series, bins).bits_per_second();
        // 2500 bytes in 50 ms are 400 kbit/s.
        assert_eq!(rate(&[2500; 30], 20), 400_000);
        assert_eq!(rate(&[2500, 2500, 100], 2), 400_000);
        assert_eq!(rate(&[2500; 15], 20), 200_000);
        assert_eq!(rate(&[], 0), 0);
    }

    #[test]
    fn shares_are_whole_percents() {
        assert_eq!((share(1, 3), share(0, 0), share(3, 3)), (33, 0, 100));
    }
}
