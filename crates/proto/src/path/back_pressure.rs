//! What the driver reports about the room in a path's carrier (spec 6.80).

use std::time::Duration;

use crate::{FourTuple, Instant};

/// A carrier that takes nothing for so long counts as stalled, however short its round trip is.
const SHORTEST_STALL: Duration = Duration::from_millis(10);

/// Whether the carrier of a path takes packets. What is known of one address pair does not hold for the next. Most
/// paths are never full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BackPressure(Option<Box<Full>>);

/// A carrier that takes nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Full {
    tuple: FourTuple,
    since: Instant,
    /// It has been full for so long that data goes elsewhere; before, data may wait for it as for a full window.
    is_stalled: bool,
}

impl BackPressure {
    /// The driver can pass nothing on to this address pair now.
    pub(crate) fn on_blocked(&mut self, now: Instant, tuple: FourTuple) {
        if !self.is_blocked(&tuple) {
            self.0 = Some(Box::new(Full { tuple, since: now, is_stalled: false }));
        }
    }

    /// The driver can pass packets on again.
    pub(crate) fn on_writable(&mut self) {
        self.0 = None;
    }

    /// The carrier has been full for longer than a full window would be.
    pub(super) fn on_stalled(&mut self) {
        if let Some(full) = &mut self.0 {
            full.is_stalled = true;
        }
    }

    /// Whether any address pair is known to be full: spares most callers to copy theirs.
    #[inline]
    pub(super) fn is_any_full(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_blocked(&self, present: &FourTuple) -> bool {
        self.full(present).is_some()
    }

    pub(super) fn is_stalled(&self, present: &FourTuple) -> bool {
        self.full(present).is_some_and(|full| full.is_stalled)
    }

    /// When a full carrier counts as stalled, given its round trip.
    pub(super) fn stalls_at(&self, present: &FourTuple, round_trip: Duration) -> Option<Instant> {
        let full = self.full(present).filter(|full| !full.is_stalled)?;
        Some(full.since + round_trip.max(SHORTEST_STALL))
    }

    fn full(&self, present: &FourTuple) -> Option<&Full> {
        self.0.as_deref().filter(|full| full.tuple == *present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalAddress;

    fn tuple(port: u16) -> FourTuple {
        let local = LocalAddress { interface: 1, address: ([10, 0, 0, 1], 1).into() };
        FourTuple::udp(local, ([10, 0, 0, 2], port).into())
    }

    #[test]
    fn a_full_carrier_stalls_after_a_round_trip_and_recovers_at_once() {
        let (now, rtt) = (Instant::from_nanos(0), Duration::from_millis(30));
        let mut state = BackPressure::default();
        state.on_blocked(now, tuple(1));
        state.on_blocked(now + rtt, tuple(1));
        assert_eq!(state.stalls_at(&tuple(1), rtt), Some(now + rtt), "counted from the first report");
        assert!(state.is_blocked(&tuple(1)) && !state.is_stalled(&tuple(1)));
        state.on_stalled();
        assert!(state.is_stalled(&tuple(1)) && state.stalls_at(&tuple(1), rtt).is_none());
        state.on_writable();
        assert!(!state.is_blocked(&tuple(1)));
    }

    #[test]
    fn a_path_that_moves_to_other_addresses_is_not_blocked_there() {
        let mut state = BackPressure::default();
        state.on_blocked(Instant::from_nanos(0), tuple(1));
        assert!(!state.is_blocked(&tuple(2)) && state.stalls_at(&tuple(2), Duration::ZERO).is_none());
        state.on_blocked(Instant::from_nanos(5), tuple(2));
        assert!(state.is_blocked(&tuple(2)) && !state.is_blocked(&tuple(1)));
    }
}
