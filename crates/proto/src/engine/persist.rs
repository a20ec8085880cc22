//! Persist probes: a sender that waits for flow-control credit sends one now and then (spec 8.27).
//!
//! It has nothing in flight, so neither the probe timer nor silence detection shows whether the peer is alive.
//! Besides, the peer may owe a small credit that it does not announce by itself.

use std::time::Duration;

use manyway_wire::PathId;

use crate::Instant;

/// The longest time between two persist probes.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The timer of persist probes, and the path for the next one.
#[derive(Debug)]
pub(crate) struct Persist {
    /// Start of the timer: stream data or a persist probe left.
    since: Instant,
    /// Persist probes since stream data left.
    pub(super) probes: u32,
    /// The path on which a persist probe is due.
    due: Option<PathId>,
}

impl Persist {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, probes: 0, due: None }
    }

    /// Stream data left.
    pub(crate) fn on_data(&mut self, now: Instant) {
        (self.since, self.probes) = (now, 0);
    }

    /// This host slept until now.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.since = now;
    }

    /// The path on which a persist probe is due; returns it once.
    pub(crate) fn take_due(&mut self) -> Option<PathId> {
        self.due.take()
    }

    pub(super) fn on_probe_sent(&mut self, now: Instant, path: PathId) {
        self.since = now;
        self.probes = self.probes.saturating_add(1);
        self.due = Some(path);
    }

    pub(super) fn deadline(&self, pto: Duration) -> Instant {
        // 2^9 times 10 ms is above the longest wait.
        self.since + pto.saturating_mul(1 << self.probes.min(9)).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_wire::PathId;

    use super::Persist;
    use crate::Instant;

    #[test]
    fn the_wait_doubles_up_to_five_seconds_until_stream_data_leaves() {
        let mut now = Instant::from_nanos(0);
        let mut persist = Persist::new(now);
        let pto = Duration::from_millis(100);
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push((persist.deadline(pto) - now).as_millis());
            now = persist.deadline(pto);
            persist.on_probe_sent(now, PathId(3));
            assert_eq!((persist.take_due(), persist.take_due()), (Some(PathId(3)), None));
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        persist.on_data(now);
        assert_eq!(persist.deadline(pto) - now, pto);
    }
}
