//! The clock of the emulator and the timer that wakes it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use manyway_proto::Instant;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// The current time, in nanoseconds of the system's monotonic clock.
pub(super) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Instant::from_nanos(seconds * NANOS + u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of this thread so far, user and system.
pub(crate) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// A timer of nanosecond resolution whose descriptor becomes readable.
#[derive(Debug)]
pub(super) struct Timer {
    descriptor: OwnedFd,
    /// The current setting, so that setting the same again costs nothing.
    set: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { descriptor: timerfd_create(TimerfdClockId::Monotonic, flags)?, set: None })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Sets the next expiry; a time in the past expires at once.
    pub(super) fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        if self.set == at {
            return Ok(());
        }
        let value = at.map_or(Timespec { tv_sec: 0, tv_nsec: 0 }, |at| {
            // Zero would disable the timer.
            let nanos = at.as_nanos().max(1);
            Timespec {
                tv_sec: i64::try_from(nanos / NANOS).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(nanos % NANOS).unwrap_or(0),
            }
        });
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
        self.set = at;
        Ok(())
    }
}

const NANOS: u64 = 1_000_000_000;
