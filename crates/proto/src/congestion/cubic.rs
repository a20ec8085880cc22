//! CUBIC (RFC 9438), in integers.

use std::time::Duration;

use super::cubic_curve::Curve;
use super::slow_start::SlowStart;
use super::{
    AckSample, CongestionController, ControllerConfig, LossSample, SentSample, Sibling, pacing_of_window,
};
use crate::{ByteCount, Instant, Rate};

/// β = 0.7: what remains of the window after a congestion event (section 4.6).
const BETA: (u64, u64) = (7, 10);
/// (1 + β) / 2: what remains of `W_max` for fast convergence (section 4.7).
const CONVERGENCE: (u64, u64) = (85, 100);
/// α = 3·(1 − β) / (1 + β): growth of the Reno-friendly estimate (section 4.3).
const ALPHA: (u128, u128) = (9, 17);
/// No window is larger.
const WINDOW_MAX: ByteCount = ByteCount(1 << 40);

/// Grows by a cubic function of the time since the last congestion event, so that it does not depend on the
/// round-trip time, but never slower than Reno.
#[derive(Debug, Clone)]
pub struct Cubic {
    config: ControllerConfig,
    state: State,
    /// The state before the last congestion event, for undoing it (section 4.9).
    before_loss: Option<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    window: Fine,
    slow_start: SlowStart,
    /// `W_max`: where the window stood at the last congestion event, or below for convergence.
    /// `None` before the first one and after persistent congestion.
    plateau: Option<ByteCount>,
    /// `cwnd_prior`: where the window stood at the last congestion event.
    prior: ByteCount,
    /// The current stage of congestion avoidance; it begins with the first acknowledgement after recovery.
    epoch: Option<Epoch>,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// When it began, moved forward by the time in which the window was not put to use (section 5.8).
    start: Instant,
    /// Up to here time has been counted.
    updated: Instant,
    curve: Curve,
    /// `W_est`: where Reno would be.
    estimate: Fine,
}

/// Bytes in fixed point, 1/65536 of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fine(u128);

impl Fine {
    fn new(bytes: ByteCount) -> Self {
        Self(u128::from(bytes.min(WINDOW_MAX).get()) << 16)
    }

    fn bytes(self) -> ByteCount {
        ByteCount(u64::try_from(self.0 >> 16).unwrap_or(u64::MAX)).min(WINDOW_MAX)
    }

    /// Adds `a·b / divisor` bytes. The factors are windows or less, so that the product fits.
    fn add(&mut self, a: ByteCount, b: ByteCount, divisor: Self) {
        let product = (u128::from(a.min(WINDOW_MAX).get()) * u128::from(b.min(WINDOW_MAX).get())) << 16;
        // divisor is in fixed point too: (p << 16) / (d >> 16)
        self.0 += product / (divisor.0 >> 16).max(1);
    }
}

impl State {
    fn new(window: ByteCount) -> Self {
        let window = Fine::new(window);
        Self { window, slow_start: SlowStart::new(), plateau: None, prior: window.bytes(), epoch: None }
    }
}

impl Cubic {
    /// See [`super::by_name`].
    pub const NAME: &'static str = "cubic";

    /// Starts in slow start with the initial window.
    pub fn new(config: &ControllerConfig) -> Self {
        Self { config: *config, state: State::new(config.initial_bytes()), before_loss: None }
    }

    fn datagram(&self) -> ByteCount {
        ByteCount(u64::from(self.config.max_datagram))
    }

    /// Begins a stage of congestion avoidance if none is on.
    fn epoch(&mut self, now: Instant) -> Epoch {
        if let Some(epoch) = self.state.epoch {
            return epoch;
        }
        let window = self.state.window.bytes();
        // Sections 4.8 and 4.10: without a known plateau the curve starts flat, where the window is.
        if self.state.plateau.is_none() {
            self.state.prior = window;
        }
        let plateau = self.state.plateau.unwrap_or(window);
        let curve = Curve::new(window, plateau, self.config.max_datagram);
        Epoch { start: now, updated: now, curve, estimate: self.state.window }
    }

    fn avoid_congestion(&mut self, sample: &AckSample, bytes: ByteCount) {
        if bytes == ByteCount::ZERO {
            return;
        }
        let mut epoch = self.epoch(sample.now);
        if sample.allows_growth_of(self.state.window.bytes()) {
            epoch.updated = sample.now;
            self.grow(&mut epoch, sample, bytes);
        } else {
            epoch.skip_to(sample.now);
        }
        self.state.epoch = Some(epoch);
    }

    fn grow(&mut self, epoch: &mut Epoch, sample: &AckSample, bytes: ByteCount) {
        let size = self.config.max_datagram;
        let window = self.state.window;
        let elapsed = sample.now - epoch.start;
        // Section 4.3: Reno's growth, slower by α until the old window is reached.
        let step = if epoch.estimate.bytes() >= self.state.prior {
            bytes
        } else {
            ByteCount(u64::try_from(u128::from(bytes.get()) * ALPHA.0 / ALPHA.1).unwrap_or(u64::MAX))
        };
        epoch.estimate.add(step, self.datagram(), window);
        if epoch.curve.at(elapsed, size) < epoch.estimate.bytes() {
            self.state.window = window.max(epoch.estimate).min(Fine::new(WINDOW_MAX));
            return;
        }
        // Sections 4.4 and 4.5: towards where the curve will be in a round trip, at most half as much again.
        let current = window.bytes();
        let target = epoch.curve.at(elapsed + sample.smoothed_rtt, size);
        let target = target.clamp(current, current + current / 2);
        self.state.window.add(target - current, bytes, window);
        self.state.window = self.state.window.min(Fine::new(WINDOW_MAX));
    }
}

impl Epoch {
    /// Leaves the time up to `now` out of the curve.
    fn skip_to(&mut self, now: Instant) {
        self.start += now - self.updated;
        self.updated = now;
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_sent(&mut self, sample: &SentSample) {
        // Section 5.8: time without anything in flight is not time of growth.
        if let Some(epoch) = self.state.epoch.as_mut().filter(|_| sample.in_flight == ByteCount::ZERO) {
            epoch.skip_to(sample.now);
        }
    }

    fn on_ack(&mut self, sample: &AckSample, _siblings: &[Sibling]) {
        let mut bytes = sample.bytes_outside_recovery;
        if self.is_in_slow_start() {
            let window;
            (window, bytes) = self.state.slow_start.on_ack(self.window(), sample);
            self.state.window = Fine::new(window);
        }
        if !self.is_in_slow_start() {
            self.avoid_congestion(sample, bytes);
        }
    }

    fn on_loss(&mut self, _sample: &LossSample) {
        self.before_loss = Some(self.state);
        let window = self.window();
        // Section 4.7: below the last plateau others have come; leave them more room.
        let plateau = match self.state.plateau {
            Some(plateau) if window < plateau => scaled(window, CONVERGENCE),
            Some(_) | None => window,
        };
        let reduced = scaled(window, BETA).max(self.config.minimum_bytes());
        self.state.plateau = Some(plateau);
        self.state.prior = window;
        self.state.window = Fine::new(reduced);
        self.state.slow_start.set_threshold(reduced);
        self.state.epoch = None;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some(before) = self.before_loss.take().filter(|before| before.window >= self.state.window) {
            self.state = before;
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.before_loss = None;
        self.state.plateau = None;
        self.state.epoch = None;
        self.state.window = Fine::new(self.config.minimum_bytes());
    }

    fn on_restart(&mut self, _now: Instant, window: ByteCount) {
        self.before_loss = None;
        self.state = State::new(window.max(self.config.minimum_bytes()));
    }

    fn on_max_datagram(&mut self, size: u16) {
        self.config.max_datagram = size;
        self.state.window = self.state.window.max(Fine::new(self.config.minimum_bytes()));
        // The curve counts in datagrams: start it anew.
        self.state.epoch = None;
        if let Some(before) = &mut self.before_loss {
            before.epoch = None;
        }
    }

    fn window(&self) -> ByteCount {
        self.state.window.bytes()
    }

    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate {
        pacing_of_window(self.window(), smoothed_rtt, self.is_in_slow_start())
    }

    fn is_in_slow_start(&self) -> bool {
        self.state.slow_start.is_active(self.window())
    }
}

fn scaled(bytes: ByteCount, (numerator, denominator): (u64, u64)) -> ByteCount {
    bytes * numerator / denominator
}
