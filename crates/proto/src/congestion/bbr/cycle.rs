//! When ProbeBW probes for more bandwidth, and what it knows of the last probe.

use std::time::Duration;

use super::random::Random;
use crate::{ByteCount, Instant, Rate};

/// The least duration of a cycle, plus up to [`WAIT_SPREAD`], unless its rounds end before.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_SPREAD: Duration = Duration::from_secs(1);
/// The first cycle is shorter by up to this many rounds, so that equal paths that start together do not probe
/// together.
const FIRST_SPREAD: u64 = 32;
/// A round cannot have more than 2^30 steps.
const SLOPE_MAX: u32 = 30;

/// `BBR.ack_phase`: what arriving acknowledgements reveal about the last probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feedback {
    /// Nothing.
    None,
    /// The pipe is being refilled for a probe.
    Refilling,
    /// A probe started, its first packets are in flight.
    Starting,
    /// A probe is in progress, and these are its packets.
    Probing,
    /// The probe is over, its last packets arrive.
    Stopping,
}

/// Result of the last probe.
#[derive(Debug, Clone, Copy, Default)]
struct LastProbe {
    /// `BBR.prev_probe_too_high`: it lost too much.
    was_too_high: bool,
    /// `BBR.prev_probe_precautionary`: it stopped where the probe before had lost too much.
    was_cautious: bool,
}

/// State of the ProbeBW cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    random: Random,
    feedback: Feedback,
    /// `BBR.is_bw_probe_sample`: losses now belong to a probe without a reaction so far.
    hears_probe: bool,
    /// When the next probe starts at the latest; zero before the first cycle.
    due: Instant,
    /// The known bandwidth at the start of the last probe.
    known: Rate,
    /// Round trips since the last probe (`BBR.rounds_since_probe_up`).
    rounds: u32,
    last: LastProbe,
    slope: Slope,
}

/// How fast the long-term bound rises.
#[derive(Debug, Clone, Copy)]
struct Slope {
    /// Round trips for which it has been rising.
    rounds: u32,
    acked: ByteCount,
    /// Bytes to acknowledge for a step of one datagram.
    step: ByteCount,
}

impl Slope {
    const FLAT: Self = Self { rounds: 0, acked: ByteCount::ZERO, step: ByteCount::MAX };
}

impl Cycle {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            feedback: Feedback::None,
            hears_probe: false,
            due: Instant::from_nanos(0),
            known: Rate::ZERO,
            rounds: 0,
            last: LastProbe::default(),
            slope: Slope::FLAT,
        }
    }

    /// A cycle for a restarted path, with other random numbers.
    pub(super) fn restarted(&self) -> Self {
        Self { random: self.random, ..Self::new(0) }
    }

    /// The known bandwidth at the start of the last probe.
    pub(super) fn known(&self) -> Rate {
        self.known
    }

    /// When the next probe starts at the latest.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Round trips since the last probe.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(super) fn hears_probe(&self) -> bool {
        self.hears_probe
    }

    /// Whether the last probe stopped where the one before had lost too much, and lost nothing there.
    pub(super) fn stopped_too_soon(&self) -> bool {
        self.last.was_cautious && !self.last.was_too_high
    }

    pub(super) fn count_round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
    }

    /// A round trip begins. Returns whether the last packets of a probe have arrived.
    pub(super) fn begin_round(&mut self) -> bool {
        let has_stopped = self.feedback == Feedback::Stopping;
        match self.feedback {
            Feedback::Starting => self.feedback = Feedback::Probing,
            Feedback::Stopping => self.forget_probe(),
            Feedback::None | Feedback::Refilling | Feedback::Probing => {}
        }
        has_stopped
    }

    /// The phase down begins.
    pub(super) fn begin_down(&mut self, now: Instant) {
        self.slope = Slope::FLAT;
        self.pick_wait(now);
        self.feedback = Feedback::Stopping;
    }

    /// The phase refill begins.
    pub(super) fn begin_refill(&mut self) {
        self.slope = Slope::FLAT;
        self.last.was_cautious = false;
        self.feedback = Feedback::Refilling;
    }

    /// The phase up begins, with this known bandwidth.
    pub(super) fn begin_up(&mut self, known: Rate) {
        self.hears_probe = true;
        self.feedback = Feedback::Starting;
        self.known = known;
    }

    /// Whether the probe stops here because the last one lost too much beyond `bound`.
    pub(super) fn stops_at(&mut self, flight: ByteCount, bound: ByteCount) -> bool {
        let stops = self.last.was_too_high && flight > bound;
        self.last.was_cautious |= stops;
        stops
    }

    /// The probe ended without losing too much.
    pub(super) fn on_lossless_probe(&mut self) {
        self.last.was_too_high = false;
    }

    /// The probe lost too much.
    pub(super) fn on_too_high(&mut self) {
        self.last.was_too_high = true;
        self.hears_probe = false;
    }

    /// `RaiseInflightLongtermSlope`
    pub(super) fn steepen(&mut self, window: ByteCount, datagram: ByteCount) {
        let slope = &mut self.slope;
        slope.step = (window / (1 << slope.rounds)).max(datagram);
        slope.rounds = (slope.rounds + 1).min(SLOPE_MAX);
    }

    /// By how much the long-term bound rises for these acknowledged bytes.
    pub(super) fn raise(&mut self, acked: ByteCount, datagram: ByteCount) -> ByteCount {
        let slope = &mut self.slope;
        slope.acked += acked;
        let steps = slope.acked.get() / slope.step.get().max(1);
        slope.acked -= slope.step * steps;
        datagram * steps
    }

    /// Packets that arrive from now on belong to no probe (the path is being drained).
    pub(super) fn stop(&mut self) {
        self.feedback = Feedback::Stopping;
    }

    /// Packets that arrive from now on do not belong to this probe, although it has not ended.
    pub(super) fn forget_probe(&mut self) {
        self.feedback = Feedback::None;
        self.hears_probe = false;
    }

    /// `PickProbeWait`
    fn pick_wait(&mut self, now: Instant) {
        let is_first = self.due == Instant::from_nanos(0);
        let spread = if is_first { FIRST_SPREAD } else { 2 };
        self.rounds = u32::try_from(self.random.below(spread)).unwrap_or(u32::MAX);
        let micros = u64::try_from(WAIT_SPREAD.as_micros()).unwrap_or(u64::MAX);
        self.due = now + WAIT + Duration::from_micros(self.random.below(micros));
    }
}
