//! What the peer sends: DATA, and what SACK says of the own DATA.

use std::collections::VecDeque;

use bytes::Bytes;
use manyway_wire::mmsp1::{Data, Tseq};
use manyway_wire::{StreamId, Writer};

use super::{Arrivals, Stream, Streams};
use crate::StreamEvent;
use crate::mmsp1::acknowledged::Acknowledged;
use crate::mmsp1::reassembly::{Broken, Piece, Whole};
use crate::mmsp1::received::Taken;
use crate::mmsp1::window::{Freed, Load};

/// What became of a DATA block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heard {
    /// Where it falls. `TooFar` as well if there is no memory for it: it was dropped, and is not acknowledged.
    pub(crate) taken: Taken,
    pub(crate) error: Option<DataError>,
}

/// The cause of an ERROR. The block is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataError {
    /// 0x0001: there is no such stream, or its last use has not ended.
    InvalidStream,
    /// 0x0007: the block has no data.
    NoUserData,
}

impl Streams {
    /// Takes a DATA block.
    ///
    /// # Errors
    /// [`Broken`]: the connection cannot go on.
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> Result<Heard, Broken> {
        let (tseq, taken) = self.arrivals.received.look(data.tseq);
        let length = data.data.len();
        if taken == Taken::Duplicate {
            self.arrivals.received.take(tseq, 0);
            self.arrivals.duplicate_bytes += length as u64;
        }
        if matches!(taken, Taken::Duplicate | Taken::TooFar) {
            return Ok(Heard { taken, error: None });
        }
        if !self.arrivals.has_memory(data, tseq)? {
            return Ok(Heard { taken: Taken::TooFar, error: None });
        }
        let is_valid = data.stream < self.numbers.incoming;
        let whole = self.arrivals.join(tseq, data, is_valid)?;
        let taken = self.arrivals.received.take(tseq, u16::try_from(length).unwrap_or(u16::MAX));
        self.arrivals.bytes += length as u64;
        self.arrivals.most_ahead = self.arrivals.most_ahead.max(self.arrivals.ahead());
        if !is_valid {
            return Ok(Heard { taken, error: Some(DataError::InvalidStream) });
        }
        let mut error = (length == 0).then_some(DataError::NoUserData);
        if let Some(whole) = whole
            && !self.deliver(whole)?
        {
            error = Some(DataError::InvalidStream);
        }
        Ok(Heard { taken, error })
    }

    /// Passes on a message, and those that waited for it; false if one could not be because the last use of the stream
    /// has not ended.
    fn deliver(&mut self, whole: Whole) -> Result<bool, Broken> {
        let number = whole.stream;
        if !self.slots.contains_key(&number) {
            self.open_for_peer(number);
        }
        let Some(slot) = self.slots.get_mut(&number) else { return Ok(false) };
        let mut in_order = VecDeque::new();
        let before = slot.ordering.held();
        slot.ordering.insert(whole, &mut in_order).map_err(|_| Broken::Impossible)?;
        self.arrivals.behind = self.arrivals.behind + slot.ordering.held() - before;
        let mut all_delivered = true;
        for whole in in_order {
            self.arrivals.ready += whole.cost();
            let stream = self.current_for(number).and_then(|id| self.streams.get_mut(&id));
            let Some(stream) = stream else {
                self.arrivals.discard(Freed { bytes: whole.data.len() as u64, memory: whole.cost() });
                all_delivered = false;
                continue;
            };
            let (id, is_message) = (stream.id, stream.incoming.is_message(&whole));
            let freed = stream.incoming.take(whole);
            stream.note_readable(&mut self.events);
            self.statistics.received += u64::from(is_message);
            self.arrivals.discard(freed);
            self.note_end(id);
        }
        Ok(all_delivered)
    }

    /// The stream to which what comes now with a number belongs: the newest one, or the next if that one has ended.
    /// `None` if it has not ended at this end.
    fn current_for(&mut self, number: u16) -> Option<StreamId> {
        let slot = self.slots.get(&number)?;
        let Some(stream) = self.streams.get(&slot.current) else { return Some(self.open_for_peer(number)) };
        if !stream.incoming.is_complete() {
            return Some(stream.id);
        }
        // The peer goes on only after all of this end's data arrived: they are acknowledged, or the SACK was lost.
        if !stream.out.has_given_end() || !stream.incoming.has_end() {
            return None;
        }
        Some(self.open_for_peer(number))
    }

    fn open_for_peer(&mut self, number: u16) -> StreamId {
        if let Some(slot) = self.slots.get(&number)
            && let Some(stream) = self.streams.get(&slot.current)
        {
            let next = stream.out.next_sseq();
            self.slots.entry(number).and_modify(|slot| slot.next_sseq = slot.next_sseq.max(next));
        }
        if self.slots.get(&number).is_some_and(|slot| slot.is_free) {
            self.ours.free.retain(|free| *free != number);
        }
        // The application accepts all streams at once, so one event suffices until then.
        if self.unaccepted.is_empty() {
            self.events.push_back(StreamEvent::Opened);
        }
        let id = self.add_stream(number, false);
        self.unaccepted.push_back(id);
        id
    }

    /// Writes a SACK with all credit that is due. False, and nothing written, if there is no room.
    pub(crate) fn write_sack(&mut self, w: &mut Writer<'_>) -> bool {
        let Arrivals { received, window, .. } = &mut self.arrivals;
        let acked = received.in_sequence();
        let aws = window.behind(acked);
        let wrote = received.write_sack(w, aws);
        if wrote {
            window.on_advertised(acked, aws);
        }
        wrote
    }

    /// Whether a quarter of the window is free that the peer does not know of: a SACK is due.
    pub(crate) fn wants_window_update(&self) -> bool {
        self.arrivals.window.should_update(self.arrivals.received.in_sequence())
    }

    /// The last TSEQ in sequence, for FIN.
    pub(crate) fn ack(&self) -> Tseq {
        self.arrivals.received.ack()
    }

    /// Whether a block is missing before one that has arrived.
    pub(crate) fn has_gap(&self) -> bool {
        self.arrivals.received.has_gap()
    }

    /// Takes the translated SACK. The edge moves to the right only.
    pub(crate) fn acknowledge(&mut self, acknowledged: &Acknowledged, aws: Option<u32>) {
        if let Some(aws) = aws {
            self.edge.raise(acknowledged.acked, aws);
        }
        let mut changed: Vec<StreamId> = Vec::new();
        let Self { cuts, streams, statistics, events, .. } = self;
        cuts.acknowledge(acknowledged, &mut |_, cut| {
            statistics.delivered += u64::from(cut.message.is_some());
            let Some(stream) = streams.get_mut(&cut.stream) else { return };
            let sseq = (!cut.unordered).then_some(cut.sseq);
            if stream.out.on_acked(cut.data.len(), sseq) && !stream.is_reset {
                events.push_back(StreamEvent::Finished(stream.id));
            }
            if changed.last() != Some(&stream.id) {
                changed.push(stream.id);
            }
        });
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().for_each(|id| self.after_change(id));
    }
}

fn piece(data: &Data<'_>, content: Bytes) -> Piece {
    let Data { stream, sseq, protocol, unordered, fragment, .. } = *data;
    Piece { stream, sseq, protocol, unordered, fragment, data: content }
}

impl Arrivals {
    /// Whether there is memory for a block. What the application may read does not hinder the block for which all
    /// others wait, unless the application is behind, too.
    fn has_memory(&self, data: &Data<'_>, tseq: u64) -> Result<bool, Broken> {
        let budget = self.window.memory();
        let cost = Load::block(data.data.len()).memory();
        let held_memory = self.behind + self.reassembly.held();
        if held_memory + self.ready + cost <= budget {
            return Ok(true);
        }
        let is_next = self.received.look(self.received.ack().plus(1)).0 == tseq;
        if !is_next || self.ready + cost > budget {
            return Ok(false);
        }
        // Fragments of messages that never end: no reader can free them.
        if held_memory + cost > budget.saturating_mul(2) { Err(Broken::TooLarge) } else { Ok(true) }
    }

    /// Joins a block to the fragments beside it, and returns the message that it completes. What is not kept returns to
    /// the peer: the overhead of the fragments of a complete message, and all content for a stream that does not exist.
    fn join(&mut self, tseq: u64, data: &Data<'_>, is_valid: bool) -> Result<Option<Whole>, Broken> {
        let arrived = Load::block(data.data.len());
        let content = if is_valid { Bytes::copy_from_slice(data.data) } else { Bytes::new() };
        let before = self.reassembly.held() + arrived.memory();
        let whole = self.reassembly.insert(tseq, piece(data, content))?.filter(|_| is_valid);
        let after = self.reassembly.held() + whole.as_ref().map_or(0, Whole::cost);
        let bytes = if is_valid { 0 } else { arrived.bytes };
        self.window.discard(Freed { bytes, memory: before - after });
        Ok(whole)
    }

    /// Memory of what waits for earlier data, or for its other fragments.
    pub(super) fn ahead(&self) -> u64 {
        self.behind + self.reassembly.held()
    }

    /// The application will not read these bytes: their credit returns to the peer.
    pub(super) fn discard(&mut self, freed: Freed) {
        self.ready -= freed.memory;
        self.window.discard(freed);
    }
}

impl Stream {
    /// Tells the application what it can read, if it knows the stream.
    pub(super) fn note_readable(&mut self, events: &mut VecDeque<StreamEvent>) {
        if !self.is_known {
            return;
        }
        events.extend(self.incoming.take_reset().map(|code| StreamEvent::Reset(self.id, code)));
        if self.incoming.take_readable() {
            events.push_back(StreamEvent::Readable(self.id));
        }
    }
}
