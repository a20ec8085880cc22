//! A small sorted set of byte ranges.

use std::ops::Range;

/// Disjoint ranges in ascending order, neighbours joined. Meant for a handful of them: each call scans the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range; a part shared with others is held once.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut joined = range;
        self.0.retain(|held| {
            let touches = held.start <= joined.end && joined.start <= held.end;
            if touches {
                joined = held.start.min(joined.start)..held.end.max(joined.end);
            }
            !touches
        });
        let at = self.0.partition_point(|held| held.start < joined.start);
        self.0.insert(at, joined);
    }

    /// Removes a range, splitting those that overlap it partly.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut rest = Vec::with_capacity(self.0.len() + 1);
        for held in self.0.drain(..) {
            rest.push(held.start..held.end.min(range.start));
            rest.push(held.start.max(range.end)..held.end);
        }
        rest.retain(|part| !part.is_empty());
        self.0 = rest;
    }

    /// Removes all ranges.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// All ranges in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// Number of separate ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default()
        })]

        #[test]
        fn ranges_behave_as_a_set_of_single_numbers(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..60, 0_u64..20), 1..60)
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (insert, start, length) in steps {
                let range = start..start + length;
                if insert {
                    ranges.insert(range.clone());
                    model.extend(range);
                } else {
                    ranges.remove(&range);
                    model.retain(|number| !range.contains(number));
                }
                let held: Vec<u64> = ranges.iter().flat_map(Clone::clone).collect();
                prop_assert_eq!(&held, &model.iter().copied().collect::<Vec<_>>());
                let apart = ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start);
                prop_assert!(apart, "neighbours are joined: {:?}", ranges);
            }
        }
    }
}
