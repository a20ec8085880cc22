//! The processor time of the whole machine.

use std::fs;
use std::time::Duration;

/// Busy time of all processors since the machine started, in any accounting class.
pub(super) fn busy_time() -> Duration {
    busy_in(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// From the line of all processors: user, nice, system, idle, waiting, interrupts, soft interrupts, and others.
fn busy_in(stat: &str) -> Duration {
    let line = stat.lines().find(|line| line.starts_with("cpu ")).unwrap_or_default();
    let ticks = line.split_whitespace().skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let busy: u64 =
        ticks.enumerate().filter(|(place, _)| matches!(place, 0..=2 | 5..=6)).map(|(_, ticks)| ticks).sum();
    Duration::from_millis(busy.saturating_mul(TICK_MILLIS))
}

/// Unit of processor time for programs, on every architecture of Linux with `/proc/stat`.
const TICK_MILLIS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_counts_and_waiting_does_not() {
        let stat = "cpu  10 1 20 5000 300 2 7 9 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n";
        assert_eq!(busy_in(stat), Duration::from_millis(400));
        assert_eq!(busy_in(""), Duration::ZERO);
    }

    #[test]
    fn years_of_many_processors_are_counted() {
        let century = Duration::from_secs(100 * 365 * 86_400);
        assert_eq!(busy_in(&format!("cpu  {} 0 0 5 0 0 0\n", century.as_millis() / 10)), century);
    }
}
