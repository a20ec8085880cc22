//! Recovery periods: one congestion event in a round trip, undone if all packets lost in it arrive after all.

/// The packets lost in one recovery period.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecoveryPeriods {
    /// Number of the current period; 0 before the first.
    current: u64,
    /// First packet number sent after the period began: the loss of an earlier packet is no new congestion event.
    boundary: u64,
    /// Number of lost packets that have not arrived.
    missing: u32,
    can_undo: bool,
}

/// What the loss of a packet means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CongestionEvent {
    /// The loss begins a congestion event.
    New,
    /// The loss belongs to the last congestion event.
    Same,
}

impl RecoveryPeriods {
    /// The number of the current period, to be stored with a lost packet.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Whether a packet was sent before the last congestion event.
    pub(crate) fn is_in_recovery(&self, packet_number: u64) -> bool {
        packet_number < self.boundary
    }

    /// A packet was lost; `next` is the number of the next packet to be sent.
    pub(crate) fn on_lost(&mut self, packet_number: u64, next: u64) -> CongestionEvent {
        if self.is_in_recovery(packet_number) {
            self.missing = self.missing.saturating_add(1);
            return CongestionEvent::Same;
        }
        *self = Self { current: self.current + 1, boundary: next, missing: 1, can_undo: true };
        CongestionEvent::New
    }

    /// A packet arrived with a CE mark: the event stands even if all lost packets arrive.
    pub(crate) fn on_mark(&mut self, packet_number: u64, next: u64) -> CongestionEvent {
        if self.is_in_recovery(packet_number) {
            self.can_undo = false;
            return CongestionEvent::Same;
        }
        *self = Self { current: self.current + 1, boundary: next, missing: 0, can_undo: false };
        CongestionEvent::New
    }

    /// A lost packet of a period arrived. Returns whether the congestion event has to be undone.
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

    /// A packet of a period will not arrive any more: its loss was real.
    pub(crate) fn on_really_lost(&mut self, episode: u64) {
        if episode == self.current {
            self.can_undo = false;
        }
    }

    /// The current period stands, whatever arrives.
    pub(crate) fn forbid_undo(&mut self) {
        self.can_undo = false;
    }

    /// The path starts anew: packets sent before `next` do not count.
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
        assert_eq!(recovery_periods.on_lost(3, 10), CongestionEvent::New);
        assert_eq!(recovery_periods.on_lost(9, 12), CongestionEvent::Same);
        assert_eq!(recovery_periods.on_lost(10, 15), CongestionEvent::New);
        assert!(recovery_periods.is_in_recovery(14) && !recovery_periods.is_in_recovery(15));
    }

    #[test]
    fn an_event_is_undone_when_its_last_missing_packet_arrives() {
        let mut recovery_periods = RecoveryPeriods::default();
        recovery_periods.on_lost(3, 10);
        recovery_periods.on_lost(4, 10);
        assert!(!recovery_periods.on_spurious(1));
        assert!(recovery_periods.on_spurious(1));
        assert!(!recovery_periods.is_in_recovery(5));
        assert!(!recovery_periods.on_spurious(1));
    }

    #[test]
    fn one_missing_packet_keeps_the_event() {
        let mut recovery_periods = RecoveryPeriods::default();
        recovery_periods.on_lost(3, 10);
        recovery_periods.on_lost(4, 10);
        recovery_periods.on_really_lost(1);
        assert!(!recovery_periods.on_spurious(1));
        assert!(!recovery_periods.on_spurious(1));
        assert!(recovery_periods.is_in_recovery(5));
    }
}
