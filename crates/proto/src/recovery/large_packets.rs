//! Do only large packets vanish? The black hole of RFC 8899, section 4.3, told from congestion and from outages.

use crate::path::BASE_DATAGRAM;

/// Counts large packets that were lost in a row on a path that carries small ones.
///
/// A packet is large if it is larger than what every path must carry. A lost one counts if a small packet that was sent
/// before it arrived, and since then no large one did. So neither a flight that is lost as a whole counts, as by an
/// overflowing queue or a short outage, nor what is lost among others that arrive.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LargePackets {
    /// The newest large packet that arrived.
    arrived: Option<u64>,
    /// The oldest small packet that arrived after it.
    small: Option<u64>,
    lost: u32,
    /// The smallest of the lost ones; that smaller ones arrive is no contradiction.
    smallest_lost: Option<u16>,
}

impl LargePackets {
    /// A packet arrived, perhaps after it had been called lost.
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

    /// A packet that was sent for its content, not to try its size, is called lost.
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

    /// Another size is used from now on.
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
        // That middling ones pass is no contradiction.
        path.on_arrived(7, 1300);
        assert_eq!(path.lost(), 5);
        path.on_lost(8, LARGE);
        assert_eq!(path.lost(), 6);
    }

    #[test]
    fn a_flight_that_is_lost_as_a_whole_is_no_sign() {
        let mut path = LargePackets::default();
        path.on_arrived(0, LARGE);
        // What shows the loss was sent after it.
        path.on_arrived(101, 40);
        for number in 1..101 {
            path.on_lost(number, LARGE);
        }
        assert_eq!(path.lost(), 0);
    }

    #[test]
    fn a_large_packet_that_arrives_ends_the_row() {
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
