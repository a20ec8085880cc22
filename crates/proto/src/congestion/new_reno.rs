//! NewReno (RFC 5681, RFC 9002 section 7): the reference, simplest one.

use std::time::Duration;

use super::slow_start::SlowStart;
use super::{AckSample, CongestionController, ControllerConfig, LossSample, Sibling, pacing_of_window};
use crate::{ByteCount, Instant, Rate};

/// One datagram a round trip more, half of the window less at a congestion event.
#[derive(Debug, Clone)]
pub struct NewReno {
    config: ControllerConfig,
    state: State,
    /// The state before the last congestion event, for undoing it.
    before_loss: Option<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    window: ByteCount,
    slow_start: SlowStart,
    /// Bytes acknowledged since the window last grew.
    acked: ByteCount,
}

impl State {
    fn new(window: ByteCount) -> Self {
        Self { window, slow_start: SlowStart::new(), acked: ByteCount::ZERO }
    }
}

impl NewReno {
    /// See [`super::by_name`].
    pub const NAME: &'static str = "new-reno";

    /// Starts in slow start with the initial window.
    pub fn new(config: &ControllerConfig) -> Self {
        Self { config: *config, state: State::new(config.initial_bytes()), before_loss: None }
    }

    /// RFC 5681, section 3.1: one datagram for each window of acknowledged bytes.
    fn avoid_congestion(&mut self, bytes: ByteCount) {
        let state = &mut self.state;
        state.acked += bytes;
        if state.acked >= state.window {
            state.acked -= state.window;
            state.window += ByteCount(u64::from(self.config.max_datagram));
        }
    }
}

impl CongestionController for NewReno {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, sample: &AckSample, _siblings: &[Sibling]) {
        let mut bytes = sample.bytes_outside_recovery;
        if self.is_in_slow_start() {
            (self.state.window, bytes) = self.state.slow_start.on_ack(self.state.window, sample);
        }
        if !self.is_in_slow_start() && sample.allows_growth_of(self.state.window) {
            self.avoid_congestion(bytes);
        }
    }

    fn on_loss(&mut self, _sample: &LossSample) {
        self.before_loss = Some(self.state);
        let window = (self.state.window / 2).max(self.config.minimum_bytes());
        self.state.window = window;
        self.state.slow_start.set_threshold(window);
        self.state.acked = ByteCount::ZERO;
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        if let Some(before) = self.before_loss.take().filter(|before| before.window >= self.state.window) {
            self.state = before;
        }
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.before_loss = None;
        self.state.window = self.config.minimum_bytes();
        self.state.acked = ByteCount::ZERO;
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
