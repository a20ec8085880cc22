//! Packets that were called lost, remembered for a while: they may arrive after all.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Instant;
use crate::collections::ring_map::RingMap;
use crate::packet::content::Contents;

/// More are not remembered, those included that arrived behind one that did not; the oldest go first.
const COUNT_MAX: usize = 16_384;

/// A packet that was called lost.
#[derive(Debug)]
pub(crate) struct LostPacket {
    pub(crate) packet_number: u64,
    pub(crate) time_sent: Instant,
    pub(crate) time_lost: Instant,
    pub(crate) size: u16,
    pub(crate) why: LostBy,
    pub(crate) contents: Contents,
}

/// Why it was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostBy {
    /// Loss detection, as part of this congestion episode.
    Detection { episode: u64 },
    /// Loss detection, while the path was in suspect_period: it says nothing of its capacity.
    SuspectPeriod,
    /// Loss detection; it was a probe for a larger datagram.
    MtuProbe,
    /// The path was abandoned with all that was in flight.
    Abandoning,
}

/// The packets called lost, in the order of their numbers.
///
/// The order is kept without sorting, since loss detection always takes the oldest packets in flight.
/// It is a ring, so that a peer that acknowledges them one by one, from the middle, moves nothing.
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
    /// Remembers a packet. Returns the one that is forgotten for it, if any.
    pub(crate) fn push(&mut self, packet: LostPacket) -> Option<LostPacket> {
        let forgotten = if self.packets.slots() >= COUNT_MAX { self.packets.pop_front() } else { None };
        self.packets.insert(packet.packet_number, packet);
        forgotten
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.packets.shrink_to_fit();
    }

    /// Takes the packets of a range out: they arrived. Costs O(log n), and a step for each slot in the range.
    pub(crate) fn remove_range(&mut self, range: &RangeInclusive<u64>, taken: impl FnMut(LostPacket)) {
        self.packets.remove_range(range.clone(), taken);
    }

    /// Forgets packets that were called lost more than `keep` ago.
    pub(crate) fn expire(&mut self, now: Instant, keep: Duration, mut forgotten: impl FnMut(LostPacket)) {
        while self.packets.front().is_some_and(|packet| now - packet.time_lost > keep) {
            if let Some(packet) = self.packets.pop_front() {
                forgotten(packet);
            }
        }
    }
}
