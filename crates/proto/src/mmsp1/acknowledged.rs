//! What a SACK says of the packets of each path.

use std::ops::Range;

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::window::Load;
use crate::collections::range_set::RangeSet;

/// What a SACK says of the packets of one path.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OnPath {
    pub(crate) path: PathId,
    /// They arrived, and their acknowledgement measures the RTT.
    pub(crate) timed: RangeSet,
    /// They arrived; when is not known, because their content was sent more than once.
    pub(crate) untimed: RangeSet,
    /// All their content arrived in other copies; whether they did cannot be known.
    pub(crate) unknown: SmallVec<[u64; 4]>,
}

/// The result of the translation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Each packet at most once.
    pub(crate) paths: SmallVec<[OnPath; 4]>,
    /// TSEQs that no earlier SACK has named, ascending.
    pub(crate) newly: SmallVec<[Range<u64>; 8]>,
    /// TSEQs of which a further copy arrived, one for each copy.
    pub(crate) again: SmallVec<[u64; 4]>,
    /// All that is acknowledged in sequence, with what this SACK acknowledges.
    pub(crate) acked: Load,
}

impl OnPath {
    /// A packet arrived, at a time that is not known.
    pub(super) fn hit(&mut self, number: u64) {
        self.untimed.insert(number..number + 1);
    }

    /// Whether it says anything of a packet.
    pub(super) fn has(&self, number: u64) -> bool {
        self.timed.contains(number) || self.untimed.contains(number) || self.unknown.contains(&number)
    }

    /// Leaves each number in one place only: a packet with one block sent once is timed, and a packet that arrived is
    /// not unknown. `None` if nothing is left.
    pub(super) fn finish(mut self) -> Option<Self> {
        if !self.untimed.is_empty() {
            self.timed.iter().for_each(|range| self.untimed.remove(range));
        }
        let (timed, untimed) = (&self.timed, &self.untimed);
        self.unknown.retain(|number| !timed.contains(*number) && !untimed.contains(*number));
        self.unknown.sort_unstable();
        self.unknown.dedup();
        let is_empty = self.timed.is_empty() && self.untimed.is_empty() && self.unknown.is_empty();
        (!is_empty).then_some(self)
    }
}
