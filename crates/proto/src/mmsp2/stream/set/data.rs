//! Stream and message data for packets: what goes next, and what schedulers may know about it.

use std::cmp::Reverse;

use manyway_wire::{StreamId, Writer};

use super::StreamSet;
use super::send_queue::NextItem;
use crate::ByteCount;
use crate::mmsp2::stream::send::{NewData, Ready};
use crate::packet::content::{Contents, SentContent};
use crate::scheduler::{ReadyStream, Source, View};
use crate::stream::backlog::Backlog;
use crate::stream::event::StreamEvent;
use crate::stream::priority::{ClassFilter, Level, ReadyQueue};

/// The result of an attempt to write a block.
enum Step {
    Wrote,
    /// It does not fit into the packet.
    Full,
    /// There is nothing to send.
    Empty,
}

/// Bytes of the smallest block of stream data, one that only ends a stream.
const LEAST_BLOCK: usize = 6;

/// Streams of a level that are checked for one with enough bytes.
const MOST_LOOKED_AT: usize = 16;

impl StreamSet {
    /// Whether data that `filter` takes could be sent now: retransmissions, the rest of messages, FINs without
    /// data, deferred bytes, or new bytes within the credit.
    pub(crate) fn wants_data(&self, filter: ClassFilter) -> bool {
        self.next_turn(filter).is_some()
    }

    /// The next item that may go: without credit for the first new bytes, only data that needs none.
    pub(super) fn next_turn(&self, filter: ClassFilter) -> Option<NextItem> {
        match self.queue.turn(filter)? {
            // Only data that needs no credit may overtake a stream that waits for credit: otherwise a large message
            // could wait for ever.
            NextItem::New(id) if !self.has_credit_for(id) => self.queue.paid_turn(filter),
            turn @ (NextItem::New(_) | NextItem::Retransmission(_)) => Some(turn),
        }
    }

    /// The stream with the next new bytes, including deferred ones.
    fn next_new(&self, filter: ClassFilter) -> Option<StreamId> {
        let (_, id) = self.queue.new.first(filter)?;
        if self.has_credit_for(id) { Some(id) } else { Some(self.queue.deferred.first(filter)?.1) }
    }

    /// Whether the connection's credit suffices for the next new bytes of a stream.
    fn has_credit_for(&self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get(&id) else { return false };
        let need = stream.send.need().filter(|_| stream.entry.counted.deferred == 0);
        need.is_none_or(|need| need <= self.send_credit.left_for(stream.urgency_of_new()))
    }

    /// The waiting data that `filter` takes, and the credit for it.
    pub(crate) fn backlog_of(&self, filter: ClassFilter) -> Backlog {
        let totals = &self.queue.totals;
        let (mut new, mut deferred) = (totals.new, totals.deferred);
        let mut retransmissions = totals.retransmissions + totals.partially_sent + totals.fin_only as u64;
        if filter == ClassFilter::NotUrgent {
            new -= self.sum_of_urgent(&self.queue.new, |ready| ready.new);
            deferred -= self.sum_of_urgent(&self.queue.new, |ready| ready.deferred);
            retransmissions -= self.sum_of_urgent(&self.queue.retransmissions, |ready| ready.credit_free());
        }
        let next = self.next_up(filter);
        let urgency =
            next.and_then(|next| self.streams.get(&next.stream)).map(|stream| stream.urgency_of_new());
        let of_connection = self.send_credit.left_for(urgency.unwrap_or_default());
        let left = of_connection.min(totals.credit);
        let need = next.and_then(|next| self.streams.get(&next.stream)).and_then(|stream| stream.send.need());
        // A message that does not fit into the credit as a whole uses none of it; that of its stream was checked.
        let fits = need.is_none_or(|need| need <= of_connection);
        Backlog {
            backlog: ByteCount(new + deferred),
            deferred: ByteCount(deferred),
            retransmissions: ByteCount(retransmissions),
            credit_left: ByteCount(if fits { left } else { 0 }),
            credit_total: ByteCount(left.saturating_add(totals.outstanding)),
            next,
        }
    }

    /// Sum over the urgent streams in a queue. Costs one step for each of them.
    fn sum_of_urgent(&self, queue: &ReadyQueue, part: impl Fn(&Ready) -> u64) -> u64 {
        let streams = queue.levels(ClassFilter::Urgent).flat_map(Level::streams);
        streams.filter_map(|id| self.streams.get(&id)).map(|stream| part(&stream.entry.counted)).sum()
    }

    /// The streams that could send data that `filter` takes, in their order, at most [`View::MOST_READY`].
    pub(crate) fn ready_streams(&self, filter: ClassFilter, list: &mut Vec<ReadyStream>) {
        list.clear();
        let in_order = |queue| {
            let levels = ReadyQueue::levels(queue, filter);
            levels.flat_map(|level| level.streams().map(move |id| (Reverse(level.urgency()), id))).peekable()
        };
        let (mut retransmissions, mut new) =
            (in_order(&self.queue.retransmissions), in_order(&self.queue.new));
        while list.len() < View::MOST_READY {
            let new_first = match (retransmissions.peek(), new.peek()) {
                (Some((retransmissions, _)), Some((new, _))) => new < retransmissions,
                (retransmissions, _) => retransmissions.is_none(),
            };
            let next = if new_first { new.next() } else { retransmissions.next() };
            let Some((Reverse(urgency), id)) = next else { return };
            let Some(stream) = self.streams.get(&id) else { continue };
            if list.iter().any(|listed| listed.stream == id) {
                continue;
            }
            let (counted, ranks) = (stream.entry.counted, stream.send.ranks(stream.urgency));
            list.push(ReadyStream {
                stream: id,
                priority: urgency.priority,
                class: urgency.class,
                deadline: if new_first { ranks.new.deadline } else { ranks.retransmissions.deadline },
                unsent: ByteCount(counted.unsent()),
                retransmissions: ByteCount(counted.credit_free()),
            });
        }
    }

    /// Whether these bytes of a stream, sent and not acknowledged, block the head of line.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        let SentContent::Stream { stream, offset, length, .. } = *content else { return false };
        let range = offset..offset + u64::from(length);
        self.streams.get(&stream).is_some_and(|stream| stream.send.is_held_up_by(&range))
    }

    /// Whether these bytes of a stream or message are no longer needed.
    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        let (Some(id), Some(units)) = (content.stream(), content.units()) else { return true };
        let Some(send) = self.streams.get(&id).map(|stream| &stream.send) else { return true };
        match content.message() {
            Some(message) => !send.needs_message_copy(message.into(), &units),
            None => !send.needs_copy(&units),
        }
    }

    /// Writes STREAM and MESSAGE blocks until the packet is full or no data of `source` that `filter` takes is left;
    /// true if it wrote any.
    ///
    /// A block that fills the packet, or nearly, lacks its padding: no other block may follow it.
    pub(crate) fn write_data(
        &mut self,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        source: Source,
        filter: ClassFilter,
    ) -> bool {
        let mut wrote = false;
        loop {
            let step = match source {
                Source::Next => self.write_next(w, contents, filter),
                Source::Retransmission | Source::Reinject => self.write_retransmission(w, contents, filter),
                Source::Skip(ByteCount::ZERO) => self.write_new(w, contents, filter),
                Source::Skip(bytes) => self.write_further_on(bytes.get(), w, contents, filter),
                Source::Stream(stream) => self.write_stream(stream, w, contents, filter),
            };
            match step {
                // The space left fits no block: skip the search.
                Step::Wrote if w.remaining() < LEAST_BLOCK => return true,
                Step::Wrote => wrote = true,
                Step::Full | Step::Empty => return wrote,
            }
        }
    }

    /// Writes a copy of stream or message data from a unit on, as far as it fits, without the part that has arrived.
    /// Returns the unit reached, `None` if nothing fits.
    pub(crate) fn write_copy(
        &self,
        copied: &SentContent,
        from: u64,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> Option<u64> {
        let (Some(id), Some(units)) = (copied.stream(), copied.units()) else { return Some(u64::MAX) };
        let Some(stream) = self.streams.get(&id) else { return Some(units.end) };
        let rest = units.start.max(from)..units.end;
        let (reached, content) = match copied.message() {
            Some(message) => stream.send.write_message_copy(message.into(), rest, w)?,
            None => stream.send.write_copy(rest, w)?,
        };
        if let Some(content) = content {
            contents.push(content);
        }
        Some(reached)
    }

    fn write_next(&mut self, w: &mut Writer<'_>, contents: &mut Contents, filter: ClassFilter) -> Step {
        match self.next_turn(filter) {
            Some(NextItem::Retransmission(id)) => self.write_retransmission_of(id, w, contents),
            Some(NextItem::New(id)) => self.write_new_of(id, 0, w, contents),
            None => Step::Empty,
        }
    }

    fn write_retransmission(
        &mut self,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        filter: ClassFilter,
    ) -> Step {
        self.queue
            .retransmissions
            .first(filter)
            .map_or(Step::Empty, |(_, id)| self.write_retransmission_of(id, w, contents))
    }

    fn write_new(&mut self, w: &mut Writer<'_>, contents: &mut Contents, filter: ClassFilter) -> Step {
        let Some(id) = self.next_new(filter) else { return Step::Empty };
        if self.goes_on(id) {
            self.write_retransmission_of(id, w, contents)
        } else {
            self.write_new_of(id, 0, w, contents)
        }
    }

    /// Whether a stream has a partially sent message that is at least as urgent as its next one: it is completed
    /// first.
    fn goes_on(&self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get(&id) else { return false };
        let ranks = stream.send.ranks(stream.urgency);
        stream.entry.counted.partially_sent > 0 && ranks.retransmissions.urgency >= ranks.new.urgency
    }

    fn write_further_on(
        &mut self,
        skip: u64,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        filter: ClassFilter,
    ) -> Step {
        self.find_after(skip, filter)
            .map_or(Step::Empty, |(id, skip)| self.write_new_of(id, skip, w, contents))
    }

    fn write_stream(
        &mut self,
        id: StreamId,
        w: &mut Writer<'_>,
        contents: &mut Contents,
        filter: ClassFilter,
    ) -> Step {
        let Some(stream) = self.streams.get(&id) else { return Step::Empty };
        let ranks = stream.send.ranks(stream.urgency);
        if stream.entry.counted.has_credit_free() && filter.takes(ranks.retransmissions.urgency) {
            self.write_retransmission_of(id, w, contents)
        } else if filter.takes(ranks.new.urgency) {
            self.write_new_of(id, 0, w, contents)
        } else {
            Step::Empty
        }
    }

    /// The stream with the new bytes that follow `skip` others, and how many of those are its own. The streams of a
    /// level are assumed to advance side by side. `None` as well if an ordered message comes before them: it starts in
    /// its turn.
    fn find_after(&self, mut skip: u64, filter: ClassFilter) -> Option<(StreamId, u64)> {
        for level in self.queue.new.levels(filter) {
            let share = skip / level.len().max(1) as u64;
            for id in level.streams().take(MOST_LOOKED_AT) {
                let Some(stream) = self.streams.get(&id) else { continue };
                if !stream.send.can_be_left_out() {
                    return None;
                }
                let unsent = stream.entry.counted.unsent();
                if unsent > share {
                    return Some((id, share));
                }
                skip = skip.saturating_sub(unsent);
            }
        }
        None
    }

    fn write_retransmission_of(&mut self, id: StreamId, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(stream) = self.streams.get_mut(&id) else { return Step::Empty };
        let urgency = stream.send.ranks(stream.urgency).retransmissions.urgency;
        let before = w.remaining();
        let Some(content) = stream.send.write_retransmission(w) else { return Step::Full };
        contents.push(content);
        self.queue.retransmissions.charge(urgency, id, before - w.remaining());
        self.queue.update(stream);
        Step::Wrote
    }

    fn write_new_of(&mut self, id: StreamId, skip: u64, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(stream) = self.streams.get_mut(&id) else { return Step::Empty };
        let urgency = stream.urgency_of_new();
        let before = w.remaining();
        let credit = self.send_credit.left_for(urgency);
        let (content, spent) = match stream.send.write_new(skip, credit, w) {
            NewData::Block(content, spent) => (content, spent),
            NewData::Full => return Step::Full,
            NewData::Nothing => return Step::Empty,
        };
        self.send_credit.spend(spent);
        if stream.send.take_writable() {
            self.events.push_back(StreamEvent::Writable(id));
        }
        self.messages.note(stream, &mut self.events);
        contents.push(content);
        self.queue.new.charge(urgency, id, before - w.remaining());
        self.queue.update(stream);
        Step::Wrote
    }
}
