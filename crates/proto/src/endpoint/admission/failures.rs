//! Refused clients: their networks, and when they may try again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Prefix;
use crate::Instant;

/// Failures in a row that a network may have (spec 7.38).
const BURST: u32 = 10;
/// Time after which a network may fail once more.
const ONE_FOR: Duration = Duration::from_secs(6);
/// Most networks remembered; beyond that, the one that failed longest ago is forgotten. So an attacker with many
/// addresses only frees its own networks, and never locks out others.
const MOST_NETWORKS: usize = 1024;

/// Counts failed authentications of each network. A client that fails has received at its address, so no client can
/// fail in the name of another network.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    networks: BTreeMap<Prefix, Debt>,
}

/// A bucket that leaks one failure in [`ONE_FOR`].
#[derive(Debug, Clone, Copy)]
struct Debt {
    failures: u32,
    since: Instant,
}

impl Debt {
    /// The debt left at `now`.
    fn at(self, now: Instant) -> Self {
        let leaked = (now - self.since).as_nanos() / ONE_FOR.as_nanos();
        let leaked = u32::try_from(leaked).unwrap_or(u32::MAX);
        let since = self.since + ONE_FOR.saturating_mul(leaked);
        Self { failures: self.failures.saturating_sub(leaked), since }
    }
}

impl Failures {
    /// A client of this network was refused. Costs O(log n), O(n) when the table is full.
    pub(crate) fn note(&mut self, now: Instant, prefix: Prefix) {
        let before = self.networks.get(&prefix).map(|debt| debt.at(now)).filter(|debt| debt.failures > 0);
        let debt = before.unwrap_or(Debt { failures: 0, since: now });
        self.networks.insert(prefix, Debt { failures: debt.failures + 1, ..debt });
        if self.networks.len() > MOST_NETWORKS {
            self.networks.retain(|_, debt| debt.at(now).failures > 0);
        }
        if self.networks.len() > MOST_NETWORKS
            && let Some(oldest) = self.networks.iter().min_by_key(|(_, debt)| debt.since).map(|(key, _)| *key)
        {
            self.networks.remove(&oldest);
        }
    }

    /// Whether clients of this network have to wait. Costs O(log n).
    pub(crate) fn are_too_many(&self, now: Instant, prefix: Prefix) -> bool {
        self.networks.get(&prefix).is_some_and(|debt| debt.at(now).failures >= BURST)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BURST, Failures, MOST_NETWORKS, ONE_FOR, Prefix};
    use crate::Instant;

    const START: Instant = Instant::from_nanos(5_000_000_000);

    fn network(number: u32) -> Prefix {
        Prefix::of(std::net::SocketAddr::from(((number << 8).to_be_bytes(), 1)))
    }

    // spec 7.38
    #[test]
    fn a_network_may_fail_ten_times_and_then_once_in_six_seconds() {
        let mut failures = Failures::default();
        let mut tried = 0;
        for second in 0..60 {
            let now = START + Duration::from_secs(second);
            while !failures.are_too_many(now, network(1)) {
                failures.note(now, network(1));
                tried += 1;
            }
        }
        assert_eq!(tried, BURST + 9);
        assert!(!failures.are_too_many(START, network(2)));
        assert!(!failures.are_too_many(START + Duration::from_secs(60) + ONE_FOR, network(1)));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_network_that_failed_longest_ago() {
        let mut failures = Failures::default();
        for number in 0..3 * u32::try_from(MOST_NETWORKS).unwrap() {
            let now = START + Duration::from_millis(u64::from(number));
            for _ in 0..BURST {
                failures.note(now, network(number));
            }
            assert!(failures.networks.len() <= MOST_NETWORKS);
            assert!(failures.are_too_many(now, network(number)));
        }
        assert!(!failures.are_too_many(START, network(0)), "who is forgotten may try again");
    }
}
