//! The current rate of each path.

use std::collections::BTreeMap;

use manyway::{PathId, PathStatistics, Rate};
use tokio::time::Instant;

use crate::output::rate::RateWindow;

/// Less than this are the pings of `paths` itself, and probes of the transport.
const IDLE: u64 = 60_000;

/// The rates of all paths over the last two seconds.
#[derive(Debug, Default)]
pub(super) struct Rates(BTreeMap<PathId, RateWindow>);

impl Rates {
    /// Records the current paths.
    pub(super) fn take<'a>(&mut self, now: Instant, paths: impl Iterator<Item = &'a PathStatistics>) {
        let bytes = |path: &PathStatistics| path.bytes_sent.get().saturating_add(path.bytes_received.get());
        let now_bytes: BTreeMap<_, _> = paths.map(|path| (path.id, bytes(path))).collect();
        self.0.retain(|id, _| now_bytes.contains_key(id));
        for (id, bytes) in now_bytes {
            self.note(now, id, bytes);
        }
    }

    fn note(&mut self, now: Instant, id: PathId, bytes: u64) {
        self.0.entry(id).or_default().record(now.into_std(), bytes);
    }

    /// The rate of a path; `None` if it is idle or was not measured yet.
    pub(super) fn of(&self, id: PathId) -> Option<Rate> {
        let rate = self.0.get(&id)?.rate(Instant::now().into_std())?;
        (rate.bits_per_second() > IDLE).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_path_with_pings_only_has_no_rate() {
        let (mut rates, busy, idle) = (Rates::default(), PathId(0), PathId(1));
        for step in 0..20 {
            rates.note(Instant::now(), busy, step * 125_000);
            rates.note(Instant::now(), idle, step * 500);
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        let megabits = |id| rates.of(id).map(|rate| rate.bits_per_second() / 1_000_000);
        assert_eq!((megabits(busy), megabits(idle)), (Some(10), None));
    }
}
