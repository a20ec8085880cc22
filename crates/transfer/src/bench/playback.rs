//! What a player would see of a stream that arrives at some rate: the model of MultiTCP, section 8.3.

use std::time::Duration;

/// Time before a stream begins to play.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Time for which it stops when too little has arrived.
const STOP: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

/// Plays a stream of constant rate: from 10 s on, each second needs all its bits, and those of all seconds before; where
/// they have not arrived, it stops for 5 s and tries again.
///
/// ```
/// use std::time::Duration;
/// use manyway_transfer::Playback;
///
/// let mut playback = Playback::new(800_000);
/// for second in 1..=30 {
///     // 100 kB a second, and nothing from the 12th to the 24th second.
///     let bytes = if (12..24).contains(&second) { 0 } else { 100_000 };
///     playback.on_bytes(Duration::from_secs(second), bytes);
/// }
/// assert_eq!((playback.stops(), playback.stopped()), (1, Duration::from_secs(5)));
/// ```
#[derive(Debug, Clone)]
pub struct Playback {
    bits_per_second: u64,
    /// What has arrived, and until when.
    arrived: u128,
    until: Duration,
    /// Seconds that were played.
    played: u64,
    /// When the next second begins to play, if its bits are there.
    next: Duration,
    stops: u32,
}

impl Playback {
    /// A stream of so many bits a second, of which nothing has arrived.
    pub fn new(bits_per_second: u64) -> Self {
        Self { bits_per_second, arrived: 0, until: Duration::ZERO, played: 0, next: FIRST_WAIT, stops: 0 }
    }

    /// These bytes arrived evenly between the last call, or the beginning, and `until`.
    pub fn on_bytes(&mut self, until: Duration, bytes: u64) {
        let (from, span) = (self.until, until.saturating_sub(self.until));
        let bits = u128::from(bytes) * 8;
        while self.next <= until {
            let part = self.next.saturating_sub(from);
            let so_far =
                self.arrived + (bits * part.as_micros()).checked_div(span.as_micros()).unwrap_or(bits);
            if so_far >= u128::from(self.bits_per_second) * u128::from(self.played + 1) {
                self.played += 1;
                self.next += SECOND;
            } else {
                self.stops += 1;
                self.next += STOP;
            }
        }
        self.arrived += bits;
        self.until = self.until.max(until);
    }

    /// How often it stopped.
    pub fn stops(&self) -> u32 {
        self.stops
    }

    /// How long it stood still after it had begun.
    pub fn stopped(&self) -> Duration {
        STOP * self.stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(rates: impl IntoIterator<Item = u64>) -> Playback {
        let mut playback = Playback::new(720_000);
        for (second, bits) in (1..).zip(rates) {
            playback.on_bytes(Duration::from_secs(second), bits / 8);
        }
        playback
    }

    #[test]
    fn a_stream_at_its_rate_never_stops_and_one_at_half_of_it_stops_again_and_again() {
        assert_eq!(played([720_000; 200]).stops(), 0);
        assert_eq!(played([1_440_000; 200]).stops(), 0);
        // 10 s give 5 s to play, each further stop 2.5 s.
        assert!((18..=40).contains(&played([360_000; 200]).stops()), "{:?}", played([360_000; 200]));
    }

    #[test]
    fn a_gap_that_the_first_ten_seconds_cover_is_not_seen() {
        let gap = |length: usize| {
            let rates = std::iter::repeat_n(720_000, 20);
            let rest = std::iter::repeat_n(720_000, 100);
            played(rates.chain(std::iter::repeat_n(0, length)).chain(rest)).stops()
        };
        assert_eq!((gap(8), gap(12), gap(18)), (0, 1, 2));
    }

    #[test]
    fn reports_of_several_seconds_count_as_even_arrival() {
        let mut playback = Playback::new(8000);
        playback.on_bytes(Duration::from_secs(30), 30_000);
        assert_eq!(playback.stops(), 0);
        playback.on_bytes(Duration::from_secs(30), 0);
        playback.on_bytes(Duration::from_secs(60), 0);
        assert_eq!(playback.stops(), 5);
    }
}
