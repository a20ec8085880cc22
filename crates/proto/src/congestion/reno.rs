//! Reno (RFC 5681, RFC 9002 section 7), alone as NewReno or coupled with other paths.

use std::marker::PhantomData;
use std::time::Duration;

use super::controller::pacing_of_window;
use super::coupled::{Alone, Group, Law, Member, ONE};
use super::slow_start::SlowStart;
use super::{AckSample, CongestionController, ControllerConfig, LossSample, Subflow};
use crate::{ByteCount, Instant, Rate};

/// The simplest controller, and the reference: grows by one datagram in a round trip, and halves the window at a
/// congestion event.
pub type NewReno = Reno<Alone>;

/// Grows and shrinks as a [`Law`] modifies Reno. Slow start is not coupled.
#[derive(Debug, Clone)]
pub struct Reno<L> {
    config: ControllerConfig,
    state: State,
    /// The state before the last congestion event, to undo it.
    before_loss: Option<State>,
    /// The reduction at the next congestion event, for the group at the last update.
    reduction: u64,
    law: PhantomData<L>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    window: ByteCount,
    slow_start: SlowStart,
    /// Acknowledged bytes that count since the window last changed.
    acked: i64,
}

impl State {
    fn new(window: ByteCount) -> Self {
        Self { window, slow_start: SlowStart::new(), acked: 0 }
    }
}

impl<L: Law> Reno<L> {
    /// See [`super::by_name`].
    pub const NAME: &'static str = L::NAME;

    /// Starts in slow start with the initial window.
    pub fn new(config: &ControllerConfig) -> Self {
        let state = State::new(config.initial_bytes());
        Self { config: *config, state, before_loss: None, reduction: ONE / 2, law: PhantomData }
    }

    /// Changes the window by a datagram for each window of bytes that count.
    fn avoid_congestion(&mut self, bytes: ByteCount, gain: i64) {
        let minimum = self.config.minimum_bytes();
        let datagram = ByteCount(u64::from(self.config.max_datagram));
        let counted = (i128::from(bytes.get()) * i128::from(gain)) >> 32;
        let state = &mut self.state;
        state.acked = state.acked.saturating_add(i64::try_from(counted).unwrap_or_default());
        let window = i64::try_from(state.window.get()).unwrap_or(i64::MAX);
        if state.acked >= window {
            state.acked -= window;
            state.window += datagram;
        } else if state.acked <= -window {
            state.acked += window;
            state.window = (state.window - datagram).max(minimum);
        }
    }
}

impl<L: Law> CongestionController for Reno<L> {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, sample: &AckSample, subflows: &[Subflow]) {
        let mut bytes = sample.bytes_outside_recovery;
        if self.is_in_slow_start() {
            (self.state.window, bytes) = self.state.slow_start.on_ack(self.state.window, sample);
        }
        let own = Member::new(self.state.window, sample.smoothed_rtt, sample.loss_interval);
        let group = Group::new(own, subflows);
        self.reduction = L::reduction(group);
        if !self.is_in_slow_start() && sample.allows_growth_of(self.state.window) {
            self.avoid_congestion(bytes, L::gain(group));
        }
    }

    fn on_loss(&mut self, _sample: &LossSample) {
        self.before_loss = Some(self.state);
        let kept = u128::from(self.state.window.get()) * u128::from(ONE.saturating_sub(self.reduction));
        let kept = ByteCount(u64::try_from(kept >> 32).unwrap_or_default());
        let window = kept.max(self.config.minimum_bytes());
        self.state.window = window;
        self.state.slow_start.set_threshold(window);
        self.state.acked = 0;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some(before) = self.before_loss.take().filter(|before| before.window >= self.state.window) {
            self.state = before;
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.before_loss = None;
        self.state.window = self.config.minimum_bytes();
        self.state.acked = 0;
    }

    fn on_restart(&mut self, _now: Instant, window: ByteCount) {
        self.before_loss = None;
        self.state = State::new(window.max(self.config.minimum_bytes()));
    }

    fn on_max_datagram(&mut self, size: u16) {
        self.config.max_datagram = size;
        self.state.window = self.state.window.max(self.config.minimum_bytes());
    }

    fn window(&self) -> ByteCount {
        self.state.window
    }

    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate {
        pacing_of_window(self.state.window, smoothed_rtt, self.is_in_slow_start())
    }

    fn is_in_slow_start(&self) -> bool {
        self.state.slow_start.is_active(self.state.window)
    }
}
