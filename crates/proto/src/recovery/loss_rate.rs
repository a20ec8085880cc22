//! Recent loss rate of a path.

use crate::ByteCount;

const MILLION: u128 = 1_000_000;
/// The average covers about this many bytes: 128 full datagrams.
const MEMORY: u64 = 128 * 1200;

/// A moving average over the bytes that arrived or were lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossRate {
    of_a_million: u32,
}

impl LossRate {
    /// Adds the bytes that arrived and the bytes that were lost.
    pub(crate) fn on_outcome(&mut self, arrived: ByteCount, lost: ByteCount) {
        let total = u128::from((arrived + lost).get());
        if total == 0 {
            return;
        }
        let memory = u128::from(MEMORY);
        let sum = u128::from(self.of_a_million) * memory + u128::from(lost.get()) * MILLION;
        self.of_a_million = u32::try_from(sum / (memory + total)).unwrap_or(u32::MAX);
    }

    /// Lost packets per million.
    pub(crate) fn of_a_million(self) -> u32 {
        self.of_a_million
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_converges_to_the_share_of_losses_and_falls_again() {
        let mut rate = LossRate::default();
        for _ in 0..200 {
            rate.on_outcome(ByteCount(19 * 1200), ByteCount(1200));
        }
        assert!((45_000..=50_000).contains(&rate.of_a_million()), "{}", rate.of_a_million());
        for _ in 0..1000 {
            rate.on_outcome(ByteCount(2400), ByteCount::ZERO);
        }
        assert!(rate.of_a_million() < 100, "{}", rate.of_a_million());
    }
}
