//! What the driver reports about the room in a path's carrier (spec 6.80).

use std::time::Duration;

use crate::Instant;

/// A carrier that takes nothing for so long counts as stalled, however short its round trip is.
const SHORTEST_STALL: Duration = Duration::from_millis(10);

/// Whether a carrier takes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BackPressure {
    /// It takes packets.
    None,
    /// It is full, as a window may be: data may wait for it.
    Blocked { since: Instant },
    /// It has been full for so long that data goes elsewhere.
    Stalled,
}

impl BackPressure {
    /// The driver can pass nothing on now.
    pub(crate) fn on_blocked(&mut self, now: Instant) {
        if *self == Self::None {
            *self = Self::Blocked { since: now };
        }
    }

    /// The driver can pass packets on again.
    pub(crate) fn on_writable(&mut self) {
        *self = Self::None;
    }

    pub(super) fn is_blocked(self) -> bool {
        self != Self::None
    }

    pub(super) fn is_stalled(self) -> bool {
        self == Self::Stalled
    }

    /// When a full carrier counts as stalled, given its round trip.
    pub(super) fn stalls_at(self, round_trip: Duration) -> Option<Instant> {
        match self {
            Self::Blocked { since } => Some(since + round_trip.max(SHORTEST_STALL)),
            Self::None | Self::Stalled => None,
        }
    }
}
