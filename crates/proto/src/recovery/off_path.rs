//! Off-path packets: packets of a path that went between other addresses, as path challenges for these. Their arrival
//! says nothing about earlier packets on the path itself (spec 6.70).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Most packets remembered; there are a few in a round trip.
const MOST: usize = 64;

/// Packet numbers, ascending.
#[derive(Debug, Default)]
pub(super) struct OffPath(VecDeque<u64>);

impl OffPath {
    pub(super) fn add(&mut self, packet_number: u64) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(packet_number);
    }

    /// The last number in a range that is not off-path. Costs O(log n) for each number that is skipped.
    pub(super) fn last_other(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        let mut last = *range.end();
        while self.0.binary_search(&last).is_ok() {
            last = last.checked_sub(1).filter(|last| range.contains(last))?;
        }
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, OffPath};

    #[test]
    fn off_path_packets_at_the_end_of_a_range_are_skipped() {
        let mut off_path = OffPath::default();
        [3, 4, 7].into_iter().for_each(|number| off_path.add(number));
        assert_eq!(off_path.last_other(&(0..=4)), Some(2));
        assert_eq!(off_path.last_other(&(5..=7)), Some(6));
        assert_eq!(off_path.last_other(&(0..=5)), Some(5));
        assert_eq!(off_path.last_other(&(3..=4)), None);
        off_path.add(0x1_0000);
        assert_eq!(off_path.last_other(&(7..=7)), None);
    }

    #[test]
    fn only_the_newest_packets_are_remembered() {
        let mut off_path = OffPath::default();
        (0..=MOST as u64).for_each(|number| off_path.add(number));
        assert_eq!(off_path.last_other(&(0..=0)), Some(0));
        assert_eq!(off_path.last_other(&(1..=1)), None);
    }
}
