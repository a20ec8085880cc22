//! The receiving half of a connection: which bytes have arrived, and when that is acknowledged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use manyway_proto::Instant;

/// A single segment is acknowledged after this time (Linux's shortest).
const DELAY: Duration = Duration::from_millis(40);
/// So many segments in order are acknowledged at once (RFC 5681, section 4.2).
const TOGETHER: u32 = 2;

/// The receiving half. It knows byte numbers only.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    received: u64,
    /// Ranges beyond the first missing byte, by their first bytes, none adjacent to another.
    early: BTreeMap<u64, u64>,
    /// The first byte of the range with the newest arrival.
    newest: u64,
    /// Segments that no acknowledgement has covered.
    unacknowledged: u32,
    due: Option<Instant>,
}

impl Receiver {
    /// Every byte before this one has arrived.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Takes the numbers of the bytes of a segment.
    pub(crate) fn on_data(&mut self, now: Instant, range: Range<u64>) {
        let is_in_order = range.start == self.received && self.early.is_empty();
        let (mut begin, mut end) = (range.start, range.end);
        // The range before, if it reaches this one, and those after that this one reaches.
        if let Some((start, until)) = self.early.range(..=begin).next_back().map(|(a, b)| (*a, *b))
            && until >= begin
        {
            (begin, end) = (start, end.max(until));
        }
        while let Some((start, until)) = self.early.range(begin..=end).next().map(|(a, b)| (*a, *b)) {
            self.early.remove(&start);
            end = end.max(until);
        }
        if begin <= self.received {
            self.received = self.received.max(end);
        } else {
            self.early.insert(begin, end);
            self.newest = begin;
        }
        self.unacknowledged += if is_in_order { 1 } else { TOGETHER };
        self.due = if self.unacknowledged >= TOGETHER { Some(now) } else { Some(now + DELAY) };
    }

    /// Asks for an acknowledgement now.
    pub(crate) fn acknowledge(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// When an acknowledgement is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// An acknowledgement leaves.
    pub(crate) fn on_acknowledged(&mut self) {
        (self.unacknowledged, self.due) = (0, None);
    }

    /// Ranges beyond the first missing byte, the one with the newest arrival first (RFC 2018, section 4).
    pub(crate) fn early(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let newest = self.early.get_key_value(&self.newest);
        let others = self.early.iter().rev().filter(|(begin, _)| **begin != self.newest);
        newest.into_iter().chain(others).map(|(begin, end)| *begin..*end)
    }

    /// Whether data is missing before data that has arrived.
    pub(crate) fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);

    #[test]
    fn two_segments_in_order_are_acknowledged_at_once_and_one_after_40_milliseconds() {
        let mut receiver = Receiver::default();
        receiver.on_data(NOW, 0..10);
        assert_eq!(receiver.due(), Some(NOW + DELAY));
        receiver.on_data(NOW, 10..20);
        assert_eq!((receiver.due(), receiver.received()), (Some(NOW), 20));
        receiver.on_acknowledged();
        assert_eq!(receiver.due(), None);
    }

    #[test]
    fn a_gap_and_its_repair_are_acknowledged_at_once() {
        let mut receiver = Receiver::default();
        let ranges = [30..40, 10..20];
        for known in [1, 0] {
            receiver.on_data(NOW, ranges[known].clone());
            assert_eq!(receiver.due(), Some(NOW));
            assert!(receiver.early().eq(ranges[known..].iter().cloned()));
            receiver.on_acknowledged();
        }
        // The newest range comes first, although another lies above it.
        receiver.on_data(NOW, 20..25);
        assert!(receiver.early().eq([10..25, 30..40]));
        receiver.on_acknowledged();
        receiver.on_data(NOW, 0..10);
        assert_eq!((receiver.received(), receiver.due(), receiver.has_gap()), (25, Some(NOW), true));
        receiver.on_data(NOW, 25..30);
        assert_eq!((receiver.received(), receiver.has_gap()), (40, false));
        // A duplicate changes nothing but is answered.
        receiver.on_acknowledged();
        receiver.on_data(NOW, 0..10);
        assert_eq!((receiver.received(), receiver.due()), (40, Some(NOW)));
    }
}
