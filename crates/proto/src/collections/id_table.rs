//! A table from ids to two small numbers, for one look-up in each packet.

use manyway_wire::ConnectionId;

/// Marks an empty place: no first number is this large.
const EMPTY: u32 = u32::MAX;
const LEAST: usize = 16;

/// An id that a table can hold.
pub(crate) trait TableId: Copy + Eq {
    /// Fills empty places.
    const ANY: Self;

    /// A hash under a secret key.
    fn hash(&self, key: (u64, u64)) -> u64;
}

impl TableId for u64 {
    const ANY: Self = 0;

    fn hash(&self, key: (u64, u64)) -> u64 {
        sip_hash(key, [*self, 8 << 56])
    }
}

impl TableId for ConnectionId {
    const ANY: Self = Self::EMPTY;

    /// Of all 20 places of bytes, and of the length instead of theirs.
    fn hash(&self, key: (u64, u64)) -> u64 {
        let (words, rest) = self.padded().as_chunks();
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let length = (self.as_slice().len() as u64) << 56;
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        sip_hash(key, words.chain([last | length]))
    }
}

/// Maps ids by open addressing: an entry with a 64-bit id takes 16 bytes, one with a [`ConnectionId`] 32, and at most
/// three quarters of the places are taken.
///
/// Untrusted peers choose some of the ids, so the places follow from a keyed hash (SipHash-1-3) with a secret key.
/// Every call costs O(1) on average.
#[derive(Debug)]
pub(crate) struct IdTable<I> {
    places: Vec<Entry<I>>,
    taken: usize,
    key: (u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Entry<I> {
    id: I,
    first: u32,
    second: u32,
}

impl<I: TableId> Entry<I> {
    const NOTHING: Self = Self { id: I::ANY, first: EMPTY, second: 0 };
}

impl<I: TableId> IdTable<I> {
    /// An empty table with a secret key.
    pub(crate) fn new(key: (u64, u64)) -> Self {
        Self { places: Vec::new(), taken: 0, key }
    }

    /// The numbers of an id.
    pub(crate) fn get(&self, id: I) -> Option<(u32, u32)> {
        let entry = self.places.get(self.find(id)?)?;
        Some((entry.first, entry.second))
    }

    /// Sets the numbers of an id; the first must be below `u32::MAX`.
    pub(crate) fn insert(&mut self, id: I, (first, second): (u32, u32)) {
        debug_assert!(first != EMPTY);
        if let Some(entry) = self.find(id).and_then(|place| self.places.get_mut(place)) {
            *entry = Entry { id, first, second };
            return;
        }
        if (self.taken + 1) * 4 > self.places.len() * 3 {
            self.rebuild((self.places.len() * 2).max(LEAST));
        }
        self.put(Entry { id, first, second });
        self.taken += 1;
    }

    /// Removes an id.
    pub(crate) fn remove(&mut self, id: I) {
        let Some(mut hole) = self.find(id) else { return };
        self.taken -= 1;
        // Later entries that could fill the hole move up, so that no search stops too early.
        let mut place = hole;
        loop {
            place = self.next(place);
            let Some(entry) = self.places.get(place).copied().filter(|entry| entry.first != EMPTY) else {
                break;
            };
            let home = self.home(entry.id);
            if self.distance(home, place) >= self.distance(hole, place) {
                self.write(hole, entry);
                hole = place;
            }
        }
        self.write(hole, Entry::NOTHING);
        if self.places.len() > LEAST && self.taken * 8 < self.places.len() {
            self.rebuild(self.places.len() / 2);
        }
    }

    /// Number of ids.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    fn find(&self, id: I) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(id);
        loop {
            let entry = self.places.get(place).filter(|entry| entry.first != EMPTY)?;
            if entry.id == id {
                return Some(place);
            }
            place = self.next(place);
        }
    }

    fn put(&mut self, entry: Entry<I>) {
        let mut place = self.home(entry.id);
        while self.places.get(place).is_some_and(|entry| entry.first != EMPTY) {
            place = self.next(place);
        }
        self.write(place, entry);
    }

    fn rebuild(&mut self, places: usize) {
        let old = std::mem::replace(&mut self.places, vec![Entry::NOTHING; places]);
        old.into_iter().filter(|entry| entry.first != EMPTY).for_each(|entry| self.put(entry));
    }

    fn write(&mut self, place: usize, entry: Entry<I>) {
        if let Some(to) = self.places.get_mut(place) {
            *to = entry;
        }
    }

    /// The first place for an id; the number of places is a power of two.
    fn home(&self, id: I) -> usize {
        let mask = self.places.len().wrapping_sub(1) as u64;
        usize::try_from(id.hash(self.key) & mask).unwrap_or(0)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len().wrapping_sub(1))
    }

    /// Steps from one place to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len().wrapping_sub(1))
    }
}

/// SipHash-1-3 of words, the last of which has the number of bytes on top.
fn sip_hash((k0, k1): (u64, u64), words: impl IntoIterator<Item = u64>) -> u64 {
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    for word in words {
        let [a, b, c, d] = state;
        let [a, b, c, d] = round([a, b, c, d ^ word]);
        state = [a ^ word, b, c, d];
    }
    let [a, b, c, d] = state;
    let [a, b, c, d] = round(round(round([a, b, c ^ 0xff, d])));
    a ^ b ^ c ^ d
}

fn round([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let a = a.wrapping_add(b);
    let b = b.rotate_left(13) ^ a;
    let a = a.rotate_left(32);
    let c = c.wrapping_add(d);
    let d = d.rotate_left(16) ^ c;
    let a = a.wrapping_add(d);
    let d = d.rotate_left(21) ^ a;
    let c = c.wrapping_add(b);
    let b = b.rotate_left(17) ^ c;
    [a, b, c.rotate_left(32), d]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::Hasher as _;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard_library() {
        for id in [0_u64, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(&id.to_le_bytes());
            assert_eq!(id.hash((0, 0)), hasher.finish());
        }
        let bytes: Vec<u8> = (1..=20).collect();
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(&bytes);
        assert_eq!(ConnectionId::from_slice(&bytes).unwrap().hash((0, 0)), hasher.finish());
    }

    #[test]
    fn consecutive_ids_are_spread() {
        let mut table = IdTable::new((1, 2));
        for id in 0..10_000_u64 {
            table.insert(id << 32, (1, 2));
        }
        let farthest = table.places.iter().enumerate().filter(|(_, entry)| entry.first != EMPTY);
        let farthest = farthest.map(|(place, entry)| table.distance(table.home(entry.id), place)).max();
        assert!(farthest.unwrap() < 100, "{farthest:?}");
        for id in 0..10_000 {
            table.remove(id << 32);
        }
        assert_eq!((table.len(), table.places.len()), (0, LEAST), "memory is given back");
    }

    proptest! {
        #[test]
        fn a_table_behaves_like_a_map(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..60, 0_u32..9), 1..500)
        ) {
            let (mut table, mut map) = (IdTable::new((1, 2)), BTreeMap::new());
            for (insert, id, value) in steps {
                if insert {
                    table.insert(id, (value, 7));
                    map.insert(id, (value, 7));
                } else {
                    table.remove(id);
                    map.remove(&id);
                }
                prop_assert_eq!(table.len(), map.len());
                for id in 0..60 {
                    prop_assert_eq!(table.get(id), map.get(&id).copied());
                }
            }
        }
    }
}
