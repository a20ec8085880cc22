//! Round trips counted by packets, and the use of the window in them.

use crate::ByteCount;

/// Counts round trips: one ends when a packet that was sent after its start is acknowledged.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rounds {
    end: u64,
    last_pipe: ByteCount,
    current_pipe: ByteCount,
    had_loss: bool,
}

/// A round trip that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// No packet was lost in it.
    Quiet,
    /// A packet was lost in it.
    Lossy,
}

impl Rounds {
    /// Most bytes in flight during this round trip and the last one.
    pub(crate) fn pipe(&self) -> ByteCount {
        self.last_pipe.max(self.current_pipe)
    }

    /// A packet left; `in_flight` includes it.
    pub(crate) fn on_sent(&mut self, in_flight: ByteCount) {
        self.current_pipe = self.current_pipe.max(in_flight);
    }

    pub(crate) fn on_lost(&mut self) {
        self.had_loss = true;
    }

    /// Packets up to `largest_acked` arrived. Returns the round trip that this ended.
    pub(crate) fn on_ack(&mut self, largest_acked: u64, next: u64, in_flight: ByteCount) -> Option<Round> {
        if largest_acked < self.end {
            return None;
        }
        let round = if self.had_loss { Round::Lossy } else { Round::Quiet };
        *self = Self { end: next, last_pipe: self.current_pipe, current_pipe: in_flight, had_loss: false };
        Some(round)
    }
}

/// Bytes delivered between congestion events, for coupled controllers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossInterval {
    current: ByteCount,
    last: ByteCount,
}

impl LossInterval {
    /// The larger of the current and the last interval.
    pub(crate) fn longest(&self) -> ByteCount {
        self.current.max(self.last)
    }

    pub(crate) fn on_acked(&mut self, bytes: ByteCount) {
        self.current += bytes;
    }

    pub(crate) fn on_congestion(&mut self) {
        *self = Self { current: ByteCount::ZERO, last: self.current };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_a_packet_that_was_sent_in_it() {
        let mut rounds = Rounds::default();
        rounds.on_sent(ByteCount(5000));
        assert_eq!(rounds.on_ack(0, 5, ByteCount(4000)), Some(Round::Quiet));
        rounds.on_lost();
        assert_eq!(rounds.on_ack(4, 9, ByteCount(0)), None);
        assert_eq!(rounds.pipe(), ByteCount(5000));
        assert_eq!(rounds.on_ack(5, 10, ByteCount(0)), Some(Round::Lossy));
        assert_eq!(rounds.pipe(), ByteCount(4000));
        assert_eq!(rounds.on_ack(10, 11, ByteCount(0)), Some(Round::Quiet));
        assert_eq!(rounds.pipe(), ByteCount(0));
    }
}
