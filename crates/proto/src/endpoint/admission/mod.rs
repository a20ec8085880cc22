//! Limits on half-open connections, and on answers to unknown senders.

mod answers;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use answers::Answer;

use self::answers::Answers;
use super::handle::ConnectionHandle;
use super::recent::Recent;
use crate::Instant;
use crate::collections::buckets::Buckets;
use crate::prefix::Prefix;

/// With this many half-open connections, a server keeps no state for a client with an unvalidated address.
const UNDER_LOAD: usize = 64;
/// With this many, the oldest is evicted.
const MOST_HALF_OPEN: usize = 1024;
/// Most half-open connections of a network with validated addresses while the server is under load.
const MOST_OF_A_NETWORK: usize = 64;
/// Failed authentications in a row that a network may have (spec 7.38). A client that fails has received at its address,
/// so no client can fail in the name of another network.
const FAILURES: u32 = 10;
/// Time after which a network may fail once more.
const ONE_FAILURE_FOR: Duration = Duration::from_secs(6);

/// What each of many endpoints on one port has of these limits at least.
const LEAST_SHARE: usize = 8;

/// Identifies a half-open connection, in the order of their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HalfOpenId(u64);

/// Counts the effects of unknown senders. Every call costs O(log n) at most, amortised.
#[derive(Debug)]
pub(crate) struct Admission {
    half_open: BTreeMap<HalfOpenId, (ConnectionHandle, Option<Prefix>)>,
    next: u64,
    /// Number of half-open connections with a validated address, by network.
    validated: BTreeMap<Prefix, usize>,
    answers: Answers,
    failures: Buckets<Prefix>,
    /// The handshakes that began here.
    pub(super) begun: Recent<()>,
    /// How many endpoints share the port: each has an equal part of the limits on half-open connections, and at least
    /// [`LEAST_SHARE`].
    sharers: usize,
}

impl Admission {
    /// Starts with empty counters, as one of `sharers` endpoints; `secret` must be unknown to attackers.
    pub(crate) fn new(secret: [u8; 16], sharers: usize) -> Self {
        Self {
            half_open: BTreeMap::new(),
            next: 0,
            validated: BTreeMap::new(),
            answers: Answers::new(secret),
            failures: Buckets::new(FAILURES, ONE_FAILURE_FOR),
            begun: Recent::default(),
            sharers,
        }
    }

    /// The part of a limit that this endpoint has.
    fn share_of(&self, limit: usize) -> usize {
        (limit / self.sharers).max(LEAST_SHARE)
    }

    pub(crate) fn is_under_load(&self) -> bool {
        self.half_open.len() >= self.share_of(UNDER_LOAD)
    }

    /// Whether a network with a validated address has its share of half-open connections already.
    pub(crate) fn has_its_share(&self, prefix: Prefix) -> bool {
        self.is_under_load()
            && self.validated.get(&prefix).is_some_and(|count| *count >= self.share_of(MOST_OF_A_NETWORK))
    }

    /// Counts a new half-open connection, with its network if its address is validated. Also returns the one to evict for
    /// it, if there are too many.
    pub(crate) fn admit(
        &mut self,
        handle: ConnectionHandle,
        validated: Option<Prefix>,
    ) -> (HalfOpenId, Option<ConnectionHandle>) {
        let id = HalfOpenId(self.next);
        self.next += 1;
        self.half_open.insert(id, (handle, validated));
        if let Some(prefix) = validated {
            *self.validated.entry(prefix).or_default() += 1;
        }
        let oldest = self.half_open.first_key_value().map(|(id, (handle, _))| (*id, *handle));
        let evicted = oldest.filter(|_| self.half_open.len() > self.share_of(MOST_HALF_OPEN));
        if let Some((id, _)) = evicted {
            self.release(id);
        }
        (id, evicted.map(|(_, handle)| handle))
    }

    /// The handshake is complete, or forgotten.
    pub(crate) fn release(&mut self, id: HalfOpenId) {
        let Some((_, Some(prefix))) = self.half_open.remove(&id) else { return };
        if let Some(count) = self.validated.get_mut(&prefix) {
            *count -= 1;
            if *count == 0 {
                self.validated.remove(&prefix);
            }
        }
    }

    /// A client was refused.
    pub(crate) fn on_refused(&mut self, now: Instant, prefix: Prefix) {
        self.failures.note(now, prefix);
    }

    /// Whether too many clients of a network were refused recently.
    pub(crate) fn is_barred(&self, now: Instant, prefix: Prefix) -> bool {
        self.failures.is_full(now, prefix)
    }

    /// Whether an unknown sender may be answered now.
    pub(crate) fn may_answer(&mut self, now: Instant, answer: Answer) -> bool {
        self.answers.may_answer(now, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, ConnectionHandle, MOST_HALF_OPEN, MOST_OF_A_NETWORK, Prefix, UNDER_LOAD};

    fn network(number: u8) -> Prefix {
        Prefix::of(std::net::SocketAddr::from(([192, 0, number, 1], 1)))
    }

    #[test]
    fn one_half_open_connection_too_many_evicts_the_oldest() {
        let mut admission = Admission::new([1; 16], 1);
        let handles: Vec<_> = (0..=MOST_HALF_OPEN).map(ConnectionHandle::numbered).collect();
        for (count, handle) in handles.iter().enumerate() {
            assert_eq!(admission.is_under_load(), count >= UNDER_LOAD);
            let (_, evicted) = admission.admit(*handle, None);
            assert_eq!(evicted, (count == MOST_HALF_OPEN).then(|| handles[0]));
        }
        assert_eq!(admission.half_open.len(), MOST_HALF_OPEN);
    }

    #[test]
    fn endpoints_of_one_port_share_the_places() {
        let mut admission = Admission::new([1; 16], 4);
        for number in 0..MOST_HALF_OPEN / 4 {
            assert_eq!(admission.is_under_load(), number >= UNDER_LOAD / 4);
            assert_eq!(admission.admit(ConnectionHandle::numbered(number), None).1, None);
        }
        assert!(admission.admit(ConnectionHandle::numbered(MOST_HALF_OPEN), None).1.is_some());
    }

    #[test]
    fn complete_handshakes_do_not_count() {
        let mut admission = Admission::new([1; 16], 1);
        let places: Vec<_> = (0..2 * UNDER_LOAD)
            .map(|index| admission.admit(ConnectionHandle::numbered(index), None).0)
            .collect();
        assert!(admission.is_under_load());
        places[1..].iter().for_each(|place| admission.release(*place));
        assert!(!admission.is_under_load());
        assert_eq!(admission.half_open.keys().copied().collect::<Vec<_>>(), places[..1]);
    }

    #[test]
    fn a_network_with_validated_addresses_cannot_take_all_places() {
        let mut admission = Admission::new([1; 16], 1);
        let place = |admission: &mut Admission, index| {
            admission.admit(ConnectionHandle::numbered(index), Some(network(1))).0
        };
        let places: Vec<_> = (0..MOST_OF_A_NETWORK).map(|index| place(&mut admission, index)).collect();
        assert!(admission.has_its_share(network(1)) && !admission.has_its_share(network(2)));
        admission.release(places[0]);
        admission.release(places[0]);
        assert!(!admission.has_its_share(network(1)));
        places.iter().for_each(|place| admission.release(*place));
        assert!(admission.validated.is_empty());
    }
}
