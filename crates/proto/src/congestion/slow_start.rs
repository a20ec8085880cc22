//! Slow start with early exit by delay (HyStart++, RFC 9406), shared by NewReno and CUBIC.

use std::time::Duration;

use super::AckSample;
use crate::ByteCount;

/// Least rise of the RTT that ends the exponential growth (RFC 9406, section 4.3).
const RISE_MIN: Duration = Duration::from_millis(4);
/// Largest rise needed.
const RISE_MAX: Duration = Duration::from_millis(16);
/// Between the two, the rise needed is this part of the RTT.
const RISE_DIVISOR: u32 = 8;
/// Samples of a round before its minimum is trusted.
const SAMPLES_NEEDED: u8 = 8;
/// How much slower the conservative phase grows.
const CONSERVATIVE_DIVISOR: u64 = 4;
/// Rounds of the conservative phase before slow start ends for good.
const CONSERVATIVE_ROUNDS: u8 = 5;

/// How the window grows below the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// By every acknowledged byte.
    Exponential,
    /// By a quarter of it, until it is clear whether the rise of the delay was real.
    Conservative { baseline: Duration, rounds: u8 },
}

/// The threshold and the search for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlowStart {
    /// The window at which slow start ends; [`ByteCount::MAX`] while it is unknown.
    threshold: ByteCount,
    phase: Phase,
    /// The round ends when this packet or a later one is acknowledged.
    round_end: Option<u64>,
    last_minimum: Option<Duration>,
    current_minimum: Option<Duration>,
    samples: u8,
}

impl SlowStart {
    pub(super) const fn new() -> Self {
        Self {
            threshold: ByteCount::MAX,
            phase: Phase::Exponential,
            round_end: None,
            last_minimum: None,
            current_minimum: None,
            samples: 0,
        }
    }

    /// Whether a window of this size is in slow start.
    pub(super) fn is_active(&self, window: ByteCount) -> bool {
        window < self.threshold
    }

    /// Sets the threshold after a loss; growth below it is exponential again.
    pub(super) fn set_threshold(&mut self, threshold: ByteCount) {
        self.threshold = threshold;
        self.phase = Phase::Exponential;
    }

    /// Grows a window in slow start. Returns the new window and the acknowledged bytes that were not used.
    pub(super) fn on_ack(&mut self, window: ByteCount, sample: &AckSample) -> (ByteCount, ByteCount) {
        // Only the first slow start searches by delay (RFC 9406, section 4.3).
        if self.threshold == ByteCount::MAX {
            self.watch_delay(window, sample);
        }
        let bytes = sample.bytes_outside_recovery;
        if !sample.allows_growth_of(window) {
            return (window, ByteCount::ZERO);
        }
        let grown = match self.phase {
            Phase::Exponential => window + bytes,
            Phase::Conservative { .. } => window + bytes / CONSERVATIVE_DIVISOR,
        };
        if grown <= self.threshold {
            return (grown, ByteCount::ZERO);
        }
        let reached = self.threshold.max(window);
        (reached, grown - reached)
    }

    fn watch_delay(&mut self, window: ByteCount, sample: &AckSample) {
        if let Some(rtt) = sample.latest_rtt {
            self.current_minimum = Some(self.current_minimum.map_or(rtt, |minimum| minimum.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
        self.judge_delay();
        let round_end = *self.round_end.get_or_insert(sample.next_packet_number);
        if sample.largest_acked < round_end {
            return;
        }
        self.round_end = Some(sample.next_packet_number);
        self.last_minimum = self.current_minimum.take();
        self.samples = 0;
        if let Phase::Conservative { rounds, .. } = &mut self.phase {
            *rounds += 1;
            if *rounds >= CONSERVATIVE_ROUNDS {
                self.threshold = window;
            }
        }
    }

    fn judge_delay(&mut self) {
        let Some(current) = self.current_minimum else { return };
        if self.samples < SAMPLES_NEEDED {
            return;
        }
        match self.phase {
            Phase::Exponential => {
                let Some(last) = self.last_minimum else { return };
                let rise = (last / RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX);
                if current >= last + rise {
                    self.phase = Phase::Conservative { baseline: current, rounds: 0 };
                }
            }
            Phase::Conservative { baseline, .. } => {
                if current < baseline {
                    self.phase = Phase::Exponential;
                }
            }
        }
    }
}
