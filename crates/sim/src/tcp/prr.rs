//! Proportional rate reduction (RFC 6937): how much may leave while losses are repaired, so that the window shrinks
//! over a round trip instead of at once.

/// The state of one recovery, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reduction {
    /// The window at the end.
    target: u64,
    /// What was in flight at the start.
    flight: u64,
    delivered: u64,
    sent: u64,
    /// What may leave now.
    allowance: u64,
}

impl Reduction {
    /// Begins; one segment may leave at once, which repairs the first loss.
    pub(super) fn new(target: u64, flight: u64, segment: u64) -> Self {
        Self { target, flight: flight.max(1), delivered: 0, sent: 0, allowance: segment }
    }

    /// An acknowledgement delivered bytes and left this many in flight. `progress`: a segment more for one that
    /// acknowledges all up to a higher byte, since then the flight does not grow (slow-start reduction bound).
    pub(super) fn on_ack(&mut self, delivered: u64, in_flight: u64, progress: u64) {
        self.delivered += delivered;
        let allowance = if in_flight > self.target {
            let due = u128::from(self.delivered) * u128::from(self.target);
            let due = u64::try_from(due.div_ceil(u128::from(self.flight))).unwrap_or(u64::MAX);
            due.saturating_sub(self.sent)
        } else {
            let behind = self.delivered.saturating_sub(self.sent).max(delivered);
            (behind + progress).min(self.target - in_flight)
        };
        // The first segment leaves in any case.
        self.allowance = if self.sent == 0 { allowance.max(self.allowance) } else { allowance };
    }

    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_delivered_leaves_while_the_window_is_halved() {
        let mut reduction = Reduction::new(10, 20, 1);
        let (mut in_flight, mut sent) = (19, 0);
        for _ in 0..18 {
            in_flight -= 1;
            reduction.on_ack(1, in_flight, 0);
            let now = reduction.allowance();
            reduction.on_sent(now);
            (in_flight, sent) = (in_flight + now, sent + now);
        }
        assert_eq!((sent, in_flight), (9, 10));
    }

    #[test]
    fn after_heavy_losses_the_flight_grows_as_in_slow_start() {
        // Three of 20 are left in flight: each acknowledgement with progress lets two leave.
        let mut reduction = Reduction::new(10, 20, 1);
        reduction.on_sent(reduction.allowance());
        reduction.on_ack(1, 2, 1);
        assert_eq!(reduction.allowance(), 2);
        reduction.on_sent(2);
        reduction.on_ack(1, 9, 1);
        assert_eq!(reduction.allowance(), 1, "not above the target");
    }
}
