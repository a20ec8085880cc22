//! Leaky buckets, one for each key: how often something may happen in a row, and how soon again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Instant;

/// Most keys remembered; beyond that, the one that began to fill its bucket longest ago is forgotten. So an attacker with
/// many networks only frees its own, and never locks out others.
const MOST_KEYS: usize = 1024;

/// What each key has done of late.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    burst: u32,
    one_for: Duration,
    levels: BTreeMap<K, Level>,
}

/// A bucket that leaks one in [`Buckets::one_for`].
#[derive(Debug, Clone, Copy)]
struct Level {
    count: u32,
    since: Instant,
}

impl<K: Ord + Copy> Buckets<K> {
    /// Empty buckets, each of which holds `burst` and loses one in every `one_for`, which is not zero.
    pub(crate) fn new(burst: u32, one_for: Duration) -> Self {
        Self { burst, one_for, levels: BTreeMap::new() }
    }

    /// It happened once more. Costs O(log n), O(n) when the table is full.
    pub(crate) fn note(&mut self, now: Instant, key: K) {
        let before = self.levels.get(&key).map(|level| level.at(now, self.one_for));
        let level = before.filter(|level| level.count > 0).unwrap_or(Level { count: 0, since: now });
        self.levels.insert(key, Level { count: level.count.saturating_add(1), ..level });
        if self.levels.len() > MOST_KEYS {
            let one_for = self.one_for;
            self.levels.retain(|_, level| level.at(now, one_for).count > 0);
        }
        if self.levels.len() > MOST_KEYS
            && let Some(oldest) = self.levels.iter().min_by_key(|(_, level)| level.since).map(|(key, _)| *key)
        {
            self.levels.remove(&oldest);
        }
    }

    /// Whether the bucket is full. Costs O(log n).
    pub(crate) fn is_full(&self, now: Instant, key: K) -> bool {
        self.levels.get(&key).is_some_and(|level| level.at(now, self.one_for).count >= self.burst)
    }
}

impl Level {
    /// The level at `now`.
    fn at(self, now: Instant, one_for: Duration) -> Self {
        let leaked = (now - self.since).as_nanos() / one_for.as_nanos().max(1);
        let leaked = u32::try_from(leaked).unwrap_or(u32::MAX);
        let since = self.since + one_for.saturating_mul(leaked);
        Self { count: self.count.saturating_sub(leaked), since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(5_000_000_000);
    const BURST: u32 = 10;
    const ONE_FOR: Duration = Duration::from_secs(6);

    #[test]
    fn a_key_may_do_it_ten_times_and_then_once_in_six_seconds() {
        let mut buckets = Buckets::new(BURST, ONE_FOR);
        let mut done = 0;
        for second in 0..60 {
            let now = START + Duration::from_secs(second);
            while !buckets.is_full(now, 1) {
                buckets.note(now, 1);
                done += 1;
            }
        }
        assert_eq!(done, BURST + 9);
        assert!(!buckets.is_full(START, 2));
        assert!(!buckets.is_full(START + Duration::from_secs(60) + ONE_FOR, 1));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_oldest_key() {
        let mut buckets = Buckets::new(BURST, ONE_FOR);
        for number in 0..3 * u32::try_from(MOST_KEYS).unwrap() {
            let now = START + Duration::from_millis(u64::from(number));
            for _ in 0..BURST {
                buckets.note(now, number);
            }
            assert!(buckets.levels.len() <= MOST_KEYS);
            assert!(buckets.is_full(now, number));
        }
        assert!(!buckets.is_full(START, 0), "a key that is forgotten may try again");
    }
}
