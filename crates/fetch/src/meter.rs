//! The rate of one interface.

use std::time::Duration;

use tokio::time::Instant;

/// Length of a sample.
const SAMPLE: Duration = Duration::from_millis(500);
/// An interface that delivers nothing for so long is silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Measures while pieces are under way, the time before their first bytes included.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Since when a piece is under way.
    since: Option<Instant>,
    /// When bytes last came.
    heard_at: Option<Instant>,
    /// Time and bytes of this sample in earlier pieces, and bytes in this one.
    time: Duration,
    bytes: u64,
    /// Bytes a second; `None` before the first sample.
    rate: Option<u64>,
    /// Pieces that began.
    pieces: u32,
}

impl Meter {
    /// A piece begins.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.pause(now);
        (self.since, self.heard_at) = (Some(now), None);
        self.pieces = self.pieces.saturating_add(1);
    }

    /// A piece ended.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.time = self.time_of_sample(now);
        self.since = None;
    }

    /// Bytes arrived.
    pub(crate) fn add(&mut self, now: Instant, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.heard_at = Some(now);
        if let Some(sample) = self.sample(now) {
            self.rate = Some(self.rate.map_or(sample, |rate| rate / 2 + sample / 2));
            (self.time, self.bytes) = (Duration::ZERO, 0);
            self.since = self.since.map(|_| now);
        }
    }

    /// Bytes a second, as far as they are known; 0 if it is silent.
    pub(crate) fn rate(&self, now: Instant) -> Option<u64> {
        let quiet = self.since.map(|since| now.saturating_duration_since(self.heard_at.unwrap_or(since)));
        if quiet.is_some_and(|quiet| quiet >= SILENCE) {
            Some(0)
        } else {
            self.rate.or_else(|| self.sample(now))
        }
    }

    /// Bytes a second, as of the last sample.
    pub(crate) fn measured(&self) -> Option<u64> {
        self.rate
    }

    /// Pieces that began.
    pub(crate) fn pieces(&self) -> u32 {
        self.pieces
    }

    fn time_of_sample(&self, now: Instant) -> Duration {
        self.time + self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn sample(&self, now: Instant) -> Option<u64> {
        let time = self.time_of_sample(now);
        if time < SAMPLE {
            return None;
        }
        let rate = u128::from(self.bytes) * 1_000_000_000 / time.as_nanos().max(1);
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_pieces_are_measured_together_and_pauses_do_not_count() {
        let start = Instant::now();
        let mut meter = Meter::default();
        assert_eq!(meter.rate(start), None);
        for second in 0..8 {
            let begun = start + second * 1000 * MS;
            meter.begin(begun);
            meter.add(begun + 100 * MS, 100_000);
            meter.pause(begun + 100 * MS);
        }
        assert_eq!(meter.measured(), Some(1_000_000));
        let later = start + 60_000 * MS;
        assert_eq!(meter.rate(later), Some(1_000_000), "a pause is no silence");
        meter.begin(later);
        assert_eq!((meter.rate(later + 999 * MS), meter.rate(later + 1000 * MS)), (Some(1_000_000), Some(0)));
    }
}
