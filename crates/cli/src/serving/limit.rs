//! Rate limits of clients.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use manyway::Rate;
use tokio::time::Instant;

/// The burst after a silence.
const BURST: Duration = Duration::from_millis(50);
/// At least one write of ordinary size.
const LEAST_BURST: u64 = 16 * 1024;

/// A token bucket: limits to this many bytes a second, on average over 50 ms.
///
/// A caller that finds it not overdrawn may transfer up to [`chunk`](Self::chunk) bytes and then reports their number;
/// that may overdraw it, and all callers wait until it has recovered.
#[derive(Debug)]
pub struct Bucket {
    rate: u64,
    burst: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Nanobytes: a rate in bytes a second is one in nanobytes a nanosecond.
    balance: i128,
    at: Instant,
}

/// The limits of a client in each direction, over all connections.
#[derive(Debug)]
pub struct Limits {
    /// From the client to the server.
    pub inwards: Bucket,
    /// From the server to the client.
    pub outwards: Bucket,
}

impl Limits {
    /// The same rate in each direction.
    pub fn new(rate: Rate) -> Self {
        let now = Instant::now();
        Self { inwards: Bucket::new(rate, now), outwards: Bucket::new(rate, now) }
    }
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Instant) -> Self {
        let rate = rate.bytes_per_second().max(1);
        let in_burst = u128::from(rate) * BURST.as_nanos() / 1_000_000_000;
        let burst = u64::try_from(in_burst).unwrap_or(u64::MAX).max(LEAST_BURST);
        Self { rate, burst, state: Mutex::new(State { balance: NANO * i128::from(burst), at: now }) }
    }

    /// Most bytes of one transfer.
    pub fn chunk(&self) -> usize {
        usize::try_from(self.burst).unwrap_or(usize::MAX)
    }

    /// How long to wait; `None` if a transfer is allowed now.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(state.at);
        state.at = state.at.max(now);
        let earned = i128::from(self.rate) * i128::try_from(passed.as_nanos()).unwrap_or(i128::MAX >> 64);
        state.balance = state.balance.saturating_add(earned).min(NANO * i128::from(self.burst));
        if state.balance > 0 {
            return None;
        }
        let nanos = 1 - state.balance / i128::from(self.rate);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Records transferred bytes.
    pub fn spend(&self, bytes: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = i128::try_from(bytes).unwrap_or(i128::MAX >> 64);
        state.balance = state.balance.saturating_sub(NANO * bytes);
    }
}

const NANO: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_that_transfer_the_maximum_keep_the_rate_together() {
        let rate = Rate::from_bytes_per_second(1_000_000);
        let bucket = Bucket::new(rate, Instant::now());
        let start = Instant::now();
        let mut moved = 0;
        while start.elapsed() < Duration::from_secs(10) {
            // Three of them see it open at the same time.
            if let Some(wait) = bucket.wait(Instant::now()) {
                tokio::time::advance(wait).await;
                continue;
            }
            for _ in 0..3 {
                bucket.spend(bucket.chunk());
                moved += bucket.chunk();
            }
        }
        assert!((9_900_000..=10_250_000).contains(&moved), "{moved}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_accumulates_one_burst_only() {
        let bucket = Bucket::new(Rate::from_bytes_per_second(1_000_000), Instant::now());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(bucket.wait(Instant::now()), None);
        bucket.spend(bucket.chunk() + 10_000);
        let wait = bucket.wait(Instant::now()).unwrap();
        assert!(wait >= Duration::from_millis(10) && wait < Duration::from_millis(11), "{wait:?}");
    }

    #[test]
    fn extreme_rates_do_no_harm() {
        for rate in [Rate::ZERO, Rate::MAX] {
            let bucket = Bucket::new(rate, Instant::now());
            bucket.spend(usize::MAX);
            let _ = bucket.wait(Instant::now() + Duration::from_secs(1 << 30));
            assert!(bucket.chunk() >= 16 * 1024);
        }
    }
}
