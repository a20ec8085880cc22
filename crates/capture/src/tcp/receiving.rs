//! What a program sends, put into order.

use std::collections::{BTreeMap, VecDeque};

/// Bytes that have arrived, as far as the reader has not taken them.
#[derive(Debug)]
pub(super) struct Receiver {
    /// In order.
    ready: VecDeque<u8>,
    /// Of `ready`, and how far ahead of the reader bytes are accepted.
    capacity: usize,
    /// The position of the first byte that is missing.
    next: u64,
    /// Parts that came too early, by their positions.
    early: BTreeMap<u64, Vec<u8>>,
    /// Their memory.
    early_bytes: usize,
    /// The position of the FIN.
    end: Option<u64>,
}

impl Receiver {
    /// `next` is the position of the first byte.
    pub(super) fn new(next: u64, capacity: usize) -> Self {
        let early = BTreeMap::new();
        Self { ready: VecDeque::new(), capacity, next, early, early_bytes: 0, end: None }
    }

    /// The position that is acknowledged: after the FIN once everything before it has come.
    pub(super) fn acknowledged(&self) -> u64 {
        self.next + u64::from(self.is_complete())
    }

    /// The position of the first byte that finds no room. It never moves back.
    pub(super) fn edge(&self) -> u64 {
        self.next + u64::try_from(self.capacity.saturating_sub(self.ready.len())).unwrap_or(0)
    }

    /// Half of the room.
    pub(super) fn half(&self) -> u64 {
        u64::try_from(self.capacity / 2).unwrap_or(u64::MAX)
    }

    pub(super) fn has_data(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether everything up to the FIN has come.
    pub(super) fn is_complete(&self) -> bool {
        self.end == Some(self.next)
    }

    /// Whether the reader has taken everything up to the FIN.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_complete() && self.ready.is_empty()
    }

    /// Takes the data of a segment, as far as there is room for them, and whether it ends the stream.
    pub(super) fn take(&mut self, position: u64, data: &[u8], ends: bool) {
        let after = |more: usize| position.saturating_add(u64::try_from(more).unwrap_or(0));
        let before = |limit: u64| usize::try_from(limit.saturating_sub(position)).unwrap_or(usize::MAX);
        let known = before(self.next).min(data.len());
        let fitting = before(self.edge()).min(data.len());
        let end = after(data.len());
        if ends && self.end.is_none() && (self.next..=self.edge()).contains(&end) {
            self.end = Some(end);
        }
        let data = data.get(known..fitting).unwrap_or_default();
        if after(known) > self.next {
            self.keep(after(known), data);
        } else {
            self.append(data);
            self.append_early();
        }
    }

    /// Copies what is ready, and returns how much.
    pub(super) fn read(&mut self, into: &mut [u8]) -> usize {
        let (first, _) = self.ready.as_slices();
        let length = first.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..length), first.get(..length)) {
            into.copy_from_slice(from);
        }
        self.ready.drain(..length);
        length
    }

    fn append(&mut self, data: &[u8]) {
        // Nothing comes after the end.
        let most = self.end.map_or(usize::MAX, |end| usize::try_from(end - self.next).unwrap_or(usize::MAX));
        let data = data.get(..most).unwrap_or(data);
        self.ready.extend(data);
        self.next += u64::try_from(data.len()).unwrap_or(0);
    }

    fn append_early(&mut self) {
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (position, data) = entry.remove_entry();
            self.early_bytes -= memory_of(&data);
            let known = usize::try_from(self.next - position).unwrap_or(usize::MAX);
            self.append(data.get(known..).unwrap_or_default());
        }
    }

    fn keep(&mut self, position: u64, data: &[u8]) {
        // Parts that overlap may be more than the room.
        let has_room = self.ready.len() + self.early_bytes + memory_of(data) <= self.capacity;
        if has_room && !data.is_empty() && !self.early.contains_key(&position) {
            self.early_bytes += memory_of(data);
            self.early.insert(position, data.to_vec());
        }
    }
}

/// The memory of a part: with its place in the tree and its allocation, which small parts are less than.
fn memory_of(part: &[u8]) -> usize {
    part.len() + 96
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: usize = 3000;

    #[test]
    fn parts_of_a_byte_cost_as_much_as_they_take() {
        let mut receiver = Receiver::new(1, 256 << 10);
        for place in (3..400_000).step_by(2) {
            receiver.take(place, &[7], false);
        }
        assert!((1000..3000).contains(&receiver.early.len()), "{}", receiver.early.len());
    }

    proptest! {
        #[test]
        fn parts_in_any_order_are_read_in_theirs(
            parts in prop::collection::vec((0..ALL, 0..400_usize), 0..200),
            reads in prop::collection::vec(0..300_usize, 200),
        ) {
            let all: Vec<u8> = (0..ALL).map(|index| u8::try_from(index % 251).unwrap()).collect();
            let mut receiver = Receiver::new(1, 1000);
            let (mut read, mut edge) = (Vec::new(), receiver.edge());
            let mut step = |receiver: &mut Receiver, begin: usize, length: usize, most: usize| {
                let end = (begin + length).min(ALL);
                receiver.take(u64::try_from(begin).unwrap() + 1, &all[begin..end], end == ALL);
                assert!(receiver.ready.len() <= 1000 && receiver.early_bytes <= 1000);
                assert!(receiver.edge() >= edge, "the window never shrinks");
                edge = receiver.edge();
                let mut some = vec![0; most];
                let length = receiver.read(&mut some);
                read.extend_from_slice(&some[..length]);
                assert!(read == all[..read.len()]);
                read.len()
            };
            for ((begin, length), most) in parts.into_iter().zip(reads) {
                step(&mut receiver, begin, length, most);
            }
            // What was lost is sent again.
            for _ in 0..ALL {
                let begin = usize::try_from(receiver.next).unwrap() - 1;
                if step(&mut receiver, begin, 100, 100) == ALL {
                    break;
                }
            }
            prop_assert!(receiver.is_at_end());
        }
    }
}
