//! ACK aggregation: how much more is acknowledged at once than the rate explains (`BBR.extra_acked`). The window
//! grows by as much; otherwise the sender would fall silent while the peer gathers the next acknowledgement.

use super::AckSample;
use crate::{ByteCount, Instant, Rate};

/// Half of the round trips that the maximum filter covers: it is kept in two parts.
const HALF_WINDOW: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregation {
    /// Start of the present burst of acknowledgements that exceeds the rate.
    since: Option<Instant>,
    acked: ByteCount,
    previous: ByteCount,
    current: ByteCount,
    /// The round in which `current` started.
    current_since: u64,
}

impl Aggregation {
    /// The largest excess of the last rounds.
    pub(super) fn extra(&self) -> ByteCount {
        self.previous.max(self.current)
    }

    /// The path was idle: a new burst starts.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = Some(now);
        self.acked = ByteCount::ZERO;
    }

    /// Bytes were acknowledged, while the path was assumed to carry `rate`. Before the pipe is full the rate is
    /// uncertain, so less is remembered.
    pub(super) fn on_ack(
        &mut self,
        sample: &AckSample,
        round: u64,
        rate: Rate,
        window: ByteCount,
        is_full: bool,
    ) {
        let half = if is_full { HALF_WINDOW } else { 1 };
        if round - self.current_since >= half {
            let previous = if round - self.current_since < 2 * half { self.current } else { ByteCount::ZERO };
            (self.previous, self.current, self.current_since) = (previous, ByteCount::ZERO, round);
        }
        let since = *self.since.get_or_insert(sample.now);
        let mut expected = rate * (sample.now - since);
        if self.acked <= expected {
            self.restart(sample.now);
            expected = ByteCount::ZERO;
        }
        self.acked += sample.bytes;
        let extra = (self.acked - expected).min(window);
        self.current = self.current.max(extra);
    }
}
