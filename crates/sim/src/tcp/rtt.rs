//! Round-trip times and the timeouts that follow from them (RFC 6298), with the bounds of Linux.

use std::time::Duration;

/// The estimate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RoundTrip {
    pub(super) smoothed: Option<Duration>,
    pub(super) variation: Duration,
    pub(super) minimum: Option<Duration>,
}

/// The timeout before the first sample.
const FIRST: Duration = Duration::from_secs(1);
/// A timeout exceeds the smoothed time by at least this.
const LEAST_MARGIN: Duration = Duration::from_millis(200);
/// Longest timeout.
const LONGEST: Duration = Duration::from_secs(120);
/// Added to the probe timeout of a single segment, whose acknowledgement may be delayed.
const DELAYED_ACK: Duration = Duration::from_millis(200);

impl RoundTrip {
    pub(super) fn on_sample(&mut self, sample: Duration) {
        self.minimum = Some(self.minimum.map_or(sample, |minimum| minimum.min(sample)));
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(sample), sample / 2);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
        self.smoothed = Some((smoothed * 7 + sample) / 8);
    }

    /// The retransmission timeout after this many in a row.
    pub(super) fn timeout(&self, in_a_row: u32) -> Duration {
        let once = self.smoothed.map_or(FIRST, |smoothed| smoothed + (self.variation * 4).max(LEAST_MARGIN));
        (once * (1 << in_a_row.min(16))).min(LONGEST)
    }

    /// The time after which the end of a flight is probed (RFC 8985, section 7).
    pub(super) fn probe_timeout(&self, is_single: bool) -> Duration {
        let Some(smoothed) = self.smoothed else { return FIRST };
        let margin = if is_single { DELAYED_ACK } else { Duration::ZERO };
        (smoothed * 2 + margin).min(self.timeout(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_two_hundred_milliseconds_above_a_steady_round_trip_and_doubles() {
        let mut times = RoundTrip::default();
        assert_eq!(times.timeout(0), FIRST);
        for _ in 0..50 {
            times.on_sample(Duration::from_millis(40));
        }
        assert_eq!(times.timeout(0).as_millis(), 240);
        assert_eq!(times.timeout(2).as_millis(), 960);
        assert_eq!(times.timeout(40), LONGEST);
        assert_eq!(times.probe_timeout(false).as_millis(), 80);
        assert_eq!(times.probe_timeout(true).as_millis(), 240);
    }
}
