//! The queue before the rate: its limit, and what is dropped or marked when it fills.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rate};

use super::parcel::Parcel;

/// The queue of a link. The packet that is being sent is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The limit; a packet that does not fit is dropped (drop-tail). Default 100 ms.
    pub limit: QueueLimit,
    /// What happens before the queue is full. Default nothing.
    pub discipline: Discipline,
}

/// The limit of a queue, headers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// No limit.
    Unlimited,
    /// This many bytes.
    Bytes(ByteCount),
    /// This many packets of any size, as in many routers: a large one is refused no sooner than a small one.
    Packets(u32),
    /// The bytes that the link carries in this time at its current nominal rate, at least two packets of 1500 bytes.
    Time(Duration),
}

/// Active queue management.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Discipline {
    /// None.
    #[default]
    DropTail,
    /// `CoDel` (RFC 8289): drops from the head while packets have waited for longer than `target` during an `interval`.
    Codel(Codel),
}

/// The parameters of `CoDel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codel {
    /// Accepted standing delay. RFC 8289 proposes 5 ms.
    pub target: Duration,
    /// How long it may be exceeded. RFC 8289 proposes 100 ms.
    pub interval: Duration,
    /// What happens to a packet selected by the algorithm.
    pub reaction: Reaction,
}

/// What active queue management does to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reaction {
    /// Drops it.
    #[default]
    Drop,
    /// Marks it (RFC 3168) if it is ECN-capable, drops it otherwise.
    Mark,
}

impl QueueConfig {
    /// Makes a drop-tail queue.
    pub const fn drop_tail(limit: QueueLimit) -> Self {
        Self { limit, discipline: Discipline::DropTail }
    }

    /// Makes a queue under `CoDel` with the parameters of RFC 8289, at most one second long.
    pub const fn codel(reaction: Reaction) -> Self {
        let codel =
            Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100), reaction };
        Self { limit: QueueLimit::Time(Duration::from_secs(1)), discipline: Discipline::Codel(codel) }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::drop_tail(QueueLimit::Time(Duration::from_millis(100)))
    }
}

/// A packet with the data that the link needs.
#[derive(Debug)]
pub(super) struct Entry<P> {
    pub(super) payload: P,
    /// Its size as offered.
    pub(super) size: u32,
    /// Its size on the medium, headers included.
    pub(super) wire: u32,
    /// When it was offered.
    pub(super) offered_at: Instant,
}

/// An item that leaves the queue.
#[derive(Debug)]
pub(super) enum Popped<P> {
    /// To be sent.
    Send(Entry<P>),
    /// To be sent, and marked.
    SendMarked(Entry<P>),
    /// Dropped by the discipline.
    Drop(Entry<P>),
}

#[derive(Debug)]
pub(super) struct Queue<P> {
    config: QueueConfig,
    entries: VecDeque<Entry<P>>,
    bytes: u64,
    /// Most bytes, and most packets.
    limit: u64,
    most: usize,
    law: CodelState,
}

/// The variables of RFC 8289, section 5.
#[derive(Debug, Default)]
struct CodelState {
    first_above: Option<Instant>,
    /// When the next packet is to go, while dropping.
    dropping: Option<Instant>,
    count: u64,
    last_count: u64,
    last_dropping: Option<Instant>,
}

impl<P: Parcel> Queue<P> {
    pub(super) fn new(config: QueueConfig, rate: Rate) -> Self {
        let mut queue = Self {
            config,
            entries: VecDeque::new(),
            bytes: 0,
            limit: 0,
            most: 0,
            law: CodelState::default(),
        };
        queue.set_rate(rate);
        queue
    }

    /// Changes the limits; what waits already stays.
    pub(super) fn set(&mut self, config: QueueConfig, rate: Rate) {
        self.config = config;
        self.set_rate(rate);
    }

    /// Recomputes a limit in time. A stopped link keeps its limit.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.most = match self.config.limit {
            QueueLimit::Packets(packets) => usize::try_from(packets).unwrap_or(usize::MAX),
            QueueLimit::Unlimited | QueueLimit::Bytes(_) | QueueLimit::Time(_) => usize::MAX,
        };
        match self.config.limit {
            QueueLimit::Unlimited | QueueLimit::Packets(_) => self.limit = u64::MAX,
            QueueLimit::Bytes(bytes) => self.limit = bytes.get(),
            QueueLimit::Time(time) if rate != Rate::ZERO => self.limit = (rate * time).get().max(LEAST_LIMIT),
            QueueLimit::Time(_) => self.limit = self.limit.max(LEAST_LIMIT),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> ByteCount {
        ByteCount(self.bytes)
    }

    /// Admits a packet, or returns it.
    pub(super) fn push(&mut self, entry: Entry<P>) -> Result<(), Entry<P>> {
        let after = self.bytes + u64::from(entry.wire);
        if after > self.limit || self.entries.len() >= self.most {
            return Err(entry);
        }
        self.bytes = after;
        self.entries.push_back(entry);
        Ok(())
    }

    /// Takes the next packet at the time `now` when the link is free for it.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Popped<P>> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.wire);
        let codel = match self.config.discipline {
            Discipline::DropTail => return Some(Popped::Send(entry)),
            Discipline::Codel(codel) => codel,
        };
        if !self.law.strikes(now, now - entry.offered_at, self.bytes, codel) {
            return Some(Popped::Send(entry));
        }
        Some(match codel.reaction {
            Reaction::Mark if entry.payload.is_ecn_capable() => Popped::SendMarked(entry),
            Reaction::Mark | Reaction::Drop => Popped::Drop(entry),
        })
    }

    /// Takes out everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry<P>> + '_ {
        self.bytes = 0;
        self.law = CodelState::default();
        self.entries.drain(..)
    }
}

const LEAST_LIMIT: u64 = 3_000;

/// A queue below this many bytes is never bad (RFC 8289: one MTU).
const MTU: u64 = 1_500;

impl CodelState {
    /// Whether the packet that waited for `sojourn` is to be dropped or marked (RFC 8289, section 5.5).
    fn strikes(&mut self, now: Instant, sojourn: Duration, waiting: u64, codel: Codel) -> bool {
        let bad = self.is_bad(now, sojourn, waiting, codel);
        match self.dropping {
            Some(_) if !bad => {
                self.last_dropping = Some(now);
                self.dropping = None;
                false
            }
            Some(next) if now >= next => {
                self.count += 1;
                self.dropping = Some(next + spacing(codel.interval, self.count));
                true
            }
            Some(_) => false,
            None if bad => {
                self.start(now, codel);
                true
            }
            None => false,
        }
    }

    /// Whether the delay has been above the target for a whole interval.
    fn is_bad(&mut self, now: Instant, sojourn: Duration, waiting: u64, codel: Codel) -> bool {
        if sojourn < codel.target || waiting <= MTU {
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(now + codel.interval);
        now >= since
    }

    /// Begins to drop; soon after the last time, near the frequency that was needed then.
    fn start(&mut self, now: Instant, codel: Codel) {
        let recent = self.last_dropping.is_some_and(|last| now - last < 16 * codel.interval);
        let delta = self.count.saturating_sub(self.last_count);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.last_count = self.count;
        self.dropping = Some(now + spacing(codel.interval, self.count));
    }
}

/// The interval divided by the square root of `count`.
fn spacing(interval: Duration, count: u64) -> Duration {
    let nanos = interval.as_nanos();
    let spaced = (nanos * nanos).checked_div(u128::from(count)).unwrap_or(0).isqrt();
    Duration::from_nanos(u64::try_from(spaced).unwrap_or(u64::MAX))
}
