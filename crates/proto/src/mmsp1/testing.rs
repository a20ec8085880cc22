//! What the tests of the sending half share.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use manyway_wire::mmsp1::{Fragment, Sack, Sseq, Tseq, encode_sack};
use manyway_wire::{PathId, Reader, StreamId, Writer};

use super::acknowledged::Acknowledged;
use super::cuts::{DataBlock, DataBlocks, Flight, InFlight};
use super::tseq::tseq_of;
use crate::Instant;
use crate::packet::content::SentContent;
use crate::stream::priority::Urgency;

pub(crate) const INITIAL: Tseq = Tseq(u32::MAX - 2);

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Bytes that tell their offset.
pub(crate) fn pattern(range: std::ops::Range<usize>) -> Vec<u8> {
    range.map(|at| u8::try_from(at % 251).unwrap()).collect()
}

pub(crate) fn cut(length: usize) -> DataBlock {
    DataBlock {
        stream: StreamId(0),
        number: 0,
        sseq: Sseq(0),
        protocol: 0,
        unordered: false,
        fragment: Fragment::Whole,
        data: Bytes::from(vec![7; length]),
        urgency: Urgency::default(),
        message: None,
    }
}

/// Packets in flight, as the engine's recovery keeps them.
#[derive(Debug, Default)]
pub(crate) struct FakeFlight {
    packets: BTreeMap<(PathId, u64), (Vec<SentContent>, bool)>,
    next: BTreeMap<PathId, u64>,
    least_rtt: Duration,
}

impl Flight for FakeFlight {
    fn packet(&self, path: PathId, number: u64) -> Option<InFlight<'_>> {
        let (contents, reinjected) = self.packets.get(&(path, number))?;
        Some(InFlight { contents, reinjected: *reinjected })
    }

    fn least_rtt(&self, _path: PathId) -> Duration {
        self.least_rtt
    }
}

impl FakeFlight {
    pub(crate) fn with_least_rtt(least_rtt: Duration) -> Self {
        Self { least_rtt, ..Self::default() }
    }

    /// Sends these TSEQs in one packet.
    pub(crate) fn send(&mut self, cuts: &mut DataBlocks, now: Instant, path: u32, tseqs: &[u64]) -> u64 {
        let data = |tseq: &u64| SentContent::Data { tseq: *tseq, stream: StreamId(0), length: 1 };
        let number = self.add(PathId(path), tseqs.iter().map(data).collect());
        tseqs.iter().for_each(|tseq| cuts.on_sent(now, *tseq, PathId(path), number));
        number
    }

    /// A packet with these contents leaves.
    pub(crate) fn add(&mut self, path: PathId, contents: Vec<SentContent>) -> u64 {
        let next = self.next.entry(path).or_default();
        let number = *next;
        *next += 1;
        self.packets.insert((path, number), (contents, false));
        number
    }

    /// A packet is out of flight: returns its contents, and whether they were sent again.
    pub(crate) fn remove(&mut self, path: PathId, number: u64) -> Option<(Vec<SentContent>, bool)> {
        self.packets.remove(&(path, number))
    }

    pub(crate) fn in_flight(&self) -> Vec<(PathId, u64)> {
        self.packets.keys().copied().collect()
    }

    /// The packet is out of flight: it was lost, or acknowledged.
    pub(crate) fn settle(&mut self, cuts: &mut DataBlocks, path: PathId, number: u64) {
        let Some((contents, reinjected)) = self.packets.remove(&(path, number)) else { return };
        if !reinjected {
            contents.iter().filter_map(SentContent::tseq).for_each(|tseq| cuts.on_carrier_gone(tseq, self));
        }
    }

    /// The path is suspect: the content of the packet goes again.
    pub(crate) fn reinject(&mut self, cuts: &mut DataBlocks, path: PathId, number: u64) {
        let Some((contents, reinjected)) = self.packets.get_mut(&(path, number)) else { return };
        if !std::mem::replace(reinjected, true) {
            contents.iter().filter_map(SentContent::tseq).for_each(|tseq| cuts.repeat(tseq));
        }
    }

    /// Marks a packet as a copy, whose loss is not reported.
    pub(crate) fn mark_copy(&mut self, path: u32, number: u64) {
        if let Some((_, reinjected)) = self.packets.get_mut(&(PathId(path), number)) {
            *reinjected = true;
        }
    }

    /// Does with the packets what the engine does after a SACK.
    pub(crate) fn apply(&mut self, cuts: &mut DataBlocks, acknowledged: &Acknowledged) {
        for on in &acknowledged.paths {
            for number in on.unknown.iter() {
                self.packets.remove(&(on.path, *number));
            }
            for number in on.timed.iter().chain(on.untimed.iter()).flatten() {
                let Some((contents, _)) = self.packets.remove(&(on.path, number)) else { continue };
                contents
                    .iter()
                    .filter_map(SentContent::tseq)
                    .for_each(|tseq| cuts.on_carrier_gone(tseq, self));
            }
        }
    }
}

/// A SACK as it stands on the wire.
pub(crate) struct SackBytes(Vec<u8>);

impl SackBytes {
    /// `ranges` are absolute, and inclusive as on the wire.
    pub(crate) fn new(cum: u64, window: u32, ranges: &[(u64, u64)], dups: &[u64]) -> Self {
        let mut bytes = Vec::new();
        let offset = |tseq: u64| u16::try_from(tseq - cum).unwrap();
        let ranges = ranges.iter().map(|(start, end)| offset(*start)..=offset(*end));
        let dups = dups.iter().map(|tseq| tseq_of(*tseq));
        encode_sack(&mut Writer::new(&mut bytes, 2000), tseq_of(cum), window, ranges, dups).unwrap();
        Self(bytes)
    }

    pub(crate) fn sack(&self) -> Sack<'_> {
        Sack::decode(0, Reader::new(&self.0[4..])).unwrap()
    }
}
