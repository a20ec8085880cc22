//! BBRv3 (draft-ietf-ccwg-bbr): sends at the delivery rate of the path, instead of until it loses packets.
//!
//! The model of the path consists of its bandwidth ([`model`]), its round trip without a queue ([`round_trip`]), its
//! ACK aggregation ([`aggregation`]), and its bounds without loss ([`bounds`]). Pacing rate and window follow from
//! these. The phases that measure them are [`startup`], [`probe`] and [`probe_rtt`].
//!
//! Differences to the draft, each explained at its place:
//! - Startup begins as slow start ([`window`]).
//! - Losses have to exceed chance ([`losses`]), and count only behind a full queue ([`round_trip`]) or a policer,
//!   which is recognised by lasting losses ([`policer`]).
//! - The delay of acknowledgements on the return path widens the window ([`round_trip`], spec 9.48).
//! - A round trip near the smallest one makes draining the path unnecessary ([`round_trip`]).
//! - The controllers of several paths take turns ([`probe`], [`probe_rtt`]).
//! - Once the pipe is full, the rate of a round is the mean of its samples ([`model`]).
//! - A bandwidth probe that finds much more continues as Startup ([`probe`]).
//! - A slowdown of the path is accepted sooner ([`slowdown`]).
//! - While the rate of the path varies, cruise probes whenever no queue stands ([`variation`]), and forgets losses
//!   ([`probe`]); ProbeRTT drains less ([`probe_rtt`]).
//! - ProbeRTT ends as soon as the smallest round trip is measured again ([`probe_rtt`]).
//! - A CE mark counts as a round of excessive loss.

mod aggregation;
mod bounds;
mod cycle;
mod full_pipe;
mod losses;
mod model;
mod policer;
mod probe;
mod probe_rtt;
mod random;
mod round_trip;
mod slowdown;
mod startup;
mod state;
mod undo;
mod usage;
mod variation;
mod window;

use std::time::Duration;

use aggregation::Aggregation;
use bounds::Bounds;
use cycle::Cycle;
use full_pipe::{FullPipe, RoundEnd};
use losses::{Signals, is_excessive};
use model::{MaxBandwidth, Purpose, Rounds};
use policer::Policer;
use round_trip::RoundTrip;
use slowdown::{RoundState, Slowdown};
use state::{LossQueue, Phase, State};
use undo::{Left, Undo};
use usage::Usage;
use variation::{Known, Variation};

use super::{
    AckSample, Activity, CongestionController, ControllerConfig, LossSample, LostPacketSample, SentSample,
    Subflow,
};
use crate::{ByteCount, Instant, Rate};

/// Models the path: paces at its bandwidth, keeps at most about two bandwidth-delay products in flight, and reacts to
/// loss only if it exceeds chance. For paths with random loss, and for short queues.
#[derive(Debug, Clone)]
pub struct Bbr {
    config: ControllerConfig,
    state: State,
    /// `C.cwnd`
    window: ByteCount,
    /// `BBR.prior_cwnd`: the last window that no short-term reaction had reduced.
    kept_window: ByteCount,
    usage: Usage,
    rounds: Rounds,
    bandwidth: MaxBandwidth,
    slowdown: Slowdown,
    /// Exists once a packet was lost without a queue.
    policer: Option<Box<Policer>>,
    round_trip: RoundTrip,
    aggregation: Aggregation,
    full_pipe: FullPipe,
    signals: Signals,
    bounds: Bounds,
    cycle: Cycle,
    undo: Undo,
    variation: Variation,
}

impl Bbr {
    /// See [`super::by_name`].
    pub const NAME: &'static str = "bbr";

    /// Starts in Startup with the initial window. [`ControllerConfig::seed`] determines the times of bandwidth
    /// probes.
    pub fn new(config: &ControllerConfig) -> Self {
        Self::with_window(config, config.initial_bytes(), Cycle::new(config.seed))
    }

    fn with_window(config: &ControllerConfig, window: ByteCount, cycle: Cycle) -> Self {
        Self {
            config: *config,
            state: State::Startup,
            window,
            kept_window: window,
            usage: Usage::new(window),
            rounds: Rounds::default(),
            bandwidth: MaxBandwidth::default(),
            slowdown: Slowdown::default(),
            policer: None,
            round_trip: RoundTrip::default(),
            aggregation: Aggregation::default(),
            full_pipe: FullPipe::default(),
            signals: Signals::default(),
            bounds: Bounds::UNLIMITED,
            cycle,
            undo: Undo::default(),
            variation: Variation::default(),
        }
    }

    /// `BBR.bw`: the known bandwidth of the path, reduced by recent congestion.
    fn rate(&self) -> Rate {
        self.bandwidth.get().min(self.bounds.rate)
    }

    /// Updates the model of the path with an acknowledgement.
    fn update_model(&mut self, sample: &AckSample) {
        self.rounds.on_ack(sample);
        self.rounds.note_cruise(self.state == State::ProbeBw(Phase::Cruise));
        if self.rounds.has_begun() {
            let mean = self.bandwidth.end_round(self.rounds.was_drained() && !sample.app_limited);
            self.notice_policer(sample, mean);
            self.notice_variation(sample.now, mean);
        }
        self.bandwidth.on_ack(sample, self.purpose());
        self.observe_queue(sample);
        self.notice_slowdown(sample);
        self.signals.on_ack(sample, self.datagram());
        if !self.state.is_accelerating() && self.signals.ended_in_excess() {
            self.bounds.shrink(&self.signals, self.bandwidth.get(), self.window);
        }
        let (rate, window) = (self.rate(), self.window);
        self.aggregation.on_ack(sample, self.rounds.count(), rate, window, self.full_pipe.is_reached());
        let (delay, product) = (self.round_trip.without_wait_back(sample), self.product(100));
        let end = match self.rounds.has_begun() {
            false => RoundEnd::No,
            true if self.lost_much() => RoundEnd::Policed,
            true => RoundEnd::Usual,
        };
        self.full_pipe.on_ack(sample, delay, product, end);
    }

    /// Ends a round with its mean rate.
    fn notice_variation(&mut self, now: Instant, mean: Rate) {
        let known = if self.rounds.was_cruise() {
            Known::Cruise(self.bandwidth.get())
        } else if self.state == State::ProbeBw(Phase::Up) {
            Known::Probe(self.cycle.known())
        } else {
            Known::Unclear
        };
        self.variation.end_round(now, mean, known, self.datagram());
    }

    /// Ends a round with its mean rate. Lowers the bandwidth to the passing rate if losses without a queue last.
    fn notice_policer(&mut self, sample: &AckSample, mean: Rate) {
        let Some(policer) = &mut self.policer else { return };
        let passes = policer.end_round(sample, mean, self.rounds.was_cruise());
        let is_steady = matches!(self.state, State::ProbeBw(_));
        if let Some(passes) = passes.filter(|passes| is_steady && *passes < self.bandwidth.get()) {
            self.bandwidth.lower(passes);
        }
    }

    /// Lowers the bandwidth to the delivery rate, if that has been far below it for long.
    fn notice_slowdown(&mut self, sample: &AckSample) {
        self.slowdown.on_ack(sample.delivery_rate);
        if !self.rounds.has_begun() {
            return;
        }
        let round = self.rounds.count();
        let is_steady = matches!(self.state, State::ProbeBw(_)) && self.bounds.rate == Rate::MAX;
        let is_full = self.usage.is_window_full(round) && self.window >= self.product(100);
        let state = RoundState {
            now: sample.now,
            round,
            bandwidth: self.bandwidth.get(),
            is_full: is_steady && is_full && !sample.app_limited,
        };
        let has_helped = self.round_trip.was_near_since(self.slowdown.lowered());
        if let Some(rate) = self.slowdown.end_round(&state, has_helped) {
            self.bandwidth.lower(rate);
            self.bandwidth.note_fall();
        }
    }

    /// `HandleSpuriousLossDetection`
    fn undo_loss(&mut self) {
        let Undo { window, bounds, left } = std::mem::take(&mut self.undo);
        if window == ByteCount::ZERO {
            return;
        }
        self.signals.forget_losses();
        self.full_pipe.restart(Rate::ZERO);
        self.bounds.restore(bounds);
        let is_draining = matches!(self.state, State::ProbeRtt(_));
        if is_draining {
            self.kept_window = self.kept_window.max(window);
        } else {
            self.window = self.window.max(window);
        }
        match left {
            Some(Left::Startup) if self.state != State::Startup => {
                self.full_pipe.set_reached(false);
                if !is_draining {
                    self.state = State::Startup;
                }
            }
            Some(Left::Up) if self.state != State::ProbeBw(Phase::Up) && !is_draining => self.begin_refill(),
            Some(Left::Startup | Left::Up) | None => {}
        }
    }

    fn observe_queue(&mut self, sample: &AckSample) {
        let has_queue = self.round_trip.queue(sample.latest_rtt) > self.round_trip.least_queue();
        let is_probing = matches!(self.state, State::ProbeBw(_));
        self.variation.on_ack(sample.bytes, !has_queue || !is_probing || sample.app_limited);
    }

    /// Whether cruise probes: nothing else shows what the path delivers now.
    fn probes_in_cruise(&self) -> bool {
        self.variation.is_on() && self.round_trip.last_queue() <= self.round_trip.least_queue()
    }

    /// The state of the queue just before or just behind a lost packet.
    fn queue_at_loss(&self, latest_rtt: Option<Duration>) -> LossQueue {
        let queue = self.round_trip.last_queue().max(self.round_trip.queue(latest_rtt));
        if queue > self.round_trip.least_full_queue() {
            LossQueue::Full
        } else if queue > self.round_trip.least_queue() {
            LossQueue::Partial
        } else {
            LossQueue::Empty
        }
    }

    /// Whether so much of the last round trip was lost without a queue that the cause may be a policer.
    fn lost_much(&self) -> bool {
        self.policer.as_ref().is_some_and(|policer| policer.lost_much())
    }

    /// Whether losses at such a queue are a sign of congestion.
    fn is_congestion(&self, queue: LossQueue) -> bool {
        queue == LossQueue::Full || self.policer.as_ref().is_some_and(|policer| policer.is_known())
    }

    /// The present purpose of delivery rate samples.
    fn purpose(&self) -> Purpose {
        match self.state {
            _ if !self.full_pipe.is_reached() => Purpose::Startup,
            State::ProbeBw(Phase::Refill | Phase::Up) => Purpose::Search,
            State::Startup
            | State::Drain { .. }
            | State::ProbeBw(Phase::Down | Phase::Cruise)
            | State::ProbeRtt(_) => Purpose::Steady,
        }
    }

    fn update_state(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        self.leave_startup();
        self.leave_drain(sample.now, sample.in_flight);
        self.update_cycle(sample, subflows);
        self.round_trip.on_ack(sample, self.rounds.has_begun());
        self.update_probe_rtt(sample, subflows);
    }
}

impl CongestionController for Bbr {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_sent(&mut self, sample: &SentSample) {
        if sample.in_flight == ByteCount::ZERO && sample.app_limited {
            self.restart_from_idle(sample.now);
        }
        if sample.in_flight + sample.bytes + self.datagram() > self.window {
            self.usage.window_was_full(self.rounds.count());
        }
    }

    fn on_ack(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        self.update_model(sample);
        self.update_state(sample, subflows);
        self.signals.end_ack(sample);
        self.look_for_queue(sample);
        self.set_least_rate(sample.smoothed_rtt);
        self.set_window(sample.bytes);
    }

    fn on_packet_lost(&mut self, sample: &LostPacketSample) {
        self.rounds.set_delivered(sample.delivered);
        if sample.begins_event {
            self.undo = Undo::new(self.window, self.bounds);
        }
        let queue = self.queue_at_loss(sample.latest_rtt);
        if queue == LossQueue::Empty {
            let begun = self.rounds.delivered_before();
            self.policer.get_or_insert_with(|| Box::new(Policer::beginning_at(begun))).on_lost(sample.bytes);
            if self.lost_much() {
                self.usage.end_slow_start();
            }
        }
        if !self.is_congestion(queue) {
            return;
        }
        self.usage.end_slow_start();
        self.signals.on_packet_lost(sample);
        let flight = sample.in_flight_at_sent;
        let is_too_high =
            is_excessive(sample.lost_since_sent, flight, sample.gaps_since_sent, self.datagram());
        if self.cycle.hears_probe() && is_too_high {
            self.on_flight_too_large(sample.now, losses::flight_at_loss(sample), sample.app_limited);
        }
    }

    fn on_mark(&mut self, now: Instant, in_flight: ByteCount) {
        self.signals.on_mark(self.rounds.delivered());
        if self.cycle.hears_probe() {
            self.on_flight_too_large(now, in_flight, false);
        }
    }

    /// The losses were handled for each packet, or are at the end of the round.
    fn on_loss(&mut self, _sample: &LossSample) {}

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.undo_loss();
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.kept_window = self.kept_window.max(self.window);
        self.window = self.config.minimum_bytes();
    }

    fn on_restart(&mut self, _now: Instant, window: ByteCount) {
        let window = window.max(self.config.minimum_bytes());
        *self = Self::with_window(&self.config, window, self.cycle.restarted());
    }

    fn on_max_datagram(&mut self, size: u16) {
        self.config.max_datagram = size;
        self.window = self.window.max(self.config.minimum_bytes());
    }

    fn window(&self) -> ByteCount {
        self.window
    }

    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate {
        self.paced(smoothed_rtt)
    }

    fn is_in_slow_start(&self) -> bool {
        self.state == State::Startup
    }

    fn activity(&self) -> Activity {
        match self.state {
            State::ProbeBw(Phase::Refill | Phase::Up) => Activity::Probing,
            State::ProbeRtt(_) => Activity::Draining,
            State::Startup | State::Drain { .. } | State::ProbeBw(Phase::Down | Phase::Cruise) => {
                Activity::Steady
            }
        }
    }
}

#[cfg(test)]
mod tests;
