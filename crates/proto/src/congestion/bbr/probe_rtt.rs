//! The round trip without a queue, and ProbeRTT, which lets the queue run empty to see it.
//!
//! The draft drains the path when no smaller round trip was seen for 5 s. Here it is enough that one came near the smallest:
//! then the queue was as good as empty, and draining it on purpose would cost throughput for nothing. So a path without
//! others on it, one that is idle now and then, and one that the application limits are hardly ever drained.
//!
//! And a round trip is here the mean of a round. Where the delay wanders, as on radio links, the smallest one of all packets
//! may be a third of the usual one without any queue, and a window of two such products would not fill the path.

use std::time::Duration;

use super::{AckSample, Activity, Bbr, Phase, Sibling, State};
use crate::{ByteCount, Instant};

/// `BBR.MinRTTFilterLen`: the smallest round trip of this time counts.
const MEMORY: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`
const INTERVAL: Duration = Duration::from_secs(5);
/// `BBR.ProbeRTTDuration`
const DURATION: Duration = Duration::from_millis(200);
/// `BBR.ProbeRTTCwndGain` = 0.5, in percent.
pub(super) const WINDOW_GAIN: u64 = 50;
/// A round trip longer by this part is near the smallest one, or one longer by [`NEAR_MIN`].
const NEAR: u32 = 16;
const NEAR_MIN: Duration = Duration::from_millis(1);
/// Samples that a mean needs at least.
const SAMPLES: u32 = 4;
/// Longer the controller of one path does not wait for those of others.
const PATIENCE: Duration = Duration::from_secs(1);

/// The smallest round trip, and when to look for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundTrip {
    /// `BBR.min_rtt`
    minimum: Option<Sample>,
    /// `BBR.probe_rtt_min_delay`: the smallest since the last drain.
    recent: Option<Sample>,
    /// Whether the path should be drained.
    due: Option<Due>,
    round: Mean,
}

/// The samples of this round.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: Duration,
    count: u32,
    /// Whether the minimum is a mean, not only the first sample.
    is_known: bool,
}

/// A drain that is due, or on.
#[derive(Debug, Clone, Copy)]
struct Due {
    since: Instant,
    /// The round trip that has not been seen for long.
    missed: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    rtt: Duration,
    at: Instant,
}

impl RoundTrip {
    pub(super) fn minimum(&self) -> Option<Duration> {
        self.minimum.map(|sample| sample.rtt)
    }

    /// Takes note of a round trip.
    pub(super) fn on_ack(&mut self, sample: &AckSample, round_begins: bool) {
        let Some(rtt) = sample.latest_rtt else { return };
        self.round.sum += rtt;
        self.round.count += 1;
        if !self.round.is_known && self.minimum.is_none() {
            self.minimum = Some(Sample { rtt, at: sample.now });
        }
        if round_begins && self.round.count >= SAMPLES {
            let begun = Mean { is_known: true, ..Mean::default() };
            let Mean { sum, count, is_known } = std::mem::replace(&mut self.round, begun);
            if !is_known {
                self.minimum = None;
            }
            self.on_round(sample.now, sum / count);
        }
    }

    /// `UpdateMinRTT`
    fn on_round(&mut self, now: Instant, rtt: Duration) {
        let new = Sample { rtt, at: now };
        let recent = *self.recent.get_or_insert(new);
        if is_near(rtt, recent.rtt) {
            self.recent = Some(Sample { rtt: rtt.min(recent.rtt), at: now });
        } else if now > recent.at + INTERVAL {
            self.recent = Some(new);
            self.due.get_or_insert(Due { since: now, missed: recent.rtt });
        }
        self.due.take_if(|due| is_near(rtt, due.missed));
        let recent = self.recent.unwrap_or(new);
        let is_old = |minimum: Sample| recent.rtt < minimum.rtt || now > minimum.at + MEMORY;
        if self.minimum.is_none_or(is_old) {
            self.minimum = Some(recent);
        }
    }

    /// Whether a round trip near the smallest one was seen since then.
    pub(super) fn was_near_since(&self, then: Instant) -> bool {
        self.recent.is_some_and(|recent| recent.at > then)
    }

    /// The path was drained.
    fn on_drained(&mut self, now: Instant) {
        self.due = None;
        if let Some(recent) = &mut self.recent {
            recent.at = now;
        }
    }
}

fn is_near(rtt: Duration, smallest: Duration) -> bool {
    rtt <= smallest + (smallest / NEAR).max(NEAR_MIN)
}

/// How far ProbeRTT has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dwell {
    /// When it has lasted long enough; `None` until what is in flight has become little.
    until: Option<Instant>,
    /// Whether a round trip has passed since then.
    has_seen_round: bool,
}

impl Bbr {
    /// `CheckProbeRTT`
    pub(super) fn update_probe_rtt(&mut self, sample: &AckSample, siblings: &[Sibling]) {
        let is_on = matches!(self.state, State::ProbeRtt(_));
        if !is_on && self.is_time_to_drain(sample.now, siblings) {
            self.kept_window = self.window;
            self.state = State::ProbeRtt(Dwell::default());
            self.cycle.stop();
            self.rounds.begin();
        }
        self.usage.end_restart();
        let State::ProbeRtt(mut dwell) = self.state else { return };
        if dwell.until.is_none() && sample.in_flight <= self.drained_window() {
            dwell = Dwell { until: Some(sample.now + DURATION), has_seen_round: false };
            self.rounds.begin();
        } else if dwell.until.is_some() && self.rounds.has_begun() {
            dwell.has_seen_round = true;
        }
        self.state = State::ProbeRtt(dwell);
        if dwell.has_seen_round {
            self.leave_probe_rtt(sample.now);
        }
    }

    /// Two paths of a connection are not drained together: the other one carries the data meanwhile.
    fn is_time_to_drain(&self, now: Instant, siblings: &[Sibling]) -> bool {
        let Some(due) = self.round_trip.due.filter(|_| !self.usage.is_restart()) else { return false };
        let is_turn = !siblings.iter().any(|sibling| sibling.activity == Activity::Draining);
        is_turn || now > due.since + PATIENCE
    }

    /// `CheckProbeRTTDone`
    pub(super) fn leave_probe_rtt(&mut self, now: Instant) {
        let State::ProbeRtt(Dwell { until: Some(until), .. }) = self.state else { return };
        if now <= until {
            return;
        }
        self.round_trip.on_drained(now);
        self.window = self.window.max(self.kept_window);
        self.bounds.forget_recent();
        if self.full_pipe.is_reached() {
            self.begin_down(now);
            // What is in flight is little already.
            self.state = State::ProbeBw(Phase::Cruise);
        } else {
            self.state = State::Startup;
        }
    }

    /// The window of ProbeRTT (`ProbeRTTCwnd`).
    pub(super) fn drained_window(&self) -> ByteCount {
        self.product(WINDOW_GAIN).max(self.least_window())
    }
}
