//! One sequence of bytes in each direction, of which only counters are kept: each byte is computed from its offset.

use manyway_wire::{StreamId, Writer};

use crate::collections::range_set::RangeSet;
use crate::packet::content::{Contents, SentContent};
use crate::scheduler::{NextUp, ReadyStream};
use crate::stream::backlog::Backlog;
use crate::stream::priority::ClassFilter;
use crate::{ByteCount, Instant};

pub(super) const DATA: u8 = 2;
/// Size of kind, offset and length before data.
pub(super) const AROUND_DATA: usize = 11;
/// There is no flow control: this much credit is always left.
const UNLIMITED: ByteCount = ByteCount(1 << 40);

/// Counters of written, sent and received bytes.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Bytes that the application has written.
    written: u64,
    /// Bytes that were sent at least once.
    sent: u64,
    retransmissions: RangeSet,
    acked: RangeSet,
    received: RangeSet,
    /// Bytes received that differ from those computed from their offset.
    wrong: u64,
}

impl Row {
    pub(super) fn write(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Bytes received in order.
    pub(super) fn in_order(&self) -> u64 {
        prefix(&self.received)
    }

    pub(super) fn wrong(&self) -> u64 {
        self.wrong
    }

    /// Bytes that the peer has in order.
    pub(super) fn acknowledged(&self) -> u64 {
        prefix(&self.acked)
    }

    pub(super) fn take(&mut self, offset: u64, data: &[u8]) {
        let is_wrong = |(at, byte): &(u64, &u8)| **byte != byte_at(*at);
        self.wrong += (offset..).zip(data).filter(is_wrong).count() as u64;
        self.received.insert(offset..offset.saturating_add(data.len() as u64));
    }

    pub(super) fn on_delivered(&mut self, content: &SentContent) {
        let Some(range) = content.units() else { return };
        self.acked.insert(range.clone());
        self.retransmissions.remove(range);
    }

    pub(super) fn on_lost(&mut self, content: &SentContent) {
        let Some(range) = content.units() else { return };
        let missing: Vec<_> = self.acked.gaps(range).collect();
        for gap in missing {
            self.retransmissions.insert(gap);
        }
    }

    pub(super) fn write_next(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        while let Some(range) = self.retransmissions.first() {
            let Some(reached) = write_data(range.clone(), writer, contents) else { return };
            self.retransmissions.remove(range.start..reached);
        }
        if self.sent < self.written
            && let Some(reached) = write_data(self.sent..self.written, writer, contents)
        {
            self.sent = reached;
        }
    }

    pub(super) fn write_copy(
        &self,
        copied: &SentContent,
        from: u64,
        writer: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> Option<u64> {
        let units = copied.units()?;
        let missing = self.acked.gaps(from.max(units.start)..units.end).next();
        missing.map_or(Some(units.end), |gap| write_data(gap, writer, contents))
    }
}

/// The engine's queries.
impl Row {
    pub(crate) fn wants_data(&self, filter: ClassFilter) -> bool {
        filter != ClassFilter::Urgent && (!self.retransmissions.is_empty() || self.sent < self.written)
    }

    pub(crate) fn backlog_of(&self, filter: ClassFilter) -> Backlog {
        let waits = filter != ClassFilter::Urgent;
        let of = |bytes: u64| if waits { ByteCount(bytes) } else { ByteCount::ZERO };
        Backlog {
            backlog: of(self.written - self.sent),
            deferred: ByteCount::ZERO,
            retransmissions: of(self.retransmissions.covered()),
            credit_left: UNLIMITED,
            credit_total: UNLIMITED,
            next: None,
        }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.covered()
    }

    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        content.units().is_some_and(|range| self.acked.gaps(range).next().is_none())
    }

    /// The lowest unacknowledged byte blocks all that follow.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        content.units().is_some_and(|range| range.contains(&prefix(&self.acked)))
    }

    /// Whether the peer has all written bytes.
    pub(crate) fn is_idle(&self) -> bool {
        self.acknowledged() >= self.written
    }

    pub(crate) fn ready_streams(&self, _filter: ClassFilter, list: &mut Vec<ReadyStream>) {
        list.clear();
    }

    pub(crate) fn urgent_backlog(&self) -> Option<u64> {
        None
    }

    pub(crate) fn next_up(&self, _filter: ClassFilter) -> Option<NextUp> {
        None
    }

    pub(crate) fn is_blocked(&self) -> bool {
        false
    }

    pub(crate) fn repeat_blocked(&self) {}

    pub(crate) fn expects_more(&self) -> bool {
        false
    }

    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        None
    }

    pub(crate) fn expire_messages(&self, _arrival: Instant) {}
}

/// Writes the part of a range that fits, and returns the offset reached; `None` if nothing fits.
fn write_data(range: std::ops::Range<u64>, writer: &mut Writer<'_>, contents: &mut Contents) -> Option<u64> {
    let room = writer.remaining().checked_sub(AROUND_DATA).filter(|room| *room > 0)? as u64;
    let end = range.end.min(range.start + room.min(u16::MAX.into()));
    let length = u32::try_from(end - range.start).ok()?;
    writer.u8(DATA);
    writer.u64(range.start);
    writer.u16(u16::try_from(length).ok()?);
    let bytes: Vec<u8> = (range.start..end).map(byte_at).collect();
    writer.bytes(&bytes);
    contents.push(SentContent::Stream { stream: StreamId(0), offset: range.start, length, end: false });
    Some(end)
}

/// The byte at an offset.
fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8
}

/// The offset of the first gap.
fn prefix(ranges: &RangeSet) -> u64 {
    ranges.first().filter(|range| range.start == 0).map_or(0, |range| range.end)
}
