//! Blocking estimation: Ferlin, Alay, Mehani and Boreli, "BLEST: Blocking Estimation-based MPTCP Scheduler for
//! Heterogeneous Networks", IFIP Networking 2016, section III.

use super::choice::{fill, nearest, purpose_by_distance, turn, will_have_room};
use super::{Decision, PathView, Purpose, Scheduler, Source, View};
use crate::{ByteCount, Instant};

/// Uses a slower path only if the peer's credit suffices for it and for the bytes that the fastest path sends
/// meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Blest {
    /// Factor of the estimate, in percent.
    caution: u64,
    /// When the factor was last changed.
    changed_at: Option<Instant>,
}

const LEAST_CAUTION: u64 = 100;
const MOST_CAUTION: u64 = 150;

impl Default for Blest {
    fn default() -> Self {
        Self { caution: LEAST_CAUTION, changed_at: None }
    }
}

impl Scheduler for Blest {
    fn name(&self) -> &'static str {
        "blest"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let Some((fast, open)) = nearest(view) else { return Decision::WAIT };
        self.adapt(view, open);
        if fast.id == open.id {
            return fill(open);
        }
        if view.retransmissions > ByteCount::ZERO {
            // Retransmissions have their credit, and block other bytes.
            return Decision::send(open.id, open.sendable, Source::Retransmission);
        }
        // The estimate holds for a burst of this size; another burst needs another estimate.
        let burst = open.sendable.min(turn(open));
        let meanwhile = sent_meanwhile(fast, open) * self.caution / 100;
        let blocks = meanwhile > view.credit_left + view.deferred - burst;
        if blocks && will_have_room(fast) {
            Decision::WAIT
        } else {
            Decision::send(open.id, burst, Source::Next)
        }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_by_distance(path, view)
    }
}

impl Blest {
    /// Adapts once in a round trip of the slow path: more caution if the credit ran out, otherwise less.
    fn adapt(&mut self, view: &View<'_>, slow: &PathView) {
        if self.changed_at.is_some_and(|at| view.now - at < slow.rtt.smoothed) {
            return;
        }
        self.changed_at = Some(view.now);
        let is_blocked = view.backlog > ByteCount::ZERO && view.sendable_unsent() == ByteCount::ZERO;
        let caution = if is_blocked { self.caution + 1 } else { self.caution - 1 };
        self.caution = caution.clamp(LEAST_CAUTION, MOST_CAUTION);
    }
}

/// Bytes that `fast` sends within one round trip of `slow`, with a window that grows by a datagram a round trip:
/// datagram · (window + (r − 1) / 2) · r, with the window in datagrams and r the ratio of the round trips.
fn sent_meanwhile(fast: &PathView, slow: &PathView) -> ByteCount {
    let (near, far) = (fast.rtt.smoothed.as_micros().max(1), slow.rtt.smoothed.as_micros());
    let growth = u128::from(fast.datagram.get()).saturating_mul(far.saturating_sub(near)) / (2 * near);
    let bytes = u128::from(fast.window.get()).saturating_add(growth).saturating_mul(far) / near;
    ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX))
}
