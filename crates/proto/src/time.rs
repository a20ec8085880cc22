//! Time in the core: nanoseconds since an epoch that the driver chooses.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A moment on the driver's monotonic clock; the core never reads a clock itself.
///
/// ```
/// use manyway_proto::Instant;
/// use std::time::Duration;
/// let start = Instant::from_nanos(5);
/// assert_eq!((start + Duration::from_nanos(3)) - start, Duration::from_nanos(3));
/// assert_eq!(start - (start + Duration::from_nanos(3)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// One more than the nanoseconds, so that an `Option<Instant>` takes no more memory than an `Instant`.
    NonZeroU64,
);

impl Instant {
    /// The time `nanos` nanoseconds after the driver's epoch, 2⁶⁴ − 2 at most.
    pub const fn from_nanos(nanos: u64) -> Self {
        match NonZeroU64::new(nanos.saturating_add(1)) {
            Some(nanos) => Self(nanos),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Nanoseconds since the driver's epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Nanoseconds from an earlier time to this one: what the difference is, without the arithmetic of a [`Duration`].
    pub(crate) fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

impl Default for Instant {
    /// The driver's epoch.
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.as_nanos().saturating_sub(nanos))
    }
}

/// The time from the right moment to the left one, zero if the left one is earlier.
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.as_nanos()))
    }
}

/// The earliest of several deadlines.
#[derive(Debug, Default)]
pub(crate) struct Earliest(Option<Instant>);

impl Earliest {
    pub(crate) fn take(&mut self, deadline: Option<Instant>) {
        self.0 = match (self.0, deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    pub(crate) fn get(self) -> Option<Instant> {
        self.0
    }
}
