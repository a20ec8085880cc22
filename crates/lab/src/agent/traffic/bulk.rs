//! Bulk traffic.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::agent::document::Load;
use crate::agent::lane::Writing;
use crate::agent::shared::Shared;

/// What all lanes of an exchange together may still send.
#[derive(Debug)]
pub(super) struct Budget {
    load: Load,
    begin: Instant,
    /// Traffic without a size ends at this instant.
    stop: Instant,
    taken: u64,
}

impl Budget {
    pub(super) fn new(load: Load, begin: Instant, stop: Instant) -> Self {
        Self { load, begin, stop, taken: 0 }
    }

    /// Takes the next piece: its length and when it may be sent; at the end 0 and the time of the end.
    fn take(&mut self) -> (usize, Instant) {
        let Load::Bulk { size, rate, chunk } = self.load else { return (0, self.begin) };
        let paced = || rate.map_or(PIECE, |rate| (rate / 8 / PIECES_A_SECOND).clamp(SMALLEST, PIECE));
        let piece = chunk.map_or_else(paced, |chunk| chunk.clamp(1, PIECE));
        let left = size.map_or(u64::MAX, |size| size.saturating_sub(self.taken));
        let wait = rate.map_or(Duration::ZERO, |rate| {
            let nanos = u128::from(self.taken) * 8_000_000_000 / u128::from(rate.max(1));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        let at = self.begin.checked_add(wait).unwrap_or(self.stop);
        if size.is_none() && at >= self.stop {
            return (0, self.stop);
        }
        let length = piece.min(left);
        if length == 0 {
            return (0, self.begin);
        }
        self.taken += length;
        (usize::try_from(length).unwrap_or(0), at)
    }

    /// Bytes were sent without being taken.
    pub(super) fn add(&mut self, bytes: u64) {
        self.taken += bytes;
    }

    /// Bytes taken, or messages that were due.
    pub(super) fn sent(&self, now: Instant) -> u64 {
        match self.load {
            Load::Bulk { .. } => self.taken,
            Load::Messages { interval, .. } => {
                let passed = now.saturating_duration_since(self.begin).as_nanos();
                u64::try_from(passed.div_ceil(interval.as_nanos().max(1))).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Sends until the budget is empty.
pub(super) async fn send(write: &mut Writing, budget: &Shared<Budget>) -> io::Result<()> {
    let filler = filler();
    loop {
        let (length, at) = budget.lock().take();
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let Some(piece) = filler.get(..length).filter(|piece| !piece.is_empty()) else { return Ok(()) };
        write.put(piece).await?;
    }
}

/// Incompressible bytes, in case a device on the way compresses.
pub(super) fn filler() -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(PIECE).unwrap_or(0)];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// Bytes of one write.
const PIECE: u64 = 128 << 10;
/// With a rate, pieces are small, so that the rate holds over a short time.
const PIECES_A_SECOND: u64 = 100;
const SMALLEST: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_at_its_size() {
        let begin = Instant::now();
        let load = Load::Bulk { size: Some(PIECE + 5), rate: None, chunk: None };
        let mut budget = Budget::new(load, begin, begin);
        assert_eq!(budget.take(), (128 << 10, begin));
        assert_eq!(budget.take(), (5, begin));
        assert_eq!(budget.take().0, 0);
        assert_eq!(budget.sent(begin), PIECE + 5);
    }

    #[test]
    fn a_rate_sets_the_times_and_number_of_pieces() {
        let begin = Instant::now();
        let load = Load::Bulk { size: None, rate: Some(8_000_000), chunk: None };
        let after = |millis| begin + Duration::from_millis(millis);
        let mut budget = Budget::new(load, begin, after(30));
        let departures: Vec<_> = (0..4).map(|_| budget.take()).collect();
        assert_eq!(departures, [(10_000, begin), (10_000, after(10)), (10_000, after(20)), (0, after(30))]);
    }

    #[test]
    fn messages_are_due_at_regular_intervals_from_the_start() {
        let begin = Instant::now();
        let load = Load::Messages { size: 100, interval: Duration::from_millis(10), lifetime: None };
        let budget = Budget::new(load, begin, begin + Duration::from_secs(1));
        assert_eq!(budget.sent(begin + Duration::from_millis(1000)), 100);
        assert_eq!(budget.sent(begin + Duration::from_millis(1)), 1);
    }
}
