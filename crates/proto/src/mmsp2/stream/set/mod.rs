//! All streams of a connection: the interface of [`stream`](super) for the connection.
//!
//! [`application`] has the calls of the application, [`input`] the received blocks, [`data`] the data to send,
//! [`bulk`] the same for rows of packets, [`output`] the other blocks to send and their fate, [`messages`] all of these for messages. [`send_queue`] finds the
//! data to send without a scan of all streams, and [`send_memory`] shares the memory for it.

mod application;
mod bulk;
mod data;
mod entry;
mod input;
mod messages;
mod output;
mod send_memory;
mod send_queue;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use manyway_wire::{Side, StreamId};

use self::entry::{ControlBlocks, Entry};
use self::send_queue::SendQueue;
use self::stream::Stream;
use super::receive::{Counted, ReceiveHalf};
use super::send::SendHalf;
use super::send_credit::SendCredit;
use crate::message::MessageStatistics;
use crate::stream::event::StreamEvent;
use crate::stream::priority::Urgency;
use crate::stream::receive_credit::{Epoch, ReceiveCredit};
use crate::stream::tally::Tally;
use crate::{ByteCount, Instant, Misuse, StreamConfig};

/// The streams of a connection.
///
/// Their memory is bounded: for received data by credit and the number of streams, for written data by the capacity
/// of the send buffers. The time of every call is independent of the number of streams, except for the logarithm of a
/// search, and for the writers that wait while the memory for all send buffers is used up.
#[derive(Debug)]
pub(crate) struct StreamSet {
    side: Side,
    config: StreamConfig,
    streams: BTreeMap<StreamId, Box<Stream>>,
    ours: OurStreams,
    theirs: TheirStreams,
    send_credit: SendCredit,
    receive_credit: ReceiveCredit,
    /// Cost of bytes ahead of gaps beyond their number, over all streams.
    gap_overhead: u64,
    /// Initial credit of each stream.
    peer_max_stream_data: u64,
    queue: SendQueue,
    /// Streams whose writers wait for memory that others hold, or that were notified of free memory and have not
    /// written yet.
    waiting_writers: BTreeSet<StreamId>,
    /// Whether memory was freed since the waiting writers were last checked.
    memory_freed: bool,
    pending: Pending,
    events: VecDeque<StreamEvent>,
    epochs: Epochs,
    messages: MessageTerms,
    tally: Tally,
}

/// Agreed limits of messages, and message statistics.
#[derive(Debug)]
struct MessageTerms {
    /// Size of the largest message that the peer accepts, in bytes; `None` if it accepts none.
    most_sent: Option<u64>,
    statistics: MessageStatistics,
    /// The time last set.
    now: Instant,
}

/// Gaps may always cost this many bytes of memory.
const ALWAYS_ALLOWED: u64 = 64 << 10;

/// The part of the connection's credit that is reserved for urgent bytes: a thirty-second of the initial one, at most
/// 32 KiB, and nothing if that is less than a datagram.
fn reserve_of(window: u64) -> u32 {
    let part = u32::try_from(window / 32).unwrap_or(u32::MAX).min(32 << 10);
    if part < 1 << 10 { 0 } else { part }
}

/// Streams that this end opens.
#[derive(Debug, Default)]
struct OurStreams {
    opened: u64,
    limit: u64,
    /// The limit at which a call of `open` failed, until a higher one is reported to the application.
    refused_at: Option<u64>,
    /// The limit at which BLOCKED was last sent.
    reported_at: Option<u64>,
}

/// Streams that the peer opens.
#[derive(Debug, Default)]
struct TheirStreams {
    opened: u64,
    accepted: u64,
    /// Finished on both sides and forgotten.
    retired: u64,
    /// The limit last advertised to the peer.
    advertised: u64,
}

/// Control blocks of the connection to send.
#[derive(Debug, Default)]
struct Pending {
    max_data: bool,
    max_streams: bool,
}

/// Periods of two round trips, for the growth of windows.
#[derive(Debug, Default)]
struct Epochs {
    current: Option<(Epoch, Instant)>,
}

impl StreamSet {
    /// Starts without streams; until [`Self::set_peer_limits`] nothing may be sent. The initial limits for the peer
    /// are `connection_receive_window`, `stream_receive_window` and `peer_streams` of `limits`.
    pub(crate) fn new(side: Side, limits: &StreamConfig) -> Self {
        Self {
            side,
            config: limits.clone(),
            streams: BTreeMap::new(),
            ours: OurStreams::default(),
            theirs: TheirStreams { advertised: limits.peer_streams, ..TheirStreams::default() },
            send_credit: SendCredit::default(),
            receive_credit: ReceiveCredit::new(limits.connection_receive_window, limits.max_window),
            gap_overhead: 0,
            peer_max_stream_data: 0,
            queue: SendQueue::default(),
            waiting_writers: BTreeSet::new(),
            memory_freed: false,
            pending: Pending::default(),
            events: VecDeque::new(),
            epochs: Epochs::default(),
            messages: MessageTerms::default(),
            tally: Tally::default(),
        }
    }

    /// Takes the limits from the peer's parameters.
    pub(crate) fn set_peer_limits(&mut self, max_data: u64, max_stream_data: u64, max_streams: u64) {
        self.send_credit.raise(max_data);
        self.send_credit.set_reserve(reserve_of(max_data));
        self.peer_max_stream_data = self.peer_max_stream_data.max(max_stream_data);
        for stream in self.streams.values_mut() {
            stream.send.raise_credit(max_stream_data);
            self.queue.update(stream);
        }
        self.raise_stream_limit(max_streams);
    }

    /// Totals of useful and duplicate bytes.
    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Connection credit that this end has used.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn sent(&self) -> u64 {
        self.send_credit.used()
    }

    /// Connection credit that the peer has used, as far as it is known.
    pub(crate) fn received(&self) -> u64 {
        self.receive_credit.received()
    }

    /// Bytes that arrived on a stream, each counted once; `None` once nothing more is to arrive.
    pub(crate) fn payload(&self, stream: StreamId) -> Option<u64> {
        self.streams.get(&stream)?.receive.payload()
    }

    /// Bytes that could be sent now: retransmissions, and new ones within the credit.
    pub(crate) fn backlog(&self) -> ByteCount {
        let totals = &self.queue.totals;
        let paid =
            totals.retransmissions.saturating_add(totals.partially_sent).saturating_add(totals.deferred);
        ByteCount(paid.saturating_add(totals.new.min(self.send_credit.left())))
    }

    /// Bytes written and not acknowledged. Costs O(streams).
    pub(crate) fn unacknowledged(&self) -> ByteCount {
        ByteCount(self.streams.values().map(|stream| stream.send.unacknowledged()).sum())
    }

    /// Whether nothing is unsent or unacknowledged: the connection can close in order.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.totals.unsettled == 0
    }

    /// Whether the peer has started a stream that it has not ended. Costs O(streams).
    pub(crate) fn expects_more(&self) -> bool {
        self.streams.values().any(|stream| stream.receive.expects_more())
    }

    /// Sets the time and the largest RTT of the paths in use; called a few times in each round trip. The windows grow
    /// for an application that reads more than half of one in two round trips.
    pub(crate) fn on_rtt(&mut self, now: Instant, max_rtt: Duration) {
        match self.epochs.current {
            Some((_, since)) if now - since < max_rtt.saturating_mul(2) => {}
            Some((Epoch(number), _)) => self.epochs.current = Some((Epoch(number + 1), now)),
            None => self.epochs.current = Some((Epoch(0), now)),
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.events.shrink_to_fit();
        self.queue.shrink_to_fit();
        if self.streams.is_empty() {
            // An empty tree keeps a node.
            self.streams = BTreeMap::new();
        }
    }

    fn raise_stream_limit(&mut self, limit: u64) {
        self.ours.limit = self.ours.limit.max(limit);
        if self.ours.refused_at.is_some_and(|refused| refused < self.ours.limit) {
            self.ours.refused_at = None;
            self.events.push_back(StreamEvent::Available);
        }
    }

    fn add_stream(&mut self, id: StreamId) {
        let stream = Stream {
            id,
            urgency: Urgency::default(),
            send: SendHalf::new(id, self.peer_max_stream_data, &self.config),
            receive: ReceiveHalf::new(id, &self.config),
            entry: Entry::default(),
        };
        self.streams.insert(id, Box::new(stream));
    }

    fn stream_mut(&mut self, id: StreamId) -> Result<&mut Stream, Misuse> {
        // The application does not know streams that it has not accepted.
        if id.initiator() != self.side && id.index() >= self.theirs.accepted {
            return Err(Misuse::UnknownStream { stream: id });
        }
        self.streams.get_mut(&id).map(Box::as_mut).ok_or(Misuse::UnknownStream { stream: id })
    }

    /// Called after a change of a stream: updates the queue, and forgets the stream if it is finished.
    fn after_change(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        self.send_credit.refund(stream.send.take_refund());
        self.messages.note(stream, &mut self.events);
        let held = self.queue.totals.held;
        let is_over = stream.is_over();
        if is_over {
            self.queue.remove(stream);
        } else {
            self.queue.update(stream);
            if stream.send.waits_for_others() {
                self.waiting_writers.insert(id);
            } else if stream.send.check_open().is_err() {
                self.waiting_writers.remove(&id);
            }
        }
        self.memory_freed |= self.queue.totals.held < held;
        if is_over {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: StreamId) {
        self.streams.remove(&id);
        self.waiting_writers.remove(&id);
        if id.initiator() != self.side {
            self.theirs.retired += 1;
            // The limit is advertised at once when the peer has less than half of its streams left.
            let left = self.theirs.advertised.saturating_sub(self.theirs.opened);
            self.pending.max_streams |= left <= self.config.peer_streams / 2;
        }
    }

    /// The bytes ahead of the gaps of one stream changed.
    fn count_gaps(&mut self, before: Gaps, after: Gaps) {
        self.gap_overhead = (self.gap_overhead + after.overhead).saturating_sub(before.overhead);
        self.tally.ahead = (self.tally.ahead + after.bytes).saturating_sub(before.bytes);
        self.tally.most_ahead = self.tally.most_ahead.max(self.tally.ahead);
    }

    /// Whether the gaps of all streams cost more than an honest peer on any network causes (spec 8.19).
    fn has_too_many_gaps(&self) -> bool {
        self.gap_overhead > ALWAYS_ALLOWED.max(self.receive_credit.window() / 2)
    }

    /// Counts bytes on the connection's credit.
    fn count(&mut self, counted: Counted) {
        self.receive_credit.receive(counted.received);
        self.receive_credit.discard(counted.discarded);
        self.pending.max_data |= self.receive_credit.should_update();
    }
}

/// Bytes ahead of the gaps of a stream.
#[derive(Debug, Clone, Copy)]
struct Gaps {
    bytes: u64,
    /// Their cost beyond that number.
    overhead: u64,
}

impl Stream {
    /// The urgency of the next new bytes.
    fn urgency_of_new(&self) -> Urgency {
        self.send.ranks(self.urgency).new.urgency
    }

    fn gaps(&self) -> Gaps {
        Gaps { bytes: self.receive.ahead(), overhead: self.receive.overhead() }
    }

    fn is_over(&self) -> bool {
        self.send.is_over() && self.receive.is_over()
    }

    /// Marks credit as due, if it is.
    fn note_window(&mut self) {
        if self.receive.open_credit().is_some_and(|credit| credit.should_update()) {
            self.entry.control.insert(ControlBlocks::MAX_STREAM_DATA);
        }
    }
}

impl Epochs {
    fn now(&self) -> Option<Epoch> {
        self.current.map(|(epoch, _)| epoch)
    }
}
