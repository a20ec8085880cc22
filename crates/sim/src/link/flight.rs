//! Packets in flight, delivered in the order of their arrival.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use manyway_proto::Instant;

/// Packets sorted by arrival, those of equal time by entry. As long as arrivals are sorted this is a plain queue; only
/// packets that overtake use a heap.
#[derive(Debug)]
pub(super) struct Flight<T> {
    sorted: VecDeque<Flying<T>>,
    early: BinaryHeap<Flying<T>>,
    entered: u64,
}

#[derive(Debug)]
struct Flying<T> {
    arrival: Instant,
    number: u64,
    item: T,
}

impl<T> Flight<T> {
    pub(super) fn new() -> Self {
        Self { sorted: VecDeque::new(), early: BinaryHeap::new(), entered: 0 }
    }

    pub(super) fn insert(&mut self, arrival: Instant, item: T) {
        let flying = Flying { arrival, number: self.entered, item };
        self.entered += 1;
        if self.sorted.back().is_none_or(|last| last.arrival <= arrival) {
            self.sorted.push_back(flying);
        } else {
            self.early.push(flying);
        }
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> Option<Instant> {
        match (self.sorted.front(), self.early.peek()) {
            (Some(sorted), Some(early)) => Some(sorted.arrival.min(early.arrival)),
            (sorted, early) => sorted.or(early).map(|flying| flying.arrival),
        }
    }

    /// Takes the next packet that has arrived by `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<T> {
        let from_early = match (self.sorted.front(), self.early.peek()) {
            (Some(sorted), Some(early)) => early.key() < sorted.key(),
            (sorted, _) => sorted.is_none(),
        };
        let next = if from_early { self.early.peek() } else { self.sorted.front() };
        if next?.arrival > now {
            return None;
        }
        let flying = if from_early { self.early.pop() } else { self.sorted.pop_front() };
        flying.map(|flying| flying.item)
    }

    /// Takes out everything, in no particular order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.sorted.drain(..).chain(self.early.drain()).map(|flying| flying.item)
    }
}

impl<T> Flying<T> {
    fn key(&self) -> (Instant, u64) {
        (self.arrival, self.number)
    }
}

impl<T> PartialEq for Flying<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Flying<T> {}

impl<T> PartialOrd for Flying<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest is the greatest, since the standard heap returns its greatest.
impl<T> Ord for Flying<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}
