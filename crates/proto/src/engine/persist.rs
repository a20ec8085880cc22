//! A sender that waits for credit asks now and then (spec 8.27).
//!
//! It has nothing in flight, so neither the probe timer nor silence shows whether the peer is still there; and credit
//! that is too little for the peer to tell it unasked may be all that is due.

use std::time::Duration;

use manyway_wire::PathId;

use super::Engine;
use crate::Instant;
use crate::path::Path;
use crate::wire::Wire;

/// The longest time between two questions.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// When to ask, and where.
#[derive(Debug)]
pub(crate) struct Persist {
    /// Since when it waits: bytes of streams left, or a question.
    since: Instant,
    /// Questions since bytes left.
    questions: u32,
    /// The path on which a question goes now.
    due: Option<PathId>,
}

impl Persist {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, questions: 0, due: None }
    }

    /// Bytes of streams left.
    pub(crate) fn on_data(&mut self, now: Instant) {
        (self.since, self.questions) = (now, 0);
    }

    /// This host slept until now.
    pub(crate) fn on_wake(&mut self, now: Instant) {
        self.since = now;
    }

    /// The path on which a question goes, told once.
    pub(crate) fn take_due(&mut self) -> Option<PathId> {
        self.due.take()
    }

    fn on_asked(&mut self, now: Instant, path: PathId) {
        self.since = now;
        self.questions = self.questions.saturating_add(1);
        self.due = Some(path);
    }

    fn deadline(&self, pto: Duration) -> Instant {
        // 2^9 times 10 ms is above the longest wait.
        self.since + pto.saturating_mul(1 << self.questions.min(9)).min(LONGEST_WAIT)
    }
}

impl Engine {
    /// Where the next question goes, if one is needed: to each live path in turn, as any of them may have died.
    fn persist_path(&self, wire: &Wire) -> Option<&Path> {
        let asks_anyway = |path: &Path| path.has_probes_due() || path.recovery.packets_in_flight() > 0;
        if !wire.is_blocked() || self.paths.iter().any(|path| path.is_live() && asks_anyway(path)) {
            return None;
        }
        let path = self.paths.by_turn(self.persist.questions)?;
        (path.is_live() && self.can_send(path)).then_some(path)
    }

    pub(crate) fn persist_deadline(&self, wire: &Wire) -> Option<Instant> {
        let path = self.persist_path(wire)?;
        Some(self.persist.deadline(path.recovery.pto()))
    }

    /// Asks if it is time.
    pub(crate) fn persist_timeout(&mut self, wire: &mut Wire, now: Instant) {
        if self.persist_deadline(wire).is_none_or(|at| at > now) {
            return;
        }
        if let Some(id) = self.persist_path(wire).map(|path| path.id) {
            wire.repeat_blocked();
            self.persist.on_asked(now, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway_wire::PathId;

    use super::Persist;
    use crate::Instant;

    #[test]
    fn the_wait_doubles_up_to_five_seconds_until_bytes_leave() {
        let mut now = Instant::from_nanos(0);
        let mut persist = Persist::new(now);
        let pto = Duration::from_millis(100);
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push((persist.deadline(pto) - now).as_millis());
            now = persist.deadline(pto);
            persist.on_asked(now, PathId(3));
            assert_eq!((persist.take_due(), persist.take_due()), (Some(PathId(3)), None));
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        persist.on_data(now);
        assert_eq!(persist.deadline(pto) - now, pto);
    }
}
