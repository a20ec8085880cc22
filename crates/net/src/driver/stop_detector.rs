//! Detects that the process was stopped, as by SIGSTOP: the system's clocks go on, but turns begin late or take long.

use tokio::time::Instant;

use crate::clock::SuspendWatch;

/// Compares when turns are due with when they happen.
#[derive(Debug, Default)]
pub(super) struct StopDetector {
    /// When the next turn is due at the latest; `None` while nothing is due.
    due_at: Option<Instant>,
    /// Start of the interval that is measured in this turn; `None` if it is not measured.
    measured_from: Option<Instant>,
}

impl StopDetector {
    /// Sets the due time of the next turn to the earliest of `deadlines`, and returns it. An overdue deadline counts as
    /// due now: counted from its own time, the next turn would look late.
    pub(super) fn expect(
        &mut self,
        deadlines: impl IntoIterator<Item = Option<Instant>>,
        now: Instant,
    ) -> Option<Instant> {
        self.due_at = deadlines.into_iter().flatten().min().map(|at| at.max(now));
        self.due_at
    }

    /// Begins a turn; returns true if it is so late that the process must have been stopped.
    pub(super) fn begin_turn(&mut self, now: Instant) -> bool {
        self.due_at.take().is_some_and(|due_at| is_noticeable(due_at, now))
    }

    /// Measures a turn from its beginning on, so that no stop falls between two readings of the clock. A turn that
    /// `woke` is not measured: on a system where every turn takes long, each would reset all detectors, and none would
    /// ever fire.
    pub(super) fn measure(&mut self, begun: Instant, woke: bool) {
        self.measured_from = Some(begun).filter(|_| !woke);
    }

    /// Returns true if the process was stopped since the time of [`Self::measure`]; then the next turn counts as late
    /// from that time on.
    pub(super) fn is_stopped(&mut self, now: Instant) -> bool {
        let Some(from) = self.measured_from.filter(|from| is_noticeable(*from, now)) else { return false };
        self.due_at = Some(from);
        true
    }
}

fn is_noticeable(from: Instant, now: Instant) -> bool {
    now.saturating_duration_since(from) >= SuspendWatch::NOTICEABLE
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_overdue_turn_is_due_now() {
        let now = Instant::now();
        let (past, soon) = (now - Duration::from_secs(3), now + Duration::from_secs(3));
        let mut turns = StopDetector::default();
        assert_eq!(turns.expect([None, Some(soon), Some(past)], now), Some(now));
        assert_eq!(turns.expect([Some(soon), None], now), Some(soon));
        assert_eq!(turns.expect([None], now), None);
        assert!(!turns.begin_turn(soon), "it waited for an event, and nothing was due");
    }

    #[test]
    fn a_stop_is_detected_once_wherever_it_falls() {
        let (start, stop) = (Instant::now(), Duration::from_secs(1));
        let mut turns = StopDetector::default();
        // The stop falls between two turns.
        turns.expect([Some(start)], start);
        assert!(turns.begin_turn(start + stop));
        turns.measure(start + stop, true);
        assert!(!turns.is_stopped(start + stop));
        turns.expect([Some(start + stop)], start + stop);
        assert!(!turns.begin_turn(start + stop));
        // The stop falls into a turn.
        turns.measure(start + stop, false);
        assert!(turns.is_stopped(start + 2 * stop));
        assert!(turns.begin_turn(start + 2 * stop));
    }

    #[test]
    fn where_every_turn_takes_long_some_are_not_measured() {
        let (mut now, mut turns) = (Instant::now(), StopDetector::default());
        let mut woken = Vec::new();
        for _ in 0..6 {
            let woke = turns.begin_turn(now);
            woken.push(woke);
            turns.measure(now, woke);
            now += Duration::from_millis(600);
            if !turns.is_stopped(now) {
                turns.expect([Some(now)], now);
            }
        }
        assert_eq!(woken, [false, true, false, true, false, true]);
    }
}
