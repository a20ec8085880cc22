//! Connections that have ended: what answers the packets that still come for them (spec 3.56, 3.65).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use manyway_wire::mmsp1::Tag;

use super::info::LIFETIME;
use crate::Instant;

/// Most tombstones of an endpoint: 256 KiB.
const MOST: usize = 4096;

/// What is left of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// The tag under which the peer sends.
    pub(crate) own: Tag,
    /// The tag under which FIN-DONE answers.
    pub(crate) peer: Tag,
    pub(crate) until: Instant,
    /// Whether the connection ended by FIN, FIN-ACK and FIN-DONE: then late packets earn nothing but FIN-DONE.
    pub(crate) is_orderly: bool,
}

impl Tombstone {
    /// Lasts until every packet of the peer has arrived or is lost, and until each INFO of the connection has expired.
    pub(crate) fn new(now: Instant, (own, peer): (Tag, Tag), pto: Duration, is_orderly: bool) -> Self {
        Self { own, peer, until: now + (3 * pto).max(LIFETIME), is_orderly }
    }
}

/// The tombstones of an endpoint; if there are too many, those that end first go.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    by_tag: BTreeMap<Tag, Tombstone>,
    by_time: BTreeSet<(Instant, Tag)>,
}

impl Tombstones {
    /// Adds one, and removes those that have ended. Costs O(log tombstones) for each.
    pub(crate) fn insert(&mut self, now: Instant, tombstone: Tombstone) {
        self.expire(now);
        self.remove(tombstone.own);
        if self.by_tag.len() >= MOST {
            self.remove_first();
        }
        self.by_tag.insert(tombstone.own, tombstone);
        self.by_time.insert((tombstone.until, tombstone.own));
    }

    /// The tombstone under the connection id of a packet.
    pub(crate) fn get(&self, now: Instant, own: Tag) -> Option<&Tombstone> {
        self.by_tag.get(&own).filter(|tombstone| tombstone.until > now)
    }

    /// Removes those that have ended.
    pub(crate) fn expire(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(until, _)| *until <= now) {
            self.remove_first();
        }
    }

    fn remove(&mut self, own: Tag) {
        if let Some(tombstone) = self.by_tag.remove(&own) {
            self.by_time.remove(&(tombstone.until, own));
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, own)) = self.by_time.pop_first() {
            self.by_tag.remove(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000);

    fn tombstone(now: Instant, own: u32) -> Tombstone {
        Tombstone::new(now, (Tag(own), Tag(own + 1)), Duration::from_millis(100), true)
    }

    #[test]
    fn a_tombstone_lasts_three_ptos_and_at_least_as_long_as_an_info() {
        assert_eq!(tombstone(START, 1).until - START, LIFETIME);
        let slow = Tombstone::new(START, (Tag(1), Tag(2)), Duration::from_secs(5), true);
        assert_eq!(slow.until - START, Duration::from_secs(15));
        let mut tombstones = Tombstones::default();
        tombstones.insert(START, tombstone(START, 1));
        let end = START + LIFETIME;
        assert_eq!(
            tombstones.get(end - Duration::from_nanos(1), Tag(1)).map(|found| found.peer),
            Some(Tag(2))
        );
        assert_eq!((tombstones.get(end, Tag(1)), tombstones.get(START, Tag(2))), (None, None));
        tombstones.expire(end);
        assert!(tombstones.by_tag.is_empty() && tombstones.by_time.is_empty());
    }

    #[test]
    fn a_full_table_drops_the_tombstones_that_expire_first() {
        let mut tombstones = Tombstones::default();
        let most = u32::try_from(MOST).unwrap();
        for own in 0..most + 100 {
            let now = START + Duration::from_micros(own.into());
            tombstones.insert(now, tombstone(now, own));
        }
        assert_eq!((tombstones.by_tag.len(), tombstones.by_time.len()), (MOST, MOST));
        let now = START + Duration::from_secs(1);
        assert_eq!(tombstones.get(now, Tag(99)), None);
        assert!((100..most + 100).all(|own| tombstones.get(now, Tag(own)).is_some()));
    }

    #[test]
    fn a_tag_has_one_tombstone() {
        let mut tombstones = Tombstones::default();
        let later = START + Duration::from_secs(5);
        tombstones.insert(START, tombstone(START, 1));
        tombstones.insert(later, tombstone(later, 1));
        assert_eq!((tombstones.by_tag.len(), tombstones.by_time.len()), (1, 1));
        assert!(tombstones.get(START + LIFETIME, Tag(1)).is_some());
    }
}
