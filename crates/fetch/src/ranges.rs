//! Sets of bytes of a file.

use std::ops::Range;

/// Ranges in order; none is empty, and none touches the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// One range; empty if it is.
    #[cfg(test)]
    pub(crate) fn of(range: Range<u64>) -> Self {
        let mut ranges = Self::default();
        ranges.insert(range);
        ranges
    }

    /// Adds bytes. Costs time in the number of ranges.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|own| own.end < range.start);
        let after = self.0.partition_point(|own| own.start <= range.end);
        let touched = self.0.get(first..after).unwrap_or_default();
        let start = touched.first().map_or(range.start, |own| own.start.min(range.start));
        let end = touched.last().map_or(range.end, |own| own.end.max(range.end));
        self.0.splice(first..after, std::iter::once(start..end));
    }

    /// Takes away the first bytes, at most so many of one range; `None` if there are none.
    pub(crate) fn take_first(&mut self, most: u64) -> Option<Range<u64>> {
        let first = self.0.first_mut()?;
        let end = first.end.min(first.start.saturating_add(most));
        let taken = first.start..end;
        first.start = end;
        if first.is_empty() {
            self.0.remove(0);
        }
        Some(taken)
    }

    /// The bytes below `length` that are not in the set.
    pub(crate) fn missing(&self, length: u64) -> Self {
        let mut missing = Vec::new();
        let mut at = 0;
        for own in &self.0 {
            if own.start > at {
                missing.push(at..own.start.min(length));
            }
            at = own.end;
        }
        if at < length {
            missing.push(at..length);
        }
        Self(missing)
    }

    /// How many bytes there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|own| own.end - own.start).sum()
    }

    /// The first byte; `None` without any.
    pub(crate) fn start(&self) -> Option<u64> {
        self.0.first().map(|own| own.start)
    }

    /// The end of the last range; 0 without any.
    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, |own| own.end)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(ranges: &[Range<u64>]) -> Ranges {
        let mut made = Ranges::default();
        ranges.iter().for_each(|range| made.insert(range.clone()));
        made
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        assert_eq!(made(&[5..10, 0..5, 20..30]).0, [0..10, 20..30]);
        assert_eq!(made(&[0..2, 4..6, 8..10, 1..9]), Ranges::of(0..10));
        assert_eq!(made(&[0..10, 3..4, 7..7]), Ranges::of(0..10));
    }

    proptest! {
        #[test]
        fn a_set_has_the_bytes_that_were_added_and_no_others(
            ranges in proptest::collection::vec((0..64_u64, 0..16_u64), 0..20),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(start, length)| *start..start + length).collect();
            let (made, has) = (made(&ranges), |at: u64| ranges.iter().any(|range| range.contains(&at)));
            for at in 0..100 {
                prop_assert_eq!(made.iter().any(|range| range.contains(&at)), has(at));
                prop_assert_eq!(made.missing(100).iter().any(|range| range.contains(&at)), !has(at));
            }
            prop_assert_eq!(made.count() + made.missing(100).count(), 100);
        }
    }

    #[test]
    fn what_is_missing_is_the_rest() {
        let have = made(&[0..10, 20..30]);
        assert_eq!(have.missing(40).0, [10..20, 30..40]);
        assert_eq!(have.missing(30), Ranges::of(10..20));
        assert_eq!((have.count(), have.end()), (20, 30));
        assert_eq!(Ranges::default().missing(0).0, []);
    }

    #[test]
    fn the_first_bytes_are_taken_from_one_range_only() {
        let mut ranges = made(&[0..10, 20..30]);
        assert_eq!(ranges.take_first(4), Some(0..4));
        assert_eq!(ranges.take_first(100), Some(4..10));
        assert_eq!(ranges.take_first(100), Some(20..30));
        assert_eq!(ranges.take_first(1), None);
    }
}
