//! A set of numbers, kept as ranges.

use std::collections::VecDeque;
use std::ops::Range;

/// A set of `u64`, kept as sorted ranges that neither overlap nor touch.
///
/// Work at either end (where most packets and acknowledgements fall) takes constant time, a search `O(log n)`, and a
/// change in the middle moves at most half of the ranges. The owner limits the number of ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
    covered: u64,
}

impl RangeSet {
    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Adds all numbers of `range`; returns how many were new.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.covered;
        match self.ranges.back_mut() {
            Some(last) if last.end < range.start => self.push_back(range),
            Some(last) if last.start <= range.start => {
                if range.end > last.end {
                    self.covered += range.end - last.end;
                    last.end = range.end;
                }
            }
            Some(_) => self.insert_inside(range),
            None => self.push_back(range),
        }
        self.covered - before
    }

    fn push_back(&mut self, range: Range<u64>) {
        self.covered += range.end - range.start;
        self.ranges.push_back(range);
    }

    fn insert_inside(&mut self, range: Range<u64>) {
        let from = self.ranges.partition_point(|other| other.end < range.start);
        let to = self.ranges.partition_point(|other| other.start <= range.end);
        let mut joined = range;
        for other in self.ranges.range(from..to) {
            self.covered -= other.end - other.start;
            joined = joined.start.min(other.start)..joined.end.max(other.end);
        }
        self.covered += joined.end - joined.start;
        match self.ranges.get_mut(from) {
            Some(slot) if from < to => {
                *slot = joined;
                self.ranges.drain(from + 1..to);
            }
            Some(_) | None => self.ranges.insert(from, joined),
        }
    }

    /// Whether a number is in the set.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.range_of(number).is_some()
    }

    /// The range that contains a number. Costs O(log n).
    pub(crate) fn range_of(&self, number: u64) -> Option<Range<u64>> {
        let at = self.ranges.partition_point(|range| range.end <= number);
        self.ranges.get(at).filter(|range| range.start <= number).cloned()
    }

    /// Removes all numbers of `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|other| other.end <= range.start);
        let to = self.ranges.partition_point(|other| other.start < range.end);
        let mut left = None;
        let mut right = None;
        for other in self.ranges.range(from..to.max(from)) {
            self.covered -= other.end.min(range.end) - other.start.max(range.start);
            if other.start < range.start {
                left = Some(other.start..range.start);
            }
            if other.end > range.end {
                right = Some(range.end..other.end);
            }
        }
        if from >= to {
            return;
        }
        let mut rest = left.into_iter().chain(right);
        let (first, second) = (rest.next(), rest.next());
        match (first, self.ranges.get_mut(from)) {
            (Some(first), Some(slot)) => {
                *slot = first;
                self.ranges.drain(from + 1..to);
            }
            (_, _) => drop(self.ranges.drain(from..to)),
        }
        if let Some(second) = second {
            self.ranges.insert(from + 1, second);
        }
    }

    /// Removes and returns the lowest range.
    pub(crate) fn pop_first(&mut self) -> Option<Range<u64>> {
        let first = self.ranges.pop_front()?;
        self.covered -= first.end - first.start;
        Some(first)
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.front().cloned()
    }

    /// The ranges, lowest first; reversible.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + Clone {
        self.ranges.iter().cloned()
    }

    /// The parts of `within` that are not in the set, lowest first.
    pub(crate) fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let from = self.ranges.partition_point(|range| range.end <= within.start);
        let inside = self.ranges.range(from..).take_while({
            let end = within.end;
            move |range| range.start < end
        });
        let mut at = within.start;
        let ends = inside.map(|range| (range.start, range.end)).chain([(within.end, within.end)]);
        ends.filter_map(move |(start, end)| {
            let gap = at..start;
            at = end;
            (!gap.is_empty()).then_some(gap)
        })
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Number of elements.
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes all elements.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.covered = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one_range() {
        let mut set = RangeSet::default();
        set.insert(5..7);
        set.insert(9..12);
        assert_eq!(set.insert(7..9), 2);
        assert_eq!((set.first(), set.iter().next_back(), set.len()), (Some(5..12), Some(5..12), 1));
    }

    #[test]
    fn removing_the_middle_leaves_both_ends() {
        let mut set = RangeSet::default();
        set.insert(0..10);
        set.remove(3..5);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0..3, 5..10]);
        assert_eq!(set.gaps(2..12).collect::<Vec<_>>(), [3..5, 10..12]);
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_set_of_single_numbers(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..80),
        ) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (add, start, length) in steps {
                let range = start..start + length;
                if add {
                    let fresh = range.clone().filter(|n| model.insert(*n)).count();
                    prop_assert_eq!(set.insert(range), fresh as u64);
                } else {
                    set.remove(range.clone());
                    range.for_each(|n| { model.remove(&n); });
                }
                let listed: Vec<u64> = set.iter().flatten().collect();
                prop_assert_eq!(&listed, &model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(set.covered(), model.len() as u64);
                prop_assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end < b.start));
                let missing: Vec<u64> = set.gaps(5..50).flatten().collect();
                prop_assert_eq!(missing, (5..50).filter(|n| !model.contains(n)).collect::<Vec<_>>());
                prop_assert!((0..80).all(|n| set.contains(n) == model.contains(&n)));
            }
        }
    }
}
