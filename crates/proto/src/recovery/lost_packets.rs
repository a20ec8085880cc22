//! Packets declared lost, remembered for a while because they may still arrive.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Instant;
use crate::collections::ring_map::RingMap;
use crate::packet::content::Contents;

/// Most slots kept, including those of packets that arrived behind a missing one; the oldest are dropped first.
const COUNT_MAX: usize = 16_384;

/// A packet that was declared lost.
#[derive(Debug)]
pub(crate) struct LostPacket {
    pub(crate) packet_number: u64,
    pub(crate) time_sent: Instant,
    pub(crate) time_lost: Instant,
    pub(crate) size: u16,
    pub(crate) why: LostBy,
    pub(crate) contents: Contents,
}

/// Why a packet was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostBy {
    /// Loss detection, in this recovery period.
    Detection { episode: u64 },
    /// Loss detection during a suspect period: the loss says nothing about the capacity of the path.
    SuspectPeriod,
    /// Loss detection; the packet was a PMTU probe.
    MtuProbe,
    /// A later packet of a stream arrived, so this one arrived too and the peer discarded it.
    Discarding,
    /// The path was abandoned with all its packets in flight.
    Abandoning,
}

/// The packets declared lost, by ascending number.
///
/// The order needs no sorting, because loss detection always takes the oldest packets in flight. The store is a ring,
/// so acknowledgements of single packets in the middle move no elements.
#[derive(Debug)]
pub(crate) struct LostPackets {
    packets: RingMap<LostPacket>,
}

impl Default for LostPackets {
    fn default() -> Self {
        Self { packets: RingMap::new() }
    }
}

impl LostPackets {
    /// Remembers a packet. Returns the packet that is forgotten in exchange, if any.
    pub(crate) fn push(&mut self, packet: LostPacket) -> Option<LostPacket> {
        let forgotten = if self.packets.slots() >= COUNT_MAX { self.packets.pop_front() } else { None };
        self.packets.insert(packet.packet_number, packet);
        forgotten
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.packets.shrink_to_fit();
    }

    /// Removes the packets in a range: they arrived. Costs O(log n), and one step for each slot in the range.
    pub(crate) fn remove_range(&mut self, range: &RangeInclusive<u64>, taken: impl FnMut(LostPacket)) {
        self.packets.remove_range(range.clone(), taken);
    }

    /// Forgets packets that were declared lost more than `keep` ago.
    pub(crate) fn expire(&mut self, now: Instant, keep: Duration, mut forgotten: impl FnMut(LostPacket)) {
        while self.packets.front().is_some_and(|packet| now - packet.time_lost > keep) {
            if let Some(packet) = self.packets.pop_front() {
                forgotten(packet);
            }
        }
    }
}
