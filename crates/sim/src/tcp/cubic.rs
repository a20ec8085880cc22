//! CUBIC as Linux has it. It differs from RFC 9438 where that shows: the window is one of whole segments and follows its
//! target over a round trip, the estimate of Reno keeps its slower growth, and slow start ends with HyStart.

use std::time::Duration;

use manyway_proto::congestion::{
    AckSample, CongestionController, ControllerConfig, CubicCurve, LossSample, Subflow,
};
use manyway_proto::{ByteCount, Instant, Rate};

/// β: the part of the window that remains after a congestion event, in 1/1024.
const BETA: u64 = 717;
/// Growth of the estimate of Reno in a round trip: 3·(1 − β) / (1 + β).
const ALPHA: (u64, u64) = (9, 17);
/// A window above its target grows by a segment in so many windows.
const IDLE: u64 = 100;
/// HyStart looks at windows from so many segments, at so many round trips of a round, and at acknowledgements in a row
/// that are no further apart.
const LOW_WINDOW: u64 = 16;
const SAMPLES: u32 = 8;
const IN_A_ROW: Duration = Duration::from_millis(2);

/// The controller.
#[derive(Debug)]
pub(crate) struct LinuxCubic {
    segment: u64,
    window: u64,
    threshold: u64,
    /// The window before the last reduction, or less for fast convergence.
    plateau: Option<u64>,
    epoch: Option<Epoch>,
    /// Bytes that were acknowledged since the window grew.
    acknowledged: u64,
    minimum_rtt: Duration,
    round: Round,
}

/// Congestion avoidance since a reduction.
#[derive(Debug)]
struct Epoch {
    start: Instant,
    curve: CubicCurve,
    /// The window that Reno would have, in 1/1024 of a byte.
    estimate: u64,
}

/// A round trip of slow start.
#[derive(Debug)]
struct Round {
    /// The number of the packet whose arrival ends it.
    end: u64,
    start: Instant,
    /// The last of acknowledgements in a row.
    last: Instant,
    samples: u32,
    rtt: Duration,
}

impl LinuxCubic {
    pub(crate) fn new(config: &ControllerConfig) -> Self {
        let start = Instant::from_nanos(0);
        Self {
            segment: u64::from(config.max_datagram),
            window: config.initial_bytes().get(),
            threshold: u64::MAX,
            plateau: None,
            epoch: None,
            acknowledged: 0,
            minimum_rtt: Duration::MAX,
            round: Round { end: 0, start, last: start, samples: 0, rtt: Duration::MAX },
        }
    }

    /// Ends slow start once the delay has grown, or once acknowledgements came in a row for half a round trip.
    fn watch(&mut self, sample: &AckSample) {
        if self.window < LOW_WINDOW * self.segment {
            return;
        }
        let round = &mut self.round;
        if sample.largest_acked >= round.end {
            let (end, now) = (sample.next_packet_number, sample.now);
            *round = Round { end, start: now, last: now, samples: 0, rtt: Duration::MAX };
        }
        if sample.now - round.last <= IN_A_ROW {
            round.last = sample.now;
            if sample.now - round.start > self.minimum_rtt / 2 {
                self.threshold = self.window;
            }
        }
        if let Some(rtt) = sample.latest_rtt.filter(|_| round.samples < SAMPLES) {
            round.rtt = round.rtt.min(rtt);
            round.samples += 1;
            let rise = (self.minimum_rtt / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
            if round.samples == SAMPLES && round.rtt > self.minimum_rtt.saturating_add(rise) {
                self.threshold = self.window;
            }
        }
    }

    fn avoid_congestion(&mut self, sample: &AckSample, bytes: u64) {
        let (segment, window) = (self.segment, self.window);
        let size = u16::try_from(segment).unwrap_or(u16::MAX);
        let plateau = self.plateau.unwrap_or(window);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: sample.now,
            curve: CubicCurve::new(ByteCount(window), ByteCount(plateau), size),
            estimate: window * 1024,
        });
        let elapsed = sample.now - epoch.start;
        epoch.estimate += bytes * 1024 * segment / window * ALPHA.0 / ALPHA.1;
        let reno = epoch.estimate / 1024 / segment * segment;
        // None is known if nothing but repetitions was acknowledged.
        let ahead = Some(self.minimum_rtt).filter(|rtt| *rtt < Duration::MAX).unwrap_or_default();
        let target = epoch.curve.at(elapsed + ahead, size).get().max(reno);
        // Bytes to acknowledge for a segment more: at least two segments.
        let pause = match target.saturating_sub(window) {
            0 => IDLE * window,
            missing => (window * segment / missing).max(2 * segment),
        };
        // What was acknowledged while the target was nearer counts for one segment only.
        if self.acknowledged >= pause {
            self.acknowledged = 0;
            self.window += segment;
        }
        self.acknowledged += bytes;
        self.window += self.acknowledged / pause * segment;
        self.acknowledged %= pause;
    }
}

impl CongestionController for LinuxCubic {
    fn name(&self) -> &'static str {
        "linux-cubic"
    }

    fn on_ack(&mut self, sample: &AckSample, _subflows: &[Subflow]) {
        self.minimum_rtt = self.minimum_rtt.min(sample.latest_rtt.unwrap_or(Duration::MAX));
        let mut bytes = sample.bytes_outside_recovery.get();
        if !sample.allows_growth_of(self.window()) {
            return;
        }
        if self.is_in_slow_start() {
            self.watch(sample);
            let growth = bytes.min(self.threshold.saturating_sub(self.window));
            self.window += growth;
            bytes -= growth;
        }
        if bytes > 0 && !self.is_in_slow_start() {
            self.avoid_congestion(sample, bytes);
        }
    }

    fn on_loss(&mut self, _sample: &LossSample) {
        let is_below = self.plateau.is_some_and(|plateau| self.window < plateau);
        self.plateau = Some(if is_below { self.window * (1024 + BETA) / 2048 } else { self.window });
        let kept = self.window * BETA / 1024 / self.segment * self.segment;
        self.window = kept.max(2 * self.segment);
        (self.threshold, self.epoch, self.acknowledged) = (self.window, None, 0);
    }

    fn on_spurious_loss(&mut self, _now: Instant) {}

    fn on_persistent_congestion(&mut self, _now: Instant) {
        (self.plateau, self.epoch, self.acknowledged) = (None, None, 0);
        self.window = self.segment;
    }

    fn on_restart(&mut self, _now: Instant, window: ByteCount) {
        self.window = window.get();
    }

    fn on_max_datagram(&mut self, size: u16) {
        self.segment = u64::from(size);
    }

    fn window(&self) -> ByteCount {
        ByteCount(self.window)
    }

    fn pacing_rate(&self, _smoothed_rtt: Duration) -> Rate {
        Rate::MAX
    }

    fn is_in_slow_start(&self) -> bool {
        self.window < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Acknowledgements of a segment each, after a round trip.
    fn acknowledge(cubic: &mut LinuxCubic, (from, gap): (Instant, Duration), rtt: Duration, segments: u64) {
        for number in 0..segments {
            let mut sample = AckSample::default();
            sample.now = from + gap * u32::try_from(number).unwrap();
            (sample.bytes, sample.bytes_outside_recovery) = (ByteCount(1000), ByteCount(1000));
            sample.pipe = cubic.window();
            sample.latest_rtt = Some(rtt);
            sample.largest_acked = number;
            sample.next_packet_number = segments;
            cubic.on_ack(&sample, &[]);
        }
    }

    #[test]
    fn slow_start_ends_when_the_delay_grows_by_an_eighth_or_acknowledgements_come_in_a_row() {
        let start = || LinuxCubic::new(&ControllerConfig::new(1000));
        let now = Instant::from_nanos(1);
        let mut cubic = start();
        acknowledge(&mut cubic, (now, 5 * MS), 80 * MS, 10);
        assert!(cubic.is_in_slow_start() && cubic.window().get() == 20_000);
        acknowledge(&mut cubic, (now + 80 * MS, 5 * MS), 89 * MS, 20);
        assert!(cubic.is_in_slow_start(), "less than an eighth");
        acknowledge(&mut cubic, (now + 160 * MS, 5 * MS), 91 * MS, 40);
        assert!(!cubic.is_in_slow_start() && cubic.window().get() < 70_000, "{cubic:?}");
        let mut cubic = start();
        acknowledge(&mut cubic, (now, MS), 80 * MS, 90);
        assert!(!cubic.is_in_slow_start(), "{cubic:?}");
    }

    #[test]
    fn the_window_grows_by_nine_seventeenths_of_a_segment_in_a_round_trip_after_a_loss() {
        let mut cubic = LinuxCubic::new(&ControllerConfig::new(1000));
        cubic.on_loss(&LossSample::default());
        assert_eq!(cubic.window().get(), 7000);
        // Of so small a window the curve is still flat: 17 round trips of 7 to 15 segments.
        let now = Instant::from_nanos(1);
        acknowledge(&mut cubic, (now, MS / 10), 10 * MS, 17 * 10);
        assert!((14_000..=16_000).contains(&cubic.window().get()), "{}", cubic.window());
    }
}
