//! Budget for path challenges to unverified addresses, which only the peer advertised.
//!
//! A peer may advertise any address. The bytes that it can make this end send there are bounded, so that no peer can
//! use this end to flood or scan a third party (spec 6.35).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Instant;

/// Time between two addresses that were not challenged before.
const BETWEEN_NEW: Duration = Duration::from_millis(50);
/// Bytes for such addresses in a minute.
const BYTES_A_MINUTE: u32 = 20_000;
const BYTES: u64 = BYTES_A_MINUTE as u64;
/// Covers the rounding to whole bytes.
const ROUNDING: Duration = Duration::from_millis(5);
const MINUTE: Duration = Duration::from_secs(60);
/// Cost of a challenge: its datagram with the headers of IPv6 and UDP.
const CHALLENGE_COST: u64 = 100;
/// Most outstanding challenges.
const MOST_OUTSTANDING: usize = 4;
/// A challenge counts as outstanding for this long.
const PATIENCE: Duration = Duration::from_millis(250);
/// Most challenged addresses remembered.
const MOST_KNOWN: usize = 16;

/// The budget of one connection. Its memory is bounded, and every challenge costs O(1).
#[derive(Debug, Default)]
pub(crate) struct ChallengeBudget {
    /// Bytes used, draining evenly over a minute.
    charged: u64,
    counted_at: Option<Instant>,
    new_at: Option<Instant>,
    known: VecDeque<SocketAddr>,
    outstanding: VecDeque<(Instant, SocketAddr)>,
}

impl ChallengeBudget {
    /// Takes one challenge to `address` out of the budget.
    ///
    /// # Errors
    /// When to try again, if the budget forbids it now.
    pub(crate) fn take(&mut self, now: Instant, address: SocketAddr) -> Result<(), Instant> {
        while self.outstanding.front().is_some_and(|(at, _)| now - *at >= PATIENCE) {
            self.outstanding.pop_front();
        }
        if let Some((oldest, _)) =
            self.outstanding.front().filter(|_| self.outstanding.len() >= MOST_OUTSTANDING)
        {
            return Err(*oldest + PATIENCE);
        }
        self.leak(now);
        if self.charged + CHALLENGE_COST > BYTES {
            let excess = self.charged + CHALLENGE_COST - BYTES;
            return Err(now + MINUTE * u32::try_from(excess).unwrap_or(u32::MAX) / BYTES_A_MINUTE + ROUNDING);
        }
        if !self.known.contains(&address) {
            if let Some(at) = self.new_at.filter(|at| *at > now) {
                return Err(at);
            }
            self.new_at = Some(now + BETWEEN_NEW);
            if self.known.len() >= MOST_KNOWN {
                self.known.pop_front();
            }
            self.known.push_back(address);
        }
        self.charged += CHALLENGE_COST;
        self.outstanding.push_back((now, address));
        Ok(())
    }

    /// A response arrived: challenges to that address are no longer outstanding.
    pub(crate) fn on_answered(&mut self, address: SocketAddr) {
        self.outstanding.retain(|(_, challenged)| *challenged != address);
    }

    fn leak(&mut self, now: Instant) {
        let since = self.counted_at.map_or(Duration::ZERO, |at| now - at);
        let leaked =
            u64::try_from(since.as_nanos() * u128::from(BYTES) / MINUTE.as_nanos()).unwrap_or(u64::MAX);
        if leaked > 0 || self.counted_at.is_none() {
            self.counted_at = Some(now);
        }
        self.charged = self.charged.saturating_sub(leaked);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BYTES, CHALLENGE_COST, ChallengeBudget};
    use crate::Instant;

    fn address(number: u16) -> std::net::SocketAddr {
        ([192, 0, 2, 1], number).into()
    }

    const START: Instant = Instant::from_nanos(1_000_000_000);

    // spec 6.35
    #[test]
    fn a_new_address_is_challenged_every_50_ms_with_at_most_four_challenges_outstanding() {
        let mut budget = ChallengeBudget::default();
        let mut now = START;
        let mut sent = Vec::new();
        for number in 0..12 {
            while let Err(later) = budget.take(now, address(number)) {
                assert!(later > now, "or the driver would be busy");
                now = later;
            }
            sent.push((now - START).as_millis());
        }
        assert_eq!(sent, [0, 50, 100, 150, 250, 300, 350, 400, 500, 550, 600, 650]);
    }

    #[test]
    fn responses_permit_further_challenges() {
        let mut budget = ChallengeBudget::default();
        for number in 0..12 {
            assert_eq!(budget.take(START + Duration::from_millis(50) * number, address(1)), Ok(()));
            budget.on_answered(address(1));
        }
    }

    // spec 6.35
    #[test]
    fn a_minute_costs_20_kilobytes() {
        let mut budget = ChallengeBudget::default();
        let (mut now, mut bytes) = (START, 0);
        while now < START + Duration::from_secs(300) {
            match budget.take(now, address(1)) {
                Ok(()) => {
                    bytes += CHALLENGE_COST;
                    budget.on_answered(address(1));
                }
                Err(later) => {
                    assert!(later > now);
                    now = later;
                }
            }
        }
        assert!(bytes <= 6 * BYTES && bytes > 5 * BYTES, "{bytes}");
    }
}
