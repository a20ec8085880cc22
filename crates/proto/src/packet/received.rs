//! Packet numbers received on a path, for PATH-ACK.

use std::ops::RangeInclusive;

use crate::collections::range_set::RangeSet;
use crate::io::EcnCounts;
use crate::{Ecn, Instant};

/// The received packets of one packet number space whose acknowledgement the peer may not have.
///
/// At most [`MOST_RANGES`] ranges are kept, the newest; the peer retransmits packets of dropped ranges. Only the
/// replay window of the protection detects duplicates: dropped and pruned numbers count as new here.
#[derive(Debug, Default)]
pub(crate) struct ReceivedPackets {
    numbers: RangeSet,
    newest: Option<Newest>,
    /// All packets below this number are known to be acknowledged; the set starts above it, except for late ones.
    settled_below: u64,
    ecn: EcnCounts,
}

#[derive(Debug, Clone, Copy)]
struct Newest {
    number: u64,
    arrived: Instant,
}

/// The position of a packet relative to earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The expected packet.
    InOrder,
    /// Packets before it are missing.
    OpensGap,
    /// It is older than the newest one: it was reordered.
    Late,
}

/// Most ranges that are kept and acknowledged (RFC 9000, section 13.2.3).
pub(crate) const MOST_RANGES: usize = 64;

impl ReceivedPackets {
    /// Records the first successful decryption of a packet: duplicates are not decrypted.
    pub(crate) fn insert(&mut self, number: u64, now: Instant) -> Arrival {
        self.numbers.insert(number..number.saturating_add(1));
        if self.numbers.len() > MOST_RANGES {
            self.numbers.pop_first();
        }
        let arrival = match self.newest {
            Some(newest) if number < newest.number => return Arrival::Late,
            Some(newest) if number == newest.number + 1 => Arrival::InOrder,
            None if number == 0 => Arrival::InOrder,
            Some(_) | None => Arrival::OpensGap,
        };
        self.newest = Some(Newest { number, arrived: now });
        arrival
    }

    /// Counts the ECN mark of a packet that is not a duplicate.
    pub(crate) fn count_ecn(&mut self, mark: Ecn) {
        match mark {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ecn.ect0 += 1,
            Ecn::Ect1 => self.ecn.ect1 += 1,
            Ecn::Ce => self.ecn.ce += 1,
        }
    }

    /// The numbers to acknowledge, newest first.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + Clone {
        self.numbers.iter().rev().map(|range| range.start..=range.end - 1)
    }

    /// Whether acknowledgements have to report gaps.
    pub(crate) fn has_gaps(&self) -> bool {
        self.numbers.len() > 1
    }

    /// The largest number received.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.newest.map(|newest| newest.number)
    }

    /// When the largest number arrived.
    pub(crate) fn largest_time(&self) -> Option<Instant> {
        self.newest.map(|newest| newest.arrived)
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.numbers.shrink_to_fit();
    }

    /// The marks counted so far; `None` if there were none, which saves space in PATH-ACK.
    pub(crate) fn ecn(&self) -> Option<EcnCounts> {
        (self.ecn != EcnCounts::default()).then_some(self.ecn)
    }

    /// The peer has an acknowledgement up to `largest`: it need not be repeated (RFC 9000, section 13.2.4). The range
    /// of the newest packet stays, so that there is always something to acknowledge.
    pub(crate) fn on_ack_delivered(&mut self, largest: u64) {
        if largest < self.settled_below {
            return;
        }
        self.settled_below = largest + 1;
        let keep = self.largest().map_or(0, |newest| newest.min(self.settled_below));
        self.numbers.remove(0..keep);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant::from_nanos(0);

    fn ranges(received: &ReceivedPackets) -> Vec<RangeInclusive<u64>> {
        received.ranges().collect()
    }

    #[test]
    fn each_kind_of_arrival_is_recognised() {
        let mut received = ReceivedPackets::default();
        let arrivals = [0, 1, 3, 2, 4].map(|number| received.insert(number, NOW));
        use Arrival as A;
        assert_eq!(arrivals, [A::InOrder, A::InOrder, A::OpensGap, A::Late, A::InOrder]);
        assert_eq!(ranges(&received), [0..=4]);
    }

    #[test]
    fn the_time_is_that_of_the_largest_number() {
        let mut received = ReceivedPackets::default();
        received.insert(5, Instant::from_nanos(1));
        received.insert(3, Instant::from_nanos(2));
        assert_eq!((received.largest(), received.largest_time()), (Some(5), Some(Instant::from_nanos(1))));
    }

    #[test]
    fn ranges_that_the_peer_knows_to_be_acknowledged_are_dropped_but_late_packets_are_kept() {
        let mut received = ReceivedPackets::default();
        for number in [0, 1, 3, 5, 6] {
            received.insert(number, NOW);
        }
        received.on_ack_delivered(3);
        assert_eq!(ranges(&received), [5..=6]);
        received.insert(2, NOW);
        assert_eq!(ranges(&received), [5..=6, 2..=2]);
        received.on_ack_delivered(6);
        assert_eq!(ranges(&received), [6..=6]);
    }

    #[test]
    fn marks_are_counted() {
        let mut received = ReceivedPackets::default();
        assert_eq!(received.ecn(), None);
        for mark in [Ecn::NotEct, Ecn::Ect0, Ecn::Ce, Ecn::Ect0] {
            received.count_ecn(mark);
        }
        assert_eq!(received.ecn(), Some(EcnCounts { ect0: 2, ect1: 0, ce: 1 }));
    }

    proptest! {
        #[test]
        fn ranges_are_bounded_descending_and_contain_the_arrived_packets(
            numbers in prop::collection::vec(0u64..400, 1..300),
        ) {
            let mut received = ReceivedPackets::default();
            for number in numbers {
                received.insert(number, NOW);
                let listed = ranges(&received);
                prop_assert!(listed.len() <= MOST_RANGES);
                prop_assert!(listed.windows(2).all(|pair| *pair[0].start() > *pair[1].end() + 1));
                let oldest = *listed.last().unwrap().start();
                prop_assert!(number < oldest || listed.iter().any(|range| range.contains(&number)));
            }
        }
    }
}
