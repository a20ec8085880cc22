//! ProbeBW: down, cruise, refill, up. Only up probes for more bandwidth; the other phases make that fair and cheap.

use std::time::Duration;

use super::losses::is_excessive;
use super::random::Random;
use super::{AckSample, Activity, Bbr, State, Subflow};
use crate::{ByteCount, Instant, Rate};

/// The least duration of a cycle, plus up to [`WAIT_SPREAD`], unless its rounds end before.
const WAIT: Duration = Duration::from_secs(2);
const WAIT_SPREAD: Duration = Duration::from_secs(1);
/// Most rounds of a cycle: Reno would probe as often on such a path, or less often.
const ROUNDS_MAX: u64 = 63;
/// The same if the rate of the path varies, as that of a radio link does: a bandwidth from two seconds ago is of no
/// use.
const ROUNDS_WANDERING: u64 = 12;
/// The first cycle is shorter by up to this many rounds, so that equal paths that start together do not probe
/// together.
const FIRST_SPREAD: u64 = 32;
/// A probe that finds this multiple of the bandwidth continues as Startup: two steps of a quarter are no chance.
const MUCH: (u64, u64) = (3, 2);
/// A round cannot have more than 2^30 steps.
const SLOPE_MAX: u32 = 30;

/// The phases of ProbeBW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Sends less than the path delivers, until its queue is empty.
    Down,
    /// Sends at the delivery rate of the path.
    Cruise,
    /// The same without the bounds from losses, for a round trip.
    Refill,
    /// Sends more than the known bandwidth.
    Up,
}

impl Phase {
    pub(super) fn pacing_gain(self) -> u64 {
        match self {
            Self::Down => 90,
            Self::Cruise | Self::Refill => 100,
            Self::Up => 125,
        }
    }
}

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

    pub(super) fn hears_probe(&self) -> bool {
        self.hears_probe
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

impl Bbr {
    /// `UpdateProbeBWCyclePhase`
    pub(super) fn update_cycle(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        if self.rounds.has_begun() {
            self.cycle.rounds = self.cycle.rounds.saturating_add(1);
        }
        if !self.full_pipe.is_reached() || self.adapt_long_term(sample) {
            return;
        }
        let State::ProbeBw(phase) = self.state else { return };
        match phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(sample.now, subflows) => self.begin_refill(),
            Phase::Down => {
                let room = self.bounds.with_headroom(self.datagram(), self.least_window());
                if sample.in_flight <= room.min(self.flight_for(self.bandwidth.get())) {
                    self.state = State::ProbeBw(Phase::Cruise);
                }
            }
            Phase::Cruise => {}
            Phase::Refill if self.rounds.has_begun() => {
                self.cycle.hears_probe = true;
                self.begin_up(sample);
            }
            Phase::Refill => {}
            Phase::Up if self.has_found_much() => self.begin_startup(),
            Phase::Up => {
                if self.is_time_to_go_down(sample) {
                    self.cycle.last.was_too_high = false;
                    self.begin_down(sample.now);
                }
            }
        }
    }

    /// `AdaptLongTermModel`. Returns whether it started a new phase.
    fn adapt_long_term(&mut self, sample: &AckSample) -> bool {
        let begins = self.rounds.has_begun();
        let is_probing = matches!(self.state, State::ProbeBw(_));
        if self.cycle.feedback == Feedback::Starting && begins {
            self.cycle.feedback = Feedback::Probing;
        }
        if self.cycle.feedback == Feedback::Stopping && begins {
            self.cycle.hears_probe = false;
            self.cycle.feedback = Feedback::None;
            if is_probing && !sample.app_limited {
                self.bandwidth.advance();
            }
            let LastProbe { was_too_high, was_cautious } = self.cycle.last;
            if is_probing && was_cautious && !was_too_high {
                self.begin_refill();
                return true;
            }
        }
        let flight = sample.in_flight_at_sent;
        let is_limited = self.bounds.flight < ByteCount::MAX;
        let is_too_high =
            || is_excessive(sample.lost_since_sent, flight, sample.gaps_since_sent, self.datagram());
        let is_congestion = || self.is_congestion(self.queue_at_loss(sample.latest_rtt));
        if is_limited && !(is_too_high() && is_congestion()) {
            self.bounds.flight = self.bounds.flight.max(flight);
            if self.state == State::ProbeBw(Phase::Up) {
                self.raise_flight(sample.bytes);
            }
        }
        false
    }

    /// `IsTimeToProbeBW`, unless controllers of other paths are probing; but no probe waits beyond its own deadline.
    fn is_time_to_probe(&self, now: Instant, subflows: &[Subflow]) -> bool {
        let Cycle { due, rounds, .. } = self.cycle;
        if now > due {
            return true;
        }
        let others_probe = subflows.iter().any(|subflow| subflow.activity == Activity::Probing);
        let flight = self.flight_for(self.rate()).min(self.window);
        let of_reno = flight.get() / self.datagram().get().max(1);
        let most =
            if self.variation.is_on() || self.bandwidth.wanders() { ROUNDS_WANDERING } else { ROUNDS_MAX };
        u64::from(rounds) >= of_reno.min(most) && !others_probe
    }

    /// `IsTimeToGoDown`
    fn is_time_to_go_down(&mut self, sample: &AckSample) -> bool {
        // Before the acknowledgement; a flight without space for another datagram counts as full.
        let flight = sample.in_flight + sample.bytes + sample.newly_lost + self.datagram();
        let last = &mut self.cycle.last;
        if last.was_too_high && flight > self.bounds.flight {
            last.was_cautious = true;
            return true;
        }
        if self.is_held_by_flight() {
            self.full_pipe.restart(sample.delivery_rate.unwrap_or_default());
            return false;
        }
        self.full_pipe.is_reached_now()
    }

    /// Whether the bandwidth is far above the known one. The draft continues by a quarter each cycle.
    fn has_found_much(&self) -> bool {
        self.bandwidth.get() >= self.cycle.known.scaled(MUCH.0, MUCH.1)
    }

    /// Whether the long-term bound limits the sender.
    fn is_held_by_flight(&self) -> bool {
        self.usage.is_window_full(self.rounds.count()) && self.window >= self.bounds.flight
    }

    /// `StartProbeBW_DOWN`
    pub(super) fn begin_down(&mut self, now: Instant) {
        self.signals.reset();
        self.cycle.slope = Slope::FLAT;
        self.cycle.pick_wait(now);
        self.cycle.feedback = Feedback::Stopping;
        self.rounds.begin();
        self.state = State::ProbeBw(Phase::Down);
    }

    /// `StartProbeBW_REFILL`
    pub(super) fn begin_refill(&mut self) {
        self.bounds.forget_recent();
        self.cycle.slope = Slope::FLAT;
        self.cycle.last.was_cautious = false;
        self.cycle.feedback = Feedback::Refilling;
        self.rounds.begin();
        self.state = State::ProbeBw(Phase::Refill);
    }

    /// `StartProbeBW_UP`
    fn begin_up(&mut self, sample: &AckSample) {
        self.cycle.feedback = Feedback::Starting;
        self.cycle.known = self.bandwidth.get();
        self.rounds.begin();
        self.full_pipe.restart(sample.delivery_rate.unwrap_or_default());
        self.state = State::ProbeBw(Phase::Up);
        self.steepen();
    }

    /// `RaiseInflightLongtermSlope`
    fn steepen(&mut self) {
        let (window, datagram) = (self.window, self.datagram());
        let slope = &mut self.cycle.slope;
        slope.step = (window / (1 << slope.rounds)).max(datagram);
        slope.rounds = (slope.rounds + 1).min(SLOPE_MAX);
    }

    /// `ProbeInflightLongtermUpward`
    fn raise_flight(&mut self, acked: ByteCount) {
        if !self.is_held_by_flight() {
            return;
        }
        let datagram = self.datagram();
        let slope = &mut self.cycle.slope;
        slope.acked += acked;
        let steps = slope.acked.get() / slope.step.get().max(1);
        slope.acked -= slope.step * steps;
        self.bounds.flight += datagram * steps;
        if self.rounds.has_begun() {
            self.steepen();
        }
    }

    /// `HandleInflightTooHigh`: once for each probe.
    pub(super) fn on_flight_too_large(&mut self, now: Instant, flight: ByteCount, app_limited: bool) {
        self.cycle.last.was_too_high = true;
        self.cycle.hears_probe = false;
        if !app_limited {
            self.bounds.limit_flight(flight, self.target());
        }
        if self.state == State::ProbeBw(Phase::Up) {
            self.undo.on_left_up();
            self.begin_down(now);
        }
    }
}
