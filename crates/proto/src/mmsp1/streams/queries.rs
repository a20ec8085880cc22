//! What the engine, schedulers and statistics ask.

use std::collections::BTreeMap;

use manyway_wire::StreamId;

use super::Streams;
use super::output::NextItem;
use crate::ByteCount;
use crate::mmsp1::cuts::BlockQueue;
use crate::mmsp1::window::Edge;
use crate::packet::content::SentContent;
use crate::scheduler::{NextUp, ReadyStream, View};
use crate::stream::backlog::Backlog;
use crate::stream::priority::{ClassFilter, Level, Rank};
use crate::stream::tally::Tally;

impl Streams {
    /// Whether data that `filter` takes could be sent now.
    pub(crate) fn wants_data(&self, filter: ClassFilter) -> bool {
        self.next_item(filter).is_some()
    }

    /// The waiting data that `filter` takes, and the credit for it.
    pub(crate) fn backlog_of(&self, filter: ClassFilter) -> Backlog {
        let deferred = self.cuts.waiting_bytes(BlockQueue::Unsent, filter);
        let waiting = match filter {
            ClassFilter::All => self.totals.waiting,
            ClassFilter::Urgent => self.urgent_waiting(),
            ClassFilter::NotUrgent => self.totals.waiting.saturating_sub(self.urgent_waiting()),
        };
        let next = self.next_up(filter);
        let may_go = next.is_some_and(|next| deferred > 0 || self.fits_edge(next.stream));
        let left = if may_go { self.edge.left(self.cuts.given()) } else { 0 };
        Backlog {
            backlog: ByteCount(waiting + deferred),
            deferred: ByteCount(deferred),
            retransmissions: ByteCount(self.cuts.waiting_bytes(BlockQueue::Retransmit, filter)),
            credit_left: ByteCount(left),
            credit_total: ByteCount(self.edge.left(self.cuts.acked())),
            next,
        }
    }

    /// Bytes of streams whose next data are urgent. Costs one step for each of them.
    fn urgent_waiting(&self) -> u64 {
        let streams = self.queue.levels(ClassFilter::Urgent).flat_map(Level::streams);
        streams.filter_map(|id| self.streams.get(&id)).map(|stream| stream.entry.waiting).sum()
    }

    /// The streams that could send data that `filter` takes, in their order, at most [`View::MOST_READY`]. Costs one
    /// step for each of them and for each block that waits with a TSEQ.
    pub(crate) fn ready_streams(&self, filter: ClassFilter, list: &mut Vec<ReadyStream>) {
        list.clear();
        let mut given: BTreeMap<StreamId, (u64, u64)> = BTreeMap::new();
        for queue in [BlockQueue::Retransmit, BlockQueue::Unsent] {
            for cut in
                self.cuts.all(queue, filter).filter_map(|tseq| self.cuts.get(tseq)).map(|given| &given.block)
            {
                let (retransmissions, unsent) = given.entry(cut.stream).or_default();
                *(if queue == BlockQueue::Retransmit { retransmissions } else { unsent }) +=
                    cut.data.len() as u64;
            }
        }
        let queued = self.queue.levels(filter).flat_map(Level::streams);
        let listed: Vec<StreamId> = queued.take(View::MOST_READY).collect();
        let others = given.keys().copied().filter(|id| !listed.contains(id));
        for id in listed.iter().copied().chain(others).take(View::MOST_READY) {
            let Some(stream) = self.streams.get(&id) else { continue };
            let (retransmissions, unsent) = given.get(&id).copied().unwrap_or_default();
            let rank = stream.entry.rank.unwrap_or(Rank { urgency: stream.urgency, deadline: None });
            list.push(ReadyStream {
                stream: id,
                priority: rank.urgency.priority,
                class: rank.urgency.class,
                deadline: rank.deadline,
                unsent: ByteCount(stream.entry.waiting + unsent),
                retransmissions: ByteCount(retransmissions),
            });
        }
    }

    /// Bytes that the first of the urgent streams could send now.
    pub(crate) fn urgent_backlog(&self) -> Option<u64> {
        match self.next_item(ClassFilter::Urgent)? {
            NextItem::Tseq(_) => {
                let bytes = |queue| self.cuts.waiting_bytes(queue, ClassFilter::Urgent);
                Some(bytes(BlockQueue::Retransmit) + bytes(BlockQueue::Unsent))
            }
            NextItem::New(id) => self.streams.get(&id).map(|stream| stream.out.next_left()),
        }
    }

    /// The next new data that `filter` takes, for schedulers.
    pub(crate) fn next_up(&self, filter: ClassFilter) -> Option<NextUp> {
        if let Some(given) =
            self.cuts.next(BlockQueue::Unsent, filter, Edge::NONE).and_then(|tseq| self.cuts.get(tseq))
        {
            let left = ByteCount(given.block.data.len() as u64);
            let (stream, class) = (given.block.stream, given.block.urgency.class);
            return Some(NextUp { stream, class, left, deadline: None });
        }
        let (urgency, id) = self.queue.first(filter)?;
        let stream = self.streams.get(&id)?;
        let deadline = stream.entry.rank.and_then(|rank| rank.deadline);
        Some(NextUp { stream: id, class: urgency.class, left: ByteCount(stream.out.next_left()), deadline })
    }

    /// Whether everything written is acknowledged, with the ends.
    pub(crate) fn is_idle(&self) -> bool {
        self.cuts.is_empty() && self.totals.waiting == 0
    }

    /// Whether data wait for the edge, and nothing is in flight that could move it.
    pub(crate) fn is_blocked(&self) -> bool {
        let waits =
            self.cuts.first_beyond(self.edge).is_some() || self.queue.first(ClassFilter::All).is_some();
        waits && self.cuts.in_flight() == 0 && !self.wants_data(ClassFilter::All)
    }

    /// Permits one block beyond the edge.
    pub(crate) fn repeat_blocked(&mut self) {
        self.persist_is_due = true;
    }

    /// Bytes of data received.
    pub(crate) fn received(&self) -> u64 {
        self.arrivals.bytes
    }

    /// Whether the peer has begun something that is incomplete. Costs O(streams).
    pub(crate) fn expects_more(&self) -> bool {
        self.arrivals.received.has_gap()
            || !self.arrivals.reassembly.is_empty()
            || self.streams.values().any(|stream| stream.incoming.expects_more())
    }

    /// Whether this content blocks the head of line.
    pub(crate) fn is_held_up_by(&self, content: &SentContent) -> bool {
        content.tseq() == Some(self.cuts.acked_in_sequence() + 1)
    }

    /// Whether the peer has this content, from any packet.
    pub(crate) fn has_arrived(&self, content: &SentContent) -> bool {
        content.tseq().is_none_or(|tseq| self.cuts.is_acked(tseq))
    }

    /// Bytes that could be sent now.
    pub(crate) fn backlog(&self) -> ByteCount {
        let Backlog { backlog, deferred, retransmissions, credit_left, .. } =
            self.backlog_of(ClassFilter::All);
        let new = (backlog.get() - deferred.get()).min(credit_left.get());
        ByteCount(new + deferred.get() + retransmissions.get())
    }

    /// Bytes written and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> ByteCount {
        ByteCount(self.totals.held)
    }

    /// User bytes acknowledged in sequence, over the life of the connection.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.cuts.acked().bytes
    }

    /// Totals of useful and duplicate bytes.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            arrived_in_order: self.cuts.acked().bytes,
            duplicate_bytes_sent: self.cuts.duplicate_bytes(),
            duplicate_bytes_received: self.arrivals.duplicate_bytes,
            ahead: self.arrivals.ahead(),
            most_ahead: self.arrivals.most_ahead,
        }
    }
}
