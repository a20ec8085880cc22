//! Bytes of streams for a packet: which go next, and what schedulers may know of them.

use manyway_wire::{StreamId, Writer};

use super::StreamSet;
use crate::packet::content::{Contents, SentContent};
use crate::scheduler::{NextUp, ReadyStream, Source, View};
use crate::stream::event::StreamEvent;
use crate::stream::send::Fresh;
use crate::{ByteCount, Class};

/// What came of an attempt to write a block.
enum Step {
    Wrote,
    /// Nothing was written; there may be more to try.
    Skipped,
    /// The packet has no room for it.
    Full,
    /// There is nothing to send.
    Empty,
}

/// Streams of a level that are looked at for one that has enough bytes.
const MOST_LOOKED_AT: usize = 16;

/// What waits, for a scheduler's view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    pub(crate) backlog: ByteCount,
    pub(crate) skipped: ByteCount,
    pub(crate) repeats: ByteCount,
    pub(crate) window_left: ByteCount,
    pub(crate) window_total: ByteCount,
    pub(crate) next: Option<NextUp>,
}

impl StreamSet {
    /// Whether bytes could be sent now: repeats, bare ends, such as were left out, or new ones within the credit.
    pub(crate) fn wants_data(&self) -> bool {
        let totals = &self.agenda.totals;
        let needs_no_credit = totals.repeat > 0 || totals.bare_ends > 0 || totals.skipped > 0;
        needs_no_credit || (totals.fresh > 0 && self.send_credit.left() > 0)
    }

    /// What waits, and the credit for it.
    pub(crate) fn outlook(&mut self) -> Outlook {
        let next = self.next_fresh();
        let totals = &self.agenda.totals;
        let left = self.send_credit.left();
        let mut window = (left, left.saturating_add(totals.outstanding));
        let mut next_up = None;
        if let Some(stream) = next.and_then(|id| self.streams.get(&id)) {
            let of_stream = stream.send.credit_left();
            window = (window.0.min(of_stream.0), window.1.min(of_stream.1));
            let left = ByteCount(stream.send.unsent_bytes());
            next_up = Some(NextUp { stream: stream.id, class: Class::Bulk, left, deadline: None });
        }
        Outlook {
            backlog: ByteCount(totals.fresh + totals.skipped),
            skipped: ByteCount(totals.skipped),
            repeats: ByteCount(totals.repeat + totals.bare_ends as u64),
            window_left: ByteCount(window.0),
            window_total: ByteCount(window.1),
            next: next_up,
        }
    }

    /// The streams that could send, in their order, at most [`View::MOST_READY`].
    pub(crate) fn ready_streams(&self, list: &mut Vec<ReadyStream>) {
        list.clear();
        let queues = [&self.agenda.repeats, &self.agenda.fresh];
        for id in queues.into_iter().flat_map(|queue| queue.levels()).flat_map(|(_, turns)| turns) {
            if list.len() >= View::MOST_READY {
                return;
            }
            let Some(stream) = self.streams.get(id) else { continue };
            let counted = stream.entry.counted;
            let waits = counted.unsent() > 0 || counted.has_repeats();
            if !waits || list.iter().any(|listed| listed.stream == *id) {
                continue;
            }
            list.push(ReadyStream {
                stream: *id,
                priority: stream.priority,
                class: Class::Bulk,
                fresh: ByteCount(counted.unsent()),
                repeats: ByteCount(counted.repeat + u64::from(counted.bare_end)),
            });
        }
    }

    /// Whether these bytes of a stream, sent and not known to have arrived, are what the peer's application waits for.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        let SentContent::Stream { stream, offset, length, .. } = *content else { return false };
        let range = offset..offset + u64::from(length);
        self.streams.get(&stream).is_some_and(|stream| stream.send.is_held_up_by(&range))
    }

    /// Whether nobody needs these bytes of a stream any more.
    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        let SentContent::Stream { stream, offset, length, .. } = *content else { return true };
        let range = offset..offset + u64::from(length);
        self.streams.get(&stream).is_none_or(|stream| !stream.send.needs_copy(&range))
    }

    /// Writes STREAM blocks until the packet is full or nothing of `source` is left; true if it wrote any.
    ///
    /// A block that fills the packet, or nearly, lacks its padding: nothing may follow it.
    pub(crate) fn write_data(&mut self, w: &mut Writer<'_>, contents: &mut Contents, source: Source) -> bool {
        let mut wrote = false;
        loop {
            let step = match source {
                Source::Next => match self.write_repeat(w, contents) {
                    Step::Empty => self.write_fresh(w, contents),
                    step @ (Step::Wrote | Step::Skipped | Step::Full) => step,
                },
                Source::Repeat | Source::Reinject => self.write_repeat(w, contents),
                Source::Skip(ByteCount::ZERO) => self.write_fresh(w, contents),
                Source::Skip(bytes) => self.write_further_on(bytes.get(), w, contents),
                Source::Stream(stream) => self.write_stream(stream, w, contents),
            };
            match step {
                Step::Wrote => wrote = true,
                Step::Skipped => {}
                Step::Full | Step::Empty => return wrote,
            }
        }
    }

    /// Writes bytes of a stream once more, as far as they fit, from `offset` on; tells how far it came, `None` if
    /// nothing fits. What has arrived is passed over.
    pub(crate) fn write_copy(
        &mut self,
        copied: &SentContent,
        from: u64,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) -> Option<u64> {
        let SentContent::Stream { stream, offset, length, .. } = *copied else { return Some(u64::MAX) };
        let end = offset + u64::from(length);
        let Some(stream) = self.streams.get_mut(&stream) else { return Some(end) };
        let (reached, content) = stream.send.write_copy(offset.max(from)..end, w)?;
        if let Some(content) = content {
            contents.push(content);
            self.agenda.update(stream);
        }
        Some(reached)
    }

    fn write_repeat(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(id) = self.agenda.repeats.first() else { return Step::Empty };
        let Some(stream) = self.streams.get_mut(&id) else {
            self.agenda.repeats.pop();
            return Step::Skipped;
        };
        if !stream.entry.counted.has_repeats() {
            self.agenda.pop_repeat(stream);
            return Step::Skipped;
        }
        self.repeat_of(id, w, contents)
    }

    fn write_fresh(&mut self, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        // Without credit of the connection only what was left out can go.
        let next = if self.send_credit.left() > 0 { self.next_fresh() } else { self.next_skipped() };
        next.map_or(Step::Empty, |id| self.fresh_of(id, 0, w, contents))
    }

    fn write_further_on(&mut self, skip: u64, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        self.find_after(skip).map_or(Step::Empty, |(id, skip)| self.fresh_of(id, skip, w, contents))
    }

    fn write_stream(&mut self, id: StreamId, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(stream) = self.streams.get(&id) else { return Step::Empty };
        if stream.entry.counted.has_repeats() {
            self.repeat_of(id, w, contents)
        } else {
            self.fresh_of(id, 0, w, contents)
        }
    }

    /// The stream that has the next new bytes.
    fn next_fresh(&mut self) -> Option<StreamId> {
        loop {
            let id = self.agenda.fresh.first()?;
            match self.streams.get_mut(&id) {
                Some(stream) if stream.entry.counted.unsent() > 0 => return Some(id),
                Some(stream) => self.agenda.pop_fresh(stream),
                None => self.agenda.fresh.pop(),
            }
        }
    }

    /// The stream that has the next bytes which were left out.
    fn next_skipped(&mut self) -> Option<StreamId> {
        loop {
            let id = self.agenda.skipped.first()?;
            match self.streams.get_mut(&id) {
                Some(stream) if stream.entry.counted.skipped > 0 => return Some(id),
                Some(stream) => self.agenda.pop_skipped(stream),
                None => self.agenda.skipped.pop(),
            }
        }
    }

    /// Which stream has the new bytes that follow on `skip` others, and how many of those are its own. The streams of a
    /// level are taken to go on side by side.
    fn find_after(&self, mut skip: u64) -> Option<(StreamId, u64)> {
        for (_, turns) in self.agenda.fresh.levels() {
            let share = skip / turns.len().max(1) as u64;
            for id in turns.iter().take(MOST_LOOKED_AT) {
                let unsent = self.streams.get(id).map_or(0, |stream| stream.entry.counted.unsent());
                if unsent > share {
                    return Some((*id, share));
                }
                skip = skip.saturating_sub(unsent);
            }
        }
        None
    }

    fn repeat_of(&mut self, id: StreamId, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(stream) = self.streams.get_mut(&id) else { return Step::Empty };
        let before = w.remaining();
        let Some(content) = stream.send.write_repeat(w) else { return Step::Full };
        contents.push(content);
        if self.agenda.repeats.first() == Some(id) {
            self.agenda.repeats.charge(before - w.remaining());
        }
        self.agenda.update(stream);
        Step::Wrote
    }

    fn fresh_of(&mut self, id: StreamId, skip: u64, w: &mut Writer<'_>, contents: &mut Contents) -> Step {
        let Some(stream) = self.streams.get_mut(&id) else { return Step::Empty };
        let before = w.remaining();
        let (content, spent) = match stream.send.write_fresh(skip, self.send_credit.left(), w) {
            Fresh::Block(content, spent) => (content, spent),
            Fresh::Full => return Step::Full,
            Fresh::Nothing => return Step::Empty,
        };
        self.send_credit.spend(spent);
        if stream.send.take_writable() {
            self.events.push_back(StreamEvent::Writable(id));
        }
        contents.push(content);
        if self.agenda.fresh.first() == Some(id) {
            self.agenda.fresh.charge(before - w.remaining());
        }
        self.agenda.update(stream);
        Step::Wrote
    }
}
