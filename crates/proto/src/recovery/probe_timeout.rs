//! Probe timeout with back-off (RFC 9002, section 6.2).

use std::time::Duration;

use super::rtt::RttEstimator;
use crate::Instant;

/// Shortest timeout.
const SHORTEST: Duration = Duration::from_millis(10);
/// Least allowance for RTT variation.
const VARIATION_MIN: Duration = Duration::from_millis(2);
/// Longest back-off while another path carries the data.
const CAP_WITH_OTHERS: Duration = Duration::from_secs(1);
/// Longest back-off of the only path.
const CAP_ALONE: Duration = Duration::from_secs(3);

/// The probe timer of one path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProbeTimer {
    pub(super) count: u32,
    /// Start of the timer: an ack-eliciting packet left, an acknowledgement arrived, or the timer fired.
    since: Instant,
    /// The same, but packets that left while others were in flight do not restart it.
    unanswered_since: Instant,
    max_ack_delay: Duration,
    is_other_path_alive: bool,
}

impl ProbeTimer {
    pub(crate) const fn new(max_ack_delay: Duration) -> Self {
        let begin = Instant::from_nanos(0);
        Self { count: 0, since: begin, unanswered_since: begin, max_ack_delay, is_other_path_alive: false }
    }

    /// The probe timeout, without back-off.
    pub(crate) fn timeout(&self, rtt: &RttEstimator) -> Duration {
        (Self::round_trip(rtt) + self.max_ack_delay).max(SHORTEST)
    }

    /// How long the peer may delay an acknowledgement.
    pub(crate) fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }

    pub(crate) fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    pub(crate) fn is_other_path_alive(&self) -> bool {
        self.is_other_path_alive
    }

    pub(crate) fn set_other_path_alive(&mut self, alive: bool) {
        self.is_other_path_alive = alive;
    }

    /// When the timer fires if packets are in flight. If no other path works, it fires at most twice the timeout
    /// after the first unacknowledged packet: a sender of little data whose intervals are shorter than the timer
    /// would otherwise never notice a dead path. Beside other paths silence detection notices it.
    pub(crate) fn deadline(&self, rtt: &RttEstimator) -> Instant {
        let timeout = self.with_back_off(rtt);
        let (deadline, bound) = (self.since + timeout, self.unanswered_since + timeout * 2);
        if self.is_other_path_alive { deadline } else { deadline.min(bound) }
    }

    /// A packet left; `is_first` if nothing else is in flight.
    pub(crate) fn on_sent(&mut self, now: Instant, is_first: bool) {
        if is_first {
            self.rearm(now);
        } else {
            self.since = now;
        }
    }

    /// Restarts the timer at `now`.
    pub(crate) fn rearm(&mut self, now: Instant) {
        (self.since, self.unanswered_since) = (now, now);
    }

    /// An acknowledgement arrived: the path is alive.
    pub(crate) fn on_progress(&mut self, now: Instant) {
        self.count = 0;
        self.rearm(now);
    }

    /// The timer fired. Returns the number of consecutive timeouts.
    pub(crate) fn on_fired(&mut self, now: Instant) -> u32 {
        self.count = self.count.saturating_add(1);
        self.rearm(now);
        self.count
    }

    fn round_trip(rtt: &RttEstimator) -> Duration {
        rtt.with_variation(VARIATION_MIN)
    }

    /// PTO probes elicit an immediate acknowledgement, so their timeout needs no allowance for its delay.
    fn with_back_off(&self, rtt: &RttEstimator) -> Duration {
        if self.count == 0 {
            return self.timeout(rtt);
        }
        let cap = if self.is_other_path_alive { CAP_WITH_OTHERS } else { CAP_ALONE };
        let base = Self::round_trip(rtt).max(SHORTEST);
        // 2^20 times 10 ms is above any cap.
        base.saturating_mul(1 << self.count.min(20)).min(cap.max(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn waits(timer: &mut ProbeTimer, rtt: &RttEstimator, count: usize) -> Vec<Duration> {
        let mut now = Instant::from_nanos(0);
        timer.rearm(now);
        let mut waits = Vec::new();
        for _ in 0..count {
            let deadline = timer.deadline(rtt);
            waits.push(deadline - now);
            now = deadline;
            timer.on_fired(now);
        }
        waits
    }

    #[test]
    fn the_timeout_doubles_up_to_a_cap_that_depends_on_other_paths() {
        let mut rtt = RttEstimator::new(ms(100));
        rtt.on_sample(ms(40), ms(0)); // variation 20 ms
        let mut timer = ProbeTimer::new(ms(25));
        assert_eq!(waits(&mut timer, &rtt, 6), [ms(145), ms(240), ms(480), ms(960), ms(1920), ms(3000)]);
        let mut timer = ProbeTimer::new(ms(25));
        timer.set_other_path_alive(true);
        assert_eq!(waits(&mut timer, &rtt, 5), [ms(145), ms(240), ms(480), ms(960), ms(1000)]);
        timer.on_progress(Instant::from_nanos(0));
        assert_eq!(timer.count, 0);
        assert_eq!(timer.deadline(&rtt), Instant::from_nanos(145_000_000));
    }

    #[test]
    fn a_steady_sender_notices_a_dead_path_after_twice_the_timeout() {
        let mut rtt = RttEstimator::new(ms(100));
        rtt.on_sample(ms(40), ms(0)); // variation 20 ms
        let mut timer = ProbeTimer::new(ms(25));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        timer.on_sent(at(0), true);
        assert_eq!(timer.deadline(&rtt), at(145));
        (1..6).for_each(|packet| timer.on_sent(at(packet * 50), false));
        assert_eq!(timer.deadline(&rtt), at(290));
        timer.set_other_path_alive(true);
        assert_eq!(timer.deadline(&rtt), at(395), "others tell of silence");
        timer.set_other_path_alive(false);
        timer.on_progress(at(260));
        timer.on_sent(at(300), false);
        assert_eq!(timer.deadline(&rtt), at(445));
    }

    #[test]
    fn the_timeout_is_never_below_ten_milliseconds_nor_below_the_round_trip() {
        let mut rtt = RttEstimator::new(ms(1));
        rtt.on_sample(Duration::from_micros(100), ms(0));
        assert_eq!(ProbeTimer::new(ms(0)).timeout(&rtt), ms(10));
        let slow = RttEstimator::new(ms(4000));
        let mut timer = ProbeTimer::new(ms(25));
        timer.set_other_path_alive(true);
        assert!(waits(&mut timer, &slow, 4).iter().all(|wait| *wait >= ms(12_000)));
    }
}
