//! Recent handshakes: a repeated first flight, even from another sender, starts nothing (spec 7.8).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use manyway_wire::ConnectionId;

use crate::Instant;

/// The lifetime of an INFO; a later replay has to prove its address as any unknown sender.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Most handshakes remembered; the oldest are forgotten first.
const MOST: usize = 16_384;

/// The server's ids of the last handshakes; each is derived from the ids in the client's first flight.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    ids: BTreeSet<ConnectionId>,
    order: VecDeque<(Instant, ConnectionId)>,
}

impl Begun {
    /// Records a handshake. Costs O(log n) amortised.
    pub(crate) fn note(&mut self, now: Instant, id: ConnectionId) {
        self.expire(now);
        if self.ids.insert(id) {
            self.order.push_back((now, id));
        }
        while self.order.len() > MOST {
            self.pop();
        }
    }

    /// Whether this handshake started within the last ten seconds.
    pub(crate) fn contains(&mut self, now: Instant, id: &ConnectionId) -> bool {
        self.expire(now);
        self.ids.contains(id)
    }

    /// The handshake was evicted: it may start again.
    pub(crate) fn forget(&mut self, id: &ConnectionId) {
        self.ids.remove(id);
    }

    fn expire(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now - *at > REMEMBERED) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some((_, id)) = self.order.pop_front() {
            self.ids.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Begun, ConnectionId, MOST, REMEMBERED};
    use crate::Instant;

    #[test]
    fn a_handshake_is_remembered_for_ten_seconds() {
        let mut begun = Begun::default();
        let (start, id) = (Instant::from_nanos(9), ConnectionId::from_u64(1));
        begun.note(start, id);
        assert!(begun.contains(start + REMEMBERED, &id));
        assert!(!begun.contains(start + REMEMBERED + Duration::from_nanos(1), &id));
        begun.note(start, id);
        begun.forget(&id);
        assert!(!begun.contains(start, &id));
    }

    #[test]
    fn the_number_of_remembered_handshakes_is_bounded() {
        let mut begun = Begun::default();
        let now = Instant::from_nanos(9);
        for number in 0..2 * MOST as u64 {
            begun.note(now, ConnectionId::from_u64(number));
        }
        assert_eq!((begun.order.len(), begun.ids.len()), (MOST, MOST));
    }
}
