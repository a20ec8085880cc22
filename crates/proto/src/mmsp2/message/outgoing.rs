//! One message being sent, from its first piece on.

use std::ops::Range;

use bytes::Bytes;

use crate::collections::range_set::RangeSet;
use crate::stream::priority::Urgency;
use crate::{Instant, MessageToken};

/// A message of which pieces were sent.
///
/// Its end counts as one more byte behind the last one, so that an empty message has something to send, and a piece
/// that reaches the end always carries the mark of the end.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) data: Bytes,
    pub(super) protocol: u32,
    pub(super) token: MessageToken,
    pub(super) urgency: Urgency,
    pub(super) expires: Option<Instant>,
    /// Everything below was sent at least once.
    next: u64,
    acked: RangeSet,
    lost: RangeSet,
    /// Whether it was, or is, sent in several pieces.
    pub(super) is_cut: bool,
    tries: Option<Tries>,
}

/// Counts transmissions of a message with a limit of them.
#[derive(Debug)]
struct Tries {
    most: u32,
    /// No byte was sent more often than this.
    round: u32,
    /// The units sent in this round.
    sent: RangeSet,
}

impl Outgoing {
    pub(super) fn new(data: Bytes, protocol: u32, token: MessageToken, urgency: Urgency) -> Self {
        Self {
            data,
            protocol,
            token,
            urgency,
            expires: None,
            next: 0,
            acked: RangeSet::default(),
            lost: RangeSet::default(),
            is_cut: false,
            tries: None,
        }
    }

    pub(super) fn limit(&mut self, expires: Option<Instant>, transmissions: Option<u32>) {
        self.expires = expires;
        self.tries = transmissions.map(|most| Tries { most, round: 1, sent: RangeSet::default() });
    }

    /// Its bytes, and one for the end.
    fn units(&self) -> u64 {
        self.data.len() as u64 + 1
    }

    /// The highest offset reached by any piece.
    pub(super) fn reach(&self) -> u32 {
        u32::try_from(self.next.min(self.data.len() as u64)).unwrap_or(u32::MAX)
    }

    /// Units that were never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.units() - self.next
    }

    /// Units to retransmit.
    pub(super) fn retransmissions(&self) -> u64 {
        self.lost.covered()
    }

    /// Whether a piece of it could be sent now.
    pub(super) fn wants(&self) -> bool {
        self.unsent() > 0 || !self.lost.is_empty()
    }

    /// The next units to send: retransmissions first, then unsent ones.
    pub(super) fn next(&self) -> Range<u64> {
        self.lost.first().unwrap_or_else(|| self.next..self.units())
    }

    /// The part of `units` that fits into `room` bytes; the end needs none. `None` if nothing is left of them.
    pub(super) fn cut(&self, units: Range<u64>, room: u64) -> Option<Range<u64>> {
        let bytes = units.end.min(self.data.len() as u64) - units.start.min(self.data.len() as u64);
        if bytes <= room {
            return Some(units);
        }
        (room > 0).then(|| units.start..units.start + room)
    }

    /// The bytes of `units`, and whether the end is among them.
    pub(super) fn bytes(&self, units: &Range<u64>) -> (&[u8], bool) {
        let length = self.data.len() as u64;
        let index = |at: u64| usize::try_from(at.min(length)).unwrap_or(usize::MAX);
        (self.data.get(index(units.start)..index(units.end)).unwrap_or_default(), units.end > length)
    }

    /// Whether some of `units` has not arrived, and may be sent any number of times.
    pub(super) fn needs_copy(&self, units: &Range<u64>) -> bool {
        self.tries.is_none() && self.acked.gaps(units.clone()).next().is_some()
    }

    /// The piece of `units` is sent.
    pub(super) fn on_sent(&mut self, units: Range<u64>) {
        self.is_cut |= units.end - units.start < self.units();
        if let Some(tries) = &mut self.tries {
            tries.on_sent(&units);
        }
        if units.start == self.next {
            self.next = units.end;
        } else {
            self.lost.remove(units);
        }
    }

    /// The piece of `units` arrived; true if all have.
    pub(super) fn on_delivered(&mut self, units: Range<u64>) -> bool {
        if !self.lost.is_empty() {
            self.lost.remove(units.clone());
        }
        self.acked.insert(units);
        self.acked.covered() == self.units()
    }

    /// The piece of `units` was lost, or its path is suspect; false if it may not be retransmitted, and nothing was
    /// changed.
    pub(super) fn on_lost(&mut self, units: Range<u64>) -> bool {
        let gaps: Vec<_> = self.acked.gaps(units).collect();
        if let Some(tries) = &self.tries
            && gaps.iter().any(|gap| !tries.allow(gap))
        {
            return false;
        }
        for gap in gaps {
            self.lost.insert(gap);
        }
        true
    }
}

impl Tries {
    fn overlaps(&self, units: &Range<u64>) -> bool {
        let outside: u64 = self.sent.gaps(units.clone()).map(|gap| gap.end - gap.start).sum();
        outside < units.end - units.start
    }

    fn allow(&self, units: &Range<u64>) -> bool {
        self.round < self.most || !self.overlaps(units)
    }

    fn on_sent(&mut self, units: &Range<u64>) {
        if self.overlaps(units) {
            self.round += 1;
            self.sent.clear();
        }
        self.sent.insert(units.clone());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Class;

    fn message(length: usize, most: Option<u32>) -> Outgoing {
        let urgency = Urgency { priority: 0, class: Class::Bulk };
        let mut message = Outgoing::new(Bytes::from(vec![7; length]), 0, MessageToken(0), urgency);
        message.limit(None, most);
        message
    }

    fn send(message: &mut Outgoing, room: u64) -> Range<u64> {
        let units = message.cut(message.next(), room).unwrap();
        message.on_sent(units.clone());
        units
    }

    #[test]
    fn an_empty_message_sends_its_end() {
        let mut message = message(0, None);
        let units = send(&mut message, 0);
        assert_eq!(message.bytes(&units), (&[][..], true));
        assert!(!message.wants() && !message.is_cut);
        assert!(message.on_lost(units.clone()));
        assert_eq!(send(&mut message, 0), units);
        assert!(message.on_delivered(units));
    }

    #[test]
    fn the_end_travels_with_the_last_byte() {
        let mut message = message(100, None);
        assert_eq!((send(&mut message, 60), send(&mut message, 40)), (0..60, 60..101));
        assert!(message.is_cut && message.reach() == 100);
        assert!(!message.on_delivered(60..101));
        assert!(message.on_delivered(0..60));
    }

    #[test]
    fn the_last_permitted_transmission_is_the_last() {
        for most in 1..4 {
            let mut message = message(100, Some(most));
            for time in 1..=most {
                let units = send(&mut message, 1_000);
                assert_eq!(message.on_lost(units), time < most);
            }
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_sent_more_often_than_permitted(
            steps in prop::collection::vec((any::<bool>(), 1_u64..60, any::<prop::sample::Index>()), 0..60),
            most in 1_u32..4,
        ) {
            let mut message = message(100, Some(most));
            let mut times = [0_u32; 101];
            let mut flying: Vec<Range<u64>> = Vec::new();
            for (loses, room, filter) in steps {
                if loses && !flying.is_empty() {
                    let units = flying.remove(filter.index(flying.len()));
                    if !message.on_lost(units) {
                        return Ok(());
                    }
                } else if message.wants() {
                    let units = send(&mut message, room);
                    for unit in units.clone() {
                        times[usize::try_from(unit).unwrap()] += 1;
                    }
                    flying.push(units);
                }
                prop_assert!(times.iter().all(|times| *times <= most), "{times:?}");
            }
        }
    }
}
