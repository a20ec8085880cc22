//! Virtual time, the only clock of a simulation.

use std::time::Duration;

use manyway_proto::Instant;

/// The clock of a simulation. It moves only when told to, and never backwards.
///
/// ```
/// use manyway_sim::Clock;
/// use std::time::Duration;
/// let mut clock = Clock::new();
/// let later = clock.now() + Duration::from_millis(3);
/// clock.advance_to(later);
/// assert_eq!(clock.elapsed(), Duration::from_millis(3));
/// clock.advance_to(Clock::START);
/// assert_eq!(clock.now(), later);
/// ```
#[derive(Debug, Clone)]
pub struct Clock {
    now: Instant,
}

impl Clock {
    /// The start of every simulation: one second after the epoch, so that code which looks a little into the past does
    /// not reach the end of the number range unnoticed.
    pub const START: Instant = Instant::from_nanos(1_000_000_000);

    /// Makes a clock that shows [`Self::START`].
    pub const fn new() -> Self {
        Self { now: Self::START }
    }

    /// The current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// How long the simulation has run.
    pub fn elapsed(&self) -> Duration {
        self.now - Self::START
    }

    /// Advances to `moment`; a moment in the past changes nothing. Returns whether time moved.
    pub fn advance_to(&mut self, moment: Instant) -> bool {
        let moves = moment > self.now;
        if moves {
            self.now = moment;
        }
        moves
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
