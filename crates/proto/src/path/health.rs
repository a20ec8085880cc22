//! Silence detection: how long a path may be silent before it becomes suspect.
//!
//! During bulk transfer, acknowledgements arrive every few milliseconds even if a queue is half a second deep. So
//! silence, and not the round-trip time, shows that a path died (spec 6.17, 6.18).

use std::time::Duration;

use crate::Instant;

/// Shortest silence that is significant.
const SHORTEST: Duration = Duration::from_millis(50);
/// The history covers one to two times this.
const HALF_HISTORY: Duration = Duration::from_secs(5);
/// With fewer packets in flight silence proves nothing; the probe timer decides.
pub(crate) const FEWEST_IN_FLIGHT: usize = 4;

/// Remembers the longest gap between acknowledgements while data was in flight.
#[derive(Debug, Clone, Default)]
pub(crate) struct SilenceDetector {
    last_progress: Option<Instant>,
    recent: Option<Duration>,
    before: Option<Duration>,
    turned_at: Option<Instant>,
}

impl SilenceDetector {
    /// An acknowledgement newly acknowledged packets; `in_flight` packets were in flight before it.
    pub(crate) fn on_progress(&mut self, now: Instant, in_flight: usize) {
        if let Some(last) = self.last_progress.filter(|_| in_flight >= FEWEST_IN_FLIGHT) {
            let gap = now - last;
            if self.turned_at.is_none_or(|turned| now - turned > HALF_HISTORY) {
                self.before = self.recent.take();
                self.turned_at = Some(now);
            }
            self.recent = Some(self.recent.unwrap_or_default().max(gap));
        }
        self.last_progress = Some(now);
    }

    /// The path was idle or dead: the gap that follows says nothing about it.
    pub(crate) fn on_pause(&mut self) {
        self.last_progress = None;
    }

    /// The silence that makes the path suspect, at most one probe timeout.
    pub(crate) fn limit(&self, smoothed_rtt: Duration, probe_timeout: Duration) -> Duration {
        let Some(longest) = self.recent.max(self.before) else { return probe_timeout };
        let usual = (longest * 3).max(smoothed_rtt / 4 + Duration::from_millis(30));
        usual.max(SHORTEST).min(probe_timeout.max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::SilenceDetector;
    use crate::Instant;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_limit_follows_the_longest_gap_and_forgets_it() {
        let mut detector = SilenceDetector::default();
        let mut now = Instant::from_nanos(0);
        assert_eq!(detector.limit(20 * MS, 200 * MS), 200 * MS);
        for gap in [5, 5, 30, 5] {
            now += gap * MS;
            detector.on_progress(now, 10);
        }
        assert_eq!(detector.limit(20 * MS, 200 * MS), 90 * MS);
        assert_eq!(detector.limit(20 * MS, 70 * MS), 70 * MS);
        for _ in 0..3000 {
            now += 5 * MS;
            detector.on_progress(now, 10);
        }
        assert_eq!(detector.limit(20 * MS, 200 * MS), 50 * MS);
    }

    #[test]
    fn a_gap_with_few_packets_in_flight_is_ignored() {
        let mut detector = SilenceDetector::default();
        detector.on_progress(Instant::from_nanos(0), 10);
        detector.on_progress(Instant::from_nanos(0) + 900 * MS, 3);
        assert_eq!(detector.limit(20 * MS, 300 * MS), 300 * MS);
    }
}
