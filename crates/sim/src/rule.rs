//! Faults as removable rules: which packets they match, and what happens to those.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::ids::{HostId, InterfaceId};

/// The packets that a rule matches. All set conditions must match; by default every packet does.
#[derive(Default)]
#[non_exhaustive]
pub struct Matching {
    /// The sending host.
    pub from: Option<HostId>,
    /// The interface at one of the two ends.
    pub interface: Option<InterfaceId>,
    /// The destination of the packet, or the source as the receiver sees it.
    pub address: Option<IpAddr>,
    /// Bytes of UDP payload.
    pub size: Option<RangeInclusive<usize>>,
    /// A test of the content.
    pub content: Option<ContentTest>,
    /// Of the packets that match all other conditions, those with these numbers, from 0.
    pub index: Option<RangeInclusive<u64>>,
}

/// A test of the UDP payload of a packet.
pub type ContentTest = Box<dyn Fn(&[u8]) -> bool + Send>;

impl Matching {
    /// Every packet.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only packets of this host.
    #[must_use]
    pub fn from(mut self, host: HostId) -> Self {
        self.from = Some(host);
        self
    }

    /// Only packets that leave or enter by this interface.
    #[must_use]
    pub fn at(mut self, interface: InterfaceId) -> Self {
        self.interface = Some(interface);
        self
    }

    /// Only packets to or from this address.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Only packets of this many bytes.
    #[must_use]
    pub fn sized(mut self, size: RangeInclusive<usize>) -> Self {
        self.size = Some(size);
        self
    }

    /// Only packets whose content passes the test.
    #[must_use]
    pub fn content(mut self, test: impl Fn(&[u8]) -> bool + Send + 'static) -> Self {
        self.content = Some(Box::new(test));
        self
    }

    /// Of the packets that match otherwise, only those with these numbers, from 0.
    #[must_use]
    pub fn index(mut self, index: RangeInclusive<u64>) -> Self {
        self.index = Some(index);
        self
    }
}

impl fmt::Debug for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matching")
            .field("from", &self.from)
            .field("interface", &self.interface)
            .field("address", &self.address)
            .field("size", &self.size)
            .field("content", &self.content.is_some())
            .field("index", &self.index)
            .finish()
    }
}

/// What a rule does to a packet before the network takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Drops it.
    Drop,
    /// Delays it; others overtake it.
    Delay(Duration),
    /// Flips one bit.
    Corrupt,
    /// Lets it pass and sends a copy this much later (a replay).
    Copy(Duration),
}

/// Names a rule, to remove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

/// The data for matching.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) from: HostId,
    pub(crate) leaves: InterfaceId,
    pub(crate) enters: InterfaceId,
    pub(crate) addresses: [IpAddr; 2],
    pub(crate) data: &'a [u8],
}

/// The rules in force, in the order of creation. The first match decides.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    made: u64,
}

#[derive(Debug)]
struct Rule {
    id: RuleId,
    matching: Matching,
    action: Action,
    /// Packets that matched apart from their number.
    seen: u64,
    /// Packets acted upon.
    hits: u64,
}

impl Rules {
    pub(crate) fn add(&mut self, matching: Matching, action: Action) -> RuleId {
        let id = RuleId(self.made);
        self.made += 1;
        self.rules.push(Rule { id, matching, action, seen: 0, hits: 0 });
        id
    }

    /// Removes a rule; returns how many packets it met, `None` if it was removed before.
    pub(crate) fn remove(&mut self, id: RuleId) -> Option<u64> {
        let place = self.rules.iter().position(|rule| rule.id == id)?;
        Some(self.rules.remove(place).hits)
    }

    pub(crate) fn hits(&self, id: RuleId) -> Option<u64> {
        self.rules.iter().find(|rule| rule.id == id).map(|rule| rule.hits)
    }

    pub(crate) fn decide(&mut self, facts: Facts<'_>) -> Option<Action> {
        let rule = self.rules.iter_mut().find_map(|rule| rule.fits(facts).then_some(rule))?;
        rule.hits += 1;
        Some(rule.action)
    }
}

impl Rule {
    fn fits(&mut self, facts: Facts<'_>) -> bool {
        let wanted = &self.matching;
        let fits = wanted.from.is_none_or(|host| host == facts.from)
            && wanted
                .interface
                .is_none_or(|interface| interface == facts.leaves || interface == facts.enters)
            && wanted.address.is_none_or(|address| facts.addresses.contains(&address))
            && wanted.size.as_ref().is_none_or(|size| size.contains(&facts.data.len()))
            && wanted.content.as_ref().is_none_or(|test| test(facts.data));
        if !fits {
            return false;
        }
        let number = self.seen;
        self.seen += 1;
        wanted.index.as_ref().is_none_or(|index| index.contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(from: HostId, data: &[u8]) -> Facts<'_> {
        Facts {
            from,
            leaves: InterfaceId { host: from, index: 1 },
            enters: InterfaceId { host: HostId(9), index: 1 },
            addresses: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            data,
        }
    }

    #[test]
    fn an_address_may_be_that_of_either_end() {
        for (host, fits) in [(1, true), (2, true), (3, false)] {
            let mut rules = Rules::default();
            rules.add(Matching::all().address([10, 0, 0, host].into()), Action::Drop);
            assert_eq!(rules.decide(facts(HostId(0), &[])).is_some(), fits);
        }
    }

    #[test]
    fn all_conditions_must_match_and_the_index_counts_matches() {
        let mut rules = Rules::default();
        let matching = Matching::all().from(HostId(0)).sized(3..=4).content(|data| data[0] == 7).index(1..=2);
        let id = rules.add(matching, Action::Drop);
        let packets: [(usize, &[u8]); 7] = [
            (0, &[7, 0, 0]),    // fits, number 0
            (1, &[7, 0, 0]),    // other host
            (0, &[7, 0]),       // too small
            (0, &[8, 0, 0]),    // other content
            (0, &[7, 0, 0, 0]), // number 1
            (0, &[7, 1, 0]),    // number 2
            (0, &[7, 0, 0]),    // number 3
        ];
        let hit: Vec<_> =
            packets.iter().map(|(from, data)| rules.decide(facts(HostId(*from), data)).is_some()).collect();
        assert_eq!(hit, [false, false, false, false, true, true, false]);
        assert_eq!(rules.remove(id), Some(2));
        assert_eq!(rules.remove(id), None);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let mut rules = Rules::default();
        let first = rules.add(Matching::all().index(0..=0), Action::Corrupt);
        rules.add(Matching::all(), Action::Drop);
        assert_eq!(rules.decide(facts(HostId(0), &[1])), Some(Action::Corrupt));
        assert_eq!(rules.decide(facts(HostId(0), &[1])), Some(Action::Drop));
        assert_eq!(rules.hits(first), Some(1));
    }
}
