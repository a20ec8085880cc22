//! Detects paths that drop only large packets: the black hole of RFC 8899, section 4.3, as distinct from congestion
//! and outages.

use crate::packet::BASE_DATAGRAM;

/// Counts consecutive losses of large packets on a path that carries small ones.
///
/// A packet is large if it exceeds the size that every path must carry. A lost large packet counts if a small packet
/// that was sent before it arrived, and no large packet has arrived since. So the loss of a whole flight, as by an
/// overflowing queue or a short outage, does not count, nor does a loss among other arrivals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LargePackets {
    /// The newest large packet that arrived.
    arrived: Option<u64>,
    /// The oldest small packet that arrived after it.
    small: Option<u64>,
    lost: u32,
    /// Size of the smallest lost packet; smaller ones may arrive without contradiction.
    smallest_lost: Option<u16>,
}

impl LargePackets {
    /// A packet arrived, perhaps after it was declared lost.
    pub(crate) fn on_arrived(&mut self, packet_number: u64, size: u16) {
        let newer = self.arrived < Some(packet_number);
        if size <= BASE_DATAGRAM {
            if newer {
                self.small = Some(self.small.map_or(packet_number, |oldest| oldest.min(packet_number)));
            }
        } else if newer && self.smallest_lost.is_none_or(|smallest| size >= smallest) {
            self.arrived = Some(packet_number);
            if self.small.is_some_and(|small| small < packet_number) {
                self.small = None;
                self.forget_losses();
            }
        }
    }

    /// A packet was declared lost that carried content and was no PMTU probe.
    pub(crate) fn on_lost(&mut self, packet_number: u64, size: u16) {
        if size > BASE_DATAGRAM && self.small.is_some_and(|small| small < packet_number) {
            self.lost = self.lost.saturating_add(1);
            self.smallest_lost = Some(self.smallest_lost.map_or(size, |smallest| smallest.min(size)));
        }
    }

    /// How many large packets were lost in a row.
    pub(crate) fn lost(&self) -> u32 {
        self.lost
    }

    /// The path uses another size from now on.
    pub(crate) fn forget_losses(&mut self) {
        self.lost = 0;
        self.smallest_lost = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: u16 = 1472;

    #[test]
    fn large_packets_that_vanish_among_small_ones_are_counted() {
        let mut path = LargePackets::default();
        path.on_arrived(0, LARGE);
        path.on_arrived(1, 40);
        for number in 2..7 {
            path.on_lost(number, LARGE);
        }
        // The arrival of a middle-sized packet is no contradiction.
        path.on_arrived(7, 1300);
        assert_eq!(path.lost(), 5);
        path.on_lost(8, LARGE);
        assert_eq!(path.lost(), 6);
    }

    #[test]
    fn the_loss_of_a_whole_flight_is_no_sign_of_a_black_hole() {
        let mut path = LargePackets::default();
        path.on_arrived(0, LARGE);
        // The packet that reveals the loss was sent after the flight.
        path.on_arrived(101, 40);
        for number in 1..101 {
            path.on_lost(number, LARGE);
        }
        assert_eq!(path.lost(), 0);
    }

    #[test]
    fn an_arriving_large_packet_resets_the_count() {
        let mut path = LargePackets::default();
        path.on_arrived(0, 40);
        for number in 1..100 {
            if number % 6 == 0 {
                path.on_arrived(number, LARGE);
                path.on_arrived(number, 40);
            } else {
                path.on_lost(number, LARGE);
            }
            path.on_lost(number, 1200);
            assert!(path.lost() <= 5);
        }
    }
}
