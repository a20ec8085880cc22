//! Send queues over all streams: queues and sums that are updated stream by stream, so that no call and no packet has
//! to scan all streams.

use std::collections::{BTreeSet, VecDeque};

use manyway_wire::StreamId;

use super::entry::{ControlBlocks, Entry};
use super::stream::Stream;
use crate::Instant;
use crate::mmsp2::stream::send::Ready;
use crate::stream::priority::{ClassFilter, Rank, ReadyQueue, Urgency};

/// Queues and sums over the streams.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    /// Streams with data that needs no credit: retransmissions, the rest of partially sent messages, and FINs without
    /// data.
    pub(super) retransmissions: ReadyQueue,
    /// Streams with new bytes within their own credit, or with deferred bytes.
    pub(super) new: ReadyQueue,
    /// The part of them with deferred bytes: these need no credit.
    pub(super) deferred: ReadyQueue,
    /// Streams with control blocks.
    pub(super) control: VecDeque<StreamId>,
    /// When the first message of a stream expires.
    pub(super) expiries: BTreeSet<(Instant, StreamId)>,
    pub(super) totals: Totals,
}

/// The next item to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextItem {
    /// The first retransmission.
    Retransmission(StreamId),
    /// The first of the new or deferred bytes.
    New(StreamId),
}

impl NextItem {
    /// The more urgent first, and of equals the one that needs no credit.
    fn of(retransmissions: Option<(Urgency, StreamId)>, new: Option<(Urgency, StreamId)>) -> Option<Self> {
        match (retransmissions, new) {
            (Some((retransmissions, _)), Some((new, stream))) if new > retransmissions => {
                Some(Self::New(stream))
            }
            (Some((_, stream)), _) => Some(Self::Retransmission(stream)),
            (None, Some((_, stream))) => Some(Self::New(stream)),
            (None, None) => None,
        }
    }
}

/// Sums of [`Ready`] over all streams, and how many of them wait for their own credit.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) new: u64,
    pub(super) deferred: u64,
    pub(super) outstanding: u64,
    pub(super) credit: u64,
    pub(super) retransmissions: u64,
    pub(super) partially_sent: u64,
    pub(super) fin_only: usize,
    pub(super) held: u64,
    pub(super) unsettled: usize,
    pub(super) blocked: usize,
}

impl SendQueue {
    /// Frees unused memory.
    pub(super) fn shrink_to_fit(&mut self) {
        self.retransmissions.shrink_to_fit();
        self.new.shrink_to_fit();
        self.deferred.shrink_to_fit();
        self.control.shrink_to_fit();
    }

    /// The next item: the more urgent first, and of equals the one that needs no credit.
    pub(super) fn turn(&self, filter: ClassFilter) -> Option<NextItem> {
        NextItem::of(self.retransmissions.first(filter), self.new.first(filter))
    }

    /// The next item that needs no credit.
    pub(super) fn paid_turn(&self, filter: ClassFilter) -> Option<NextItem> {
        NextItem::of(self.retransmissions.first(filter), self.deferred.first(filter))
    }

    /// Updates all queues after `stream` changed.
    pub(super) fn update(&mut self, stream: &mut Stream) {
        let now = stream.send.ready();
        if stream.send.blocked().is_some() {
            stream.entry.control.insert(ControlBlocks::BLOCKED);
        }
        if stream.send.wants_skip() {
            stream.entry.control.insert(ControlBlocks::SKIP);
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
        let ranks = stream.send.ranks(stream.urgency);
        let retransmissions = now.has_credit_free().then_some(ranks.retransmissions);
        move_to(&mut self.retransmissions, stream.id, &mut entry.place.retransmissions, retransmissions);
        let new = (now.unsent() > 0).then_some(ranks.new);
        move_to(&mut self.new, stream.id, &mut entry.place.new, new);
        let deferred = (now.deferred > 0).then_some(ranks.new);
        move_to(&mut self.deferred, stream.id, &mut entry.place.deferred, deferred);
        let expiry = stream.send.next_expiry();
        if let Some(before) =
            std::mem::replace(&mut entry.place.expiry, expiry).filter(|at| Some(*at) != expiry)
        {
            self.expiries.remove(&(before, stream.id));
        }
        if let Some(at) = expiry {
            self.expiries.insert((at, stream.id));
        }
        if !entry.control.is_empty() && !entry.in_control {
            entry.in_control = true;
            self.control.push_back(stream.id);
        }
    }

    /// All control blocks of the first stream were written.
    pub(super) fn pop_control(&mut self, stream: &mut Stream) {
        self.control.pop_front();
        stream.entry.in_control = false;
    }

    /// Moves a stream to another level.
    pub(super) fn set_urgency(&mut self, stream: &mut Stream, urgency: Urgency) {
        stream.urgency = urgency;
        self.update(stream);
    }

    /// Removes a stream that is about to be forgotten.
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
        move_to(&mut self.retransmissions, stream.id, &mut stream.entry.place.retransmissions, None);
        move_to(&mut self.new, stream.id, &mut stream.entry.place.new, None);
        move_to(&mut self.deferred, stream.id, &mut stream.entry.place.deferred, None);
        if let Some(at) = stream.entry.place.expiry.take() {
            self.expiries.remove(&(at, stream.id));
        }
    }
}

/// Moves a stream within a queue, into it or out of it; one with an unchanged rank keeps its turn.
fn move_to(queue: &mut ReadyQueue, stream: StreamId, place: &mut Option<Rank>, rank: Option<Rank>) {
    if *place == rank {
        return;
    }
    if let Some(before) = std::mem::replace(place, rank) {
        queue.remove(stream, before);
    }
    if let Some(rank) = rank {
        queue.push(stream, rank);
    }
}

impl Totals {
    fn add(&mut self, ready: Ready) {
        self.new += ready.new;
        self.deferred += ready.deferred;
        self.outstanding += ready.outstanding;
        self.credit += ready.credit;
        self.retransmissions += ready.retransmissions;
        self.partially_sent += ready.partially_sent;
        self.fin_only += usize::from(ready.fin_only);
        self.held += ready.held;
        self.unsettled += usize::from(ready.unsettled);
    }

    fn take(&mut self, ready: Ready) {
        self.new -= ready.new;
        self.deferred -= ready.deferred;
        self.outstanding -= ready.outstanding;
        self.credit -= ready.credit;
        self.retransmissions -= ready.retransmissions;
        self.partially_sent -= ready.partially_sent;
        self.fin_only -= usize::from(ready.fin_only);
        self.held -= ready.held;
        self.unsettled -= usize::from(ready.unsettled);
    }
}
