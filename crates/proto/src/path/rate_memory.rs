//! Memory of the rate of an address pair (spec 6.48, 6.54, 6.68).

use std::time::Duration;

use crate::{Instant, Rate};

/// Rates seen within this time of each other count as simultaneous.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How long the rate of a pair without a path is remembered the first time, and at most.
const FIRST_KEEPS: Duration = Duration::from_secs(60);
const LONGEST_KEEPS: Duration = Duration::from_secs(960);
/// Shortest time between two reports of the peer that count; it sends one each second.
const TOLD_APART: Duration = Duration::from_millis(500);
/// The peer counts as filling the path for this long after such a report.
const TOLD_KEEPS: Duration = Duration::from_secs(3);

/// The rate of a pair, its sources, and how long it is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateMemory {
    /// The rate at which a path delivered this end's data, and when the path was last full.
    measured: Option<(Instant, Rate)>,
    /// The rate that the peer reported for its own data, and when it last reported it.
    told: Option<(Instant, Rate)>,
    /// Whether a trial of the pair showed no rate.
    has_failed_trial: bool,
    /// When a path last used the pair.
    used_at: Instant,
    /// How long everything is remembered after that.
    keeps: Duration,
}

impl RateMemory {
    pub(super) fn new(now: Instant) -> Self {
        Self { measured: None, told: None, has_failed_trial: false, used_at: now, keeps: FIRST_KEEPS }
    }

    /// The rate in the direction that was seen last, or in the slower one if both were seen together.
    pub(super) fn rate(&self) -> Option<Rate> {
        let known = [self.measured, self.told].into_iter().flatten();
        let newest = known.clone().map(|(at, _)| at).max()?;
        known.filter(|(at, _)| newest - *at < AT_ONCE).map(|(_, rate)| rate).min()
    }

    /// A path uses the pair, and measured this rate if it is full.
    pub(super) fn on_used(&mut self, now: Instant, measured: Option<Rate>) {
        self.used_at = now;
        if let Some(rate) = measured {
            (self.measured, self.has_failed_trial) = (Some((now, rate)), false);
        }
    }

    /// The peer reported a rate. Returns false if reports come more often than the protocol permits.
    pub(super) fn on_told(&mut self, now: Instant, rate: Rate) -> bool {
        let is_news = self.told.is_none_or(|(at, _)| now - at >= TOLD_APART);
        if is_news && rate.bytes_per_second() > 0 {
            (self.told, self.has_failed_trial) = (Some((now, rate)), false);
            return true;
        }
        false
    }

    /// Whether the peer fills the pair, by its recent reports.
    pub(super) fn is_told(&self, now: Instant) -> bool {
        self.told.is_some_and(|(at, _)| now - at < TOLD_KEEPS)
    }

    /// The pair was tried without learning its rate: it is not tried again for some time.
    pub(super) fn on_trial_failed(&mut self, now: Instant) {
        (self.has_failed_trial, self.used_at) = (true, now);
    }

    pub(super) fn has_failed_trial(&self) -> bool {
        self.has_failed_trial && self.rate().is_none()
    }

    /// The route has changed.
    pub(super) fn forget(&mut self) {
        (self.measured, self.told) = (None, None);
    }

    /// Forgets all but how long to remember.
    pub(super) fn reset(&mut self, now: Instant) {
        *self = Self { keeps: self.keeps, ..Self::new(now) };
    }

    /// The rate of a pair without a path becomes outdated after some time, which grows each time.
    pub(super) fn age(&mut self, now: Instant) {
        let is_known = self.has_failed_trial || self.rate().is_some();
        if is_known && now - self.used_at >= self.keeps {
            self.forget();
            self.has_failed_trial = false;
            self.keeps = (self.keeps * 2).min(LONGEST_KEEPS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn mbit(rate: u64) -> Rate {
        Rate::from_bits_per_second(rate * 1_000_000)
    }

    fn after(millis: u64) -> Instant {
        START + Duration::from_millis(millis)
    }

    // spec 6.54
    #[test]
    fn reports_of_the_peer_count_at_most_twice_a_second_and_as_much_as_measurements() {
        let mut memory = RateMemory::new(START);
        assert!(!memory.on_told(START, Rate::ZERO) && memory.rate().is_none() && !memory.is_told(START));
        for (at, told, counts) in [(0, 20, 20), (499, 1, 20), (500, 30, 30), (999, 2, 30), (1000, 4, 4)] {
            assert_eq!(memory.on_told(after(at), mbit(told)), told == counts, "{at}");
            assert_eq!(memory.rate(), Some(mbit(counts)), "{at}");
        }
        assert!(memory.is_told(after(3999)) && !memory.is_told(after(4000)));
        memory.on_used(START, Some(mbit(3)));
        assert_eq!(memory.rate(), Some(mbit(3)), "the slower of both");
        assert!(memory.on_told(after(9999), mbit(5)));
        assert_eq!(memory.rate(), Some(mbit(3)));
        assert!(memory.on_told(after(10_500), mbit(6)));
        assert_eq!(memory.rate(), Some(mbit(6)), "the newer one");
        memory.on_used(after(30_000), Some(mbit(9)));
        assert_eq!(memory.rate(), Some(mbit(9)));
        memory.forget();
        assert_eq!(memory.rate(), None);
    }

    // spec 6.68
    #[test]
    fn the_rate_of_a_pair_without_a_path_is_remembered_twice_as_long_each_time() {
        for failed in [false, true] {
            let mut memory = RateMemory::new(START);
            let mut now = START;
            for seconds in [60, 120, 240, 480, 960, 960] {
                if failed {
                    // The pair may never have had a path.
                    memory.on_trial_failed(now);
                } else {
                    memory.on_used(now, Some(mbit(1)));
                }
                memory.age(now + Duration::from_millis(seconds * 1000 - 1));
                assert_eq!(
                    (memory.has_failed_trial(), memory.rate().is_some()),
                    (failed, !failed),
                    "{seconds}"
                );
                now += Duration::from_secs(seconds);
                memory.age(now);
                assert!(!memory.has_failed_trial() && memory.rate().is_none(), "{seconds}");
                memory.reset(START);
            }
        }
    }
}
