//! Reassembly of received stream bytes: from blocks in any order to the order of the stream.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, Bytes, BytesMut};

/// Puts the bytes of a stream in order.
///
/// Bytes in order are appended to a block of memory that is allocated once for many packets. Bytes ahead of a gap
/// wait in pieces, with neighbours joined, and move over without a copy once the gap is closed. The credit of the
/// stream bounds the bytes held; [`Self::overhead`] gives the cost of the pieces beyond their bytes.
#[derive(Debug)]
pub(crate) struct ByteReassembly {
    /// Full blocks, in order.
    ready: VecDeque<Bytes>,
    /// The block being filled, in order, behind `ready`.
    tail: BytesMut,
    /// Pieces ahead of a gap, by offset; they neither overlap nor start at or below `arrived`.
    ahead: BTreeMap<u64, Piece>,
    /// Bytes in `ahead`.
    ahead_bytes: u64,
    /// Every byte below this offset has arrived.
    arrived: u64,
    /// Memory of the tail in bytes, including bytes that were filled and read.
    tail_size: usize,
    /// Size of the next tail.
    next_tail: usize,
}

/// Bytes ahead of a gap.
#[derive(Debug)]
struct Piece {
    bytes: BytesMut,
    /// Bytes of the pieces in front of it without a gap, when it began.
    row: usize,
}

/// Cost of a piece beyond its bytes (spec 8.19).
pub(crate) const PIECE_OVERHEAD: u64 = 128;
const FIRST_TAIL: usize = 512;
const LARGEST_TAIL: usize = 64 << 10;
/// Memory that a fully read stream keeps.
const KEPT_TAIL: usize = 2 << 10;
/// No more is allocated at once for bytes ahead of a gap.
const LARGEST_PIECE: usize = 64 << 10;
/// Smaller pieces are copied, to larger memory or behind the bytes in front of them; larger ones are moved.
const SMALL_PIECE: usize = 4 << 10;

impl Default for ByteReassembly {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            tail: BytesMut::new(),
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            arrived: 0,
            tail_size: 0,
            next_tail: FIRST_TAIL,
        }
    }
}

impl ByteReassembly {
    /// Takes the bytes of a block, and drops those that are already here. Returns how many were new.
    pub(crate) fn insert(&mut self, offset: u64, data: &[u8]) -> u64 {
        let skip = self.arrived.saturating_sub(offset);
        let data = usize::try_from(skip).ok().and_then(|skip| data.get(skip..)).unwrap_or_default();
        if data.is_empty() {
            return 0;
        }
        let offset = offset.max(self.arrived);
        if offset > self.arrived {
            return self.insert_ahead(offset, data);
        }
        self.append(data);
        self.arrived += length(data);
        let here_before = if self.ahead.is_empty() { 0 } else { self.close_gap() };
        length(data) - here_before.min(length(data))
    }

    /// Appends to the tail; a full tail moves to `ready`.
    fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = self.tail.capacity() - self.tail.len();
            if room == 0 {
                self.seal_tail();
                self.tail_size = self.next_tail.max(data.len().min(LARGEST_TAIL));
                self.tail = BytesMut::with_capacity(self.tail_size);
                // Grows by half only: no more than a third of a stream's memory is empty.
                self.next_tail = (self.next_tail * 3 / 2).min(LARGEST_TAIL);
                continue;
            }
            let (now, later) = data.split_at(room.min(data.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.ready.push_back(self.tail.split().freeze());
        }
    }

    /// Moves over the pieces that are no longer ahead of a gap; returns how many of their bytes had just arrived
    /// again.
    fn close_gap(&mut self) -> u64 {
        let mut again = 0;
        while let Some(entry) = self.ahead.first_entry() {
            if *entry.key() > self.arrived {
                break;
            }
            let (offset, Piece { bytes: mut piece, .. }) = entry.remove_entry();
            self.ahead_bytes -= length(&piece);
            let skip = usize::try_from(self.arrived - offset).unwrap_or(usize::MAX).min(piece.len());
            again += skip as u64;
            piece.advance(skip);
            self.arrived += length(&piece);
            if piece.len() < SMALL_PIECE {
                self.append(&piece);
            } else {
                self.seal_tail();
                self.ready.push_back(piece.freeze());
            }
        }
        again
    }

    /// Keeps the new parts of a block that is ahead of a gap; returns their size in bytes.
    fn insert_ahead(&mut self, offset: u64, data: &[u8]) -> u64 {
        let end = offset + length(data);
        let mut at = offset;
        let mut kept = 0;
        while at < end {
            if let Some((start, piece)) = self.ahead.range(..=at).next_back()
                && start + length(&piece.bytes) > at
            {
                at = start + length(&piece.bytes);
                continue;
            }
            let until = self.ahead.range(at..end).next().map_or(end, |(start, _)| *start);
            let from = usize::try_from(at - offset).unwrap_or(usize::MAX);
            let to = usize::try_from(until - offset).unwrap_or(usize::MAX);
            self.keep_piece(at, data.get(from..to).unwrap_or_default());
            kept += until - at;
            at = until;
        }
        self.ahead_bytes += kept;
        kept
    }

    /// Keeps bytes that overlap no piece, joined to the piece in front of them and to a small one behind them.
    fn keep_piece(&mut self, at: u64, bytes: &[u8]) {
        let end = at + length(bytes);
        let small_behind =
            self.ahead.get(&end).is_some_and(|behind| behind.bytes.len() + bytes.len() <= SMALL_PIECE);
        let behind = if small_behind { self.ahead.remove(&end) } else { None };
        let behind = behind.as_ref().map_or(&[][..], |behind| &behind.bytes);
        let added = bytes.len() + behind.len();
        let front = self.ahead.range_mut(..at).next_back();
        let front = front.filter(|(start, front)| *start + length(&front.bytes) == at);
        let (mut bytes, mut at, mut row) = (bytes, at, 0);
        if let Some((_, Piece { bytes: front, row: before })) = front {
            let mut room = front.capacity() - front.len();
            if room < added && front.len() + added <= SMALL_PIECE {
                let mut larger = BytesMut::with_capacity(front.len() / 4 * 5 + added);
                larger.extend_from_slice(front);
                (room, *front) = (added, larger);
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            front.extend_from_slice(now);
            if room >= added {
                front.extend_from_slice(behind);
                return;
            }
            (bytes, at, row) = (later, at + length(now), *before + front.len());
        }
        // Memory grows by a quarter only: most of it ahead of gaps is filled.
        let mut piece = BytesMut::with_capacity((row / 4).min(LARGEST_PIECE).max(bytes.len() + behind.len()));
        piece.extend_from_slice(bytes);
        piece.extend_from_slice(behind);
        self.ahead.insert(at, Piece { bytes: piece, row });
    }

    /// Takes up to `max` bytes in order, without a copy; `None` if none are ready.
    pub(crate) fn read(&mut self, max: usize) -> Option<Bytes> {
        let read = match self.ready.front_mut() {
            Some(front) if front.len() > max => (max > 0).then(|| front.split_to(max)),
            Some(_) => self.ready.pop_front(),
            None => {
                let count = max.min(self.tail.len());
                (count > 0).then(|| self.tail.split_to(count).freeze())
            }
        };
        if !self.has_ready() {
            self.next_tail = self.next_tail.min(KEPT_TAIL);
            if self.tail_size > KEPT_TAIL {
                (self.tail, self.tail_size) = (BytesMut::new(), 0);
            }
        }
        read
    }

    /// Whether bytes in order are ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.tail.is_empty()
    }

    /// The offset below which every byte has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Bytes that wait ahead of a gap.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead_bytes
    }

    /// Cost of the pieces ahead of a gap beyond their bytes, in bytes of memory.
    pub(crate) fn overhead(&self) -> u64 {
        PIECE_OVERHEAD * self.ahead.len() as u64
    }

    /// Drops all bytes and their memory.
    pub(crate) fn clear(&mut self) {
        *self = Self { arrived: self.arrived, ..Self::default() };
    }
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|offset| (offset % 251) as u8).collect()
    }

    fn read_all(bytes: &mut ByteReassembly) -> Vec<u8> {
        std::iter::from_fn(|| bytes.read(usize::MAX)).flatten().collect()
    }

    #[test]
    fn bytes_in_order_share_a_block_of_memory() {
        let mut bytes = ByteReassembly::default();
        let packet = [7; 1_200];
        for index in 0..1_000 {
            bytes.insert(index * 1_200, &packet);
        }
        assert!(bytes.ready.len() <= 1_200_000 / LARGEST_TAIL + 12, "{}", bytes.ready.len());
        assert_eq!(read_all(&mut bytes).len(), 1_200_000);
    }

    #[test]
    fn a_tail_that_is_read_packet_by_packet_continues_to_be_filled() {
        let mut bytes = ByteReassembly::default();
        let mut tails = 0;
        for index in 0..1_000 {
            let before = bytes.tail_size;
            bytes.insert(index * 100, &pattern(index * 100..(index + 1) * 100));
            tails += usize::from(bytes.tail_size != before);
            assert_eq!(read_all(&mut bytes), pattern(index * 100..(index + 1) * 100));
        }
        assert!(tails <= 8 && bytes.tail_size <= KEPT_TAIL, "{tails} {}", bytes.tail_size);
    }

    #[test]
    fn a_long_row_ahead_of_a_gap_is_mostly_filled_and_stays_where_it_is() {
        let mut bytes = ByteReassembly::default();
        let mut places = Vec::new();
        for index in 1..1_000 {
            bytes.insert(index * 1_400, &[7; 1_400]);
            let memory: usize = bytes.ahead.values().map(|piece| piece.bytes.capacity()).sum();
            assert!(memory as u64 <= bytes.ahead() * 5 / 4 + 2_800, "{memory} for {}", bytes.ahead());
            let now: Vec<_> = bytes.ahead.values().map(|piece| piece.bytes.as_ptr()).collect();
            // The first pieces are small, and may move to larger memory.
            assert!(index < 20 || now.starts_with(&places));
            places = now;
        }
        assert!(bytes.overhead() < bytes.ahead() / 100, "{}", bytes.overhead());
    }

    #[test]
    fn neighbours_ahead_of_a_gap_are_joined() {
        let mut bytes = ByteReassembly::default();
        for index in 1..40 {
            bytes.insert(index * 100, &pattern(index * 100..(index + 1) * 100));
        }
        assert_eq!(bytes.ahead.len(), 1);
        bytes.clear();
        for index in (1..40).rev() {
            bytes.insert(index * 100, &pattern(index * 100..(index + 1) * 100));
        }
        assert_eq!(bytes.ahead.len(), 1);
        bytes.insert(0, &pattern(0..150));
        assert_eq!(read_all(&mut bytes), pattern(0..4_000));
        assert_eq!(bytes.overhead(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn any_order_and_overlap_of_blocks_gives_the_stream(
            blocks in prop::collection::vec((0u64..30_000, 1u64..9_000), 1..60),
            shift in 0u64..40,
            max in 1usize..5_000,
        ) {
            let mut bytes = ByteReassembly::default();
            let mut seen = vec![false; 40_000];
            let mut out = Vec::new();
            let last = (0..40).map(|index| ((index * 17 + shift) % 40 * 1_000, 1_000));
            for (offset, count) in blocks.into_iter().chain(last) {
                let [begin, end] = [offset, offset + count].map(|edge| usize::try_from(edge).unwrap());
                let block = &mut seen[begin..end];
                let new = block.iter().filter(|seen| !**seen).count() as u64;
                block.fill(true);
                prop_assert_eq!(bytes.insert(offset, &pattern(offset..offset + count)), new);
                let gap = seen.iter().position(|seen| !seen).unwrap_or(seen.len());
                prop_assert_eq!(bytes.arrived(), gap as u64);
                let ahead: usize = bytes.ahead.values().map(|piece| piece.bytes.len()).sum();
                prop_assert_eq!(ahead, seen[gap..].iter().filter(|seen| **seen).count());
                prop_assert_eq!(bytes.ahead(), ahead as u64);
                out.extend(bytes.read(max).unwrap_or_default());
            }
            while let Some(more) = bytes.read(max) {
                prop_assert!(more.len() <= max && !more.is_empty());
                out.extend(more);
            }
            prop_assert_eq!(out, pattern(0..bytes.arrived()));
            prop_assert!(bytes.arrived() >= 39_000);
        }
    }
}
