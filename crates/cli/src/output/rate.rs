//! The current rate: over the last two seconds, never since the start.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use manyway_proto::{ByteCount, Rate};

/// The time over which a rate is measured.
pub const WINDOW: Duration = Duration::from_secs(2);
/// A measurement over less than this is meaningless.
const LEAST: Duration = Duration::from_millis(400);
/// Samples closer together than this are merged.
const APART: Duration = Duration::from_millis(50);

/// Measures the rate of a counter that only grows, over the last [`WINDOW`].
///
/// The first sample is the start: bytes counted before it are no part of any rate. Memory is bounded: at most 42
/// samples are kept.
#[derive(Debug, Clone, Default)]
pub struct RateWindow {
    samples: VecDeque<(Instant, u64)>,
}

impl RateWindow {
    /// Records the counter. A counter that went back restarts the measurement.
    pub fn record(&mut self, now: Instant, total: u64) {
        if self.samples.back().is_some_and(|(_, last)| total < *last) {
            self.samples.clear();
        }
        match self.samples.iter().rev().nth(1) {
            Some((before, _)) if now.saturating_duration_since(*before) < APART => {
                if let Some(last) = self.samples.back_mut() {
                    *last = (now, total);
                }
            }
            Some(_) | None => self.samples.push_back((now, total)),
        }
        // The newest sample older than the window stays: the window begins in the interval after it.
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Drops all samples.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// The rate over the window that ends `now`; `None` before 0.4 s were measured.
    pub fn rate(&self, now: Instant) -> Option<Rate> {
        let (start, first) = self.samples.front()?;
        let (newest, last) = self.samples.back()?;
        // The time since the newest sample is unknown, unless it is so long that samples have stopped.
        let end = if now.saturating_duration_since(*newest) <= LEAST { *newest } else { now };
        let span = end.saturating_duration_since(*start);
        (span >= LEAST).then(|| ByteCount(last.saturating_sub(*first)).per(span))
    }

    /// Whether the counter stood still for a whole window.
    pub fn is_stalled(&self, now: Instant) -> bool {
        let Some((start, first)) = self.samples.front() else { return false };
        let is_whole = now.saturating_duration_since(*start) >= WINDOW;
        is_whole && self.samples.back().is_some_and(|(_, last)| last == first)
    }
}

/// The progress of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Not measured yet.
    Unknown,
    /// At this rate.
    Moving(Rate),
    /// No progress for two seconds.
    Stalled,
    /// No path works; the connection ends after this time.
    NoPath {
        /// Until then.
        left: Duration,
    },
}

impl Pace {
    /// The pace by `window`, unless no path works until `gives_up_at`.
    pub fn of(window: &RateWindow, now: Instant, gives_up_at: Option<Instant>) -> Self {
        if let Some(at) = gives_up_at {
            return Self::NoPath { left: at.saturating_duration_since(now) };
        }
        if window.is_stalled(now) {
            return Self::Stalled;
        }
        match window.rate(now) {
            Some(rate) if rate > Rate::ZERO => Self::Moving(rate),
            Some(_) | None => Self::Unknown,
        }
    }

    /// How long `bytes` take at this rate; `None` if none is known.
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        match self {
            Self::Moving(rate) => {
                let rate = rate.bytes_per_second();
                (rate > 0).then(|| Duration::from_secs(bytes.div_ceil(rate)))
            }
            Self::Unknown | Self::Stalled | Self::NoPath { .. } => None,
        }
    }
}

/// Since when no path works, as far as it was observed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pathless {
    since: Option<Instant>,
}

impl Pathless {
    /// Records whether any path works; returns when the connection gives up after `timeout`.
    pub fn note(&mut self, now: Instant, works: bool, timeout: Duration) -> Option<Instant> {
        self.since = if works { None } else { self.since.or(Some(now)) };
        self.since?.checked_add(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A counter that grows by `step` bytes every 100 ms from `from` on.
    fn run(window: &mut RateWindow, from: Instant, start: u64, step: u64, count: u32) -> (Instant, u64) {
        let (mut now, mut total) = (from, start);
        for _ in 0..count {
            now += 100 * MS;
            total += step;
            window.record(now, total);
        }
        (now, total)
    }

    fn megabits(rate: Option<Rate>) -> u64 {
        rate.unwrap().bits_per_second() / 1_000_000
    }

    #[test]
    fn a_rate_is_that_of_the_last_two_seconds() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        window.record(start, 0);
        let (now, total) = run(&mut window, start, 0, 1_250_000, 100);
        assert_eq!(megabits(window.rate(now)), 100);
        let (now, _) = run(&mut window, now, total, 125_000, 20);
        assert_eq!(megabits(window.rate(now)), 10, "two seconds after a change nothing is left of before");
        assert!(window.samples.len() <= 42);
    }

    #[test]
    fn earlier_bytes_count_in_no_rate() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        window.record(start, 64 << 20);
        let (now, _) = run(&mut window, start, 64 << 20, 125_000, 10);
        assert_eq!(megabits(window.rate(now)), 10);
    }

    #[test]
    fn nothing_is_shown_before_it_was_measured() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        assert_eq!(window.rate(start), None);
        window.record(start, 0);
        window.record(start + MS, 1 << 20);
        assert_eq!(window.rate(start + 100 * MS), None);
        assert_eq!(Pace::of(&window, start + 100 * MS, None), Pace::Unknown);
    }

    #[test]
    fn a_transfer_without_progress_is_stalled_after_two_seconds_and_moves_again_at_once() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        window.record(start, 0);
        let (stopped, total) = run(&mut window, start, 0, 125_000, 30);
        let (now, _) = run(&mut window, stopped, total, 0, 19);
        assert!(matches!(Pace::of(&window, now, None), Pace::Moving(_)), "some of the window still moved");
        let (now, _) = run(&mut window, now, total, 0, 2);
        assert_eq!(Pace::of(&window, now, None), Pace::Stalled);
        assert_eq!(Pace::Stalled.time_for(1), None);
        let (now, _) = run(&mut window, now, total, 125_000, 1);
        assert!(matches!(Pace::of(&window, now, None), Pace::Moving(_)));
    }

    #[test]
    fn missing_samples_are_a_stall_too() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        window.record(start, 7);
        assert!(!window.is_stalled(start + 1999 * MS));
        assert!(window.is_stalled(start + 2000 * MS));
    }

    #[test]
    fn the_time_left_comes_from_the_same_rate() {
        let pace = Pace::Moving(Rate::from_bytes_per_second(1_000_000));
        assert_eq!(pace.time_for(41_500_000), Some(Duration::from_secs(42)));
        assert_eq!(pace.time_for(1), Some(Duration::from_secs(1)), "what is left takes some time");
        assert_eq!(Pace::Unknown.time_for(1), None);
    }

    #[test]
    fn without_a_path_the_end_is_counted_down_from_the_failure_of_the_last_one() {
        let (mut pathless, start) = (Pathless::default(), Instant::now());
        let timeout = Duration::from_secs(60);
        assert_eq!(pathless.note(start, true, timeout), None);
        let at = pathless.note(start + 1000 * MS, false, timeout);
        assert_eq!(pathless.note(start + 20_000 * MS, false, timeout), at);
        let pace = Pace::of(&RateWindow::default(), start + 20_000 * MS, at);
        assert_eq!(pace, Pace::NoPath { left: Duration::from_secs(41) });
        assert_eq!(pathless.note(start + 21_000 * MS, true, timeout), None);
    }

    #[test]
    fn a_counter_that_went_back_restarts_the_measurement() {
        let mut window = RateWindow::default();
        let start = Instant::now();
        window.record(start, 1 << 30);
        window.record(start + 1000 * MS, 0);
        window.record(start + 2000 * MS, 1_250_000);
        assert_eq!(megabits(window.rate(start + 2000 * MS)), 10);
    }
}
