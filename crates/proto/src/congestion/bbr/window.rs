//! Window and pacing rate, from the model and the state.

use std::time::Duration;

use super::state::{Phase, STARTUP_GAIN, State};
use super::{AckSample, Bbr};
use crate::{ByteCount, Instant, Rate};

/// `BBR.PacingMarginPercent`: the pacing rate is 0.5 % below the bandwidth, so that queues drain.
const MARGIN: (u64, u64) = (199, 200);
/// `BBR.MinPipeCwnd`, in datagrams.
const LEAST: u64 = 4;
/// A burst is what leaves in this time (`C.send_quantum`), at most [`BURST_MAX`].
const BURST_TIME: Duration = Duration::from_millis(1);
const BURST_MAX: ByteCount = ByteCount(65_536);
/// In slow start a window leaves in half a round trip: two packets for each acknowledged one.
const WINDOWS_PER_ROUND_TRIP: u64 = 2;

impl Bbr {
    pub(super) fn datagram(&self) -> ByteCount {
        ByteCount(u64::from(self.config.max_datagram))
    }

    pub(super) fn least_window(&self) -> ByteCount {
        self.datagram() * LEAST
    }

    /// A percentage of the bandwidth-delay product (`BDPMultiple`), plus the bytes that arrive while acknowledgements
    /// wait. In Startup that delay counts as part of the round trip: otherwise the bytes in flight could not double.
    pub(super) fn product(&self, percent: u64) -> ByteCount {
        let (rate, wait) = (self.rate(), self.round_trip.wait_back());
        let waits = if self.state == State::Startup { percent } else { 100 };
        let span = |minimum| rate * minimum * percent / 100 + rate * wait * waits / 100;
        self.round_trip.minimum().map_or_else(|| self.usage.first_window(), span)
    }

    /// Bytes in flight that keep a path of this rate busy (`Inflight(bw, 1.0)`).
    pub(super) fn flight_for(&self, rate: Rate) -> ByteCount {
        let product = self.round_trip.drained().map_or_else(|| self.usage.first_window(), |rtt| rate * rtt);
        self.quantized(product)
    }

    /// `TargetInflight`
    pub(super) fn target(&self) -> ByteCount {
        self.product(100).min(self.window)
    }

    /// At least a burst, and enough for a receiver that acknowledges each second packet (`QuantizationBudget`).
    fn quantized(&self, flight: ByteCount) -> ByteCount {
        let burst = (self.rate() * BURST_TIME).min(BURST_MAX);
        let flight = flight.max(burst).max(self.least_window());
        if self.state == State::ProbeBw(Phase::Up) { flight + self.datagram() * 2 } else { flight }
    }

    /// `SetPacingRate`
    pub(super) fn paced(&self, smoothed_rtt: Duration) -> Rate {
        self.modelled(smoothed_rtt).max(self.slow_start_rate(smoothed_rtt))
    }

    fn modelled(&self, smoothed_rtt: Duration) -> Rate {
        let gain = match self.state {
            // After a pause the rate is that of the path at once, neither probing nor draining.
            State::ProbeBw(_) if self.usage.is_restart() => 100,
            State::ProbeBw(Phase::Cruise) if self.probes_in_cruise() => Phase::Up.pacing_gain(),
            State::Startup | State::Drain { .. } | State::ProbeBw(_) | State::ProbeRtt(_) => {
                self.state.pacing_gain()
            }
        };
        let rate = self.rate().scaled(gain * MARGIN.0, 100 * MARGIN.1);
        if self.full_pipe.is_reached() && rate > Rate::ZERO {
            return rate;
        }
        let least = self.usage.least_rate();
        let first = if least == Rate::ZERO { self.first_rate(smoothed_rtt) } else { Rate::ZERO };
        rate.max(least).max(first)
    }

    /// Whether Startup is still in slow start, where the window grows by all acknowledged bytes. The delivery rates
    /// of the first flights, which fill only a part of their round trip, are measured too late: based on them a
    /// window grows by a half where it could double.
    pub(super) fn doubles(&self) -> bool {
        self.state == State::Startup
            && !self.full_pipe.is_reached()
            && self.usage.is_slow_start()
            && self.usage.is_window_full(self.rounds.count())
    }

    fn slow_start_rate(&self, smoothed_rtt: Duration) -> Rate {
        let windows = if self.doubles() { WINDOWS_PER_ROUND_TRIP } else { 0 };
        self.window.per(smoothed_rtt).scaled(windows, 1)
    }

    /// Ends slow start if a round trip shows a queue.
    pub(super) fn look_for_queue(&mut self, sample: &AckSample) {
        let times = (self.round_trip.without_wait_back(sample), self.round_trip.minimum());
        if let (Some(delay), Some(minimum)) = times {
            self.usage.look_for_queue(delay, minimum);
        }
    }

    /// The rate before the first sample (`InitPacingRate`).
    fn first_rate(&self, smoothed_rtt: Duration) -> Rate {
        self.usage.first_window().per(smoothed_rtt).scaled(STARTUP_GAIN, 100)
    }

    /// An acknowledgement arrived: until the bandwidth is known, the rate does not fall below the present one.
    pub(super) fn set_least_rate(&mut self, smoothed_rtt: Duration) {
        if !self.full_pipe.is_reached() {
            self.usage.set_least_rate(self.modelled(smoothed_rtt));
        }
    }

    /// `SetCwnd`
    pub(super) fn set_window(&mut self, acked: ByteCount) {
        self.usage.on_acked(acked);
        let most = self.product(self.state.window_gain()) + self.aggregation.extra();
        let most = self.quantized(most);
        if self.full_pipe.is_reached() {
            self.window = (self.window + acked).min(most);
        } else if self.window < most || !self.usage.is_first_window_acked() || self.doubles() {
            self.window += acked;
        }
        let least = self.least_window();
        if matches!(self.state, State::ProbeRtt(_)) {
            self.window = self.window.min(self.drained_window());
        }
        self.window = self.window.max(least).min(self.cap().max(least));
    }

    /// `BoundCwndForModel`
    fn cap(&self) -> ByteCount {
        let long = match self.state {
            State::Startup | State::Drain { .. } => ByteCount::MAX,
            State::ProbeBw(Phase::Down | Phase::Refill | Phase::Up) => self.bounds.flight,
            State::ProbeBw(Phase::Cruise) | State::ProbeRtt(_) => {
                self.bounds.with_headroom(self.datagram(), self.least_window())
            }
        };
        long.min(self.bounds.recent_flight)
    }

    /// `HandleRestartFromIdle`
    pub(super) fn restart_from_idle(&mut self, now: Instant) {
        self.usage.begin_restart();
        self.aggregation.restart(now);
        self.leave_probe_rtt(now);
    }
}
