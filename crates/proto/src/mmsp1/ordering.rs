//! Delivers the ordered messages of one direction of a stream by their SSEQ (spec 3.32, 3.33).

use std::collections::{BTreeMap, VecDeque};

use manyway_wire::mmsp1::Sseq;

use super::reassembly::Whole;
use super::tseq::{FIRST_SSEQ, expand_sseq};

/// Messages of a stream that wait for earlier ones. Its owner limits their memory.
#[derive(Debug)]
pub(crate) struct Ordering {
    /// The SSEQ to deliver next.
    next: u64,
    waiting: BTreeMap<u64, Whole>,
    held: u64,
}

/// Why a message cannot be delivered: its SSEQ contradicts those of others (spec 3.119). It was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misplaced {
    /// A message with its SSEQ was delivered, or waits.
    Behind,
    /// It lies half of all numbers ahead, where SSEQs have no order (RFC 1982, section 3.2).
    TooFar,
}

impl Default for Ordering {
    fn default() -> Self {
        Self { next: FIRST_SSEQ, waiting: BTreeMap::new(), held: 0 }
    }
}

impl Ordering {
    /// Takes a message; appends it and those that waited for it to `out` as soon as they are in order, an unordered one
    /// at once. Costs O(log waiting) for each message.
    ///
    /// # Errors
    /// [`Misplaced`]: the peer violated the protocol.
    pub(crate) fn insert(&mut self, whole: Whole, out: &mut VecDeque<Whole>) -> Result<(), Misplaced> {
        let Some(sseq) = whole.sseq else {
            out.push_back(whole);
            return Ok(());
        };
        let number = self.expand(sseq)?;
        if number > self.next {
            self.held += whole.cost();
            self.waiting.insert(number, whole);
            return Ok(());
        }
        out.push_back(whole);
        self.next += 1;
        while let Some(whole) = self.waiting.remove(&self.next) {
            self.held -= whole.cost();
            out.push_back(whole);
            self.next += 1;
        }
        Ok(())
    }

    fn expand(&self, sseq: Sseq) -> Result<u64, Misplaced> {
        let number = expand_sseq(sseq, self.next).ok_or(Misplaced::TooFar)?;
        let is_taken = number < self.next || self.waiting.contains_key(&number);
        if is_taken { Err(Misplaced::Behind) } else { Ok(number) }
    }

    /// Memory that the waiting messages take, in bytes.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn message(sseq: u16) -> Whole {
        Whole { stream: 0, sseq: Some(Sseq(sseq)), protocol: 0, data: Bytes::from_static(b"data") }
    }

    fn insert(ordering: &mut Ordering, sseq: u16) -> Result<Vec<u16>, Misplaced> {
        let mut out = VecDeque::new();
        ordering.insert(message(sseq), &mut out)?;
        Ok(out.iter().map(|whole| whole.sseq.unwrap().0).collect())
    }

    #[test]
    fn wraps_at_65535() {
        let mut ordering = Ordering::default();
        for sseq in (0..=u16::MAX).chain(0..3) {
            assert_eq!(insert(&mut ordering, sseq), Ok(vec![sseq]));
        }
        assert_eq!(ordering.held(), 0);
    }

    #[test]
    fn messages_wait_for_earlier_ones_across_the_wrap() {
        let mut ordering = Ordering { next: FIRST_SSEQ + 65_534, ..Ordering::default() };
        for sseq in [0, u16::MAX, 1] {
            assert_eq!(insert(&mut ordering, sseq), Ok(vec![]));
        }
        assert_eq!(ordering.held(), 3 * message(0).cost());
        assert_eq!(insert(&mut ordering, 65_534), Ok(vec![65_534, 65_535, 0, 1]));
        assert_eq!(ordering.held(), 0);
    }

    #[test]
    fn an_unordered_message_waits_for_none() {
        let mut ordering = Ordering::default();
        let mut out = VecDeque::new();
        assert_eq!(ordering.insert(Whole { sseq: None, ..message(0) }, &mut out), Ok(()));
        assert_eq!((out.len(), insert(&mut ordering, 0)), (1, Ok(vec![0])));
    }

    // spec 3.119
    #[test]
    fn an_sseq_that_was_delivered_or_waits_or_has_no_order_is_refused() {
        let mut ordering = Ordering::default();
        assert_eq!(insert(&mut ordering, u16::MAX), Err(Misplaced::Behind), "before the first message");
        assert_eq!(insert(&mut ordering, 0x8000), Err(Misplaced::TooFar));
        assert_eq!(insert(&mut ordering, 0x7fff), Ok(vec![]));
        assert_eq!(insert(&mut ordering, 0), Ok(vec![0]));
        assert_eq!(insert(&mut ordering, 0), Err(Misplaced::Behind));
        assert_eq!(insert(&mut ordering, 2), Ok(vec![]));
        assert_eq!(insert(&mut ordering, 2), Err(Misplaced::Behind));
        assert_eq!(insert(&mut ordering, 1), Ok(vec![1, 2]));
    }

    proptest! {
        #[test]
        fn any_order_of_arrival_is_delivered_in_order(
            start in any::<u16>(),
            order in Just((0_u16..50).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut ordering = Ordering { next: FIRST_SSEQ + u64::from(start), ..Ordering::default() };
            let mut delivered = Vec::new();
            for at in order {
                delivered.extend(insert(&mut ordering, start.wrapping_add(at)).unwrap());
            }
            prop_assert_eq!(delivered, (0..50).map(|at| start.wrapping_add(at)).collect::<Vec<_>>());
        }
    }
}
