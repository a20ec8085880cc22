//! What is remembered of the rate of a pair of addresses (spec 6.48, 6.54, 6.68).

use std::time::Duration;

use crate::{Instant, Rate};

/// What was seen within so long of each other was seen at once.
const AT_ONCE: Duration = Duration::from_secs(10);
/// What is known of a pair without a path is remembered for so long the first time, and at most.
const FIRST_KEEPS: Duration = Duration::from_secs(60);
const LONGEST_KEEPS: Duration = Duration::from_secs(960);
/// What the peer tells is taken once in so long at most; it says so once a second.
const TOLD_APART: Duration = Duration::from_millis(500);
/// For so long after such a word the peer fills the path.
const TOLD_KEEPS: Duration = Duration::from_secs(3);

/// The rate of a pair, from where it is known, and for how long that counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateMemory {
    /// What a path delivered of what this end sends, and when it was full last.
    measured: Option<(Instant, Rate)>,
    /// What the peer told of what it sends there, and when it did so last.
    told: Option<(Instant, Rate)>,
    /// It was tried, and showed no rate.
    rests: bool,
    /// When a path lay there last.
    used_at: Instant,
    /// For so long after that everything is remembered.
    keeps: Duration,
}

impl RateMemory {
    pub(super) fn new(now: Instant) -> Self {
        Self { measured: None, told: None, rests: false, used_at: now, keeps: FIRST_KEEPS }
    }

    /// What it delivers in the direction in which that was seen last, or in the slower one if both were.
    pub(super) fn rate(&self) -> Option<Rate> {
        let known = [self.measured, self.told].into_iter().flatten();
        let newest = known.clone().map(|(at, _)| at).max()?;
        known.filter(|(at, _)| newest - *at < AT_ONCE).map(|(_, rate)| rate).min()
    }

    /// A path lies there, and measured this if it is full.
    pub(super) fn on_used(&mut self, now: Instant, measured: Option<Rate>) {
        self.used_at = now;
        if let Some(rate) = measured {
            (self.measured, self.rests) = (Some((now, rate)), false);
        }
    }

    /// The peer told what it delivers. It is not heard more often than it has to say so; false then.
    pub(super) fn on_told(&mut self, now: Instant, rate: Rate) -> bool {
        let is_news = self.told.is_none_or(|(at, _)| now - at >= TOLD_APART);
        if is_news && rate.bytes_per_second() > 0 {
            (self.told, self.rests) = (Some((now, rate)), false);
            return true;
        }
        false
    }

    /// Whether the peer fills it, by what it told lately.
    pub(super) fn is_told(&self, now: Instant) -> bool {
        self.told.is_some_and(|(at, _)| now - at < TOLD_KEEPS)
    }

    /// It was tried, and the rate is still unknown: for some time it is not tried again.
    pub(super) fn on_tried_in_vain(&mut self, now: Instant) {
        (self.rests, self.used_at) = (true, now);
    }

    pub(super) fn rests(&self) -> bool {
        self.rests && self.rate().is_none()
    }

    /// The way has changed.
    pub(super) fn forget(&mut self) {
        (self.measured, self.told) = (None, None);
    }

    /// Nothing is known of it any more, but how long things are remembered.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        *self = Self { keeps: self.keeps, ..Self::new(now) };
    }

    /// What is known of a pair without a path is outdated after some time, longer each time.
    pub(super) fn age(&mut self, now: Instant) {
        let is_known = self.rests || self.rate().is_some();
        if is_known && now - self.used_at >= self.keeps {
            self.forget();
            self.rests = false;
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
    fn what_the_peer_tells_is_taken_twice_a_second_at_most_and_counts_like_what_was_measured() {
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
    fn what_is_known_without_a_path_is_forgotten_each_time_after_twice_as_long() {
        for in_vain in [false, true] {
            let mut memory = RateMemory::new(START);
            let mut now = START;
            for seconds in [60, 120, 240, 480, 960, 960] {
                if in_vain {
                    // Perhaps without ever having had a path.
                    memory.on_tried_in_vain(now);
                } else {
                    memory.on_used(now, Some(mbit(1)));
                }
                memory.age(now + Duration::from_millis(seconds * 1000 - 1));
                assert_eq!((memory.rests(), memory.rate().is_some()), (in_vain, !in_vain), "{seconds}");
                now += Duration::from_secs(seconds);
                memory.age(now);
                assert!(!memory.rests() && memory.rate().is_none(), "{seconds}");
                memory.begin_anew(START);
            }
        }
    }
}
