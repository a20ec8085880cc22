//! ProbeBW: down, cruise, refill, up. Only up probes for more bandwidth; the other phases make that fair and cheap.

use super::losses::is_excessive;
use super::state::{Phase, State};
use super::{AckSample, Activity, Bbr, Subflow};
use crate::{ByteCount, Instant};

/// Most rounds of a cycle: Reno would probe as often on such a path, or less often.
const ROUNDS_MAX: u64 = 63;
/// The same if the rate of the path varies, as that of a radio link does: a bandwidth from two seconds ago is of no
/// use.
const ROUNDS_WANDERING: u64 = 12;
/// A probe that finds this multiple of the bandwidth continues as Startup: two steps of a quarter are no chance.
const MUCH: (u64, u64) = (3, 2);

impl Bbr {
    /// `UpdateProbeBWCyclePhase`
    pub(super) fn update_cycle(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        if self.rounds.has_begun() {
            self.cycle.count_round();
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
            // The queue in which packets were lost is gone, and the path may deliver more than then.
            Phase::Cruise if self.probes_in_cruise() && self.bounds.has_recent() => self.begin_refill(),
            Phase::Cruise => {}
            Phase::Refill if self.rounds.has_begun() => self.begin_up(sample),
            Phase::Refill => {}
            Phase::Up if self.has_found_much() => self.begin_startup(),
            Phase::Up => {
                if self.is_time_to_go_down(sample) {
                    self.cycle.on_lossless_probe();
                    self.begin_down(sample.now);
                }
            }
        }
    }

    /// `AdaptLongTermModel`. Returns whether it started a new phase.
    fn adapt_long_term(&mut self, sample: &AckSample) -> bool {
        let has_stopped = self.rounds.has_begun() && self.cycle.begin_round();
        if has_stopped && matches!(self.state, State::ProbeBw(_)) {
            if !sample.app_limited {
                self.bandwidth.advance();
            }
            if self.cycle.stopped_too_soon() {
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
        if now > self.cycle.due() {
            return true;
        }
        let others_probe = subflows.iter().any(|subflow| subflow.activity == Activity::Probing);
        let flight = self.flight_for(self.rate()).min(self.window);
        let of_reno = flight.get() / self.datagram().get().max(1);
        let most =
            if self.variation.is_on() || self.bandwidth.wanders() { ROUNDS_WANDERING } else { ROUNDS_MAX };
        u64::from(self.cycle.rounds()) >= of_reno.min(most) && !others_probe
    }

    /// `IsTimeToGoDown`
    fn is_time_to_go_down(&mut self, sample: &AckSample) -> bool {
        // Before the acknowledgement; a flight without space for another datagram counts as full.
        let flight = sample.in_flight + sample.bytes + sample.newly_lost + self.datagram();
        if self.cycle.stops_at(flight, self.bounds.flight) {
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
        self.bandwidth.get() >= self.cycle.known().scaled(MUCH.0, MUCH.1)
    }

    /// Whether the long-term bound limits the sender.
    fn is_held_by_flight(&self) -> bool {
        self.usage.is_window_full(self.rounds.count()) && self.window >= self.bounds.flight
    }

    /// `StartProbeBW_DOWN`
    pub(super) fn begin_down(&mut self, now: Instant) {
        self.signals.reset();
        self.cycle.begin_down(now);
        self.rounds.begin();
        self.state = State::ProbeBw(Phase::Down);
    }

    /// `StartProbeBW_REFILL`
    pub(super) fn begin_refill(&mut self) {
        self.bounds.forget_recent();
        self.cycle.begin_refill();
        self.rounds.begin();
        self.state = State::ProbeBw(Phase::Refill);
    }

    /// `StartProbeBW_UP`
    fn begin_up(&mut self, sample: &AckSample) {
        self.cycle.begin_up(self.bandwidth.get());
        self.rounds.begin();
        self.full_pipe.restart(sample.delivery_rate.unwrap_or_default());
        self.state = State::ProbeBw(Phase::Up);
        self.cycle.steepen(self.window, self.datagram());
    }

    /// `ProbeInflightLongtermUpward`
    fn raise_flight(&mut self, acked: ByteCount) {
        if !self.is_held_by_flight() {
            return;
        }
        let datagram = self.datagram();
        self.bounds.flight += self.cycle.raise(acked, datagram);
        if self.rounds.has_begun() {
            self.cycle.steepen(self.window, datagram);
        }
    }

    /// `HandleInflightTooHigh`: once for each probe.
    pub(super) fn on_flight_too_large(&mut self, now: Instant, flight: ByteCount, app_limited: bool) {
        self.cycle.on_too_high();
        if !app_limited {
            self.bounds.limit_flight(flight, self.target());
        }
        if self.state == State::ProbeBw(Phase::Up) {
            self.undo.on_left_up();
            self.begin_down(now);
        }
    }
}
