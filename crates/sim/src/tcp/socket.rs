//! One end of a TCP connection, as far as a carrier of paths notices: bytes arrive in order or not at all, a loss on
//! the link is a delay, the send buffer is bounded. Congestion control is Reno with selective acknowledgements
//! (RFC 6675); there is no handshake, and no receive window, because the receiver always reads at once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use manyway_proto::{ByteCount, CarrierFigures, FourTuple, Instant, Rate, Records};

/// Payload of a full segment.
const SEGMENT: usize = 1_400;
/// The window at the start (RFC 6928).
const FIRST_WINDOW: usize = 10 * SEGMENT;
/// Shortest and longest retransmission timeout.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The send buffer takes no more while so many bytes have not been sent once (`TCP_NOTSENT_LOWAT`).
const MOST_UNSENT: usize = 32 * 1024;
/// A segment is lost once so much that was sent after it has arrived.
const REORDERING: u64 = 3 * SEGMENT as u64;
/// Most ranges in an acknowledgement.
const MOST_RANGES: usize = 64;
const HEADER: usize = 17;
const DATA: u8 = 0;
/// Its payload is a list of ranges that arrived early.
const ACK: u8 = 1;
const RESET: u8 = 2;

/// A segment that the peer has not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Segment {
    length: usize,
    /// The end of what was sent when it was last sent.
    sent_at: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    Arrived,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// The peer is still to be told.
    Resetting,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) tuple: FourTuple,
    /// The bytes that the peer has not acknowledged, from `acknowledged` on.
    buffer: VecDeque<u8>,
    acknowledged: u64,
    /// The first byte that was never sent.
    next: u64,
    /// By their first bytes.
    segments: BTreeMap<u64, Segment>,
    window: usize,
    threshold: usize,
    /// End of what was sent at the last loss: further losses before it are no news.
    recovery: u64,
    timed: Option<(u64, Instant)>,
    smoothed: Option<Duration>,
    variation: Duration,
    minimum: Duration,
    timeout_at: Option<Instant>,
    timeouts: u32,
    rate: Rate,
    /// Start of the measurement of the rate, and what was acknowledged then.
    measured_from: (Instant, u64),
    received: u64,
    early: BTreeMap<u64, Vec<u8>>,
    pub(super) records: Records,
    owes_ack: bool,
    pub(super) is_blocked: bool,
    life: Life,
}

impl Socket {
    pub(super) fn new(now: Instant, tuple: FourTuple) -> Self {
        Self {
            tuple,
            buffer: VecDeque::new(),
            acknowledged: 0,
            next: 0,
            segments: BTreeMap::new(),
            window: FIRST_WINDOW,
            threshold: usize::MAX,
            recovery: 0,
            timed: None,
            smoothed: None,
            variation: Duration::ZERO,
            minimum: Duration::MAX,
            timeout_at: None,
            timeouts: 0,
            rate: Rate::ZERO,
            measured_from: (now, 0),
            received: 0,
            early: BTreeMap::new(),
            records: Records::default(),
            owes_ack: false,
            is_blocked: false,
            life: Life::Open,
        }
    }

    /// Takes bytes of the application.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Whether the send buffer takes nothing more.
    pub(super) fn is_full(&self) -> bool {
        let sent = usize::try_from(self.next - self.acknowledged).unwrap_or(usize::MAX);
        self.buffer.len().saturating_sub(sent) >= MOST_UNSENT
    }

    /// Ends the connection at once.
    pub(super) fn reset(&mut self) {
        self.life = Life::Resetting;
    }

    /// Whether it has ended, at either end.
    pub(super) fn is_closed(&self) -> bool {
        self.life != Life::Open
    }

    /// What a system would report.
    pub(super) fn figures(&self) -> Option<CarrierFigures> {
        let mut figures = CarrierFigures::new(self.smoothed?, ByteCount::of(self.window));
        figures.rtt_variation = self.variation;
        figures.minimum_rtt = self.minimum;
        figures.outstanding = ByteCount::of(self.buffer.len());
        figures.delivery_rate = self.rate;
        Some(figures)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timeout_at.filter(|_| self.life == Life::Open)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|at| at > now) {
            return;
        }
        self.threshold = (self.in_flight() / 2).max(2 * SEGMENT);
        self.window = SEGMENT;
        self.timeouts += 1;
        (self.recovery, self.timed) = (self.next, None);
        for segment in self.segments.values_mut().filter(|segment| segment.state == State::InFlight) {
            segment.state = State::Lost;
        }
        self.timeout_at = (!self.buffer.is_empty()).then(|| now + self.timeout());
    }

    /// Writes the next segment; false if there is none now.
    pub(super) fn poll_segment(&mut self, now: Instant, segment: &mut Vec<u8>) -> bool {
        if self.life == Life::Resetting {
            self.life = Life::Closed;
            return self.write_segment(RESET, self.acknowledged, 0, segment);
        }
        if self.life == Life::Closed {
            return false;
        }
        let room = self.window.saturating_sub(self.in_flight());
        let next = self.next;
        let lost = self.segments.iter_mut().find(|(_, segment)| segment.state == State::Lost);
        if let Some((begin, lost)) = lost.filter(|(_, lost)| lost.length <= room) {
            (lost.state, lost.sent_at) = (State::InFlight, next);
            let (begin, length) = (*begin, lost.length);
            self.timed = None;
            return self.write_segment(DATA, begin, length, segment);
        }
        let sent = usize::try_from(self.next - self.acknowledged).unwrap_or(usize::MAX);
        let length = self.buffer.len().saturating_sub(sent).min(SEGMENT);
        if length > 0 && length <= room {
            let begin = self.next;
            self.next += length as u64;
            self.segments.insert(begin, Segment { length, sent_at: self.next, state: State::InFlight });
            if self.timed.is_none() && self.timeouts == 0 {
                self.timed = Some((self.next, now));
            }
            self.timeout_at = self.timeout_at.or_else(|| Some(now + self.timeout()));
            return self.write_segment(DATA, begin, length, segment);
        }
        self.owes_ack && self.write_segment(ACK, self.next, 0, segment)
    }

    /// Takes a segment; complete records are in [`Self::records`] afterwards. Malformed ones are ignored.
    pub(super) fn on_segment(&mut self, now: Instant, segment: &[u8]) {
        let Some((header, payload)) = segment.split_first_chunk::<HEADER>() else { return };
        let number = |at: usize| header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        let (Some(begin), Some(ack)) = (number(1).map(u64::from_be_bytes), number(9).map(u64::from_be_bytes))
        else {
            return;
        };
        if header.first() == Some(&RESET) {
            self.life = Life::Closed;
            return;
        }
        if header.first() == Some(&ACK) {
            for range in payload.chunks_exact(16) {
                let edge = |at: usize| range.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                let (Some(begin), Some(end)) = (edge(0), edge(8)) else { continue };
                self.on_early(u64::from_be_bytes(begin)..u64::from_be_bytes(end));
            }
        }
        self.on_ack(now, ack);
        if header.first() != Some(&DATA) {
            return;
        }
        self.owes_ack = true;
        self.early.insert(begin, payload.to_vec());
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.received) {
            let (begin, bytes) = entry.remove_entry();
            let known = usize::try_from(self.received - begin).unwrap_or(usize::MAX);
            let fresh = bytes.get(known..).unwrap_or_default();
            self.records.push(fresh);
            self.received += fresh.len() as u64;
        }
    }

    /// The peer has a range beyond what it acknowledges.
    fn on_early(&mut self, range: Range<u64>) {
        for (begin, segment) in self.segments.range_mut(range.clone()) {
            if begin + segment.length as u64 <= range.end {
                segment.state = State::Arrived;
            }
        }
        let end = range.end;
        let mut newest_loss = None;
        for (begin, segment) in &mut self.segments {
            if segment.state == State::InFlight && segment.sent_at + REORDERING <= end {
                segment.state = State::Lost;
                newest_loss = Some(*begin);
            }
        }
        if newest_loss.is_some_and(|begin| begin >= self.recovery) {
            self.threshold = (self.in_flight() / 2).max(2 * SEGMENT);
            (self.window, self.recovery) = (self.threshold, self.next);
        }
    }

    fn on_ack(&mut self, now: Instant, ack: u64) {
        if ack <= self.acknowledged {
            return;
        }
        let fresh = usize::try_from(ack - self.acknowledged).unwrap_or(usize::MAX);
        drop(self.buffer.drain(..fresh.min(self.buffer.len())));
        self.segments = self.segments.split_off(&ack);
        (self.acknowledged, self.timeouts) = (ack, 0);
        if let Some((_, sent_at)) = self.timed.take_if(|(end, _)| *end <= ack) {
            self.measure(now - sent_at);
        }
        if ack >= self.recovery {
            let slow_start = self.window < self.threshold;
            self.window += if slow_start { fresh.min(2 * SEGMENT) } else { SEGMENT * fresh / self.window };
        }
        let (from, before) = self.measured_from;
        if now - from >= self.smoothed.unwrap_or(SHORTEST_TIMEOUT) {
            let bytes = ByteCount(ack - before);
            self.rate = bytes.per(now - from);
            self.measured_from = (now, ack);
        }
        self.timeout_at = (!self.buffer.is_empty()).then(|| now + self.timeout());
    }

    fn measure(&mut self, sample: Duration) {
        self.minimum = self.minimum.min(sample);
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(sample), sample / 2);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
        self.smoothed = Some((smoothed * 7 + sample) / 8);
    }

    fn timeout(&self) -> Duration {
        let usual = self.smoothed.map_or(Duration::from_secs(1), |smoothed| smoothed + self.variation * 4);
        (usual.max(SHORTEST_TIMEOUT) * (1 << self.timeouts.min(16))).min(LONGEST_TIMEOUT)
    }

    /// Bytes on their way.
    fn in_flight(&self) -> usize {
        let segments = self.segments.values();
        segments.filter(|segment| segment.state == State::InFlight).map(|segment| segment.length).sum()
    }

    fn write_segment(&mut self, kind: u8, begin: u64, length: usize, segment: &mut Vec<u8>) -> bool {
        segment.push(kind);
        segment.extend_from_slice(&begin.to_be_bytes());
        segment.extend_from_slice(&self.received.to_be_bytes());
        let skipped = usize::try_from(begin - self.acknowledged).unwrap_or(usize::MAX);
        segment.extend(self.buffer.iter().skip(skipped).take(length));
        if kind == ACK {
            for (begin, bytes) in self.early.iter().rev().take(MOST_RANGES) {
                segment.extend_from_slice(&begin.to_be_bytes());
                segment.extend_from_slice(&(begin + bytes.len() as u64).to_be_bytes());
            }
        }
        self.owes_ack = false;
        true
    }
}
