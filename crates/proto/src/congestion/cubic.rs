//! CUBIC (RFC 9438), in integers; for a single path, or for the paths that share a bottleneck as one flow.

use std::time::Duration;

use super::controller::pacing_of_window;
use super::coupled::Others;
use super::cubic_curve::Curve;
use super::slow_start::SlowStart;
use super::{AckSample, CongestionController, ControllerConfig, LossSample, SentSample, Subflow};
use crate::{ByteCount, Instant, Rate};

/// β = 0.7: the part of the window that remains after a congestion event (section 4.6).
const BETA: (u64, u64) = (7, 10);
/// (1 + β) / 2: the part of `W_max` that remains for fast convergence (section 4.7).
const CONVERGENCE: (u64, u64) = (85, 100);
/// A path keeps this part of its window, however much its group should give up.
const LEAST_KEPT: u64 = 4;
/// α = 3·(1 − β) / (1 + β): growth of the Reno-friendly estimate (section 4.3).
const ALPHA: (u128, u128) = (9, 17);
/// Upper bound of windows.
const WINDOW_MAX: ByteCount = ByteCount(1 << 40);

/// Grows by a cubic function of the time since the last congestion event, independent of the RTT, but never slower
/// than Reno.
///
/// With [`Self::coupled`], it treats the windows of the whole group as one flow with each acknowledgement. Such a
/// flow is reduced once in a round trip: the first path with a sign of congestion gives up the reduction of all, as
/// far as its window suffices, and the others give up nothing for packets sent before.
#[derive(Debug, Clone)]
pub struct Cubic {
    config: ControllerConfig,
    coupling: Coupling,
    /// The rest of the group at the last update; empty if not coupled.
    others: Others,
    /// When this path was last reduced.
    reduced_at: Option<Instant>,
    state: State,
    /// The state before the last congestion event, to undo it (section 4.9).
    before_loss: Option<State>,
}

/// Whether the other paths at the same bottleneck count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coupling {
    Alone,
    Group,
}

/// Plateau, prior window and curve are those of the whole group.
#[derive(Debug, Clone, Copy)]
struct State {
    window: Fine,
    slow_start: SlowStart,
    /// `W_max`: the window at the last congestion event, or less for convergence. `None` before the first one and
    /// after persistent congestion.
    plateau: Option<ByteCount>,
    /// `cwnd_prior`: the window at the last congestion event.
    prior: ByteCount,
    /// The current epoch of congestion avoidance; it begins with the first acknowledgement after recovery.
    epoch: Option<Epoch>,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// Start of the epoch, moved forward by the time in which the window was not used (section 5.8).
    start: Instant,
    /// Time has been counted up to here.
    updated: Instant,
    curve: Curve,
    /// This path's part of `W_est`: the window of Reno.
    estimate: Fine,
}

/// Bytes in fixed point, in 1/65536 of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fine(u128);

impl Fine {
    fn new(bytes: ByteCount) -> Self {
        Self(u128::from(bytes.min(WINDOW_MAX).get()) << 16)
    }

    fn bytes(self) -> ByteCount {
        ByteCount(u64::try_from(self.0 >> 16).unwrap_or(u64::MAX)).min(WINDOW_MAX)
    }

    /// Adds `a·b / divisor` bytes. The factors are at most windows, so the product fits.
    fn add(&mut self, a: ByteCount, b: ByteCount, divisor: Self) {
        let product = (u128::from(a.min(WINDOW_MAX).get()) * u128::from(b.min(WINDOW_MAX).get())) << 16;
        // The divisor is in fixed point too: (p << 16) / (d >> 16).
        self.0 += product / (divisor.0 >> 16).max(1);
    }
}

impl State {
    fn new(window: ByteCount) -> Self {
        let window = Fine::new(window);
        Self { window, slow_start: SlowStart::new(), plateau: None, prior: window.bytes(), epoch: None }
    }

    /// Begins a reduction of the group's window from `whole`.
    fn begin_reduction(&mut self, whole: ByteCount) {
        // Section 4.7: below the last plateau other flows have joined, which need more room.
        let plateau = match self.plateau {
            Some(plateau) if whole < plateau => scaled(whole, CONVERGENCE),
            Some(_) | None => whole,
        };
        self.plateau = Some(plateau);
        self.prior = whole;
        self.epoch = None;
    }
}

impl Cubic {
    /// See [`super::by_name`].
    pub const NAME: &'static str = "cubic";
    /// The name of [`Self::coupled`].
    pub const COUPLED: &'static str = "coupled-cubic";

    /// Starts in slow start with the initial window.
    pub fn new(config: &ControllerConfig) -> Self {
        Self {
            config: *config,
            coupling: Coupling::Alone,
            others: Others::default(),
            reduced_at: None,
            state: State::new(config.initial_bytes()),
            before_loss: None,
        }
    }

    /// Starts likewise, as a path of a group.
    pub fn coupled(config: &ControllerConfig) -> Self {
        Self { coupling: Coupling::Group, ..Self::new(config) }
    }

    /// The window of the whole group.
    fn whole(&self) -> ByteCount {
        (self.window() + self.others.windows).min(WINDOW_MAX)
    }

    /// Takes the rest of the group into account. A reduction of the group that came while this path received no
    /// acknowledgements takes effect at once.
    fn look_at(&mut self, subflows: &[Subflow]) {
        let others = Others::of(subflows);
        if others.number != self.others.number {
            // The flow has changed: its state no longer holds.
            self.state.plateau = None;
            self.state.epoch = None;
            self.before_loss = None;
        } else if others.reduced_at > self.others.reduced_at {
            self.state.begin_reduction(self.whole());
        }
        self.others = others;
    }

    fn datagram(&self) -> ByteCount {
        ByteCount(u64::from(self.config.max_datagram))
    }

    /// Begins an epoch of congestion avoidance if there is none.
    fn epoch(&mut self, now: Instant) -> Epoch {
        if let Some(epoch) = self.state.epoch {
            return epoch;
        }
        let window = self.whole();
        // Sections 4.8 and 4.10: without a known plateau the curve starts flat, at the present window.
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
        let (others, current) = (self.others.windows, self.whole());
        let whole = Fine::new(current);
        let elapsed = sample.now - epoch.start;
        // Section 4.3: Reno's growth, slower by α until the old window is reached.
        let step = if epoch.estimate.bytes() + others >= self.state.prior {
            bytes
        } else {
            ByteCount(u64::try_from(u128::from(bytes.get()) * ALPHA.0 / ALPHA.1).unwrap_or(u64::MAX))
        };
        epoch.estimate.add(step, self.datagram(), whole);
        let window = &mut self.state.window;
        if epoch.curve.at(elapsed, size) < epoch.estimate.bytes() + others {
            *window = (*window).max(epoch.estimate).min(Fine::new(WINDOW_MAX));
            return;
        }
        // Sections 4.4 and 4.5: towards the curve's value in one round trip, at most half as much again.
        let target = epoch.curve.at(elapsed + sample.smoothed_rtt, size);
        let target = target.clamp(current, current + current / 2);
        window.add(target - current, bytes, whole);
        *window = (*window).min(Fine::new(WINDOW_MAX));
    }
}

impl Epoch {
    /// Excludes the time up to `now` from the curve.
    fn skip_to(&mut self, now: Instant) {
        self.start += now - self.updated;
        self.updated = now;
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        match self.coupling {
            Coupling::Alone => Self::NAME,
            Coupling::Group => Self::COUPLED,
        }
    }

    fn on_sent(&mut self, sample: &SentSample) {
        // Section 5.8: time without anything in flight is not time of growth.
        if let Some(epoch) = self.state.epoch.as_mut().filter(|_| sample.in_flight == ByteCount::ZERO) {
            epoch.skip_to(sample.now);
        }
    }

    fn on_validated(&mut self, subflows: &[Subflow]) {
        // The flow that this path joins has already had its initial window.
        let has_begun = Others::of(subflows).windows >= self.config.initial_bytes();
        if self.coupling == Coupling::Group && has_begun {
            self.state = State::new(self.config.minimum_bytes());
        }
    }

    fn on_subflows(&mut self, subflows: &[Subflow]) {
        if self.coupling == Coupling::Group {
            self.look_at(subflows);
        }
    }

    fn on_ack(&mut self, sample: &AckSample, _siblings: &[Subflow]) {
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

    fn on_loss(&mut self, sample: &LossSample) {
        self.before_loss = Some(self.state);
        let (window, whole) = (self.window(), self.whole());
        let given = if self.others.reduced_at.is_some_and(|at| sample.sent_at < at) {
            ByteCount::ZERO
        } else {
            self.reduced_at = Some(sample.now);
            self.state.begin_reduction(whole);
            whole - scaled(whole, BETA)
        };
        let reduced = (window - given).max(window / LEAST_KEPT).max(self.config.minimum_bytes());
        self.state.window = Fine::new(reduced);
        self.state.slow_start.set_threshold(reduced);
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
        // The curve counts in datagrams: restart it.
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

    fn reduced_at(&self) -> Option<Instant> {
        self.reduced_at
    }
}

fn scaled(bytes: ByteCount, (numerator, denominator): (u64, u64)) -> ByteCount {
    bytes * numerator / denominator
}
