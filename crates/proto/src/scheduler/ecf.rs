//! Earliest completion first: Lim, Nahum, Towsley and Gibbens, "ECF: An MPTCP Path Scheduler to Manage Heterogeneous
//! Paths", `CoNEXT` 2017, section 4.

use std::time::Duration;

use super::choice::{fill, nearest, purpose_by_distance, will_have_room};
use super::{Decision, PathView, Purpose, Scheduler, View};
use crate::ByteCount;

/// Uses a slower path only if the rest would not be complete sooner by waiting for the fastest one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ecf {
    /// Whether the last answer was to wait, which makes the next one lean that way.
    waits: bool,
}

impl Scheduler for Ecf {
    fn name(&self) -> &'static str {
        "ecf"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let Some((fast, open)) = nearest(view) else { return Decision::WAIT };
        if fast.id == open.id {
            return fill(open);
        }
        let rest = view.backlog + view.repeats;
        self.waits = will_have_room(fast) && is_sooner_by_waiting(fast, open, rest, self.waits);
        if self.waits { Decision::WAIT } else { fill(open) }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_by_distance(path, view)
    }
}

/// The two tests of the paper; β is a quarter.
fn is_sooner_by_waiting(fast: &PathView, slow: &PathView, rest: ByteCount, waits: bool) -> bool {
    let variation = fast.rtt.variation.max(slow.rtt.variation);
    // n · rtt_f < (1 + β · waiting) (rtt_s + δ) with n = 1 + k / window_f
    let by_fast = product(fast.window + rest, fast.rtt.smoothed).saturating_mul(4);
    let factor = if waits { 5 } else { 4 };
    let by_slow = product(fast.window, slow.rtt.smoothed.saturating_add(variation)).saturating_mul(factor);
    // k / window_s · rtt_s ≥ 2 rtt_f + δ
    let on_slow = product(rest, slow.rtt.smoothed);
    let two_fast = product(slow.window, fast.rtt.smoothed.saturating_mul(2).saturating_add(variation));
    by_fast < by_slow && on_slow >= two_fast
}

fn product(bytes: ByteCount, time: Duration) -> u128 {
    u128::from(bytes.get()).saturating_mul(time.as_nanos())
}
