//! Which DATA blocks of the peer have arrived, and what SACK says of them (spec 3.40 to 3.42, 3.46).

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use manyway_wire::Writer;
use manyway_wire::mmsp1::{Sack, Tseq, encode_sack};
use smallvec::SmallVec;

use super::tseq::{expand_tseq, start, tseq_of};
use super::window::Load;
use crate::collections::range_set::RangeSet;

/// How far a block may lie beyond the last one in sequence: offsets in SACK have 16 bits.
const FARTHEST: u64 = 65_535;
/// The newest arrivals whose ranges a SACK names in any case, so that the loss of some SACKs hides nothing from the peer.
const MOST_RECENT: usize = 32;

/// Bytes of a SACK without entries, and of an entry.
const SACK_FIXED: usize = 16;
const ENTRY: usize = 4;

/// Where a DATA block falls among those that have arrived. A later variant calls for a SACK more urgently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taken {
    /// It is the next one, and there is no gap.
    InOrder,
    /// It lies in a gap.
    FillsGap,
    /// It lies beyond all others, and some before it are missing.
    BeyondGap,
    /// It has arrived before.
    Duplicate,
    /// It lies more than 65 535 blocks beyond the last one in sequence, or nowhere (RFC 1982, section 3.2).
    TooFar,
}

/// The TSEQs that have arrived. Memory: at most 128 KiB of sizes and as many ranges as there are gaps.
#[derive(Debug)]
pub(crate) struct Received {
    /// Everything up to this TSEQ has arrived.
    cum: u64,
    /// What has arrived beyond `cum`.
    beyond: RangeSet,
    /// The last of those to arrive, oldest first.
    recent: VecDeque<u64>,
    /// Bytes of user data of the TSEQs from `cum + 1` on; 0 for those that are missing.
    sizes: VecDeque<u16>,
    /// Each further copy that arrived since the last SACK, at most as many as a SACK takes.
    dups: SmallVec<[Tseq; Sack::MAX_DUPLICATES]>,
    in_sequence: Load,
}

impl Received {
    /// Starts before the first block, which has the initial TSEQ of the peer.
    pub(crate) fn new(initial: Tseq) -> Self {
        Self {
            cum: start(initial) - 1,
            beyond: RangeSet::default(),
            recent: VecDeque::new(),
            sizes: VecDeque::new(),
            dups: SmallVec::new(),
            in_sequence: Load::default(),
        }
    }

    /// Tells the number of a block and where it falls, without taking it. Costs O(log gaps).
    pub(crate) fn look(&self, tseq: Tseq) -> (u64, Taken) {
        let number = expand_tseq(tseq, self.cum).unwrap_or(u64::MAX);
        (number, self.place(number))
    }

    fn place(&self, tseq: u64) -> Taken {
        match tseq.checked_sub(self.cum) {
            None | Some(0) => Taken::Duplicate,
            Some(ahead) if ahead > FARTHEST => Taken::TooFar,
            Some(_) if self.beyond.contains(tseq) => Taken::Duplicate,
            Some(_) if tseq < self.highest() => Taken::FillsGap,
            Some(1) => Taken::InOrder,
            Some(_) => Taken::BeyondGap,
        }
    }

    fn highest(&self) -> u64 {
        self.beyond.iter().next_back().map_or(self.cum, |last| last.end - 1)
    }

    /// Takes a block with `bytes` of user data; of a duplicate only notes the copy, and of one that is too far nothing.
    /// Costs O(log gaps) and the blocks that are in sequence now.
    pub(crate) fn take(&mut self, tseq: u64, bytes: u16) -> Taken {
        let taken = self.place(tseq);
        match taken {
            Taken::TooFar => {}
            Taken::Duplicate => {
                if self.dups.len() < Sack::MAX_DUPLICATES {
                    self.dups.push(tseq_of(tseq));
                }
            }
            Taken::InOrder => {
                self.cum = tseq;
                self.in_sequence += Load::block(bytes.into());
            }
            Taken::FillsGap | Taken::BeyondGap => {
                self.note_size(tseq, bytes);
                self.beyond.insert(tseq..tseq + 1);
                if self.recent.len() >= MOST_RECENT {
                    self.recent.pop_front();
                }
                self.recent.push_back(tseq);
                self.advance();
            }
        }
        taken
    }

    fn note_size(&mut self, tseq: u64, bytes: u16) {
        let at = usize::try_from(tseq - self.cum - 1).unwrap_or(usize::MAX);
        if at >= self.sizes.len() {
            self.sizes.resize(at + 1, 0);
        }
        if let Some(size) = self.sizes.get_mut(at) {
            *size = bytes;
        }
    }

    /// Moves `cum` over what is in sequence.
    fn advance(&mut self) {
        if self.beyond.first().is_none_or(|first| first.start != self.cum + 1) {
            return;
        }
        let Some(first) = self.beyond.pop_first() else { return };
        let count = usize::try_from(first.end - first.start).unwrap_or(usize::MAX).min(self.sizes.len());
        self.in_sequence.bytes += self.sizes.drain(..count).map(u64::from).sum::<u64>();
        self.in_sequence.blocks += count as u64;
        self.cum = first.end - 1;
        if self.beyond.is_empty() {
            self.recent.clear();
        }
    }

    /// The ranges for a SACK with this many: those of the newest arrivals, and the lowest.
    fn reported(&self, most: usize) -> SmallVec<[Range<u64>; 64]> {
        let lowest = self.beyond.iter();
        if lowest.len() <= most {
            return lowest.collect();
        }
        let mut chosen: SmallVec<[Range<u64>; 64]> = SmallVec::new();
        let newest = self.recent.iter().rev().filter_map(|tseq| self.beyond.range_of(*tseq));
        for range in newest.chain(lowest) {
            if chosen.len() >= most {
                break;
            }
            if !chosen.contains(&range) {
                chosen.push(range);
            }
        }
        chosen.sort_unstable_by_key(|range| range.start);
        chosen
    }

    /// The last TSEQ in sequence; before any data the initial TSEQ − 1.
    pub(crate) fn ack(&self) -> Tseq {
        tseq_of(self.cum)
    }

    /// Whether a block is missing before one that has arrived.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// All blocks up to [`Self::ack`].
    pub(crate) fn in_sequence(&self) -> Load {
        self.in_sequence
    }

    /// Appends a SACK with the given AWS, as many ranges as fit, and then as many duplicates as fit; forgets the
    /// duplicates that were written. False, and nothing written, if there is no room for a SACK.
    pub(crate) fn write_sack(&mut self, w: &mut Writer<'_>, window: u32) -> bool {
        let cum = self.cum;
        let offset = |tseq: u64| u16::try_from(tseq.saturating_sub(cum)).unwrap_or(u16::MAX);
        let room = w.remaining().saturating_sub(SACK_FIXED) / ENTRY;
        let reported = self.reported(room.min(Sack::MAX_RANGES));
        let inclusive =
            |range: &Range<u64>| -> RangeInclusive<u16> { offset(range.start)..=offset(range.end - 1) };
        let ranges = reported.iter().map(inclusive);
        let written = encode_sack(w, tseq_of(cum), window, ranges, self.dups.iter().copied());
        let Some((_, duplicates)) = written else { return false };
        self.dups.drain(..duplicates);
        true
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.beyond.shrink_to_fit();
        self.sizes.shrink_to_fit();
        self.recent.shrink_to_fit();
    }
}

#[cfg(test)]
#[path = "received/tests.rs"]
mod tests;
