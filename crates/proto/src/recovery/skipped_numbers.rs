//! Packet numbers that are left out on purpose: who acknowledges one lies (RFC 9000, section 21.4).
//!
//! A peer that acknowledges packets before they arrive makes this end send faster than the path can carry, at the cost
//! of everybody on it. It can not know which numbers are missing.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::Rng;

/// The first trap lies among so many numbers, so that short transfers meet one too.
const FIRST_WITHIN: u64 = 1 << 8;
/// Between two skipped lie from half to one and a half of so many numbers.
const DISTANCE: u64 = 1 << 10;
/// No more are remembered: a peer that lies about packets longer ago is caught by newer ones.
const REMEMBERED: usize = 64;

/// The numbers of one path that were left out, and the one to leave out next.
#[derive(Debug, Default)]
pub(crate) struct SkippedNumbers {
    next: Option<u64>,
    left_out: VecDeque<u64>,
}

impl SkippedNumbers {
    /// Chooses the next number to leave out, if none is chosen yet; `at` is the next number.
    pub(crate) fn set(&mut self, at: u64, rng: &mut Rng) {
        if self.next.is_some() {
            return;
        }
        let random = rng.next_u64();
        let ahead =
            if self.left_out.is_empty() { random % FIRST_WITHIN } else { DISTANCE / 2 + random % DISTANCE };
        self.next = Some(at + 1 + ahead);
    }

    /// Whether this number is to be left out; yes makes it a trap.
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

    /// The newest trap among these numbers. Costs O(log n): a peer may name 64 ranges in each packet.
    pub(crate) fn caught(&self, numbers: &RangeInclusive<u64>) -> Option<u64> {
        let newest = self.below(numbers.end().saturating_add(1)).checked_sub(1)?;
        self.left_out.get(newest).copied().filter(|number| number >= numbers.start())
    }

    /// How many skipped lie above `number` and below `end`: a distance of packets is so much smaller. Costs O(log n).
    pub(crate) fn between(&self, number: u64, end: u64) -> u64 {
        self.below(end).saturating_sub(self.below(number.saturating_add(1))) as u64
    }

    /// How many skipped lie below `end`; they stand in the order of their numbers.
    fn below(&self, end: u64) -> usize {
        self.left_out.partition_point(|number| *number < end)
    }
}

#[cfg(test)]
mod tests {
    use super::{DISTANCE, FIRST_WITHIN, REMEMBERED, SkippedNumbers};
    use crate::Rng;

    #[test]
    fn about_one_in_a_thousand_numbers_is_left_out_and_none_can_be_foretold() {
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
    fn a_range_with_a_trap_is_found_and_the_memory_of_traps_is_bounded() {
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
        assert_eq!(skipped.caught(&(last..=last)), Some(last));
        assert_eq!(skipped.caught(&(0..=u64::MAX)), Some(last));
        assert_eq!(skipped.caught(&(last + 1..=u64::MAX)), None);
        assert_eq!(skipped.caught(&(left_out[left_out.len() - 2] + 1..=last - 1)), None);
        assert_eq!((skipped.between(last - 1, last + 1), skipped.between(last, last + 9)), (1, 0));
    }
}
