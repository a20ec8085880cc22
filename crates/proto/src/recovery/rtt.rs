//! Round-trip time: latest, smoothed, variation, minimum (RFC 9002, section 5).

use std::num::NonZeroU64;
use std::time::Duration;

/// Granularity of timers (RFC 9002, section 6.1.2, there `kGranularity`).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// RTT estimate of a path. Times are in nanoseconds to save memory: a connection has many of them, also when idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RttEstimator {
    latest: u64,
    smoothed: u64,
    variation: u64,
    /// `None` until the first sample, and after [`Self::forget_minimum`].
    minimum: Option<NonZeroU64>,
    /// The smallest average; `None` before [`Self::AVERAGED`] samples.
    base: Option<NonZeroU64>,
    /// Number of samples, up to the point where it stops mattering.
    samples: u8,
}

impl RttEstimator {
    /// Samples that make an average: an older sample weighs less than all of these together.
    const AVERAGED: u8 = 8;

    /// Assumes a round trip until one is measured.
    pub(crate) fn new(initial: Duration) -> Self {
        let initial = nanos(initial.max(GRANULARITY));
        Self {
            latest: initial,
            smoothed: initial,
            variation: initial / 2,
            minimum: None,
            base: None,
            samples: 0,
        }
    }

    /// The newest sample.
    pub(crate) fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest)
    }

    /// The moving average.
    pub(crate) fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// The mean deviation from the average.
    pub(crate) fn variation(&self) -> Duration {
        Duration::from_nanos(self.variation)
    }

    /// The average and four times the variation, or `least` if that is longer than these four: what hardly any packet
    /// exceeds (RFC 9002, section 6.2.1).
    pub(crate) fn with_variation(&self, least: Duration) -> Duration {
        Duration::from_nanos(self.smoothed + (self.variation * 4).max(nanos(least)))
    }

    /// The smallest sample; the average while there is none.
    pub(crate) fn minimum(&self) -> Duration {
        self.minimum.map_or_else(|| self.smoothed(), |minimum| Duration::from_nanos(minimum.get()))
    }

    /// The base RTT: the smallest average, which is the round trip without a queue. On a path with jitter the
    /// smallest single sample is too rare to be typical. The smallest sample while there are few.
    pub(crate) fn base(&self) -> Duration {
        self.base.map_or_else(|| self.minimum(), |base| Duration::from_nanos(base.get()))
    }

    /// Whether any sample was taken.
    pub(crate) fn has_sample(&self) -> bool {
        self.samples > 0
    }

    /// The longer of average and newest sample: the time that packets need at least.
    pub(crate) fn longest(&self) -> Duration {
        self.smoothed().max(self.latest())
    }

    /// Assumes a round trip known from elsewhere; has no effect after the first sample.
    pub(crate) fn seed(&mut self, rtt: Duration) {
        if !self.has_sample() {
            *self = Self::new(rtt);
        }
    }

    /// Forgets the minimum, because the route may have changed (RFC 9002, section 5.2).
    pub(crate) fn forget_minimum(&mut self) {
        (self.minimum, self.base, self.samples) = (None, None, self.samples.min(1));
    }

    /// Adds a sample; `delay` is the acknowledgement delay that the peer reports, bounded by the caller.
    pub(crate) fn on_sample(&mut self, sample: Duration, delay: Duration) {
        let sample = nanos(sample).max(1);
        self.minimum = least(self.minimum, sample);
        self.samples = self.samples.saturating_add(1);
        if self.samples == 1 {
            (self.latest, self.smoothed, self.variation) = (sample, sample, sample / 2);
            return;
        }
        self.average(sample, nanos(delay));
        if self.samples >= Self::AVERAGED {
            self.base = least(self.base, self.smoothed);
        }
    }

    /// Adds a sample whose acknowledgement returned over another path: timers use it, but it does not lower the
    /// minimum. Not for the first sample.
    pub(crate) fn on_mixed_sample(&mut self, sample: Duration, delay: Duration) {
        self.average(nanos(sample).max(1), nanos(delay));
    }

    fn average(&mut self, sample: u64, delay: u64) {
        self.latest = sample;
        // RFC 9002, section 5.3: the reported delay never lowers a sample below the minimum.
        let minimum = self.minimum.map_or(sample, NonZeroU64::get);
        let adjusted = if sample >= minimum + delay { sample - delay } else { sample };
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }
}

fn least(known: Option<NonZeroU64>, new: u64) -> Option<NonZeroU64> {
    let new = NonZeroU64::new(new);
    known.map_or(new, |known| new.map(|new| new.min(known)))
}

/// A duration within the life of a connection; more than an hour counts as an hour.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.min(LONGEST).as_nanos()).unwrap_or(u64::MAX)
}

const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_sample_replaces_the_assumption_and_the_second_moves_it_by_an_eighth() {
        let mut rtt = RttEstimator::new(ms(100));
        assert!(!rtt.has_sample());
        rtt.on_sample(ms(40), ms(25));
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.minimum()), (ms(40), ms(20), ms(40)));
        // 90 ms with 10 ms of delay count as 80 ms.
        rtt.on_sample(ms(90), ms(10));
        assert_eq!((rtt.latest(), rtt.smoothed(), rtt.variation()), (ms(90), ms(45), ms(25)));
        // A delay that would lead below the minimum is ignored.
        rtt.on_sample(ms(45), ms(10));
        assert_eq!((rtt.smoothed(), rtt.minimum()), (ms(45), ms(40)));
    }

    #[test]
    fn a_seed_counts_only_before_the_first_sample() {
        let mut rtt = RttEstimator::new(ms(100));
        rtt.seed(ms(30));
        assert_eq!((rtt.smoothed(), rtt.has_sample()), (ms(30), false));
        rtt.on_sample(ms(20), ms(0));
        rtt.seed(ms(300));
        assert_eq!(rtt.smoothed(), ms(20));
    }

    #[test]
    fn one_short_round_trip_does_not_set_the_base() {
        let mut rtt = RttEstimator::new(ms(100));
        rtt.on_sample(ms(3), ms(0));
        assert_eq!(rtt.base(), ms(3));
        for _ in 0..40 {
            rtt.on_sample(ms(35), ms(0));
        }
        assert!(rtt.minimum() == ms(3) && (ms(20)..ms(35)).contains(&rtt.base()), "{rtt:?}");
        rtt.forget_minimum();
        rtt.on_sample(ms(50), ms(0));
        assert_eq!((rtt.minimum(), rtt.base()), (ms(50), ms(50)));
    }

    proptest! {
        #[test]
        fn the_average_stays_between_the_smallest_and_the_largest_sample(
            samples in proptest::collection::vec((1u64..2_000_000_000, 0u64..25_000_000), 1..60)
        ) {
            let mut rtt = RttEstimator::new(ms(100));
            for (sample, delay) in &samples {
                rtt.on_sample(Duration::from_nanos(*sample), Duration::from_nanos(*delay));
            }
            let smallest = samples.iter().map(|(s, _)| *s).min().unwrap();
            let largest = samples.iter().map(|(s, _)| *s).max().unwrap();
            prop_assert_eq!(rtt.minimum(), Duration::from_nanos(smallest));
            // At most eight rounding errors of a nanosecond.
            prop_assert!(rtt.smoothed() + Duration::from_nanos(8) >= rtt.minimum());
            prop_assert!(rtt.smoothed() <= Duration::from_nanos(largest));
        }
    }
}
