//! The sender's half of MMSP/1's acknowledgements: the TSEQs given, the packets that carry them, and the SACKs that
//! name them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::mmsp1::{Fin, Fragment, Sack, Sseq, Tseq};
use manyway_wire::{PathId, StreamId};

use crate::Instant;
use crate::mmsp1::fuzzing::{
    BlockQueue, BlockState, CheckedSack, DataBlock, DataBlocks, Edge, Flight, InFlight, check, check_fin,
    expand_tseq, translate, tseq_of,
};
use crate::packet::content::SentContent;
use crate::stream::priority::{ClassFilter, Urgency};

/// A sender of DATA blocks, with packets in flight as the engine's recovery keeps them.
#[derive(Debug)]
pub struct Sacks {
    cuts: DataBlocks,
    flight: Packets,
}

/// The packets in flight, by path and number, and whether their content was sent again.
#[derive(Debug)]
struct Packets {
    packets: BTreeMap<(PathId, u64), (Vec<SentContent>, bool)>,
    next: BTreeMap<PathId, u64>,
    least_rtt: Duration,
}

/// What a SACK or a FIN has told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SackTold {
    /// TSEQs that no earlier one has named, ascending.
    pub newly: Vec<u64>,
    /// Packets whose fate is known by it.
    pub packets: Vec<(PathId, u64)>,
    /// The edge that it sets, if it is not old.
    pub edge: Option<u64>,
}

impl Flight for Packets {
    fn packet(&self, path: PathId, number: u64) -> Option<InFlight<'_>> {
        let (contents, reinjected) = self.packets.get(&(path, number))?;
        Some(InFlight { contents, reinjected: *reinjected })
    }

    fn least_rtt(&self, _path: PathId) -> Duration {
        self.least_rtt
    }
}

impl Sacks {
    /// Starts with the initial TSEQ; each path has this least RTT.
    pub fn new(initial: Tseq, least_rtt: Duration) -> Self {
        let flight = Packets { packets: BTreeMap::new(), next: BTreeMap::new(), least_rtt };
        Self { cuts: DataBlocks::new(initial), flight }
    }

    /// Gives the next TSEQ to a block with this much data; `None` if no more may be given.
    pub fn give(&mut self, length: usize) -> Option<u64> {
        (self.cuts.room_to_give() > 0).then(|| {
            self.cuts.give(DataBlock {
                stream: StreamId(0),
                number: 0,
                sseq: Sseq(0),
                protocol: 0,
                unordered: false,
                fragment: Fragment::Whole,
                data: Bytes::from(vec![7; length]),
                urgency: Urgency::default(),
                message: None,
            })
        })
    }

    /// The lowest TSEQ that waits to be sent again, or to be sent at all.
    pub fn waiting(&self) -> Option<u64> {
        let next = |which| self.cuts.next(which, ClassFilter::All, Edge::NONE);
        next(BlockQueue::Retransmit).or_else(|| next(BlockQueue::Unsent))
    }

    /// The oldest TSEQ in flight on a path.
    pub fn oldest_on(&self, path: PathId) -> Option<u64> {
        let in_flight =
            |tseq: &u64| self.cuts.get(*tseq).is_some_and(|given| given.state() == BlockState::InFlight);
        self.cuts.unacked_on(path).find(in_flight)
    }

    /// Sends these TSEQs in one packet, the loss of which is reported unless it is a copy; returns its number.
    pub fn send(&mut self, now: Instant, path: PathId, tseqs: &[u64], is_copy: bool) -> u64 {
        let next = self.flight.next.entry(path).or_default();
        let number = *next;
        *next += 1;
        let data = |tseq: &u64| SentContent::Data { tseq: *tseq, stream: StreamId(0), length: 1 };
        self.flight.packets.insert((path, number), (tseqs.iter().map(data).collect(), is_copy));
        tseqs.iter().for_each(|tseq| self.cuts.on_sent(now, *tseq, path, number));
        number
    }

    /// The packet is declared lost; if its content was sent again before, that changes nothing.
    pub fn lose(&mut self, path: PathId, number: u64) {
        let Some((contents, reinjected)) = self.flight.packets.remove(&(path, number)) else { return };
        if !reinjected {
            self.on_gone(&contents);
        }
    }

    /// The path is suspect: the content of the packet goes again.
    pub fn suspect(&mut self, path: PathId, number: u64) {
        let Some((contents, reinjected)) = self.flight.packets.get_mut(&(path, number)) else { return };
        if !std::mem::replace(reinjected, true) {
            contents.iter().filter_map(SentContent::tseq).for_each(|tseq| self.cuts.repeat(tseq));
        }
    }

    /// The path is closed: what it carried is lost, and its numbers begin anew.
    pub fn close_path(&mut self, path: PathId) {
        for (_, number) in self.in_flight().into_iter().filter(|(on, _)| *on == path) {
            self.lose(path, number);
        }
        self.cuts.forget_path(path);
    }

    /// A persist probe with the first TSEQ beyond this edge leaves; returns the TSEQ.
    pub fn persist(&mut self, edge: u64) -> Option<u64> {
        let tseq = self.cuts.first_beyond(Edge { bytes: edge, ..Edge::NONE })?;
        self.cuts.on_persist_probe(tseq);
        Some(tseq)
    }

    /// Takes a SACK. `None` if it names a TSEQ that was never sent; then nothing has changed.
    pub fn take(&mut self, now: Instant, sack: &Sack<'_>) -> Option<SackTold> {
        let checked = check(sack, &self.cuts).ok()?;
        Some(self.apply(now, &checked))
    }

    /// Takes a FIN. `None` if it names a TSEQ that was never sent; then nothing has changed.
    pub fn take_fin(&mut self, now: Instant, fin: &Fin) -> Option<SackTold> {
        let checked = check_fin(fin, &self.cuts).ok()?;
        Some(self.apply(now, &checked))
    }

    fn apply(&mut self, now: Instant, checked: &CheckedSack) -> SackTold {
        let acknowledged = translate(checked, &self.cuts, now, &self.flight);
        self.cuts.acknowledge(&acknowledged, &mut |_, _| {});
        let edge = checked.aws.map(|aws| acknowledged.acked.bytes + u64::from(aws));
        let newly = acknowledged.newly.iter().cloned().flatten().collect();
        let mut told = SackTold { newly, packets: Vec::new(), edge };
        for on in &acknowledged.paths {
            for number in on.unknown.iter() {
                self.flight.packets.remove(&(on.path, *number));
                told.packets.push((on.path, *number));
            }
            for number in on.timed.iter().chain(on.untimed.iter()).flatten() {
                told.packets.push((on.path, number));
                if let Some((contents, _)) = self.flight.packets.remove(&(on.path, number)) {
                    self.on_gone(&contents);
                }
            }
        }
        told
    }

    fn on_gone(&mut self, contents: &[SentContent]) {
        for tseq in contents.iter().filter_map(SentContent::tseq) {
            self.cuts.on_carrier_gone(tseq, &self.flight);
        }
    }

    /// Path and number of each packet in flight.
    pub fn in_flight(&self) -> Vec<(PathId, u64)> {
        self.flight.packets.keys().copied().collect()
    }

    /// The number of a TSEQ on the wire, near those that are expected.
    pub fn number(&self, tseq: Tseq) -> Option<u64> {
        expand_tseq(tseq, self.acked_in_sequence())
    }

    /// A TSEQ on the wire.
    pub fn on_wire(tseq: u64) -> Tseq {
        tseq_of(tseq)
    }

    /// The highest TSEQ acknowledged in sequence.
    pub fn acked_in_sequence(&self) -> u64 {
        self.cuts.acked_in_sequence()
    }

    /// User bytes acknowledged in sequence.
    pub fn acked_bytes(&self) -> u64 {
        self.cuts.acked().bytes
    }

    /// Number of TSEQs in flight.
    pub fn tseqs_in_flight(&self) -> usize {
        self.cuts.in_flight()
    }

    /// Whether every TSEQ given is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.cuts.is_empty()
    }
}
