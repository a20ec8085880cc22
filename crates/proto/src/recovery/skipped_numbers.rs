//! Packet numbers that are skipped on purpose, to detect optimistic acknowledgements (RFC 9000, section 21.4).
//!
//! A peer that acknowledges packets before they arrive makes this end send faster than the path can carry, at the
//! cost of all other traffic on it. It cannot know which numbers are skipped, so it acknowledges one of them sooner
//! or later.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::Rng;

/// The first skipped number is among this many, so short transfers have one too.
const FIRST_WITHIN: u64 = 1 << 8;
/// The distance between two skipped numbers is one half to one and a half of this.
const DISTANCE: u64 = 1 << 10;
/// Most numbers remembered: a peer that lies about older packets is caught by newer numbers.
const REMEMBERED: usize = 64;

/// The skipped numbers of one path, and the next number to skip.
#[derive(Debug, Default)]
pub(crate) struct SkippedNumbers {
    next: Option<u64>,
    left_out: VecDeque<u64>,
}

impl SkippedNumbers {
    /// Chooses the next number to skip, if none is chosen yet; `at` is the next packet number.
    pub(crate) fn set(&mut self, at: u64, rng: &mut Rng) {
        if self.next.is_some() {
            return;
        }
        let random = rng.next_u64();
        let ahead =
            if self.left_out.is_empty() { random % FIRST_WITHIN } else { DISTANCE / 2 + random % DISTANCE };
        self.next = Some(at + 1 + ahead);
    }

    /// Whether this number is to be skipped; if so, records it.
    pub(crate) fn takes(&mut self, number: u64) -> bool {
        let takes = self.next.is_some_and(|next| next <= number);
        if takes {
            self.next = None;
            if self.left_out.len() >= REMEMBERED {
                self.left_out.pop_front();
            }
            self.left_out.push_back(number);
        }
        takes
    }

    /// The newest skipped number in a range. Costs O(log n): a peer may send 64 ranges in each packet.
    pub(crate) fn acknowledged_skip(&self, numbers: &RangeInclusive<u64>) -> Option<u64> {
        let newest = self.below(numbers.end().saturating_add(1)).checked_sub(1)?;
        self.left_out.get(newest).copied().filter(|number| number >= numbers.start())
    }

    /// How many skipped numbers are above `number` and below `end`: the distance in packets is smaller by so many.
    /// Costs O(log n).
    pub(crate) fn between(&self, number: u64, end: u64) -> u64 {
        self.below(end).saturating_sub(self.below(number.saturating_add(1))) as u64
    }

    /// How many skipped numbers are below `end`; they are stored in ascending order.
    fn below(&self, end: u64) -> usize {
        self.left_out.partition_point(|number| *number < end)
    }
}

#[cfg(test)]
mod tests {
    use super::{DISTANCE, FIRST_WITHIN, REMEMBERED, SkippedNumbers};
    use crate::Rng;

    #[test]
    fn about_one_in_a_thousand_numbers_is_skipped_unpredictably() {
        let left_out = |seed: u8| {
            let (mut skipped, mut rng) = (SkippedNumbers::default(), Rng::from_seed([seed; 32]));
            let left_out = |number: &u64| {
                skipped.set(*number, &mut rng);
                skipped.takes(*number)
            };
            (0..100_000).filter(left_out).collect::<Vec<_>>()
        };
        let (one, other) = (left_out(1), left_out(2));
        assert!((90..110).contains(&one.len()) && one != other, "{}", one.len());
        assert!(one[0] > 0 && one[0] <= FIRST_WITHIN);
        assert!(one.windows(2).all(|pair| pair[1] - pair[0] > DISTANCE / 2));
    }

    #[test]
    fn a_skipped_number_in_a_range_is_found_and_memory_stays_bounded() {
        let (mut skipped, mut rng) = (SkippedNumbers::default(), Rng::from_seed([1; 32]));
        let mut left_out = Vec::new();
        for number in 0..200_000 {
            skipped.set(number, &mut rng);
            if skipped.takes(number) {
                left_out.push(number);
            }
        }
        assert_eq!(skipped.left_out.len(), REMEMBERED);
        let last = *left_out.last().unwrap();
        assert_eq!(skipped.acknowledged_skip(&(last..=last)), Some(last));
        assert_eq!(skipped.acknowledged_skip(&(0..=u64::MAX)), Some(last));
        assert_eq!(skipped.acknowledged_skip(&(last + 1..=u64::MAX)), None);
        assert_eq!(skipped.acknowledged_skip(&(left_out[left_out.len() - 2] + 1..=last - 1)), None);
        assert_eq!((skipped.between(last - 1, last + 1), skipped.between(last, last + 9)), (1, 0));
    }
}
