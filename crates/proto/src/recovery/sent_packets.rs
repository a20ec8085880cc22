//! The packets in flight, in a ring, and the packet numbers of one path.

use std::ops::RangeInclusive;

use super::delivery_rate::DeliverySnapshot;
use super::off_path::OffPath;
use super::skipped_numbers::SkippedNumbers;
use crate::collections::ring_map::RingMap;
use crate::packet::content::Contents;
use crate::{ByteCount, Instant, Rng};

/// How loss recovery treats a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketKind {
    /// An ACK-only packet: the peer does not acknowledge it, so it is not remembered and not in flight.
    AckOnly,
    /// An ACK query: ack-eliciting, but like other ACK-only packets not in flight.
    AckQuery,
    /// An ack-eliciting packet.
    Ordinary,
    /// A PMTU probe: its loss says nothing about congestion. It is not in flight, because there is one at a time and
    /// rarely any.
    MtuProbe,
}

/// A packet that was sent.
#[derive(Debug, Clone)]
pub(crate) struct SentPacket {
    pub(crate) packet_number: u64,
    /// Size of the packet in bytes, with header and tag.
    pub(crate) size: u16,
    pub(crate) kind: PacketKind,
    pub(crate) contents: Contents,
    /// Its content was sent again on another path: its loss is not reported, its arrival is.
    pub(crate) reinjected: bool,
    /// It carries ECT(0).
    pub(crate) marked: bool,
    pub(super) time_sent: Instant,
    /// Counts the ack-eliciting packets, without gaps.
    pub(super) index: u64,
    pub(super) delivery: DeliverySnapshot,
}

impl SentPacket {
    /// Describes a packet; [`SentPackets`] fills in the time and the state of recovery when the packet is sent.
    pub(crate) fn new(packet_number: u64, size: u16, kind: PacketKind, contents: Contents) -> Self {
        Self {
            packet_number,
            size,
            kind,
            contents,
            reinjected: false,
            marked: false,
            time_sent: Instant::from_nanos(0),
            index: 0,
            delivery: DeliverySnapshot::UNSENT,
        }
    }

    /// When it was sent.
    pub(crate) fn time_sent(&self) -> Instant {
        self.time_sent
    }

    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount(u64::from(self.size))
    }

    /// The bytes that it adds to those in flight.
    fn room(&self) -> ByteCount {
        match self.kind {
            PacketKind::Ordinary => self.bytes(),
            PacketKind::MtuProbe | PacketKind::AckOnly | PacketKind::AckQuery => ByteCount::ZERO,
        }
    }
}

/// The packets in flight on one path.
#[derive(Debug)]
pub(crate) struct SentPackets {
    ring: RingMap<SentPacket>,
    bytes: ByteCount,
    next_number: u64,
    next_index: u64,
    largest_acked: Option<u64>,
    skipped: SkippedNumbers,
    /// Most paths have none.
    off_path: Option<Box<OffPath>>,
}

impl SentPackets {
    pub(crate) fn new() -> Self {
        Self {
            ring: RingMap::new(),
            bytes: ByteCount::ZERO,
            next_number: 0,
            next_index: 0,
            largest_acked: None,
            skipped: SkippedNumbers::default(),
            off_path: None,
        }
    }

    /// The number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Takes a packet number; it is never used again.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        if self.skipped.takes(self.next_number) {
            self.next_number += 1;
        }
        number
    }

    /// Skips the numbers below `number`, before any was taken.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.next_number = self.next_number.max(number);
    }

    /// Chooses the next number to skip, if none is chosen.
    pub(crate) fn maybe_skip_number(&mut self, rng: &mut Rng) {
        self.skipped.set(self.next_number, rng);
    }

    /// A number in the range that no packet had: it was skipped, or not reached yet.
    pub(crate) fn unsent(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        if *range.end() >= self.next_number {
            Some(*range.end())
        } else {
            self.skipped.acknowledged_skip(range)
        }
    }

    /// How many numbers above `number` and below `end` were skipped.
    pub(crate) fn left_out_between(&self, number: u64, end: u64) -> u64 {
        self.skipped.between(number, end)
    }

    /// The index of the next ack-eliciting packet.
    pub(crate) fn next_index(&self) -> u64 {
        self.next_index
    }

    /// A packet went between other addresses: its arrival says nothing about earlier packets on the path.
    pub(crate) fn on_off_path(&mut self, packet_number: u64) {
        self.off_path.get_or_insert_default().add(packet_number);
    }

    /// The last number in a range that was sent on the path itself.
    pub(crate) fn last_on_path(&self, range: &RangeInclusive<u64>) -> Option<u64> {
        self.off_path.as_ref().map_or_else(|| Some(*range.end()), |off_path| off_path.last_other(range))
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    pub(crate) fn on_largest_acked(&mut self, packet_number: u64) {
        self.largest_acked = self.largest_acked.max(Some(packet_number));
    }

    /// Total size of the packets in flight, without PMTU probes.
    pub(crate) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// Number of packets in flight.
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds a packet; packets come in the order of their numbers.
    pub(crate) fn insert(&mut self, mut packet: SentPacket) {
        packet.index = self.next_index;
        self.next_index += 1;
        self.bytes += packet.room();
        self.ring.insert(packet.packet_number, packet);
    }

    /// Removes the packets in a range. Costs one step for each packet in flight in the range.
    pub(crate) fn remove_range(&mut self, range: RangeInclusive<u64>, mut taken: impl FnMut(SentPacket)) {
        let bytes = &mut self.bytes;
        self.ring.remove_range(range, |packet| {
            *bytes -= packet.room();
            taken(packet);
        });
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.ring.shrink_to_fit();
        // A packet that arrives this late proves nothing either way.
        self.off_path = None;
    }

    /// A packet in flight.
    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.ring.get(number)
    }

    /// The oldest packet in flight.
    pub(crate) fn front(&self) -> Option<&SentPacket> {
        self.ring.front()
    }

    /// Removes the oldest packet in flight.
    pub(crate) fn pop_front(&mut self) -> Option<SentPacket> {
        let packet = self.ring.pop_front()?;
        self.bytes -= packet.room();
        Some(packet)
    }

    /// All packets in flight, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &SentPacket> {
        self.ring.iter()
    }

    /// All packets in flight, oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut SentPacket> {
        self.ring.iter_mut()
    }

    /// [`Self::bytes`], summed again.
    #[cfg(test)]
    pub(crate) fn counted_bytes(&self) -> ByteCount {
        self.ring.iter().map(SentPacket::room).sum()
    }
}
