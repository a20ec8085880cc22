//! A constant window, for tests and experiments.

use std::time::Duration;

use super::controller::pacing_of_window;
use super::{AckSample, CongestionController, ControllerConfig, LossSample, Subflow};
use crate::{ByteCount, Instant, Rate};

/// Keeps its initial window under all conditions. Not for shared networks.
#[derive(Debug, Clone)]
pub struct Fixed {
    datagrams: u32,
    window: ByteCount,
}

impl Fixed {
    /// See [`super::by_name`].
    pub const NAME: &'static str = "fixed";

    /// Creates a window of [`ControllerConfig::initial_window`] datagrams.
    pub fn new(config: &ControllerConfig) -> Self {
        Self { datagrams: config.initial_window.max(2), window: config.initial_bytes() }
    }
}

impl CongestionController for Fixed {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn on_ack(&mut self, _sample: &AckSample, _siblings: &[Subflow]) {}

    fn on_loss(&mut self, _sample: &LossSample) {}

    fn on_spurious_loss(&mut self, _now: Instant) {}

    fn on_persistent_congestion(&mut self, _now: Instant) {}

    fn on_restart(&mut self, _now: Instant, _window: ByteCount) {}

    fn on_max_datagram(&mut self, size: u16) {
        self.window = ByteCount(u64::from(size) * u64::from(self.datagrams));
    }

    fn window(&self) -> ByteCount {
        self.window
    }

    fn pacing_rate(&self, smoothed_rtt: Duration) -> Rate {
        pacing_of_window(self.window, smoothed_rtt, false)
    }

    fn is_in_slow_start(&self) -> bool {
        false
    }
}
