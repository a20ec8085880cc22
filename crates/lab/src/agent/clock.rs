//! The clock shared by all processes of a machine.

use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Nanoseconds of `CLOCK_MONOTONIC`, on which [`std::time::Instant`] is built, too.
pub(crate) fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let whole = |part: i64| u64::try_from(part).unwrap_or(0);
    whole(now.tv_sec) * 1_000_000_000 + whole(now.tv_nsec)
}

/// Converts an instant to nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn nanos_of(moment: std::time::Instant) -> u64 {
    let (known, known_nanos) = *anchor();
    let whole = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    match moment.checked_duration_since(known) {
        Some(ahead) => known_nanos.saturating_add(whole(ahead)),
        None => known_nanos.saturating_sub(whole(known.saturating_duration_since(moment))),
    }
}

/// Converts nanoseconds to an instant for timers.
pub(crate) fn moment_of(at: u64) -> Instant {
    let (known, known_nanos) = *anchor();
    let ahead = known.checked_add(Duration::from_nanos(at.saturating_sub(known_nanos)));
    let moment =
        ahead.and_then(|ahead| ahead.checked_sub(Duration::from_nanos(known_nanos.saturating_sub(at))));
    Instant::from_std(moment.unwrap_or(known))
}

/// The same moment on both clocks. They cannot be read at once, and a busy machine may pause between two readings. All
/// conversions of a process use one pair, the one of several that was read fastest.
fn anchor() -> &'static (std::time::Instant, u64) {
    static ANCHOR: OnceLock<(std::time::Instant, u64)> = OnceLock::new();
    ANCHOR.get_or_init(|| {
        let read = |_| {
            let (before, moment, after) = (nanos(), std::time::Instant::now(), nanos());
            (after - before, (moment, before + (after - before) / 2))
        };
        let (_, pair) = (0..READINGS).map(read).min_by_key(|(gap, _)| *gap).unwrap_or_else(|| read(0));
        pair
    })
}

const READINGS: u32 = 20;

/// Processor time so far, user and system, of this process or of its children that have ended.
pub(crate) fn processor_time(who: UsageWho) -> Duration {
    let Ok(usage) = getrusage(who) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_survives_the_transfer_to_another_process() {
        let moment = std::time::Instant::now();
        for ahead in (0..1_000_000).step_by(1_001) {
            let later = moment + Duration::from_nanos(ahead);
            assert_eq!(nanos_of(later) - nanos_of(moment), ahead);
            assert_eq!(moment_of(nanos_of(later)).into_std(), later);
        }
    }

    #[test]
    fn both_clocks_agree() {
        // A pause between these readings only widens the tolerance.
        let is_between = |_| {
            let (before, between, after) = (nanos(), nanos_of(std::time::Instant::now()), nanos());
            before.saturating_sub(TOLERANCE) <= between && between <= after + TOLERANCE
        };
        assert!((0..1_000).all(is_between));
    }

    /// Error of the anchor, in nanoseconds: the fastest of its readings takes less.
    const TOLERANCE: u64 = 20_000;
}
