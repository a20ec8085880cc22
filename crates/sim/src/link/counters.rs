//! The counters of a link.

use std::ops::AddAssign;

use manyway_proto::ByteCount;

/// A number of packets and their bytes, as offered (without the overhead that the link adds).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: ByteCount,
}

impl Count {
    pub(super) fn add(&mut self, size: u32) {
        self.packets += 1;
        self.bytes += ByteCount(u64::from(size));
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Why a link dropped a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// The queue was full.
    QueueFull,
    /// Active queue management chose it.
    QueueLaw,
    /// It was lost on the medium.
    Loss,
    /// The link was cut, or was cut while the packet was on it.
    Outage,
    /// It was larger than the link's MTU.
    TooLarge,
    /// It carried an ECN mark, and the link drops such packets.
    Marked,
    /// The link drops packets of its kind, see [`Drops`](super::Drops).
    Kind,
}

/// The counters of a link. They balance at any time: `offered + duplicated = delivered + dropped + held`, in packets
/// and in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Entered the link.
    pub offered: Count,
    /// Left it at the other end.
    pub delivered: Count,
    /// Dropped by [`DropCause::QueueFull`].
    pub queue_full: Count,
    /// Dropped by [`DropCause::QueueLaw`].
    pub queue_law: Count,
    /// Dropped by [`DropCause::Loss`].
    pub lost: Count,
    /// Dropped by [`DropCause::Outage`].
    pub outage: Count,
    /// Dropped by [`DropCause::TooLarge`].
    pub too_large: Count,
    /// Dropped by [`DropCause::Marked`].
    pub black_hole: Count,
    /// Dropped by [`DropCause::Kind`].
    pub filtered: Count,
    /// Copies made by the link.
    pub duplicated: Count,
    /// Packets in which the link flipped a bit.
    pub corrupted: Count,
    /// Packets that got a congestion mark.
    pub marked: Count,
    /// Now in the queue, being sent, or in flight.
    pub held: Count,
}

impl LinkCounters {
    /// All drops together.
    pub fn dropped(&self) -> Count {
        let mut sum = Count::default();
        for part in [
            self.queue_full,
            self.queue_law,
            self.lost,
            self.outage,
            self.too_large,
            self.black_hole,
            self.filtered,
        ] {
            sum += part;
        }
        sum
    }

    /// Whether the counters balance.
    pub fn balance(&self) -> bool {
        let mut sources = self.offered;
        sources += self.duplicated;
        let mut sinks = self.delivered;
        sinks += self.dropped();
        sinks += self.held;
        sources == sinks
    }

    pub(super) fn drop(&mut self, cause: DropCause, size: u32) {
        let count = match cause {
            DropCause::QueueFull => &mut self.queue_full,
            DropCause::QueueLaw => &mut self.queue_law,
            DropCause::Loss => &mut self.lost,
            DropCause::Outage => &mut self.outage,
            DropCause::TooLarge => &mut self.too_large,
            DropCause::Marked => &mut self.black_hole,
            DropCause::Kind => &mut self.filtered,
        };
        count.add(size);
    }

    pub(super) fn release(&mut self, size: u32) {
        self.held.packets = self.held.packets.saturating_sub(1);
        self.held.bytes -= ByteCount(u64::from(size));
    }
}
