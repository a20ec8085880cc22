//! Notices that the process stood still, as after SIGSTOP: the system's clocks go on, but turns come late or take long.

use tokio::time::Instant;

use crate::clock::SuspendWatch;

/// Compares when turns should happen with when they do.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// When the next turn is to begin at the latest; `None` while nothing is due.
    due_at: Option<Instant>,
    /// From when on this turn is measured; `None` if it need not be.
    measured_from: Option<Instant>,
}

impl Standstill {
    /// The next turn is due at the earliest of `deadlines`. What was due before is due now: counted from then, the next
    /// turn would look like one that comes late. Returns when it is due.
    pub(super) fn expect(
        &mut self,
        deadlines: impl IntoIterator<Item = Option<Instant>>,
        now: Instant,
    ) -> Option<Instant> {
        self.due_at = deadlines.into_iter().flatten().min().map(|at| at.max(now));
        self.due_at
    }

    /// A turn begins; true if it comes so late that the process must have stood still.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        self.due_at.take().is_some_and(|due_at| is_noticeable(due_at, now))
    }

    /// What is treated of a standstill is treated. A turn that `woke` is not measured: on a system that is so slow that
    /// every turn takes long, each would start all detectors anew, and none would ever find anything.
    pub(super) fn go_on(&mut self, now: Instant, woke: bool) {
        self.measured_from = Some(now).filter(|_| !woke);
    }

    /// True if the process stood still since [`Self::go_on`]; then the next turn is as late as if it had been due since.
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
    fn a_turn_that_is_overdue_is_due_now() {
        let now = Instant::now();
        let (past, soon) = (now - Duration::from_secs(3), now + Duration::from_secs(3));
        let mut turns = Standstill::default();
        assert_eq!(turns.expect([None, Some(soon), Some(past)], now), Some(now));
        assert_eq!(turns.expect([Some(soon), None], now), Some(soon));
        assert_eq!(turns.expect([None], now), None);
        assert!(!turns.begin(soon), "it waited for an event, and nothing was due");
    }

    #[test]
    fn a_stop_is_noticed_once_wherever_it_falls() {
        let (start, stop) = (Instant::now(), Duration::from_secs(1));
        let mut turns = Standstill::default();
        // Between two turns.
        turns.expect([Some(start)], start);
        assert!(turns.begin(start + stop));
        turns.go_on(start + stop, true);
        assert!(!turns.is_stopped(start + stop));
        turns.expect([Some(start + stop)], start + stop);
        assert!(!turns.begin(start + stop));
        // In the middle of one.
        turns.go_on(start + stop, false);
        assert!(turns.is_stopped(start + 2 * stop));
        assert!(turns.begin(start + 2 * stop));
    }

    #[test]
    fn where_every_turn_takes_long_some_are_taken_as_they_are() {
        let (mut now, mut turns) = (Instant::now(), Standstill::default());
        let mut woken = Vec::new();
        for _ in 0..6 {
            let woke = turns.begin(now);
            woken.push(woke);
            turns.go_on(now, woke);
            now += Duration::from_millis(600);
            if !turns.is_stopped(now) {
                turns.expect([Some(now)], now);
            }
        }
        assert_eq!(woken, [false, true, false, true, false, true]);
    }
}
