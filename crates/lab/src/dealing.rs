//! Chunks of a file dealt out to several connections, and put into order again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a file is dealt out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dealing {
    /// Bytes of the file.
    size: u64,
    /// Bytes of a chunk, but for the last one.
    chunk: u64,
    /// The connection of each chunk in turn, from the first one again after the last.
    turn: Vec<usize>,
    /// Time that the receiving program spends on each chunk.
    pub(crate) cost: Duration,
}

/// Bytes before each chunk: its number.
pub(crate) const NUMBER: u64 = 8;

impl Dealing {
    /// Deals out chunks of a file to so many connections of each route, those of a route in turn. Connections are numbered
    /// from the first of the first route.
    pub(crate) fn new(
        (size, chunk): (u64, u64),
        (shares, connections): (&[u32], usize),
        cost: Duration,
    ) -> Self {
        let mut dealt = vec![0; shares.len()];
        let round = || {
            // Not all of a route in a row, so that none waits for another.
            let most = shares.iter().copied().max().unwrap_or(0);
            (0..most).flat_map(move |time| shares.iter().enumerate().filter(move |(_, share)| time < **share))
        };
        let mut turn = Vec::new();
        for _ in 0..connections {
            for (route, _) in round() {
                let Some(dealt) = dealt.get_mut(route) else { continue };
                turn.push(route * connections + *dealt % connections);
                *dealt += 1;
            }
        }
        Self { size, chunk: chunk.max(1), turn, cost }
    }

    /// The numbers of the chunks of a connection, in order.
    pub(crate) fn of(&self, connection: usize) -> impl Iterator<Item = u64> + use<> {
        let places: Vec<u64> =
            (0..).zip(&self.turn).filter(|(_, one)| **one == connection).map(|(at, _)| at).collect();
        let (count, period) = (self.count(), u64::try_from(self.turn.len()).unwrap_or(u64::MAX));
        let rounds = if places.is_empty() { 0..0 } else { 0..count.div_ceil(period.max(1)) };
        let all =
            rounds.flat_map(move |round| places.clone().into_iter().map(move |place| round * period + place));
        all.take_while(move |number| *number < count)
    }

    /// Bytes of a chunk.
    pub(crate) fn length(&self, number: u64) -> u64 {
        self.size.saturating_sub(number.saturating_mul(self.chunk)).min(self.chunk)
    }

    /// Bytes that a connection carries, numbers included.
    pub(crate) fn bytes_of(&self, connection: usize) -> u64 {
        self.of(connection).map(|number| self.length(number) + NUMBER).sum()
    }

    /// How many chunks there are.
    fn count(&self) -> u64 {
        self.size.div_ceil(self.chunk)
    }
}

/// Puts chunks into order.
#[derive(Debug, Default)]
pub(crate) struct Resequencer {
    next: u64,
    /// Chunks after a missing one, with their lengths.
    early: BTreeMap<u64, u64>,
    held: u64,
    most_held: u64,
}

impl Resequencer {
    /// Takes a chunk, and hands on what is in order now.
    pub(crate) fn take(&mut self, number: u64, length: u64) {
        self.early.insert(number, length);
        self.held += length;
        while let Some(length) = self.early.remove(&self.next) {
            self.held -= length;
            self.next += 1;
        }
        self.most_held = self.most_held.max(self.held);
    }

    /// The most bytes that waited for earlier ones.
    pub(crate) const fn most_held(&self) -> u64 {
        self.most_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_dealt_once_and_in_the_shares_of_the_routes() {
        let dealing = Dealing::new((10_050, 100), (&[1, 2, 1], 2), Duration::ZERO);
        let mut all: Vec<u64> = (0..6).flat_map(|connection| dealing.of(connection)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..101).collect::<Vec<_>>());
        let counts: Vec<usize> = (0..6).map(|connection| dealing.of(connection).count()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 101);
        assert!(counts[2] + counts[3] >= 50 && counts[0] + counts[1] <= 27, "{counts:?}");
        assert_eq!((dealing.length(99), dealing.length(100), dealing.length(101)), (100, 50, 0));
        let bytes: u64 = (0..6).map(|connection| dealing.bytes_of(connection)).sum();
        assert_eq!(bytes, 10_050 + 101 * NUMBER);
        assert_eq!(dealing.of(6).count(), 0);
    }

    #[test]
    fn chunks_after_a_missing_one_are_held() {
        let mut order = Resequencer::default();
        let mut held = |number, length| {
            order.take(number, length);
            (order.held, order.most_held())
        };
        assert_eq!((held(2, 10), held(1, 10)), ((10, 10), (20, 20)));
        assert_eq!((held(0, 10), held(4, 5), held(3, 5)), ((0, 20), (5, 20), (0, 20)));
    }
}
