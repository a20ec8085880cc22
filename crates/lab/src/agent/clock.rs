//! The clock that all processes of a machine share.

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

/// The same moment in nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn nanos_of(moment: std::time::Instant) -> u64 {
    let (now, now_nanos) = (std::time::Instant::now(), nanos());
    let whole = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    match moment.checked_duration_since(now) {
        Some(ahead) => now_nanos.saturating_add(whole(ahead)),
        None => now_nanos.saturating_sub(whole(now.saturating_duration_since(moment))),
    }
}

/// The same moment for timers.
pub(crate) fn moment_of(at: u64) -> Instant {
    let (now, now_nanos) = (Instant::now(), nanos());
    let ahead = now.checked_add(Duration::from_nanos(at.saturating_sub(now_nanos)));
    let moment =
        ahead.and_then(|ahead| ahead.checked_sub(Duration::from_nanos(now_nanos.saturating_sub(at))));
    moment.unwrap_or(now)
}

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
    fn a_moment_survives_the_way_to_another_process() {
        let moment = std::time::Instant::now();
        let back = moment_of(nanos_of(moment)).into_std();
        let error = back.max(moment).duration_since(back.min(moment));
        assert!(error < Duration::from_secs(1), "{error:?}");
    }
}
