//! Earliest completion first: Lim, Nahum, Towsley and Gibbens, "ECF: An MPTCP Path Scheduler to Manage Heterogeneous
//! Paths", `CoNEXT` 2017, section 4.

use std::time::Duration;

use super::choice::{fill, nearest, purpose_by_distance, will_have_room};
use super::{Decision, PathView, Purpose, Scheduler, View};
use crate::ByteCount;

/// Uses a slower path only if waiting for the fastest one would not complete the rest sooner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ecf {
    /// Whether it waited and the fastest path has remained the better choice since; if so, the next decision favours
    /// waiting.
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
        let rest = view.backlog + view.retransmissions;
        if !will_have_room(fast) || !is_sooner_by_fast(fast, open, rest, self.waits) {
            self.waits = false;
            return fill(open);
        }
        if !is_late_by_slow(fast, open, rest) {
            return fill(open);
        }
        self.waits = true;
        Decision::WAIT
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_by_distance(path, view)
    }
}

/// The first test of the paper: `n · rtt_f < (1 + β · waiting) (rtt_s + δ)` with `n = 1 + k / window_f`; β is a
/// quarter.
fn is_sooner_by_fast(fast: &PathView, slow: &PathView, rest: ByteCount, waits: bool) -> bool {
    let by_fast = product(fast.window + rest, fast.rtt.smoothed).saturating_mul(4);
    let factor = if waits { 5 } else { 4 };
    let by_slow =
        product(fast.window, slow.rtt.smoothed.saturating_add(variation(fast, slow))).saturating_mul(factor);
    by_fast < by_slow
}

/// The second one: `k / window_s · rtt_s ≥ 2 rtt_f + δ`.
fn is_late_by_slow(fast: &PathView, slow: &PathView, rest: ByteCount) -> bool {
    let on_slow = product(rest, slow.rtt.smoothed);
    let two_fast =
        product(slow.window, fast.rtt.smoothed.saturating_mul(2).saturating_add(variation(fast, slow)));
    on_slow >= two_fast
}

/// δ, the uncertainty of the RTTs.
fn variation(fast: &PathView, slow: &PathView) -> Duration {
    fast.rtt.variation.max(slow.rtt.variation)
}

fn product(bytes: ByteCount, time: Duration) -> u128 {
    u128::from(bytes.get()).saturating_mul(time.as_nanos())
}
