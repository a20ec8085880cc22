//! How much more is acknowledged at once than the rate explains (`BBR.extra_acked`): so much the window needs beyond, or
//! the sender falls silent while the next acknowledgement is being gathered.

use super::AckSample;
use crate::{ByteCount, Instant, Rate};

/// Half of the round trips that the maximum covers: it is kept in two parts.
const HALF_WINDOW: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregation {
    /// When the present stretch of acknowledgements began that were faster than the rate.
    since: Option<Instant>,
    acked: ByteCount,
    previous: ByteCount,
    current: ByteCount,
    /// The round in which `current` began.
    current_since: u64,
}

impl Aggregation {
    /// The largest excess of the last rounds.
    pub(super) fn extra(&self) -> ByteCount {
        self.previous.max(self.current)
    }

    /// The path rested: what comes now is a new stretch.
    pub(super) fn restart(&mut self, now: Instant) {
        self.since = Some(now);
        self.acked = ByteCount::ZERO;
    }

    /// Something was acknowledged, while the path was taken to carry `rate`. Before the pipe is full, the rate is not known
    /// well, so that less is remembered.
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
