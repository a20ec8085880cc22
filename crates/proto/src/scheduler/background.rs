//! Paths for data of the class *background*: those that cost nothing, with so little in flight that other traffic
//! hardly waits for it.
//!
//! The rule holds for every scheduler: while background data is next, the connection limits the available window in
//! the views. So a queue of other traffic takes nearly everything from it: its bytes in flight follow from the rate
//! that it gets.

use std::time::Duration;

use super::{PathView, View};
use crate::{ByteCount, Class};

/// The queueing delay that it may cause. (LEDBAT, RFC 6817, allows 100 ms, which disturbs a call.)
const QUEUE: Duration = Duration::from_millis(25);
/// Datagrams that may always be in flight, so that it never stops for good.
const LEAST: u64 = 2;

/// Whether background data is next.
pub(crate) fn is_next(view: &View<'_>) -> bool {
    view.retransmissions == ByteCount::ZERO && view.next.is_some_and(|next| next.class == Class::Background)
}

/// Whether background data may not use the path at all.
pub(crate) fn is_unpaid(path: &PathView) -> bool {
    path.terms.cost > 0
}

/// The path with the available window that background data may use (spec 8.44). The initial search for the rate is
/// not limited.
pub(crate) fn bounded(path: &PathView) -> PathView {
    let room = if is_unpaid(path) {
        ByteCount::ZERO
    } else if path.in_slow_start || path.delivery_rate.bytes_per_second() == 0 {
        path.sendable
    } else {
        let flight = path.delivery_rate * (path.rtt.base + QUEUE);
        let room = flight.max(path.datagram * LEAST) - path.in_flight;
        if room < path.datagram { ByteCount::ZERO } else { path.sendable.min(room) }
    };
    PathView { sendable: room, ..*path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathId, Rate};

    /// A path of 10 Mbit/s and 20 ms with available window for a hundred datagrams.
    fn path() -> PathView {
        let mut path = PathView::new(PathId(0));
        path.delivery_rate = Rate::from_bits_per_second(10_000_000);
        path.sendable = ByteCount(120_000);
        path
    }

    #[test]
    fn background_data_in_flight_is_bounded_by_rate_times_rtt_plus_25_ms() {
        let mut path = path();
        assert_eq!(bounded(&path).sendable, ByteCount(56_250));
        path.in_flight = ByteCount(50_000);
        assert_eq!(bounded(&path).sendable, ByteCount(6250));
        path.in_flight = ByteCount(56_000);
        assert_eq!(bounded(&path).sendable, ByteCount::ZERO);
        path.sendable = ByteCount::ZERO;
        path.in_flight = ByteCount::ZERO;
        assert_eq!(bounded(&path).sendable, ByteCount::ZERO);
    }

    #[test]
    fn two_datagrams_are_always_allowed_and_slow_start_is_not_limited() {
        let mut path = path();
        path.delivery_rate = Rate::from_bytes_per_second(1);
        assert_eq!(bounded(&path).sendable, ByteCount(2400));
        path.in_slow_start = true;
        assert_eq!(bounded(&path).sendable, path.sendable);
    }

    #[test]
    fn it_may_not_use_a_path_that_costs_something() {
        let mut path = path();
        path.terms.cost = 1;
        assert_eq!(bounded(&path).sendable, ByteCount::ZERO);
    }
}
