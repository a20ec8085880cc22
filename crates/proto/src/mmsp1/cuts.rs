//! The DATA blocks cut for the peer: each TSEQ assigned and not acknowledged in sequence, with its data and its carriers.
//!
//! Only a SACK frees a TSEQ. The fate of a packet says no more than that one carrier of its TSEQs is out of flight: a
//! peer may acknowledge one block of a packet and drop another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::mmsp1::{Fragment, Sseq, Tseq};
use manyway_wire::{PathId, StreamId};
use smallvec::SmallVec;

use super::acknowledged::Acknowledged;
use super::tseq;
use super::window::{Edge, Load};
use crate::collections::range_set::RangeSet;
use crate::packet::content::SentContent;
use crate::stream::priority::{ClassFilter, Urgency};
use crate::{Instant, MessageToken};

/// Most TSEQs given beyond the last one that was acknowledged in sequence (spec 3.31): the reach of a SACK's offsets.
const MOST_GIVEN: u64 = 65_535;
/// Carriers kept of a TSEQ: the newest ones.
const MOST_CARRIERS: usize = 4;
/// TSEQs whose carriers are kept for duplicates that the peer reports later.
const MOST_LATE: usize = 1024;
/// Ranges of settled packet numbers kept for a path. Older numbers count as settled.
const MOST_SETTLED: usize = 256;

/// A packet that carries, or carried, a TSEQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carrier {
    pub(crate) path: PathId,
    pub(crate) number: u64,
    pub(crate) sent_at: Instant,
}

/// The packets in flight, and the least RTT of their paths.
pub(crate) trait Flight {
    /// A packet in flight. `None` if it was acknowledged, declared lost or forgotten, or if the path is closed.
    fn packet(&self, path: PathId, number: u64) -> Option<InFlight<'_>>;
    /// The least RTT of a path, zero if there is none.
    fn least_rtt(&self, path: PathId) -> Duration;
}

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight<'a> {
    pub(crate) contents: &'a [SentContent],
    /// Its content was sent again on another path: its loss is not reported.
    pub(crate) reinjected: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// It has its TSEQ and was not sent.
    Unsent,
    InFlight,
    /// To be sent again.
    Retransmit,
    /// Acknowledged beyond a gap.
    Acked,
}

/// The content of a DATA block.
#[derive(Debug, Clone)]
pub(crate) struct DataBlock {
    pub(crate) stream: StreamId,
    /// The stream on the wire.
    pub(crate) number: u16,
    pub(crate) sseq: Sseq,
    pub(crate) protocol: u32,
    pub(crate) unordered: bool,
    pub(crate) fragment: Fragment,
    pub(crate) data: Bytes,
    pub(crate) urgency: Urgency,
    /// The message that ends with it.
    pub(crate) message: Option<MessageToken>,
}

/// A DATA block with its TSEQ, its state, and its carriers.
#[derive(Debug)]
pub(crate) struct TrackedBlock {
    pub(crate) block: DataBlock,
    /// All TSEQs up to and with this one.
    pub(crate) end: Load,
    state: BlockState,
    /// Whether it was sent at most once: then its acknowledgement measures the RTT (Karn).
    sent_once: bool,
    carriers: SmallVec<[Carrier; 2]>,
}

/// The queue of a DATA block: whether it has been sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockQueue {
    Retransmit,
    Unsent,
}

/// All TSEQs assigned and not acknowledged in sequence.
#[derive(Debug)]
pub(crate) struct DataBlocks {
    /// The TSEQ of the first of `ring`.
    first: u64,
    ring: VecDeque<TrackedBlock>,
    /// TSEQs above `first` that are acknowledged.
    acked: RangeSet,
    unsent: Waiting,
    retransmissions: Waiting,
    acked_load: Load,
    given: Load,
    in_flight: usize,
    highest_sent: Option<u64>,
    /// Acknowledged TSEQs that were sent more than once.
    late: BTreeMap<u64, Late>,
    duplicate_bytes: u64,
    /// Number of searches, for tests of the cost.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<u64>,
    /// Numbers of packets whose fate a SACK has told: acknowledged, or forgotten.
    settled: BTreeMap<PathId, RangeSet>,
}

/// A TSEQ that is acknowledged, of which other copies may have arrived or be on their way.
#[derive(Debug)]
struct Late {
    carriers: SmallVec<[Carrier; 2]>,
    bytes: u64,
    /// Copies that did not count yet when the peer says that one arrived again.
    copies: usize,
}

/// TSEQs that wait to be sent, and their bytes.
#[derive(Debug, Default)]
struct Waiting {
    patient: BTreeSet<u64>,
    urgent: BTreeSet<u64>,
    patient_bytes: u64,
    urgent_bytes: u64,
}

impl DataBlocks {
    /// Starts with the initial TSEQ.
    pub(crate) fn new(initial: Tseq) -> Self {
        Self {
            first: tseq::start(initial),
            ring: VecDeque::new(),
            acked: RangeSet::default(),
            unsent: Waiting::default(),
            retransmissions: Waiting::default(),
            acked_load: Load::default(),
            given: Load::default(),
            in_flight: 0,
            highest_sent: None,
            late: BTreeMap::new(),
            duplicate_bytes: 0,
            #[cfg(test)]
            looks: std::cell::Cell::new(0),
            settled: BTreeMap::new(),
        }
    }

    /// Gives the next TSEQ; the caller has checked [`Self::room_to_give`].
    pub(crate) fn give(&mut self, block: DataBlock) -> u64 {
        debug_assert!(self.room_to_give() > 0, "checked by the caller");
        let tseq = self.next_tseq();
        self.given += Load::block(block.data.len());
        self.unsent.insert(tseq, &block);
        self.ring.push_back(TrackedBlock {
            block,
            end: self.given,
            state: BlockState::Unsent,
            sent_once: true,
            carriers: SmallVec::new(),
        });
        tseq
    }

    /// How many more TSEQs may be given.
    pub(crate) fn room_to_give(&self) -> u64 {
        MOST_GIVEN.saturating_sub(self.ring.len() as u64)
    }

    /// The next TSEQ to send that ends at or before the edge: the urgent ones first, then the lowest.
    pub(crate) fn next(&self, queue: BlockQueue, filter: ClassFilter, edge: Edge) -> Option<u64> {
        let may_go = |tseq: &u64| self.get(*tseq).is_some_and(|given| edge.takes(given.end));
        self.waiting(queue).firsts(filter).find(may_go)
    }

    /// The lowest TSEQ that waits and ends beyond the edge: the one for a persist probe.
    pub(crate) fn first_beyond(&self, edge: Edge) -> Option<u64> {
        let firsts = [BlockQueue::Retransmit, BlockQueue::Unsent]
            .into_iter()
            .flat_map(|queue| self.all(queue, ClassFilter::All));
        firsts.filter(|tseq| self.get(*tseq).is_some_and(|given| !edge.takes(given.end))).min()
    }

    /// The TSEQs of one stream that wait, lowest first. Costs a scan of all that wait.
    pub(crate) fn of_stream(&self, queue: BlockQueue, stream: StreamId) -> impl Iterator<Item = u64> {
        self.all(queue, ClassFilter::All)
            .filter(move |tseq| self.get(*tseq).is_some_and(|given| given.block.stream == stream))
    }

    /// The TSEQs that wait and that the filter takes, lowest first in each class.
    pub(crate) fn all(&self, queue: BlockQueue, filter: ClassFilter) -> impl Iterator<Item = u64> {
        let Waiting { urgent, patient, .. } = self.waiting(queue);
        let urgent = urgent.iter().filter(move |_| filter != ClassFilter::NotUrgent);
        urgent.chain(patient.iter().filter(move |_| filter != ClassFilter::Urgent)).copied()
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self, queue: BlockQueue, filter: ClassFilter) -> u64 {
        self.waiting(queue).bytes(filter)
    }

    pub(crate) fn get(&self, tseq: u64) -> Option<&TrackedBlock> {
        self.count_look();
        self.ring.get(self.index(tseq)?)
    }

    /// Writes a TSEQ into a packet: it does not wait any more.
    pub(crate) fn take(&mut self, tseq: u64) {
        let Some(given) = self.index(tseq).and_then(|index| self.ring.get_mut(index)) else { return };
        match given.state {
            BlockState::Unsent => self.unsent.remove(tseq, &given.block),
            BlockState::Retransmit => self.retransmissions.remove(tseq, &given.block),
            BlockState::InFlight | BlockState::Acked => return,
        }
        given.state = BlockState::InFlight;
        self.in_flight += 1;
        self.highest_sent = self.highest_sent.max(Some(tseq));
    }

    /// A copy of a waiting TSEQ leaves as a persist probe: it goes on waiting, and its round trip will not count.
    pub(crate) fn on_persist_probe(&mut self, tseq: u64) {
        self.take(tseq);
        self.repeat(tseq);
        if let Some(given) = self.index(tseq).and_then(|index| self.ring.get_mut(index)) {
            given.sent_once = false;
        }
    }

    /// A packet with this TSEQ leaves: it has one more carrier.
    pub(crate) fn on_sent(&mut self, now: Instant, tseq: u64, path: PathId, number: u64) {
        self.take(tseq);
        let Some(given) = self.index(tseq).and_then(|index| self.ring.get_mut(index)) else { return };
        if given.state == BlockState::Acked {
            return;
        }
        given.sent_once &= given.carriers.is_empty();
        if given.carriers.len() == MOST_CARRIERS {
            given.carriers.remove(0);
        }
        given.carriers.push(Carrier { path, number, sent_at: now });
    }

    /// A packet with this TSEQ is out of flight. If no SACK has named the TSEQ it is sent again, unless another carrier
    /// is in flight whose loss will be reported.
    pub(crate) fn on_carrier_gone(&mut self, tseq: u64, flight: &impl Flight) {
        let Some(given) = self.get(tseq).filter(|given| given.state == BlockState::InFlight) else { return };
        let is_reported = |carrier: &Carrier| {
            flight.packet(carrier.path, carrier.number).is_some_and(|packet| !packet.reinjected)
        };
        if !given.carriers.iter().any(is_reported) {
            self.repeat(tseq);
        }
    }

    /// Sends a TSEQ in flight again: its path is suspect.
    pub(crate) fn repeat(&mut self, tseq: u64) {
        let Some(given) = self.index(tseq).and_then(|index| self.ring.get_mut(index)) else { return };
        if given.state == BlockState::InFlight {
            given.state = BlockState::Retransmit;
            self.in_flight -= 1;
            self.retransmissions.insert(tseq, &given.block);
        }
    }

    /// Carries out what a SACK has told: `sink` gets each newly acknowledged block.
    pub(crate) fn acknowledge(&mut self, acknowledged: &Acknowledged, sink: &mut dyn FnMut(u64, &DataBlock)) {
        for on_path in &acknowledged.paths {
            let settled = self.settled.entry(on_path.path).or_default();
            on_path.timed.iter().chain(on_path.untimed.iter()).for_each(|range| {
                settled.insert(range);
            });
            on_path.unknown.iter().for_each(|number| {
                settled.insert(*number..number.saturating_add(1));
            });
            while settled.len() > MOST_SETTLED {
                let Some(lowest) = settled.first() else { break };
                let next = settled.iter().nth(1).map_or(lowest.end, |range| range.start);
                settled.insert(0..next);
            }
        }
        for tseq in acknowledged.newly.iter().cloned().flatten() {
            self.acknowledge_one(tseq, sink);
        }
        acknowledged.again.iter().for_each(|tseq| self.note_again(*tseq));
        while let Some(given) = self.ring.front().filter(|given| given.state == BlockState::Acked) {
            self.acked_load = given.end;
            self.ring.pop_front();
            self.first += 1;
        }
        self.acked.remove(0..self.first);
    }

    fn acknowledge_one(&mut self, tseq: u64, sink: &mut dyn FnMut(u64, &DataBlock)) {
        self.count_look();
        let Some(given) = self.index(tseq).and_then(|index| self.ring.get_mut(index)) else { return };
        match given.state {
            BlockState::Unsent | BlockState::Acked => return,
            BlockState::InFlight => self.in_flight -= 1,
            BlockState::Retransmit => self.retransmissions.remove(tseq, &given.block),
        }
        given.state = BlockState::Acked;
        sink(tseq, &given.block);
        let data = std::mem::take(&mut given.block.data);
        let carriers = std::mem::take(&mut given.carriers);
        if carriers.len() > 1 {
            let (bytes, copies) = (data.len() as u64, carriers.len() - 1);
            self.late.insert(tseq, Late { carriers, bytes, copies });
            if self.late.len() > MOST_LATE {
                self.late.pop_first();
            }
        }
        self.acked.insert(tseq..tseq + 1);
    }

    /// The peer says that a TSEQ arrived again. Counts no more copies than were sent.
    fn note_again(&mut self, tseq: u64) {
        if let Some(late) = self.late.get_mut(&tseq)
            && let Some(copies) = late.copies.checked_sub(1)
        {
            late.copies = copies;
            self.duplicate_bytes += late.bytes;
        }
    }

    /// A path is closed: its packets are forgotten.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.settled.remove(&path);
    }

    /// The TSEQs with a carrier on a path that are not acknowledged, lowest first. Costs a scan.
    pub(crate) fn unacked_on(&self, path: PathId) -> impl Iterator<Item = u64> {
        let on_path = move |given: &TrackedBlock| {
            matches!(given.state, BlockState::InFlight | BlockState::Retransmit)
                && given.carriers.iter().any(|carrier| carrier.path == path)
        };
        (self.first..).zip(&self.ring).filter(move |(_, given)| on_path(given)).map(|(tseq, _)| tseq)
    }

    /// Whether a SACK has named a TSEQ.
    pub(crate) fn is_acked(&self, tseq: u64) -> bool {
        tseq < self.first || self.acked.contains(tseq)
    }

    /// The parts of a range of TSEQs that no SACK has named.
    pub(crate) fn unacked(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        self.count_look();
        self.acked.gaps(within.start.max(self.first)..within.end.max(self.first))
    }

    /// Whether all TSEQs of a range were sent, at some time.
    pub(crate) fn were_sent(&self, range: &Range<u64>) -> bool {
        self.count_look();
        let highest = self.highest_sent.map_or(self.first, |highest| highest + 1);
        range.end <= highest.max(self.first) && !self.unsent.any_in(range)
    }

    /// The highest TSEQ acknowledged in sequence; before any data the initial TSEQ − 1.
    pub(crate) fn acked_in_sequence(&self) -> u64 {
        self.first - 1
    }

    /// All TSEQs acknowledged in sequence.
    pub(crate) fn acked(&self) -> Load {
        self.acked_load
    }

    /// All TSEQs given.
    pub(crate) fn given(&self) -> Load {
        self.given
    }

    /// Whether every TSEQ given is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Number of TSEQs in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Carriers of an acknowledged TSEQ that was sent more than once.
    pub(crate) fn late(&self, tseq: u64) -> &[Carrier] {
        self.late.get(&tseq).map_or(&[], |late| late.carriers.as_slice())
    }

    /// User bytes of copies that arrived although another had arrived before, as far as SACKs told.
    pub(crate) fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    /// Whether a SACK has told the fate of a packet.
    pub(crate) fn is_settled(&self, carrier: &Carrier) -> bool {
        self.count_look();
        self.settled.get(&carrier.path).is_some_and(|settled| settled.contains(carrier.number))
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.ring.shrink_to_fit();
        self.acked.shrink_to_fit();
    }

    #[cfg(test)]
    fn count_look(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "tests count")]
    fn count_look(&self) {}

    fn next_tseq(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    fn index(&self, tseq: u64) -> Option<usize> {
        usize::try_from(tseq.checked_sub(self.first)?).ok()
    }

    fn waiting(&self, queue: BlockQueue) -> &Waiting {
        match queue {
            BlockQueue::Retransmit => &self.retransmissions,
            BlockQueue::Unsent => &self.unsent,
        }
    }
}

impl TrackedBlock {
    pub(crate) fn state(&self) -> BlockState {
        self.state
    }

    /// The packets that carried it, oldest first.
    pub(crate) fn carriers(&self) -> &[Carrier] {
        &self.carriers
    }

    /// Whether it was sent at most once.
    pub(crate) fn was_sent_once(&self) -> bool {
        self.sent_once
    }
}

impl Waiting {
    fn insert(&mut self, tseq: u64, block: &DataBlock) {
        let bytes = block.data.len() as u64;
        if block.urgency.is_urgent() {
            self.urgent.insert(tseq);
            self.urgent_bytes += bytes;
        } else {
            self.patient.insert(tseq);
            self.patient_bytes += bytes;
        }
    }

    fn remove(&mut self, tseq: u64, block: &DataBlock) {
        let bytes = block.data.len() as u64;
        if block.urgency.is_urgent() {
            self.urgent.remove(&tseq);
            self.urgent_bytes -= bytes;
        } else {
            self.patient.remove(&tseq);
            self.patient_bytes -= bytes;
        }
    }

    /// The lowest TSEQ of each class that the filter takes, the urgent one first.
    fn firsts(&self, filter: ClassFilter) -> impl Iterator<Item = u64> {
        let (urgent, patient) = match filter {
            ClassFilter::All => (self.urgent.first(), self.patient.first()),
            ClassFilter::Urgent => (self.urgent.first(), None),
            ClassFilter::NotUrgent => (None, self.patient.first()),
        };
        urgent.into_iter().chain(patient).copied()
    }

    fn bytes(&self, filter: ClassFilter) -> u64 {
        match filter {
            ClassFilter::All => self.urgent_bytes + self.patient_bytes,
            ClassFilter::Urgent => self.urgent_bytes,
            ClassFilter::NotUrgent => self.patient_bytes,
        }
    }

    fn any_in(&self, range: &Range<u64>) -> bool {
        !range.is_empty()
            && [&self.urgent, &self.patient].into_iter().any(|set| set.range(range.clone()).next().is_some())
    }
}

#[cfg(test)]
#[path = "cuts/tests.rs"]
mod tests;
