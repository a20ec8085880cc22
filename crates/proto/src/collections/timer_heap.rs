//! Timers of many owners, the earliest first: a heap in which each owner has at most one place, found in one step.

use crate::Instant;

/// Children of a node: four fit into one cache line.
const WIDTH: usize = 4;
/// Marks a number without a place in the heap.
const NOWHERE: u32 = u32::MAX;

/// At most one deadline for each small number.
///
/// Reading the earliest costs O(1), every change O(log n), and setting an unchanged deadline O(1).
#[derive(Debug, Default)]
pub(crate) struct TimerHeap {
    heap: Vec<(Instant, u32)>,
    /// The place of each number in the heap.
    places: Vec<u32>,
}

impl TimerHeap {
    /// The earliest deadline and its number; of equal deadlines the lower number.
    pub(crate) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// The deadline of a number.
    pub(crate) fn get(&self, number: u32) -> Option<Instant> {
        self.heap.get(self.place(number)?).map(|(at, _)| *at)
    }

    /// Sets or removes the deadline of a number.
    pub(crate) fn set(&mut self, number: u32, deadline: Option<Instant>) {
        match (self.place(number), deadline) {
            (None, None) => {}
            (None, Some(at)) => {
                self.heap.push((at, number));
                self.settle(self.heap.len() - 1);
            }
            (Some(place), None) => {
                self.note(number, NOWHERE);
                self.heap.swap_remove(place);
                if place < self.heap.len() {
                    self.settle(place);
                }
            }
            (Some(place), Some(at)) => {
                if let Some(entry) = self.heap.get_mut(place).filter(|entry| entry.0 != at) {
                    entry.0 = at;
                    self.settle(place);
                }
            }
        }
    }

    /// Moves the entry at `place` to its correct position.
    fn settle(&mut self, mut place: usize) {
        while let Some(parent) = place.checked_sub(1).map(|below| below / WIDTH) {
            if self.heap.get(parent) <= self.heap.get(place) {
                break;
            }
            self.exchange(place, parent);
            place = parent;
        }
        loop {
            let children = place * WIDTH + 1..(place * WIDTH + 1 + WIDTH).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap.get(*child)) else { break };
            if self.heap.get(place) <= self.heap.get(least) {
                break;
            }
            self.exchange(place, least);
            place = least;
        }
        if let Some((_, number)) = self.heap.get(place).copied() {
            self.note(number, u32::try_from(place).unwrap_or(NOWHERE));
        }
    }

    fn exchange(&mut self, from: usize, to: usize) {
        self.heap.swap(from, to);
        if let Some((_, number)) = self.heap.get(from).copied() {
            self.note(number, u32::try_from(from).unwrap_or(NOWHERE));
        }
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.places
            .get(number as usize)
            .copied()
            .filter(|place| *place != NOWHERE)
            .map(|place| place as usize)
    }

    fn note(&mut self, number: u32, place: u32) {
        let index = number as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        if let Some(entry) = self.places.get_mut(index) {
            *entry = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_earliest_is_always_first_under_any_changes(
            steps in proptest::collection::vec((0_u32..50, proptest::option::of(0_u64..100)), 1..400)
        ) {
            let (mut heap, mut model) = (TimerHeap::default(), BTreeMap::new());
            for (number, deadline) in steps {
                let deadline = deadline.map(Instant::from_nanos);
                heap.set(number, deadline);
                match deadline {
                    Some(at) => model.insert(number, at),
                    None => model.remove(&number),
                };
                let sorted: BTreeSet<_> = model.iter().map(|(number, at)| (*at, *number)).collect();
                prop_assert_eq!(heap.first(), sorted.first().copied());
                prop_assert_eq!(heap.get(number), deadline);
                prop_assert_eq!(heap.heap.len(), model.len());
            }
        }
    }
}
