//! Congestion events: one a round trip, and undone if all that was lost in it arrives after all.

/// The packets lost together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecoveryPeriods {
    /// Number of the current one; 0 before the first.
    current: u64,
    /// First packet number sent after it began: below, packets say nothing new about congestion.
    boundary: u64,
    /// Lost packets that have not arrived.
    missing: u32,
    can_undo: bool,
}

/// What a lost packet means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// It begins a congestion event.
    NewEvent,
    /// It belongs to the last one.
    SameEvent,
}

impl RecoveryPeriods {
    /// The number of the current one, to be remembered with a lost packet.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Whether a packet was sent before the last congestion event.
    pub(crate) fn is_in_recovery(&self, packet_number: u64) -> bool {
        packet_number < self.boundary
    }

    /// A packet was lost; `next` is the number of the next packet to be sent.
    pub(crate) fn on_lost(&mut self, packet_number: u64, next: u64) -> Meaning {
        if self.is_in_recovery(packet_number) {
            self.missing = self.missing.saturating_add(1);
            return Meaning::SameEvent;
        }
        *self = Self { current: self.current + 1, boundary: next, missing: 1, can_undo: true };
        Meaning::NewEvent
    }

    /// A packet arrived with a mark of congestion: that stands, whatever lost packets arrive.
    pub(crate) fn on_mark(&mut self, packet_number: u64, next: u64) -> Meaning {
        if self.is_in_recovery(packet_number) {
            self.can_undo = false;
            return Meaning::SameEvent;
        }
        *self = Self { current: self.current + 1, boundary: next, missing: 0, can_undo: false };
        Meaning::NewEvent
    }

    /// A lost packet of an episode arrived. Returns whether the congestion event has to be undone.
    pub(crate) fn on_spurious(&mut self, episode: u64) -> bool {
        if episode != self.current || !self.can_undo {
            return false;
        }
        self.missing = self.missing.saturating_sub(1);
        if self.missing > 0 {
            return false;
        }
        self.can_undo = false;
        self.boundary = 0;
        true
    }

    /// A packet of an episode will not arrive any more: it was rightly called lost.
    pub(crate) fn on_really_lost(&mut self, episode: u64) {
        if episode == self.current {
            self.can_undo = false;
        }
    }

    /// Whatever arrives, the current one stands.
    pub(crate) fn forbid_undo(&mut self) {
        self.can_undo = false;
    }

    /// The path starts anew: what was sent before `next` does not count.
    pub(crate) fn restart(&mut self, next: u64) {
        *self = Self { current: self.current + 1, boundary: next, missing: 0, can_undo: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_flight_are_one_event() {
        let mut recovery_periods = RecoveryPeriods::default();
        assert_eq!(recovery_periods.on_lost(3, 10), Meaning::NewEvent);
        assert_eq!(recovery_periods.on_lost(9, 12), Meaning::SameEvent);
        assert_eq!(recovery_periods.on_lost(10, 15), Meaning::NewEvent);
        assert!(recovery_periods.is_in_recovery(14) && !recovery_periods.is_in_recovery(15));
    }

    #[test]
    fn an_event_is_undone_when_its_last_packet_arrives() {
        let mut recovery_periods = RecoveryPeriods::default();
        recovery_periods.on_lost(3, 10);
        recovery_periods.on_lost(4, 10);
        assert!(!recovery_periods.on_spurious(1));
        assert!(recovery_periods.on_spurious(1));
        assert!(!recovery_periods.is_in_recovery(5));
        assert!(!recovery_periods.on_spurious(1));
    }

    #[test]
    fn one_packet_that_stays_away_keeps_the_event() {
        let mut recovery_periods = RecoveryPeriods::default();
        recovery_periods.on_lost(3, 10);
        recovery_periods.on_lost(4, 10);
        recovery_periods.on_really_lost(1);
        assert!(!recovery_periods.on_spurious(1));
        assert!(!recovery_periods.on_spurious(1));
        assert!(recovery_periods.is_in_recovery(5));
    }
}
