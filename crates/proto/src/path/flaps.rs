//! Flap damping: a path that repeatedly dies soon after its return stays dead for longer and longer (spec 6.51).

use std::time::Duration;

use crate::Instant;

/// A path that works for this long after its return does not flap; a flapping path that answers for this long may
/// work again.
const STEADY: Duration = Duration::from_secs(1);
/// A flap counts for this long.
const MEMORY: Duration = Duration::from_secs(60);
/// The dwell time after one flap; it doubles with each further flap.
const BASE_DWELL: Duration = Duration::from_millis(200);
const LONGEST_DWELL: Duration = Duration::from_secs(10);
/// The dwell time stops growing at this many flaps.
const MOST: usize = 6;

/// How often a path died soon after its return, and how long that keeps it dead.
#[derive(Debug, Default)]
pub(crate) struct Flaps {
    /// The deaths that count as flaps, oldest first.
    at: Vec<Instant>,
    /// When the path last returned from the dead state.
    returned_at: Option<Instant>,
    /// When the dwell time ends.
    dwells_until: Option<Instant>,
}

impl Flaps {
    /// The path is in use again.
    pub(crate) fn on_return(&mut self, now: Instant) {
        self.returned_at = Some(now);
    }

    /// The path was declared dead; it had not worked since `suspect_since`.
    pub(crate) fn on_death(&mut self, now: Instant, suspect_since: Instant) {
        self.at.retain(|at| now - *at < MEMORY);
        if self.returned_at.take().is_some_and(|returned_at| suspect_since - returned_at < STEADY) {
            if self.at.len() >= MOST {
                self.at.remove(0);
            }
            self.at.push(now);
        }
        let doubled = BASE_DWELL * (1 << self.at.len());
        self.dwells_until = (!self.at.is_empty()).then(|| now + doubled.min(LONGEST_DWELL));
    }

    /// How many flaps count.
    pub(crate) fn times(&self) -> u8 {
        u8::try_from(self.at.len()).unwrap_or(u8::MAX)
    }

    /// When the dwell time ends for a path that has answered every path challenge since `since`.
    pub(crate) fn dwells_until(&self, since: Instant) -> Option<Instant> {
        self.dwells_until.map(|until| until.min(since + STEADY))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Flaps, LONGEST_DWELL, MEMORY, MOST, STEADY};
    use crate::Instant;

    const MS: Duration = Duration::from_millis(1);

    /// The dwell time of a path that does not answer.
    fn dwell(flaps: &Flaps, now: Instant) -> Duration {
        flaps.dwells_until(now + MEMORY).map_or(Duration::ZERO, |until| until - now)
    }

    #[test]
    fn the_dwell_doubles_with_each_flap_of_the_last_minute() {
        let mut flaps = Flaps::default();
        let mut now = Instant::from_nanos(0) + MEMORY;
        let mut dwells = Vec::new();
        for _ in 0..20 {
            flaps.on_death(now, now);
            dwells.push(dwell(&flaps, now).as_millis());
            assert!(flaps.at.len() <= MOST);
            flaps.on_return(now + 300 * MS);
            now += 600 * MS;
        }
        assert_eq!(dwells[..8], [0, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(dwells[19], LONGEST_DWELL.as_millis());
        now += MEMORY;
        flaps.on_return(now);
        flaps.on_death(now + STEADY, now + STEADY);
        assert_eq!(dwell(&flaps, now + STEADY), Duration::ZERO);
    }

    #[test]
    fn a_lasting_return_is_no_flap() {
        let mut flaps = Flaps::default();
        let start = Instant::from_nanos(0) + MEMORY;
        for number in 0..10 {
            let now = start + STEADY * 2 * number;
            flaps.on_death(now, now);
            assert_eq!(dwell(&flaps, now), Duration::ZERO);
            flaps.on_return(now + STEADY);
        }
    }

    #[test]
    fn steady_answers_end_a_dwell() {
        let mut flaps = Flaps::default();
        let mut now = Instant::from_nanos(0) + MEMORY;
        for _ in 0..10 {
            now += 500 * MS;
            flaps.on_return(now);
            flaps.on_death(now, now);
        }
        assert_eq!(dwell(&flaps, now), LONGEST_DWELL);
        assert_eq!(flaps.dwells_until(now + 100 * MS), Some(now + 100 * MS + STEADY));
    }
}
