//! When a SACK is due, and on which path it goes (spec 3.46, 3.127).

use std::time::Duration;

use manyway_wire::PathId;

use super::received::Taken;
use crate::Instant;

/// A SACK is due with this datagram since the last one, if no gap calls for it earlier.
const DATAGRAMS: u32 = 2;
/// Longest wait of a datagram for its SACK.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Decides when the receiver sends SACK.
#[derive(Debug, Default)]
pub(crate) struct SackPolicy {
    /// Datagrams with DATA since the last SACK.
    waiting: u32,
    due: Due,
    return_to: Option<PathId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Due {
    #[default]
    No,
    At(Instant),
    Now,
}

impl SackPolicy {
    /// A datagram with DATA came on `path` (`None`: on none that is known); `worst` is the largest [`Taken`] of its
    /// blocks, and `has_gap` tells whether a block is missing now. A block that was dropped for lack of memory counts as
    /// [`Taken::TooFar`].
    pub(crate) fn on_datagram(&mut self, now: Instant, path: Option<PathId>, worst: Taken, has_gap: bool) {
        self.waiting = self.waiting.saturating_add(1);
        self.return_to = path;
        let is_urgent = worst != Taken::InOrder || has_gap || self.waiting >= DATAGRAMS;
        self.due = match self.due {
            _ if is_urgent => Due::Now,
            Due::No => Due::At(now + LONGEST_WAIT),
            Due::At(_) | Due::Now => self.due,
        };
    }

    /// Makes a SACK due at once: the window opened.
    pub(crate) fn force(&mut self) {
        self.due = Due::Now;
    }

    /// Whether there is something to acknowledge, so that a packet that goes anyway takes a SACK along.
    pub(crate) fn is_waiting(&self) -> bool {
        self.due != Due::No
    }

    /// Whether a packet should go for the SACK alone.
    pub(crate) fn due(&self, now: Instant) -> bool {
        match self.due {
            Due::No => false,
            Due::At(at) => at <= now,
            Due::Now => true,
        }
    }

    /// When a SACK becomes due by itself. `None` also while it is due at once.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.due {
            Due::At(at) => Some(at),
            Due::No | Due::Now => None,
        }
    }

    /// The path on which the newest datagram with DATA came.
    pub(crate) fn return_to(&self) -> Option<PathId> {
        self.return_to
    }

    /// A SACK was sent.
    pub(crate) fn on_sent(&mut self) {
        self.waiting = 0;
        self.due = Due::No;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000);

    fn arrives(policy: &mut SackPolicy, at: Instant, path: u32, worst: Taken) {
        policy.on_datagram(at, Some(PathId(path)), worst, false);
    }

    #[test]
    fn every_second_datagram_is_acknowledged_at_once() {
        let mut policy = SackPolicy::default();
        for _ in 0..3 {
            assert!(!policy.is_waiting() && !policy.due(START));
            arrives(&mut policy, START, 0, Taken::InOrder);
            assert!(policy.is_waiting() && !policy.due(START));
            arrives(&mut policy, START, 0, Taken::InOrder);
            assert!(policy.due(START));
            policy.on_sent();
        }
    }

    #[test]
    fn a_single_datagram_waits_for_20_milliseconds() {
        let mut policy = SackPolicy::default();
        arrives(&mut policy, START, 0, Taken::InOrder);
        let at = START + Duration::from_millis(20);
        assert_eq!(
            (policy.deadline(), policy.due(at - Duration::from_nanos(1)), policy.due(at)),
            (Some(at), false, true)
        );
        policy.on_sent();
        assert_eq!((policy.deadline(), policy.due(at)), (None, false));
    }

    #[test]
    fn each_datagram_is_acknowledged_while_there_is_a_gap_or_a_copy_came() {
        for (worst, has_gap) in [
            (Taken::InOrder, true),
            (Taken::FillsGap, false),
            (Taken::BeyondGap, true),
            (Taken::Duplicate, false),
            (Taken::TooFar, false),
        ] {
            let mut policy = SackPolicy::default();
            policy.on_datagram(START, None, worst, has_gap);
            assert!(policy.due(START), "{worst:?} {has_gap}");
            assert_eq!(policy.deadline(), None, "a deadline in the past would keep the driver busy");
        }
    }

    #[test]
    fn a_copy_from_another_path_is_answered_on_that_path() {
        let mut policy = SackPolicy::default();
        arrives(&mut policy, START, 1, Taken::BeyondGap);
        assert_eq!(policy.return_to(), Some(PathId(1)));
        policy.on_sent();
        arrives(&mut policy, START, 2, Taken::Duplicate);
        assert_eq!((policy.due(START), policy.return_to()), (true, Some(PathId(2))));
    }

    #[test]
    fn a_window_that_opens_is_told_at_once() {
        let mut policy = SackPolicy::default();
        policy.force();
        assert!(policy.is_waiting() && policy.due(START));
    }
}
