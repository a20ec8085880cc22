//! The next link with something to do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use manyway_proto::Instant;

/// The due times of links. Changing one costs O(log n); a replaced time stays in the heap until it is reached and is
/// skipped then.
#[derive(Debug)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
    planned: Vec<Option<Instant>>,
}

impl Agenda {
    /// An empty agenda for this many links.
    pub(super) fn new(links: usize) -> Self {
        Self { heap: BinaryHeap::new(), planned: vec![None; links] }
    }

    /// Sets when a link is due, replacing the earlier time.
    pub(super) fn plan(&mut self, link: usize, at: Option<Instant>) {
        let Some(planned) = self.planned.get_mut(link) else { return };
        if *planned == at {
            return;
        }
        *planned = at;
        if let Some(at) = at {
            self.heap.push(Reverse((at, link)));
        }
    }

    /// The earliest moment.
    pub(super) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, link))) = self.heap.peek().copied() {
            if self.is_valid(at, link) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the earliest moment and its link, if it is not later than `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Instant, usize)> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((at, link)) = self.heap.pop()?;
        if let Some(planned) = self.planned.get_mut(link) {
            *planned = None;
        }
        Some((at, link))
    }

    fn is_valid(&self, at: Instant, link: usize) -> bool {
        self.planned.get(link).copied().flatten() == Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn links_are_due_in_the_order_of_their_last_plan() {
        let mut agenda = Agenda::new(3);
        agenda.plan(0, Some(at(30)));
        agenda.plan(1, Some(at(10)));
        agenda.plan(2, Some(at(20)));
        agenda.plan(1, Some(at(25)));
        agenda.plan(2, None);
        assert_eq!(agenda.next(), Some(at(25)));
        assert_eq!(agenda.pop(at(24)), None);
        assert_eq!(agenda.pop(at(40)), Some((at(25), 1)));
        assert_eq!(agenda.pop(at(40)), Some((at(30), 0)));
        assert_eq!(agenda.pop(at(40)), None);
    }

    #[test]
    fn a_link_that_was_taken_can_plan_the_same_time_again() {
        let mut agenda = Agenda::new(1);
        agenda.plan(0, Some(at(5)));
        assert_eq!(agenda.pop(at(5)), Some((at(5), 0)));
        agenda.plan(0, Some(at(5)));
        assert_eq!(agenda.pop(at(5)), Some((at(5), 0)));
        assert_eq!(agenda.next(), None);
    }
}
