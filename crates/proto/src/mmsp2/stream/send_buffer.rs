//! Send buffer of a stream: bytes that are written, sent, acknowledged or lost.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use manyway_wire::Writer;

use crate::collections::range_set::RangeSet;

/// Holds the data of the application until the peer has it.
///
/// ```text
/// 0 … base        acknowledged without a gap, dropped
/// base … next     sent; parts of it are in `acked` (arrived) or `lost` (to be retransmitted), or were deferred and are
///                 in `deferred`
/// next … written  not sent yet
/// ```
///
/// Large writes are kept without a copy; small ones are gathered.
#[derive(Debug, Default)]
pub(crate) struct SendBuffer {
    chunks: VecDeque<Chunk>,
    base: u64,
    next: u64,
    written: u64,
    acked: RangeSet,
    lost: RangeSet,
    deferred: RangeSet,
    end: EndMark,
}

/// State of the FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum EndMark {
    /// The application may write more.
    #[default]
    None,
    /// To be sent, for the first time or again.
    Pending,
    /// In flight.
    Sent,
    /// Acknowledged.
    Acked,
}

#[derive(Debug)]
struct Chunk {
    start: u64,
    data: ChunkData,
}

#[derive(Debug)]
enum ChunkData {
    Shared(Bytes),
    Gathered(BytesMut),
}

/// Shorter writes are gathered, so that a byte costs no more memory than a few bytes.
const SMALL_WRITE: usize = 1 << 10;
/// Size of the chunks into which small writes are gathered.
const GATHERED_CHUNK: usize = 4 << 10;

impl SendBuffer {
    /// Takes bytes of the application.
    pub(crate) fn write(&mut self, data: Bytes) {
        debug_assert_eq!(self.end, EndMark::None, "nothing is written behind the end");
        if data.is_empty() {
            return;
        }
        let start = self.written;
        self.written += length(&data);
        if data.len() >= SMALL_WRITE {
            self.chunks.push_back(Chunk { start, data: ChunkData::Shared(data) });
            return;
        }
        if let Some(Chunk { data: ChunkData::Gathered(last), .. }) = self.chunks.back_mut()
            && last.len() + data.len() <= GATHERED_CHUNK
        {
            let needed = last.len() + data.len();
            if last.capacity() < needed {
                // Doubles the size, but never beyond what the chunk will hold.
                let mut larger = BytesMut::with_capacity((2 * last.len()).clamp(needed, GATHERED_CHUNK));
                larger.extend_from_slice(last);
                *last = larger;
            }
            last.extend_from_slice(&data);
            return;
        }
        let mut gathered = BytesMut::with_capacity(data.len());
        gathered.extend_from_slice(&data);
        self.chunks.push_back(Chunk { start, data: ChunkData::Gathered(gathered) });
    }

    /// The application has written all its data.
    pub(crate) fn finish(&mut self) {
        if self.end == EndMark::None {
            self.end = EndMark::Pending;
        }
    }

    /// The lowest range to retransmit.
    pub(crate) fn lost(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// Number of bytes to retransmit.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.covered()
    }

    /// The range beyond everything that was sent.
    pub(crate) fn beyond(&self) -> Range<u64> {
        self.next..self.written
    }

    /// Number of deferred bytes below others that were sent.
    pub(crate) fn deferred_bytes(&self) -> u64 {
        self.deferred.covered()
    }

    /// The first range of unsent bytes with `skip` unsent bytes before it; empty if there are not so many. Costs a
    /// step for each deferred range.
    pub(crate) fn unsent(&self, mut skip: u64) -> Range<u64> {
        for hole in self.deferred.iter() {
            let length = hole.end - hole.start;
            if skip < length {
                return hole.start + skip..hole.end;
            }
            skip -= length;
        }
        self.next.saturating_add(skip).min(self.written)..self.written
    }

    /// The offset of the first byte that has not arrived.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// How many bytes of `range` have arrived.
    pub(crate) fn arrived(&self, range: &Range<u64>) -> u64 {
        let above = range.start.max(self.base)..range.end;
        if above.is_empty() {
            return range.end - range.start;
        }
        let missing: u64 = self.acked.gaps(above).map(|gap| gap.end - gap.start).sum();
        range.end - range.start - missing
    }

    /// Whether a block without bytes is needed for the FIN.
    pub(crate) fn needs_fin_only(&self) -> bool {
        self.end == EndMark::Pending && self.next == self.written && self.lost.is_empty()
    }

    /// Whether a block that ends at `offset` carries the FIN.
    pub(crate) fn ends_at(&self, offset: u64) -> bool {
        self.end != EndMark::None && offset == self.written
    }

    /// A block with `range` was sent. A block that reaches the end of the stream carries the FIN.
    pub(crate) fn on_sent(&mut self, range: Range<u64>) {
        if self.ends_at(range.end) && self.end == EndMark::Pending {
            self.end = EndMark::Sent;
        }
        if range.start >= self.next {
            self.deferred.insert(self.next..range.start);
            self.next = range.end;
        } else {
            self.deferred.remove(range.clone());
            self.lost.remove(range);
        }
    }

    /// Appends the bytes of `range`, all of which are still here.
    pub(crate) fn encode(&self, range: Range<u64>, w: &mut Writer<'_>) {
        debug_assert!(
            range.start >= self.base && range.end <= self.written,
            "{range:?} is not in the buffer"
        );
        self.bytes_from(range.start).write(within(range.end - range.start), w);
    }

    /// The bytes from an offset on. Costs a search.
    pub(crate) fn bytes_from(&self, offset: u64) -> Unwritten<'_> {
        let first = self.chunks.partition_point(|chunk| chunk.start <= offset).saturating_sub(1);
        let mut chunks = self.chunks.range(first..);
        let front = chunks.next().and_then(|chunk| chunk.bytes().get(within(offset - chunk.start)..));
        Unwritten { front: front.unwrap_or_default(), chunks }
    }

    /// A block with `range` arrived; `end` if it carried the FIN.
    pub(crate) fn on_delivered(&mut self, range: Range<u64>, end: bool) {
        if end {
            self.end = EndMark::Acked;
        }
        if range.end <= self.base {
            return;
        }
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > self.base {
            self.acked.insert(range);
            return;
        }
        self.base = range.end;
        while let Some(first) = self.acked.first()
            && first.start <= self.base
        {
            self.base = self.base.max(first.end);
            self.acked.pop_first();
        }
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= self.base) {
            self.chunks.pop_front();
        }
    }

    /// A block with `range` was lost: retransmits the parts of which no other copy arrived.
    pub(crate) fn on_lost(&mut self, range: Range<u64>, end: bool) {
        if end && self.end == EndMark::Sent {
            self.end = EndMark::Pending;
        }
        let range = range.start.max(self.base)..range.end;
        if range.is_empty() {
            return;
        }
        for gap in self.acked.gaps(range) {
            self.lost.insert(gap);
        }
    }

    /// Drops all bytes: the stream is abandoned.
    pub(crate) fn clear(&mut self) {
        self.chunks = VecDeque::new();
        self.acked.clear();
        self.lost.clear();
        self.deferred.clear();
        self.base = self.next;
        self.written = self.next;
        self.end = EndMark::None;
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> u64 {
        self.written - self.base
    }

    /// Bytes that are sent and neither acknowledged nor lost.
    pub(crate) fn in_flight(&self) -> u64 {
        self.next - self.base - self.acked.covered() - self.lost.covered() - self.deferred.covered()
    }

    /// Bytes that arrived behind a missing one: they are held until it arrives.
    pub(crate) fn behind_gaps(&self) -> u64 {
        self.acked.covered()
    }

    /// The highest offset that was sent: the final size if the stream is abandoned now.
    pub(crate) fn sent(&self) -> u64 {
        self.next
    }

    /// Whether everything written, and the FIN if there is one, has arrived.
    pub(crate) fn is_settled(&self) -> bool {
        self.base == self.written && matches!(self.end, EndMark::None | EndMark::Acked)
    }
}

/// Bytes of the buffer that are written to one block after another.
#[derive(Debug)]
pub(crate) struct Unwritten<'a> {
    front: &'a [u8],
    chunks: Iter<'a, Chunk>,
}

impl Unwritten<'_> {
    /// Appends the next `count` bytes, all of which are still here.
    #[inline]
    pub(crate) fn write(&mut self, mut count: usize, w: &mut Writer<'_>) {
        while count > 0 {
            let (now, later) = self.front.split_at(count.min(self.front.len()));
            w.bytes(now);
            count -= now.len();
            self.front = later;
            if later.is_empty() {
                let Some(chunk) = self.chunks.next() else { return };
                self.front = chunk.bytes();
            }
        }
    }
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match &self.data {
            ChunkData::Shared(bytes) => bytes,
            ChunkData::Gathered(bytes) => bytes,
        }
    }

    fn end(&self) -> u64 {
        self.start + length(self.bytes())
    }
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

/// A number of bytes in memory.
fn within(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(bytes: usize) -> SendBuffer {
        let mut buffer = SendBuffer::default();
        buffer.write(Bytes::from(pattern(0..bytes as u64)));
        buffer
    }

    fn pattern(range: Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset % 251) as u8).collect()
    }

    fn send(buffer: &mut SendBuffer, range: Range<u64>) -> Vec<u8> {
        let mut packet = Vec::new();
        buffer.encode(range.clone(), &mut Writer::new(&mut packet, 1 << 20));
        buffer.on_sent(range);
        packet
    }

    #[test]
    fn small_writes_are_gathered_and_large_ones_kept() {
        let mut buffer = SendBuffer::default();
        let all = pattern(0..20_000);
        for piece in all[..5_000].chunks(7).chain(all[5_000..].chunks(5_000)) {
            buffer.write(Bytes::copy_from_slice(piece));
        }
        assert_eq!(buffer.chunks.len(), 2 + 3);
        assert_eq!(send(&mut buffer, 0..20_000), all);
    }

    #[test]
    fn only_bytes_of_which_no_copy_arrived_are_retransmitted() {
        let mut buffer = filled(5_000);
        send(&mut buffer, 0..4_000);
        buffer.on_delivered(1_000..2_000, false);
        buffer.on_lost(500..3_000, false);
        assert_eq!(buffer.lost.iter().collect::<Vec<_>>(), [500..1_000, 2_000..3_000]);
    }

    #[test]
    fn a_late_acknowledgement_cancels_the_retransmission() {
        let mut buffer = filled(5_000);
        send(&mut buffer, 0..4_000);
        buffer.on_lost(0..2_000, false);
        buffer.on_delivered(0..2_000, false);
        assert_eq!((buffer.lost(), buffer.held()), (None, 3_000));
    }

    #[test]
    fn deferred_bytes_are_sent_in_order_before_bytes_beyond_them() {
        let mut buffer = filled(5_000);
        assert_eq!(buffer.unsent(2_000), 2_000..5_000);
        send(&mut buffer, 2_000..3_000);
        assert_eq!((buffer.unsent(0), buffer.unsent(2_000), buffer.sent()), (0..2_000, 3_000..5_000, 3_000));
        send(&mut buffer, 0..1_000);
        assert_eq!(
            (buffer.unsent(0), buffer.deferred_bytes(), buffer.in_flight()),
            (1_000..2_000, 1_000, 2_000)
        );
        send(&mut buffer, 1_000..2_000);
        assert_eq!((buffer.unsent(0), buffer.unsent(9_000)), (3_000..5_000, 5_000..5_000));
        buffer.on_delivered(2_000..3_000, false);
        buffer.on_delivered(0..2_000, false);
        assert_eq!(buffer.base(), 3_000);
    }

    #[test]
    fn bytes_that_arrived_before_are_distinguished_from_new_ones() {
        let mut buffer = filled(5_000);
        send(&mut buffer, 0..4_000);
        buffer.on_delivered(0..500, false);
        buffer.on_delivered(1_000..2_000, false);
        assert_eq!(buffer.arrived(&(400..1_500)), 600);
        assert_eq!(buffer.arrived(&(0..400)), 400);
        assert_eq!(buffer.arrived(&(500..1_000)), 0);
    }

    #[test]
    fn the_fin_travels_with_the_last_byte_or_alone() {
        let mut buffer = filled(100);
        send(&mut buffer, 0..100);
        buffer.finish();
        assert!(buffer.needs_fin_only());
        send(&mut buffer, 100..100);
        assert!(!buffer.needs_fin_only());
        buffer.on_lost(100..100, true);
        buffer.on_lost(0..100, false);
        assert!(!buffer.needs_fin_only() && buffer.ends_at(100));
        send(&mut buffer, 0..100);
        buffer.on_delivered(0..100, true);
        assert!(buffer.is_settled());
    }

    proptest! {
        #[test]
        fn every_byte_is_in_exactly_one_state(
            steps in prop::collection::vec((0u8..3, 0u64..40, 1u64..20), 0..60),
        ) {
            let mut buffer = filled(4_000);
            let mut sent = RangeSet::default();
            for (step, start, length) in steps {
                match step {
                    0 => {
                        let unsent = buffer.unsent(if start % 3 == 0 { start * 50 } else { 0 });
                        let piece = unsent.start..unsent.end.min(unsent.start + length * 37);
                        sent.insert(piece.clone());
                        prop_assert_eq!(send(&mut buffer, piece.clone()), pattern(piece));
                    }
                    step => {
                        // Only bytes that were sent can arrive or get lost.
                        let range = start * 100..(start + length) * 100;
                        let pieces = sent.iter().map(|was| was.start.max(range.start)..was.end.min(range.end));
                        for piece in pieces.filter(|piece| !piece.is_empty()) {
                            if step == 1 {
                                buffer.on_delivered(piece, false);
                            } else {
                                buffer.on_lost(piece, false);
                            }
                        }
                    }
                }
                prop_assert!(buffer.lost.iter().all(|range| buffer.acked.gaps(range.clone()).eq([range])));
                prop_assert!(buffer.lost().is_none_or(|lost| lost.start >= buffer.base));
                prop_assert!(buffer.acked.first().is_none_or(|acked| acked.start > buffer.base));
                prop_assert!(buffer.deferred.iter().all(|hole| hole.start >= buffer.base
                    && buffer.lost.gaps(hole.clone()).eq([hole.clone()])
                    && buffer.acked.gaps(hole.clone()).eq([hole])));
                let sum = buffer.in_flight() + buffer.lost_bytes() + buffer.acked.covered() + buffer.deferred_bytes();
                prop_assert_eq!(buffer.base + sum, buffer.next);
                if let Some(lost) = buffer.lost() && length % 2 == 0 {
                    prop_assert_eq!(send(&mut buffer, lost.clone()), pattern(lost));
                }
            }
        }
    }
}
