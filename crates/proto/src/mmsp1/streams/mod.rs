//! All streams of a connection over MMSP/1: the interface for the connection and the engine.
//!
//! [`application`] has the calls of the application, [`input`] what the peer sends, [`output`] the data to send and
//! their fate, [`queries`] what the engine and schedulers ask. [`incoming`] is one receiving half, [`outbox`] one
//! sending half.
//!
//! [`outbox`]: super::outbox

mod application;
mod incoming;
pub(crate) mod input;
mod output;
mod queries;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use manyway_wire::mmsp1::{DATA_OVERHEAD, HEADER_LEN, Opening};
use manyway_wire::{Side, StreamId};

use self::incoming::Incoming;
use super::cuts::DataBlocks;
use super::ordering::Ordering;
use super::outbox::Outbox;
use super::reassembly::Reassembly;
use super::received::Received;
use super::tseq::{self, FIRST_SSEQ};
use super::window::{Edge, Load, ReceiveWindow};
use crate::message::MessageStatistics;
use crate::stream::priority::{Rank, ReadyQueue, Urgency};
use crate::stream::receive_credit::Epoch;
use crate::{Instant, StreamConfig, StreamEvent};

/// Most user data of a DATA block (spec 3.8b).
pub(crate) const FRAGMENT: usize = 1200 - HEADER_LEN - DATA_OVERHEAD;
/// A message has at most this many fragments: TSEQs reach so far beyond a gap, and others need some too.
const MOST_FRAGMENTS: u64 = 32_767;

/// The streams of a connection.
///
/// Both directions of a stream of the wire with one number are a bidirectional stream of the application. A number is
/// used again, for a stream with a new id, after both directions have ended (spec 3.146).
///
/// Memory for received data: twice the window for what waits for earlier data or for its other fragments, and as much
/// for what the application may read.
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    config: StreamConfig,
    numbers: Numbers,
    streams: BTreeMap<StreamId, Box<Stream>>,
    slots: BTreeMap<u16, Slot>,
    ours: Ours,
    /// Streams that the peer opened and the application has not accepted.
    unaccepted: VecDeque<StreamId>,
    cuts: DataBlocks,
    /// Streams with something to cut.
    queue: ReadyQueue,
    /// When messages that were not cut expire.
    expiries: BTreeSet<(Instant, StreamId)>,
    totals: Totals,
    edge: Edge,
    /// Bytes of the largest message that the peer takes.
    most_message: u64,
    fragment: usize,
    /// Whether one block may go beyond the edge.
    persist_is_due: bool,
    arrivals: Arrivals,
    /// Streams whose writers wait for memory.
    waiting_writers: BTreeSet<StreamId>,
    memory_freed: bool,
    events: VecDeque<StreamEvent>,
    /// The period of two round trips, and when it began.
    epoch: Option<(Epoch, Instant)>,
    now: Instant,
    statistics: MessageStatistics,
}

/// Stream numbers of the wire that may be used, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Numbers {
    outgoing: u16,
    incoming: u16,
}

/// The state of a stream number. SSEQs go on from one use to the next.
#[derive(Debug)]
struct Slot {
    /// The newest stream with this number.
    current: StreamId,
    next_sseq: u64,
    ordering: Ordering,
    /// Whether both directions of `current` have ended.
    is_free: bool,
}

/// Streams that this end opens.
#[derive(Debug, Default)]
struct Ours {
    opened: u64,
    /// The next number that was never used.
    unused: u32,
    /// Numbers that may be used again.
    free: VecDeque<u16>,
    /// Whether a call to open a stream was refused since the last event about it.
    was_refused: bool,
}

#[derive(Debug, Default)]
struct Totals {
    /// Bytes that were not cut.
    waiting: u64,
    /// Bytes that were not cut, or are not acknowledged.
    held: u64,
}

/// What has arrived.
#[derive(Debug)]
struct Arrivals {
    received: Received,
    reassembly: Reassembly,
    window: ReceiveWindow,
    /// Memory of messages that wait for earlier ones.
    behind: u64,
    /// Memory of messages that the application may read.
    ready: u64,
    bytes: u64,
    duplicate_bytes: u64,
    /// The most memory that ever waited for earlier data.
    most_ahead: u64,
}

#[derive(Debug)]
struct Stream {
    id: StreamId,
    /// On the wire.
    number: u16,
    urgency: Urgency,
    out: Outbox,
    incoming: Incoming,
    /// Whether the application knows it.
    is_known: bool,
    /// Whether the application abandoned the sending half.
    is_reset: bool,
    entry: Entry,
}

/// What the sums and queues count for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Entry {
    rank: Option<Rank>,
    waiting: u64,
    held: u64,
    deadline: Option<Instant>,
}

impl Streams {
    /// Starts without streams; until [`Self::set_peer`] nothing may be sent. `own` is what this end says of itself.
    pub(crate) fn new(side: Side, config: &StreamConfig, own: &Opening) -> Self {
        let window = u64::from(own.window);
        Self {
            side,
            config: config.clone(),
            numbers: Numbers { outgoing: 0, incoming: 0 },
            streams: BTreeMap::new(),
            slots: BTreeMap::new(),
            ours: Ours { unused: if side == Side::Client { 0 } else { 1 }, ..Ours::default() },
            unaccepted: VecDeque::new(),
            cuts: DataBlocks::new(own.tseq),
            queue: ReadyQueue::default(),
            expiries: BTreeSet::new(),
            totals: Totals::default(),
            edge: Edge::default(),
            most_message: 0,
            fragment: FRAGMENT,
            persist_is_due: false,
            arrivals: Arrivals {
                received: Received::new(own.tseq),
                reassembly: Reassembly::new(tseq::start(own.tseq), window / 2),
                window: ReceiveWindow::new(window, config.max_window.min(u32::MAX.into())),
                behind: 0,
                ready: 0,
                bytes: 0,
                duplicate_bytes: 0,
                most_ahead: 0,
            },
            waiting_writers: BTreeSet::new(),
            memory_freed: false,
            events: VecDeque::new(),
            epoch: None,
            now: Instant::from_nanos(0),
            statistics: MessageStatistics::default(),
        }
    }

    /// Takes what the peer says of itself, before any DATA.
    pub(crate) fn set_peer(&mut self, own: &Opening, peer: &Opening) {
        self.numbers =
            Numbers { outgoing: own.outgoing.min(peer.incoming), incoming: own.incoming.min(peer.outgoing) };
        self.edge.raise(Load::default(), peer.window);
        self.most_message = u64::from(peer.window / 2).min(MOST_FRAGMENTS * self.fragment as u64);
        self.arrivals.received = Received::new(peer.tseq);
        self.arrivals.reassembly = Reassembly::new(tseq::start(peer.tseq), u64::from(own.window) / 2);
        if std::mem::take(&mut self.ours.was_refused) {
            self.events.push_back(StreamEvent::Available);
        }
    }

    /// Sets the time.
    pub(crate) fn on_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Sets the time and the largest RTT of the paths in use; called a few times in each round trip. The window grows
    /// for an application that reads more than half of it in two round trips.
    pub(crate) fn on_rtt(&mut self, now: Instant, max_rtt: Duration) {
        match self.epoch {
            Some((_, since)) if now - since < max_rtt.saturating_mul(2) => {}
            Some((Epoch(number), _)) => self.epoch = Some((Epoch(number + 1), now)),
            None => self.epoch = Some((Epoch(0), now)),
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.events.shrink_to_fit();
        self.queue.shrink_to_fit();
        self.cuts.shrink_to_fit();
        self.arrivals.received.shrink_to_fit();
    }

    /// How far apart the ids of streams with one number are: even, so that the number tells who opens them.
    fn modulus(&self) -> u64 {
        u64::from(self.numbers.outgoing.max(self.numbers.incoming)).next_multiple_of(2)
    }

    /// Makes a stream, the first or the next with its number.
    fn add_stream(&mut self, number: u16, is_known: bool) -> StreamId {
        let modulus = self.modulus();
        let slot = self.slots.entry(number).and_modify(|slot| {
            slot.current = StreamId(slot.current.0 + modulus);
            slot.is_free = false;
        });
        let slot = slot.or_insert_with(|| Slot {
            current: StreamId(number.into()),
            next_sseq: FIRST_SSEQ,
            ordering: Ordering::default(),
            is_free: false,
        });
        let (id, mut out) = (slot.current, Outbox::new(slot.next_sseq));
        if number >= self.numbers.outgoing {
            out.close();
        }
        let stream = Stream {
            id,
            number,
            urgency: Urgency::default(),
            out,
            incoming: Incoming::new(number < self.numbers.incoming),
            is_known,
            is_reset: false,
            entry: Entry::default(),
        };
        self.streams.insert(id, Box::new(stream));
        id
    }

    /// Called after a change of a stream: updates queue and sums, frees its number, and forgets it.
    fn after_change(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = stream.entry;
        let after = Entry {
            rank: stream.out.rank(stream.urgency),
            waiting: stream.out.waiting(),
            held: stream.out.held(),
            deadline: stream.out.next_deadline(),
        };
        stream.entry = after;
        if before.rank != after.rank {
            before.rank.into_iter().for_each(|rank| self.queue.remove(id, rank));
            after.rank.into_iter().for_each(|rank| self.queue.push(id, rank));
        }
        if before.deadline != after.deadline {
            before.deadline.into_iter().for_each(|at| {
                self.expiries.remove(&(at, id));
            });
            self.expiries.extend(after.deadline.map(|at| (at, id)));
        }
        self.totals.waiting = self.totals.waiting + after.waiting - before.waiting;
        self.totals.held = self.totals.held + after.held - before.held;
        self.memory_freed |= after.held < before.held;
        self.note_end(id);
    }

    /// Frees the number of a stream after both directions have ended, and forgets the stream after it was read.
    fn note_end(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        let has_ended = stream.out.is_done() && stream.incoming.is_complete();
        let is_over = stream.out.is_done() && stream.incoming.is_over();
        let (number, next_sseq) = (stream.number, stream.out.next_sseq());
        if let Some(slot) = self.slots.get_mut(&number).filter(|slot| slot.current == id) {
            slot.next_sseq = slot.next_sseq.max(next_sseq);
            let is_new = has_ended && !std::mem::replace(&mut slot.is_free, has_ended);
            if is_new && id.initiator() == self.side {
                self.free_number(number);
            }
        }
        if is_over {
            self.waiting_writers.remove(&id);
            self.streams.remove(&id);
        }
    }

    fn free_number(&mut self, number: u16) {
        self.ours.free.push_back(number);
        if std::mem::take(&mut self.ours.was_refused) {
            self.events.push_back(StreamEvent::Available);
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        self.epoch.map(|(epoch, _)| epoch)
    }
}
