//! Reordering seen on the path, and the resulting thresholds of loss detection.

use std::time::Duration;

use super::loss::Thresholds;
use super::rtt::{GRANULARITY, RttEstimator};

/// Initial packet threshold (RFC 9002, section 6.1.1).
const PACKETS_MIN: u64 = 3;
/// Largest packet threshold; beyond it the time threshold decides.
const PACKETS_MAX: u64 = 64;
/// Initial time threshold as a part of the round trip beyond one (RFC 9002, section 6.1.2).
const TIME_DIVISOR: u32 = 8;
/// Rounds without loss after which half of the learnt thresholds is forgotten.
const ROUNDS_TO_FORGET: u8 = 16;

/// Learns from packets that were declared lost and then arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reordering {
    packets: u64,
    /// Learnt time threshold beyond a round trip; zero if the default suffices.
    lateness: Duration,
    quiet_rounds: u8,
}

impl Reordering {
    pub(crate) const fn new() -> Self {
        Self { packets: PACKETS_MIN, lateness: Duration::ZERO, quiet_rounds: 0 }
    }

    /// The thresholds for loss detection.
    pub(crate) fn thresholds(&self, rtt: &RttEstimator) -> Thresholds {
        let least = (rtt.smoothed() / TIME_DIVISOR).max(GRANULARITY);
        let window = least.max(self.lateness.min(rtt.smoothed()));
        Thresholds { packets: self.packets, time: rtt.longest() + window }
    }

    /// A packet declared lost arrived, `distance` numbers behind the largest, `age` after it was sent.
    pub(crate) fn on_spurious(&mut self, distance: u64, age: Duration, rtt: &RttEstimator) {
        self.packets = self.packets.max(distance.saturating_add(1)).min(PACKETS_MAX);
        let late = age.saturating_sub(rtt.longest()).min(rtt.smoothed());
        self.lateness = self.lateness.max(late + late / 4).min(rtt.smoothed());
        self.quiet_rounds = 0;
    }

    /// A round trip without loss passed.
    pub(crate) fn on_quiet_round(&mut self) {
        self.quiet_rounds += 1;
        if self.quiet_rounds >= ROUNDS_TO_FORGET {
            self.quiet_rounds = 0;
            self.packets = (self.packets / 2).max(PACKETS_MIN);
            self.lateness /= 2;
        }
    }

    /// A round trip with loss passed.
    pub(crate) fn on_lossy_round(&mut self) {
        self.quiet_rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::new(ms(100));
        rtt.on_sample(ms(40), ms(0));
        rtt
    }

    #[test]
    fn the_initial_thresholds_are_three_packets_and_an_eighth_of_the_round_trip() {
        assert_eq!(Reordering::new().thresholds(&rtt()), Thresholds { packets: 3, time: ms(45) });
    }

    #[test]
    fn a_late_arrival_widens_both_thresholds_within_bounds() {
        let mut reordering = Reordering::new();
        reordering.on_spurious(9, ms(52), &rtt());
        assert_eq!(reordering.thresholds(&rtt()), Thresholds { packets: 10, time: ms(55) });
        reordering.on_spurious(1000, ms(5000), &rtt());
        assert_eq!(reordering.thresholds(&rtt()), Thresholds { packets: 64, time: ms(80) });
    }

    #[test]
    fn sixteen_rounds_without_loss_halve_the_learnt_thresholds() {
        let mut reordering = Reordering::new();
        reordering.on_spurious(19, ms(56), &rtt());
        for _ in 0..15 {
            reordering.on_quiet_round();
        }
        reordering.on_lossy_round();
        assert_eq!(reordering.thresholds(&rtt()).packets, 20);
        for _ in 0..16 {
            reordering.on_quiet_round();
        }
        assert_eq!(reordering.thresholds(&rtt()), Thresholds { packets: 10, time: ms(50) });
        for _ in 0..160 {
            reordering.on_quiet_round();
        }
        assert_eq!(reordering.thresholds(&rtt()), Thresholds { packets: 3, time: ms(45) });
    }
}
