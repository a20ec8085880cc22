//! What all streams together have to send: queues and sums that are kept up to date stream by stream, so that
//! neither a question nor a packet has to look at every stream.

use std::collections::VecDeque;

use manyway_wire::StreamId;

use super::Stream;
use crate::stream::priority::ReadyQueue;
use crate::stream::send::Ready;

/// Queues and sums over the streams.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// Streams with bytes that need no credit: repeats and bare ends.
    pub(super) repeats: ReadyQueue,
    /// Streams with new bytes within their own credit, or such as were left out.
    pub(super) fresh: ReadyQueue,
    /// Those of them with bytes that were left out: these need no credit.
    pub(super) skipped: ReadyQueue,
    /// Streams with control blocks.
    pub(super) control: VecDeque<StreamId>,
    pub(super) totals: Totals,
}

/// Sums of [`Ready`] over all streams, and how many of them wait for their own credit.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) fresh: u64,
    pub(super) skipped: u64,
    pub(super) outstanding: u64,
    pub(super) repeat: u64,
    pub(super) bare_ends: usize,
    pub(super) unsettled: usize,
    pub(super) blocked: usize,
}

/// What the agenda knows of one stream; part of the stream, kept by the agenda.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The share in the totals.
    pub(super) counted: Ready,
    /// Whether it is counted as waiting for its own credit.
    pub(super) blocked: bool,
    place: Place,
    /// Control blocks to be sent.
    pub(super) control: ControlBlocks,
    in_control: bool,
}

/// In which of the data queues a stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place(u8);

impl Place {
    const REPEATS: u8 = 1;
    const FRESH: u8 = 2;
    const SKIPPED: u8 = 4;

    fn holds(self, queue: u8) -> bool {
        self.0 & queue != 0
    }

    /// True if the stream was not there.
    fn enter(&mut self, queue: u8) -> bool {
        let is_new = !self.holds(queue);
        self.0 |= queue;
        is_new
    }

    fn leave(&mut self, queue: u8) {
        self.0 &= !queue;
    }
}

/// A set of control blocks of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ControlBlocks(u8);

impl ControlBlocks {
    pub(super) const WINDOW: Self = Self(1);
    pub(super) const RESET: Self = Self(2);
    pub(super) const STOP: Self = Self(4);
    pub(super) const BLOCKED: Self = Self(8);

    pub(super) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Agenda {
    /// Gives back memory that is not used.
    pub(super) fn shrink_to_fit(&mut self) {
        self.repeats.shrink_to_fit();
        self.fresh.shrink_to_fit();
        self.skipped.shrink_to_fit();
        self.control.shrink_to_fit();
    }

    /// Brings everything up to date after `stream` changed.
    pub(super) fn update(&mut self, stream: &mut Stream) {
        let now = stream.send.ready();
        if stream.send.blocked().is_some() {
            stream.entry.control.insert(ControlBlocks::BLOCKED);
        }
        let blocked = stream.send.waits_for_credit();
        let entry = &mut stream.entry;
        self.totals.blocked += usize::from(blocked);
        self.totals.blocked -= usize::from(std::mem::replace(&mut entry.blocked, blocked));
        if now != entry.counted {
            self.totals.add(now);
            self.totals.take(entry.counted);
            entry.counted = now;
        }
        if now.has_repeats() && entry.place.enter(Place::REPEATS) {
            self.repeats.push(stream.id, stream.priority);
        }
        if now.unsent() > 0 && entry.place.enter(Place::FRESH) {
            self.fresh.push(stream.id, stream.priority);
        }
        if now.skipped > 0 && entry.place.enter(Place::SKIPPED) {
            self.skipped.push(stream.id, stream.priority);
        }
        if !entry.control.is_empty() && !entry.in_control {
            entry.in_control = true;
            self.control.push_back(stream.id);
        }
    }

    /// The first stream of the repeats has none any more.
    pub(super) fn pop_repeat(&mut self, stream: &mut Stream) {
        self.repeats.pop();
        stream.entry.place.leave(Place::REPEATS);
    }

    /// The first stream of the new bytes has none any more.
    pub(super) fn pop_fresh(&mut self, stream: &mut Stream) {
        self.fresh.pop();
        stream.entry.place.leave(Place::FRESH);
    }

    /// The first stream of the bytes that were left out has none any more.
    pub(super) fn pop_skipped(&mut self, stream: &mut Stream) {
        self.skipped.pop();
        stream.entry.place.leave(Place::SKIPPED);
    }

    /// All control blocks of the first stream are written.
    pub(super) fn pop_control(&mut self, stream: &mut Stream) {
        self.control.pop_front();
        stream.entry.in_control = false;
    }

    /// Moves a stream to another priority.
    pub(super) fn set_priority(&mut self, stream: &mut Stream, priority: i8) {
        self.leave_data_queues(stream);
        stream.priority = priority;
        self.update(stream);
    }

    /// Forgets a stream that is about to go.
    pub(super) fn remove(&mut self, stream: &mut Stream) {
        self.leave_data_queues(stream);
        if stream.entry.in_control {
            self.control.retain(|other| *other != stream.id);
        }
        self.totals.take(stream.entry.counted);
        self.totals.blocked -= usize::from(stream.entry.blocked);
        stream.entry = Entry::default();
    }

    fn leave_data_queues(&mut self, stream: &mut Stream) {
        let place = stream.entry.place;
        for (queue, mark) in [
            (&mut self.repeats, Place::REPEATS),
            (&mut self.fresh, Place::FRESH),
            (&mut self.skipped, Place::SKIPPED),
        ] {
            if place.holds(mark) {
                queue.remove(stream.id, stream.priority);
            }
        }
        stream.entry.place = Place::default();
    }
}

impl Totals {
    fn add(&mut self, ready: Ready) {
        self.fresh += ready.fresh;
        self.skipped += ready.skipped;
        self.outstanding += ready.outstanding;
        self.repeat += ready.repeat;
        self.bare_ends += usize::from(ready.bare_end);
        self.unsettled += usize::from(ready.unsettled);
    }

    fn take(&mut self, ready: Ready) {
        self.fresh -= ready.fresh;
        self.skipped -= ready.skipped;
        self.outstanding -= ready.outstanding;
        self.repeat -= ready.repeat;
        self.bare_ends -= usize::from(ready.bare_end);
        self.unsettled -= usize::from(ready.unsettled);
    }
}
