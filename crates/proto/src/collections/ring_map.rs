//! A map for ever-growing numbers, on a ring: for packets in flight.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// A map whose keys are inserted in ascending order and mostly removed near its front.
///
/// Missing keys cost no memory. A removed entry leaves an empty slot until all entries before it are gone, so no
/// entry ever moves. Finding a key costs O(log m), where m is the number of missing keys; inserting and removing at
/// the front cost O(1) amortised and allocate only while the ring grows.
#[derive(Debug)]
pub(crate) struct RingMap<T> {
    /// Ascending keys; the first slot is never empty.
    slots: VecDeque<(u64, Option<T>)>,
    live: usize,
}

impl<T> RingMap<T> {
    pub(crate) fn new() -> Self {
        Self { slots: VecDeque::new(), live: 0 }
    }

    /// Adds an entry; its key has to be above all earlier ones.
    pub(crate) fn insert(&mut self, key: u64, value: T) {
        debug_assert!(self.slots.back().is_none_or(|(last, _)| *last < key), "keys have to ascend");
        self.slots.push_back((key, Some(value)));
        self.live += 1;
    }

    /// The entry with a key.
    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        let (found, value) = self.slots.get(self.lower_bound(key))?;
        value.as_ref().filter(|_| *found == key)
    }

    /// The entry with the lowest key.
    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.front().and_then(|(_, value)| value.as_ref())
    }

    /// Removes the entry with the lowest key.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let (_, value) = self.slots.pop_front()?;
        self.live -= usize::from(value.is_some());
        self.trim();
        value
    }

    /// Removes all entries of `keys`, lowest first. Costs O(log n) and one step per slot in the range.
    pub(crate) fn remove_range(&mut self, keys: RangeInclusive<u64>, mut taken: impl FnMut(T)) {
        let first = self.lower_bound(*keys.start());
        if first >= self.slots.len() {
            return;
        }
        for (key, value) in self.slots.range_mut(first..) {
            if *key > *keys.end() {
                break;
            }
            if let Some(value) = value.take() {
                self.live -= 1;
                taken(value);
            }
        }
        self.trim();
    }

    /// All entries, lowest key first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.slots.iter().filter_map(|(_, value)| value.as_ref())
    }

    /// All entries, lowest key first, for modification.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, value)| value.as_mut())
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.slots.shrink_to_fit();
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Number of slots in memory: its entries, and those removed behind the first.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Position of the first slot whose key is at least `key`.
    fn lower_bound(&self, key: u64) -> usize {
        let Some((first, _)) = self.slots.front() else { return 0 };
        let Some(distance) = key.checked_sub(*first) else { return 0 };
        let slots = self.slots.len();
        let span = self.slots.back().map_or(0, |(last, _)| last - first + 1);
        // Without missing keys this is the exact slot; each missing key moves it towards the front by one at most.
        let guess = usize::try_from(distance).unwrap_or(usize::MAX);
        let missing = usize::try_from(span - slots as u64).unwrap_or(usize::MAX);
        let (mut low, mut high) = (guess.saturating_sub(missing).min(slots), guess.min(slots));
        while low < high {
            let middle = low.midpoint(high);
            if self.slots.get(middle).is_some_and(|(found, _)| *found < key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn trim(&mut self) {
        while self.slots.front().is_some_and(|(_, value)| value.is_none()) {
            self.slots.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn missing_keys_take_no_memory() {
        let mut map = RingMap::new();
        map.insert(1, 'a');
        map.insert(1_000_000_000, 'b');
        assert_eq!(map.slots.len(), 2);
        assert_eq!(map.pop_front(), Some('a'));
        assert_eq!(map.front(), Some(&'b'));
    }

    proptest! {
        #[test]
        fn a_ring_map_behaves_like_a_tree_map(
            steps in proptest::collection::vec((0u8..4, 0u64..40, 0u64..20), 1..200)
        ) {
            let mut ring = RingMap::new();
            let mut tree = BTreeMap::new();
            let mut next = 0;
            for (what, a, b) in steps {
                match what {
                    0 | 1 => {
                        next += 1 + a / 20 * b;
                        ring.insert(next, next);
                        tree.insert(next, next);
                    }
                    2 => {
                        let range = (next.saturating_sub(a))..=(next.saturating_sub(a) + b);
                        let mut taken = Vec::new();
                        ring.remove_range(range.clone(), |value| taken.push(value));
                        let expected: Vec<u64> = tree.range(range).map(|(key, _)| *key).collect();
                        for key in &expected {
                            tree.remove(key);
                        }
                        prop_assert_eq!(taken, expected);
                    }
                    _ => prop_assert_eq!(ring.pop_front(), tree.pop_first().map(|(_, value)| value)),
                }
                prop_assert_eq!(ring.len(), tree.len());
                prop_assert_eq!(ring.is_empty(), tree.is_empty());
                prop_assert!(ring.iter().eq(tree.values()));
                prop_assert!(ring.iter_mut().map(|value| *value).eq(tree.values().copied()));
                prop_assert_eq!(ring.front(), tree.values().next());
                prop_assert_eq!(ring.get(a), tree.get(&a));
                prop_assert_eq!(ring.get(next - a.min(next)), tree.get(&(next - a.min(next))));
            }
        }
    }
}
