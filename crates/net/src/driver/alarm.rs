//! Wakes the driver at its next deadline.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// One deadline at a time, exact to some ten microseconds where the system allows.
///
/// The timers of the runtime count whole milliseconds, rounded up. On a short path that is a tenth of the round-trip
/// time, added to each acknowledgement and each paced burst.
#[derive(Debug)]
pub(super) struct Alarm {
    #[cfg(all(target_os = "linux", not(manyway_portable)))]
    exact: Option<exact::Timer>,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    /// An alarm that is not set. Call it within a runtime.
    pub(super) fn new() -> Self {
        Self {
            // Without a kernel timer, as when there are no descriptors left, the runtime's timer is used.
            #[cfg(all(target_os = "linux", not(manyway_portable)))]
            exact: exact::Timer::new().ok(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Ready once the instant is reached. Otherwise the task is woken then, unless a later call sets another instant.
    pub(super) fn poll_at(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<()> {
        #[cfg(all(target_os = "linux", not(manyway_portable)))]
        if let Some(exact) = &mut self.exact {
            match exact.poll_at(context, at) {
                Poll::Ready(Err(error)) => {
                    tracing::warn!(%error, "the system's timer fails: a coarser one does from now on");
                    self.exact = None;
                }
                Poll::Ready(Ok(())) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.sleep.deadline() != at {
            self.sleep.as_mut().reset(at);
        }
        Future::poll(self.sleep.as_mut(), context)
    }
}

#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod exact {
    use std::io;
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    /// A timer of the kernel.
    #[derive(Debug)]
    pub(super) struct Timer {
        timer: TimerFd,
        /// Readable once the timer has expired.
        expirations: AsyncFd<OwnedFd>,
        /// The instant to which the timer is set, until it expires.
        set_to: Option<Instant>,
    }

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            let expirations = timer.as_fd().try_clone_to_owned()?;
            // SAFETY: the descriptor stays open, and the same, until `AsyncFd` drops it.
            let expirations = unsafe { AsyncFd::register_with_interest(expirations, Interest::READABLE)? };
            Ok(Self { timer, expirations, set_to: None })
        }

        pub(super) fn poll_at(&mut self, context: &mut Context<'_>, at: Instant) -> Poll<io::Result<()>> {
            if self.set_to != Some(at) {
                let rest = at.saturating_duration_since(Instant::now());
                if rest.is_zero() {
                    return Poll::Ready(Ok(()));
                }
                let once = Expiration::OneShot(TimeSpec::from_duration(rest.min(LONGEST)));
                self.timer.set(once, TimerSetTimeFlags::empty())?;
                self.set_to = Some(at);
            }
            loop {
                // Setting the timer forgets its expirations, so they need not be read.
                ready!(self.expirations.poll_read_ready(context))?.clear_ready();
                // Otherwise an earlier setting has expired.
                if at <= Instant::now() {
                    self.set_to = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Ten years: an instant that is centuries ahead would overflow the kernel's clock.
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn an_alarm_expires_at_its_instant_and_not_before_even_after_others_were_set() {
        let mut alarm = Alarm::new();
        let start = Instant::now();
        let soon = start + Duration::from_millis(20);
        poll_fn(|context| {
            for other in [1, 3600, 1 << 40, 5] {
                assert!(alarm.poll_at(context, start + Duration::from_secs(other)).is_pending());
            }
            alarm.poll_at(context, soon)
        })
        .await;
        assert!(start.elapsed() >= Duration::from_millis(20));
        // Past instants are ready at once, and an expired one does not count for the next.
        poll_fn(|context| alarm.poll_at(context, start)).await;
        let later = Instant::now() + Duration::from_millis(5);
        poll_fn(|context| alarm.poll_at(context, later)).await;
        assert!(Instant::now() >= later);
    }
}
