//! Data for packets, and their fate.

use manyway_wire::frame::encode_padding;
use manyway_wire::mmsp1::{DATA_OVERHEAD, Data, encode_data_header};
use manyway_wire::{PathId, StreamId, Writer};

use super::Streams;
use crate::mmsp1::cuts::{BlockQueue, BlockState, DataBlock, DataBlocks, Flight, TrackedBlock};
use crate::mmsp1::outbox::Slice;
use crate::mmsp1::tseq::tseq_of;
use crate::mmsp1::window::Edge;
use crate::packet::content::{Contents, SentContent};
use crate::scheduler::Source;
use crate::stream::priority::ClassFilter;
use crate::{ByteCount, Carries, Instant};

/// The result of an attempt to write a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Wrote,
    /// It does not fit into the packet.
    Full,
    /// There is nothing to send.
    Empty,
}

/// Most blocks that wait with a TSEQ because a scheduler deferred them.
const MOST_DEFERRED: usize = 1024;

/// What goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextItem {
    /// A block that has its TSEQ.
    Tseq(u64),
    /// Something to cut.
    New(StreamId),
}

impl Streams {
    /// Writes DATA blocks until the packet is full or nothing of `source` that `filter` takes is left; true if it wrote
    /// any.
    ///
    /// A block that fills the packet, or nearly, lacks its padding: no other block may follow it.
    pub(crate) fn write_data(
        &mut self,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        source: Source,
        filter: ClassFilter,
    ) -> bool {
        let before = contents.len();
        while self.write_one(w, contents, source, filter) == Step::Wrote {}
        contents.len() > before
    }

    fn write_one(
        &mut self,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        source: Source,
        filter: ClassFilter,
    ) -> Step {
        let item = match source {
            Source::Next => self.next_item(filter),
            Source::Retransmission | Source::Reinject => {
                self.cuts.next(BlockQueue::Retransmit, filter, self.edge).map(NextItem::Tseq)
            }
            Source::Skip(ByteCount(0)) => self.next_new(filter),
            Source::Skip(bytes) => self.next_after(bytes.get(), filter),
            Source::Stream(stream) => self.next_of(stream, filter),
        };
        match item {
            None => Step::Empty,
            Some(NextItem::Tseq(tseq)) => self.write_tseq(tseq, w, contents),
            Some(NextItem::New(stream)) => self.write_new(stream, w, contents),
        }
    }

    /// What goes next: the urgent class before the others, and in each repeats before new data.
    pub(super) fn next_item(&self, filter: ClassFilter) -> Option<NextItem> {
        let classes = [ClassFilter::Urgent, ClassFilter::NotUrgent];
        let classes = classes.into_iter().filter(|class| filter == ClassFilter::All || filter == *class);
        let repeat = |class| self.cuts.next(BlockQueue::Retransmit, class, self.edge).map(NextItem::Tseq);
        classes.into_iter().find_map(|class| repeat(class).or_else(|| self.next_new_of(class)))
    }

    fn next_new(&self, filter: ClassFilter) -> Option<NextItem> {
        match filter {
            ClassFilter::All => {
                self.next_new_of(ClassFilter::Urgent).or_else(|| self.next_new_of(ClassFilter::NotUrgent))
            }
            ClassFilter::Urgent | ClassFilter::NotUrgent => self.next_new_of(filter),
        }
    }

    fn next_new_of(&self, class: ClassFilter) -> Option<NextItem> {
        if let Some(tseq) = self.cuts.next(BlockQueue::Unsent, class, self.edge) {
            return Some(NextItem::Tseq(tseq));
        }
        let (_, stream) = self.queue.first(class)?;
        self.fits_edge(stream).then_some(NextItem::New(stream))
    }

    /// Whether the first block of the next cut of a stream ends before the edge, and its TSEQs may be given.
    pub(super) fn fits_edge(&self, stream: StreamId) -> bool {
        let Some(out) = self.streams.get(&stream).map(|stream| &stream.out) else { return false };
        let left = self.edge.left(self.cuts.given());
        let size = out.first_size(self.fragment).map(|size| size as u64);
        // A block of bytes may be smaller, but not much.
        let least =
            if out.cuts_bytes() { size.map(|size| size.min(self.fragment.div_ceil(2) as u64)) } else { size };
        least.is_some_and(|least| least <= left)
            && out.pieces(self.fragment) as u64 <= self.cuts.room_to_give()
    }

    /// The next data of one stream.
    fn next_of(&self, id: StreamId, filter: ClassFilter) -> Option<NextItem> {
        for queue in [BlockQueue::Retransmit, BlockQueue::Unsent] {
            let may_go =
                |given: &TrackedBlock| self.edge.takes(given.end) && filter.takes(given.block.urgency);
            let mut waiting = self.cuts.of_stream(queue, id);
            if let Some(tseq) = waiting.find(|tseq| self.cuts.get(*tseq).is_some_and(may_go)) {
                return Some(NextItem::Tseq(tseq));
            }
        }
        let rank = self.streams.get(&id)?.entry.rank?;
        (filter.takes(rank.urgency) && self.fits_edge(id)).then_some(NextItem::New(id))
    }

    /// New data behind `skip` other new bytes, which get their TSEQs. A message is neither passed over nor begun there.
    fn next_after(&mut self, skip: u64, filter: ClassFilter) -> Option<NextItem> {
        let mut passed = 0;
        let mut count = 0;
        for tseq in self.cuts.all(BlockQueue::Unsent, filter) {
            let given = self.cuts.get(tseq).filter(|given| self.edge.takes(given.end))?;
            if passed >= skip {
                return Some(NextItem::Tseq(tseq));
            }
            passed += given.block.data.len() as u64;
            count += 1;
        }
        loop {
            let (_, stream) = self.queue.first(filter).filter(|(_, stream)| self.fits_edge(*stream))?;
            if self.streams.get(&stream)?.out.carries() == Carries::Messages {
                return None;
            }
            if passed >= skip {
                return Some(NextItem::New(stream));
            }
            let waiting = self.totals.waiting;
            if count >= MOST_DEFERRED || passed + waiting < skip {
                return None;
            }
            let first = self.cut(stream, self.fragment, self.edge)?;
            passed += self.cuts.get(first)?.block.data.len() as u64;
            count += 1;
        }
    }

    /// Cuts the next data of a stream and gives them TSEQs, of which it returns the first.
    fn cut(&mut self, id: StreamId, room: usize, edge: Edge) -> Option<u64> {
        let stream = self.streams.get_mut(&id)?;
        let urgency = stream.entry.rank?.urgency;
        let left = usize::try_from(edge.left(self.cuts.given())).unwrap_or(usize::MAX);
        let number = stream.number;
        let slices = stream.out.cut(self.fragment, room.min(left));
        let mut first = None;
        let mut bytes = 0;
        for Slice { data, fragment, unordered, sseq, protocol, token } in slices {
            bytes += data.len();
            self.statistics.sent += u64::from(token.is_some());
            let cut = DataBlock {
                stream: id,
                number,
                sseq,
                protocol,
                unordered,
                fragment,
                data,
                urgency,
                message: token,
            };
            let tseq = self.cuts.give(cut);
            first = first.or(Some(tseq));
        }
        self.queue.charge(urgency, id, bytes);
        self.after_change(id);
        first
    }

    fn write_new(&mut self, id: StreamId, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let room = w.remaining().saturating_sub(DATA_OVERHEAD);
        let Some(out) = self.streams.get(&id).map(|stream| &stream.out) else { return Step::Empty };
        if !out.cuts_bytes() && out.first_size(self.fragment).is_some_and(|size| size > room) {
            return Step::Full;
        }
        match self.cut(id, room, self.edge) {
            Some(tseq) => self.write_tseq(tseq, w, contents),
            None => Step::Full,
        }
    }

    fn write_tseq(&mut self, tseq: u64, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(given) = self.cuts.get(tseq) else { return Step::Empty };
        if !write_block(tseq, given, w, contents) {
            return Step::Full;
        }
        self.cuts.take(tseq);
        Step::Wrote
    }

    /// Writes a copy of a block in flight, unless it has arrived or waits to be sent again anyway. Returns the unit
    /// reached; `None` if it does not fit.
    pub(crate) fn write_copy(
        &self,
        copied: &SentContent,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> Option<u64> {
        let tseq = copied.tseq()?;
        match self.cuts.get(tseq).filter(|given| given.state() == BlockState::InFlight) {
            Some(given) => write_block(tseq, given, w, contents).then_some(tseq + 1),
            None => Some(tseq + 1),
        }
    }

    /// Writes copies of the oldest blocks that were sent on a path and are not acknowledged, as far as they fit: for a
    /// packet that has to earn a SACK. They no longer wait to be sent again.
    pub(crate) fn write_oldest(&mut self, path: PathId, w: &mut Writer<'_>, contents: &mut Contents) {
        let before = contents.len();
        for tseq in self.cuts.unacked_on(path) {
            let is_here = contents.iter().any(|content| content.tseq() == Some(tseq));
            let given = self.cuts.get(tseq).filter(|given| !is_here && self.edge.takes(given.end));
            if given.is_some_and(|given| !write_block(tseq, given, w, contents)) {
                break;
            }
        }
        for tseq in contents.iter().skip(before).filter_map(SentContent::tseq) {
            self.cuts.take(tseq);
        }
    }

    /// Writes the persist probe, one block beyond the edge, if one is due; true if it did. Its timer
    /// restarts: no loss recovery tracks a persist probe, so only a SACK that names it or moves the edge confirms it.
    pub(crate) fn write_persist(&mut self, w: &mut Writer<'_>) -> bool {
        if !self.persist_is_due || !self.is_blocked() {
            return false;
        }
        let waiting = self.cuts.first_beyond(self.edge);
        let tseq = waiting.or_else(|| {
            let (_, stream) = self.queue.first(ClassFilter::All)?;
            let pieces = self.streams.get(&stream)?.out.pieces(self.fragment) as u64;
            (pieces <= self.cuts.room_to_give()).then(|| self.cut(stream, self.fragment, Edge::NONE))?
        });
        let Some(tseq) = tseq else { return false };
        let Some(given) = self.cuts.get(tseq) else { return false };
        let wrote = write_block(tseq, given, w, &mut Contents::new());
        if wrote {
            self.persist_is_due = false;
            self.cuts.on_persist_probe(tseq);
        }
        wrote
    }

    /// A packet with these contents leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, path: PathId, number: u64, contents: &[SentContent]) {
        for tseq in contents.iter().filter_map(SentContent::tseq) {
            self.cuts.on_sent(now, tseq, path, number);
        }
    }

    /// A packet with this content is out of flight: it arrived or was lost.
    pub(crate) fn on_out_of_flight(&mut self, content: &SentContent, flight: &impl Flight) {
        let Some(tseq) = content.tseq() else { return };
        self.cuts.on_carrier_gone(tseq, flight);
    }

    /// The path of a packet with this content is suspect: it goes again elsewhere.
    pub(crate) fn repeat(&mut self, content: &SentContent) {
        if let Some(tseq) = content.tseq() {
            self.cuts.repeat(tseq);
        }
    }

    /// A path is closed.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        self.cuts.forget_path(path);
    }

    /// All TSEQs that are not acknowledged, for the translation of SACK.
    pub(crate) fn cuts(&self) -> &DataBlocks {
        &self.cuts
    }
}

/// Writes a block if it fits.
fn write_block(tseq: u64, given: &TrackedBlock, w: &mut Writer<'_>, contents: &mut Contents) -> bool {
    let DataBlock { stream, number, sseq, protocol, unordered, fragment, ref data, .. } = given.block;
    let length = data.len();
    if w.remaining() < DATA_OVERHEAD + length {
        return false;
    }
    let head = Data { tseq: tseq_of(tseq), stream: number, sseq, protocol, unordered, fragment, data: &[] };
    encode_data_header(w, &head, length);
    w.bytes(data);
    encode_padding(w, DATA_OVERHEAD + length);
    contents.push(SentContent::Data { tseq, stream, length: u16::try_from(length).unwrap_or(u16::MAX) });
    true
}
