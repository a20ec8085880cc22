//! The driver's clock: the only place where time is read.

use std::time::Duration;

use manyway_proto::Instant;

/// Converts between the system's monotonic clock and the core's instants.
///
/// All drivers of one process may share a copy, so that their instants compare.
///
/// ```
/// let clock = manyway::Clock::new();
/// let now = clock.now();
/// assert!(clock.now() >= now);
/// assert_eq!(clock.from_std(clock.to_std(now)), now);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: std::time::Instant,
}

impl Clock {
    /// No instant is closer to the epoch than this, so that subtracting from one does not reach zero.
    const HEAD_START: Duration = Duration::from_secs(3600);

    /// Starts a clock; its first moment is one hour after its epoch.
    pub fn new() -> Self {
        Self { epoch: std::time::Instant::now() }
    }

    /// The current time. Costs about 25 ns: read it once for each batch of packets.
    pub fn now(&self) -> Instant {
        self.from_std(std::time::Instant::now())
    }

    /// Converts an instant of the system; those before the clock was made count as its start.
    pub fn from_std(&self, moment: std::time::Instant) -> Instant {
        Instant::from_nanos(0) + Self::HEAD_START + moment.saturating_duration_since(self.epoch)
    }

    /// Converts an instant of the core, for the system's timers; one that is centuries ahead becomes one day ahead.
    pub fn to_std(&self, moment: Instant) -> std::time::Instant {
        let since_epoch = moment - (Instant::from_nanos(0) + Self::HEAD_START);
        self.epoch
            .checked_add(since_epoch)
            .unwrap_or_else(|| std::time::Instant::now() + Duration::from_secs(24 * 3600))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Detects that the system was suspended: the monotonic clock stops then, the clock since boot does not.
#[derive(Debug)]
pub(crate) struct SuspendWatch {
    checked_at: Instant,
    slept: Duration,
}

impl SuspendWatch {
    /// Shorter suspends do no harm, and the two clocks are not read at exactly the same time.
    pub(crate) const NOTICEABLE: Duration = Duration::from_millis(500);
    /// Shortest interval between two readings of the clocks.
    const INTERVAL: Duration = Duration::from_millis(100);

    pub(crate) fn new() -> Self {
        Self { checked_at: Instant::from_nanos(0), slept: slept_since_boot() }
    }

    /// Whether the system was suspended since the last call that returned true, or since the start. Call it often.
    pub(crate) fn has_slept(&mut self, now: Instant) -> bool {
        if now - self.checked_at < Self::INTERVAL {
            return false;
        }
        self.checked_at = now;
        self.take(slept_since_boot())
    }

    fn take(&mut self, slept: Duration) -> bool {
        let noticeable = slept.saturating_sub(self.slept) >= Self::NOTICEABLE;
        if noticeable {
            self.slept = slept;
        }
        noticeable
    }
}

/// Total time that the system has been suspended since boot.
#[cfg(target_os = "linux")]
fn slept_since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    let read = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    let running = read(ClockId::CLOCK_MONOTONIC);
    read(ClockId::CLOCK_BOOTTIME).saturating_sub(running)
}

/// Unknown on this system: the slow poll of the interfaces has to suffice.
#[cfg(not(target_os = "linux"))]
fn slept_since_boot() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspend_is_reported_once_and_clock_jitter_never() {
        let mut watch = SuspendWatch::new();
        let before = watch.slept;
        assert!(!watch.take(before + Duration::from_millis(3)));
        assert!(!watch.take(before));
        assert!(watch.take(before + Duration::from_secs(60)));
        assert!(!watch.take(before + Duration::from_secs(60)));
    }

    #[test]
    fn no_suspend_is_reported_while_the_system_runs() {
        let mut watch = SuspendWatch::new();
        let clock = Clock::new();
        assert!(!watch.has_slept(clock.now()));
    }

    #[test]
    fn an_instant_survives_both_conversions() {
        let clock = Clock::new();
        let later = clock.now() + Duration::from_millis(1234);
        assert_eq!(clock.from_std(clock.to_std(later)), later);
    }

    #[test]
    fn conversions_keep_the_distance_of_instants() {
        let clock = Clock::new();
        let start = std::time::Instant::now();
        let end = start + Duration::from_micros(77);
        assert_eq!(clock.from_std(end) - clock.from_std(start), Duration::from_micros(77));
    }

    #[test]
    fn an_instant_at_the_end_of_time_does_not_panic() {
        let clock = Clock::new();
        assert!(clock.to_std(Instant::from_nanos(u64::MAX)) > std::time::Instant::now());
    }
}
