//! Recent handshakes: a repeated first flight, even from another sender, starts no other connection (spec 7.8).

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::Instant;

/// The lifetime of an INFO; a later replay has to prove its address as any unknown sender.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Most handshakes remembered; the oldest are forgotten first.
const MOST: usize = 16_384;

/// A value for each of the last handshakes, by the server's id, which is derived from the ids in the client's first
/// flight.
#[derive(Debug)]
pub(super) struct Recent<T> {
    values: BTreeMap<ConnectionId, T>,
    order: VecDeque<(Instant, ConnectionId)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<T: Copy> Recent<T> {
    /// Remembers a handshake from its begin on, with its first value.
    pub(super) fn note(&mut self, now: Instant, id: ConnectionId, value: T) {
        self.expire(now);
        if let Entry::Vacant(entry) = self.values.entry(id) {
            entry.insert(value);
            self.order.push_back((now, id));
        }
        while self.order.len() > MOST {
            self.pop();
        }
    }

    /// The value of a handshake, if it is remembered.
    pub(super) fn get(&mut self, now: Instant, id: &ConnectionId) -> Option<T> {
        self.expire(now);
        self.values.get(id).copied()
    }

    /// Whether the next one makes the oldest forgotten.
    pub(super) fn is_full(&self) -> bool {
        self.order.len() >= MOST
    }

    /// Forgets a handshake that this end gave up.
    pub(super) fn forget(&mut self, id: &ConnectionId) {
        self.values.remove(id);
    }

    fn expire(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now - *at > REMEMBERED) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, id)) = self.order.pop_front() {
            self.values.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ConnectionId, MOST, REMEMBERED, Recent};
    use crate::Instant;

    #[test]
    fn a_handshake_is_remembered_for_ten_seconds() {
        let mut recent = Recent::default();
        let (start, id) = (Instant::from_nanos(9), ConnectionId::from_u64(1));
        recent.note(start, id, 7);
        assert_eq!(recent.get(start + REMEMBERED, &id), Some(7));
        assert_eq!(recent.get(start + REMEMBERED + Duration::from_nanos(1), &id), None);
        recent.note(start, id, 7);
        recent.forget(&id);
        assert_eq!(recent.get(start, &id), None);
    }

    #[test]
    fn the_number_of_remembered_handshakes_is_bounded() {
        let mut recent = Recent::default();
        let now = Instant::from_nanos(9);
        for number in 0..2 * MOST as u64 {
            recent.note(now, ConnectionId::from_u64(number), ());
        }
        assert_eq!((recent.order.len(), recent.values.len()), (MOST, MOST));
    }
}
