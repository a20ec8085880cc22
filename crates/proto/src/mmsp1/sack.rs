//! Acknowledgements of the peer, checked and translated from TSEQs to packets of paths (spec 3.40 to 3.46).
//!
//! The engine's loss recovery works with the packet numbers of each path. A SACK names TSEQs, so each TSEQ is
//! attributed to one of the packets that carried it. All functions are pure: [`DataBlocks::acknowledge`] carries out the
//! result.

use std::collections::BTreeMap;
use std::ops::Range;

use manyway_wire::PathId;
use manyway_wire::mmsp1::{Fin, Sack, Tseq};
use smallvec::SmallVec;

use super::acknowledged::{Acknowledged, OnPath};
use super::cuts::{Carrier, DataBlocks, Flight, TrackedBlock};
use super::tseq::{expand_tseq, tseq_of};
use crate::Instant;

/// What a SACK or FIN says, with numbers that do not wrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedSack {
    /// The highest TSEQ received in sequence.
    pub(crate) cum: u64,
    /// TSEQs received beyond it: ascending, without overlap.
    pub(crate) ranges: SmallVec<[Range<u64>; 8]>,
    /// TSEQs received again, one for each copy.
    pub(crate) dups: SmallVec<[u64; 4]>,
    /// The advertised window; `None` if there is no new one.
    pub(crate) aws: Option<u32>,
}

/// It acknowledges a TSEQ that was never sent: the block is ignored as a whole, and answered by ERROR 0x0004.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent {
    pub(crate) tseq: Tseq,
}

/// Checks a SACK. One whose ack TSEQ lies behind the newest is old: its window is ignored, the rest counts (spec 3.44).
///
/// Inverted ranges were refused by [`Sack::decode`]; overlapping ones are merged. Duplicates beyond the most that this
/// end writes, and those of TSEQs never sent, are ignored.
///
/// # Errors
/// It acknowledges a TSEQ never sent.
pub(crate) fn check(sack: &Sack<'_>, cuts: &DataBlocks) -> Result<CheckedSack, NeverSent> {
    let newest = cuts.acked_in_sequence();
    let cum = check_ack(sack.ack, cuts)?;
    let offsets = sack.ranges.offsets();
    let all = offsets.map(|range| cum + u64::from(*range.start())..cum + u64::from(*range.end()) + 1);
    let ranges = merged(all);
    if let Some(range) = ranges.iter().find(|range| !cuts.were_sent(range)) {
        return Err(NeverSent { tseq: tseq_of(range.end - 1) });
    }
    let dups = sack.duplicates.iter().take(Sack::MAX_DUPLICATES).filter_map(|tseq| expand_tseq(tseq, newest));
    let dups = dups.filter(|tseq| cuts.were_sent(&(*tseq..*tseq + 1))).collect();
    let aws = (cum >= newest).then_some(sack.window);
    Ok(CheckedSack { cum: cum.max(newest), ranges, dups, aws })
}

/// Checks the acknowledgement in a FIN.
///
/// # Errors
/// It acknowledges a TSEQ never sent.
pub(crate) fn check_fin(fin: &Fin, cuts: &DataBlocks) -> Result<CheckedSack, NeverSent> {
    let cum = check_ack(fin.ack, cuts)?.max(cuts.acked_in_sequence());
    Ok(CheckedSack { cum, ranges: SmallVec::new(), dups: SmallVec::new(), aws: None })
}

fn check_ack(ack: Tseq, cuts: &DataBlocks) -> Result<u64, NeverSent> {
    let newest = cuts.acked_in_sequence();
    let cum = expand_tseq(ack, newest).filter(|cum| cuts.were_sent(&(newest + 1..*cum + 1)));
    cum.ok_or(NeverSent { tseq: ack })
}

fn merged(ranges: impl Iterator<Item = Range<u64>>) -> SmallVec<[Range<u64>; 8]> {
    let mut sorted: SmallVec<[Range<u64>; 8]> = ranges.collect();
    sorted.sort_unstable_by_key(|range| range.start);
    sorted.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    sorted
}

/// Translates a checked SACK to packets. Costs one step for each newly acknowledged TSEQ, and a search for each range; a
/// TSEQ that was sent more than once costs as many steps as its packets have blocks.
pub(crate) fn translate(
    checked: &CheckedSack,
    cuts: &DataBlocks,
    now: Instant,
    flight: &impl Flight,
) -> Acknowledged {
    let first = cuts.acked_in_sequence() + 1;
    let in_sequence = first..(checked.cum + 1).max(first);
    let named = std::iter::once(in_sequence).chain(checked.ranges.iter().cloned());
    let newly = merged(named.flat_map(|range| cuts.unacked(range)));
    let acked = cuts.get(checked.cum).map_or_else(|| cuts.acked(), |given| given.end);
    let mut work = Work { checked, cuts, now, flight, newly, paths: BTreeMap::new() };
    for tseq in work.newly.clone().into_iter().flatten() {
        if let Some(given) = cuts.get(tseq) {
            work.attribute(tseq, given);
        }
    }
    for tseq in &checked.dups {
        work.attribute_late(*tseq);
    }
    Acknowledged {
        acked,
        again: checked.dups.clone(),
        paths: work.paths.into_values().filter_map(OnPath::finish).collect(),
        newly: work.newly,
    }
}

struct Work<'a, F> {
    checked: &'a CheckedSack,
    cuts: &'a DataBlocks,
    now: Instant,
    flight: &'a F,
    newly: SmallVec<[Range<u64>; 8]>,
    paths: BTreeMap<PathId, OnPath>,
}

/// A carrier whose fate no SACK has told.
struct Candidate {
    carrier: Carrier,
    in_flight: bool,
    /// It is in flight, and each of its TSEQs is acknowledged by now.
    is_complete: bool,
}

impl<F: Flight> Work<'_, F> {
    /// Attributes a newly acknowledged TSEQ to the packets that brought it.
    fn attribute(&mut self, tseq: u64, given: &TrackedBlock) {
        if given.was_sent_once() {
            if let [carrier] = given.carriers()
                && !self.cuts.is_settled(carrier)
            {
                self.on_path(carrier.path).timed.insert(carrier.number..carrier.number + 1);
            }
            return;
        }
        let candidates: SmallVec<[Candidate; 4]> = self.candidates(given.carriers());
        let arrived = 1 + self.checked.dups.iter().filter(|dup| **dup == tseq).count();
        let all_arrived = arrived > 1 && arrived >= candidates.len();
        let chosen = self.choose(&candidates);
        for (index, candidate) in candidates.iter().enumerate() {
            let Carrier { path, number, .. } = candidate.carrier;
            if all_arrived || chosen == Some(index) {
                self.on_path(path).hit(number);
            } else if candidate.is_complete {
                self.on_path(path).unknown.push(number);
            }
        }
    }

    /// Which of the candidates brought the TSEQ.
    fn choose(&self, candidates: &[Candidate]) -> Option<usize> {
        let newest = candidates.len().checked_sub(1)?;
        // An answer earlier than three quarters of the least RTT is one to an earlier copy (as in Eifel, RFC 3522).
        let is_early = |carrier: &Carrier| {
            (self.now - carrier.sent_at).saturating_mul(4)
                < self.flight.least_rtt(carrier.path).saturating_mul(3)
        };
        let old_enough = candidates.iter().rposition(|candidate| !is_early(&candidate.carrier)).unwrap_or(0);
        let possible = candidates.get(..=old_enough.min(newest))?;
        let mut complete = possible.iter().enumerate().filter(|(_, candidate)| candidate.is_complete);
        if let (Some((only, _)), None) = (complete.next(), complete.next()) {
            return Some(only);
        }
        let live = possible.iter().rposition(|candidate| candidate.in_flight);
        Some(live.unwrap_or(possible.len() - 1))
    }

    fn candidates<'c>(&self, carriers: impl IntoIterator<Item = &'c Carrier>) -> SmallVec<[Candidate; 4]> {
        let open = carriers.into_iter().filter(|carrier| !self.cuts.is_settled(carrier));
        open.map(|carrier| {
            let packet = self.flight.packet(carrier.path, carrier.number);
            let tseqs = packet.iter().flat_map(|packet| packet.contents).filter_map(|content| content.tseq());
            let is_complete = packet.is_some() && tseqs.into_iter().all(|tseq| self.is_acked_by_now(tseq));
            Candidate { carrier: *carrier, in_flight: packet.is_some(), is_complete }
        })
        .collect()
    }

    fn is_acked_by_now(&self, tseq: u64) -> bool {
        let at = self.newly.partition_point(|range| range.end <= tseq);
        self.cuts.is_acked(tseq) || self.newly.get(at).is_some_and(|range| range.contains(&tseq))
    }

    /// A copy of a TSEQ acknowledged before arrived: if a carrier had been declared lost, the loss was spurious.
    fn attribute_late(&mut self, tseq: u64) {
        let carriers = self.cuts.late(tseq).iter().copied();
        let mut lost = carriers.filter(|carrier| {
            !self.cuts.is_settled(carrier) && self.flight.packet(carrier.path, carrier.number).is_none()
        });
        let told = |carrier: &Carrier| self.paths.get(&carrier.path).is_some_and(|on| on.has(carrier.number));
        if let Some(carrier) = lost.find(|carrier| !told(carrier)) {
            self.on_path(carrier.path).hit(carrier.number);
        }
    }

    fn on_path(&mut self, path: PathId) -> &mut OnPath {
        self.paths.entry(path).or_insert_with(|| OnPath { path, ..OnPath::default() })
    }
}

#[cfg(test)]
#[path = "sack/tests.rs"]
mod tests;
