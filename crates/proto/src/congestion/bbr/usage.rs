//! How the sender uses its window.

use std::time::Duration;

use super::full_pipe::rise;
use crate::{ByteCount, Rate};

/// How the sender uses its window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// The initial window, and the bytes acknowledged since.
    first_window: ByteCount,
    acked: ByteCount,
    /// Lower bound of the pacing rate until the bandwidth is known.
    least_rate: Rate,
    /// The last round trip in which the window was full; the first one is number 1.
    full_in: u64,
    /// `BBR.idle_restart`
    is_restart: bool,
    /// Neither a loss nor a round trip has shown a queue so far.
    is_slow_start: bool,
}

impl Usage {
    pub(super) fn new(window: ByteCount) -> Self {
        Self {
            first_window: window,
            acked: ByteCount::ZERO,
            least_rate: Rate::ZERO,
            full_in: 0,
            is_restart: false,
            is_slow_start: true,
        }
    }

    pub(super) fn window_was_full(&mut self, round: u64) {
        self.full_in = round;
    }

    /// Whether the window was full in this round trip or the last one (`C.is_cwnd_limited`).
    pub(super) fn is_window_full(&self, round: u64) -> bool {
        self.full_in + 1 >= round
    }

    pub(super) fn end_slow_start(&mut self) {
        self.is_slow_start = false;
    }

    pub(super) fn forget_least_rate(&mut self) {
        self.least_rate = Rate::ZERO;
    }

    pub(super) fn is_restart(&self) -> bool {
        self.is_restart
    }

    pub(super) fn end_restart(&mut self) {
        self.is_restart = false;
    }

    /// The path is used again after a pause.
    pub(super) fn begin_restart(&mut self) {
        self.is_restart = true;
    }

    /// The initial window.
    pub(super) fn first_window(&self) -> ByteCount {
        self.first_window
    }

    pub(super) fn on_acked(&mut self, bytes: ByteCount) {
        self.acked += bytes;
    }

    pub(super) fn is_first_window_acked(&self) -> bool {
        self.acked >= self.first_window
    }

    pub(super) fn least_rate(&self) -> Rate {
        self.least_rate
    }

    pub(super) fn set_least_rate(&mut self, rate: Rate) {
        self.least_rate = rate;
    }

    pub(super) fn is_slow_start(&self) -> bool {
        self.is_slow_start
    }

    /// Ends slow start if a round trip shows a queue.
    pub(super) fn look_for_queue(&mut self, round_trip: Duration, minimum: Duration) {
        self.is_slow_start &= round_trip <= minimum + rise(minimum);
    }
}
