//! Persistent congestion: every packet was lost for several probe timeouts (RFC 9002, section 7.6).

use std::time::Duration;

use crate::Instant;

/// How many probe timeouts make it persistent.
const TIMEOUTS: u32 = 3;

/// The run of lost packets without an arrival in between.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PersistentCongestion {
    current: Option<Stretch>,
    /// Packets before this one do not count: without an RTT sample their timeout was a guess.
    from_index: u64,
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    first_sent: Instant,
    last_index: u64,
}

impl PersistentCongestion {
    /// The ack-eliciting packet number `index` was lost. Returns how long all packets have been lost.
    pub(crate) fn on_lost(&mut self, index: u64, time_sent: Instant) -> Duration {
        if index < self.from_index {
            return Duration::ZERO;
        }
        let stretch = match self.current {
            Some(stretch) if stretch.last_index + 1 == index => Stretch { last_index: index, ..stretch },
            Some(_) | None => Stretch { first_sent: time_sent, last_index: index },
        };
        self.current = Some(stretch);
        time_sent - stretch.first_sent
    }

    /// Starts again with packet number `index`.
    pub(crate) fn restart(&mut self, index: u64) {
        *self = Self { current: None, from_index: index };
    }
}

/// Whether a run of losses is persistent congestion, given the probe timeout without back-off.
pub(crate) fn is_persistent(stretch: Duration, timeout: Duration) -> bool {
    stretch > timeout * TIMEOUTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn an_arrival_breaks_the_run_of_losses() {
        let mut stretch = PersistentCongestion::default();
        assert_eq!(stretch.on_lost(1, at(100)), Duration::ZERO);
        assert_eq!(stretch.on_lost(2, at(400)), Duration::from_millis(300));
        // Packet 3 arrived.
        assert_eq!(stretch.on_lost(4, at(800)), Duration::ZERO);
        assert_eq!(stretch.on_lost(5, at(900)), Duration::from_millis(100));
    }

    #[test]
    fn packets_before_the_start_do_not_count() {
        let mut stretch = PersistentCongestion::default();
        stretch.restart(2);
        assert_eq!(stretch.on_lost(1, at(100)), Duration::ZERO);
        assert_eq!(stretch.on_lost(2, at(400)), Duration::ZERO);
        assert_eq!(stretch.on_lost(3, at(500)), Duration::from_millis(100));
    }

    #[test]
    fn persistent_congestion_takes_three_timeouts() {
        // RFC 9002, section 7.6.3: with a timeout of 2 s the period from 1 s to 8 s is persistent.
        assert!(is_persistent(Duration::from_secs(7), Duration::from_secs(2)));
        assert!(!is_persistent(Duration::from_secs(6), Duration::from_secs(2)));
    }
}
