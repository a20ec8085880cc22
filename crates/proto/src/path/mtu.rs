//! Path MTU discovery (RFC 8899): tries the largest possible size first, then searches between the largest size that
//! arrived and the smallest that did not.
//!
//! ```text
//!  1. what the interface carries and both ends take        most paths end here, with one probe
//!  2. the rungs between: Ethernet, then halves of the rest tunnels, jumbo frames
//!  3. a little above a rung that works                     nearly always the rung is exact
//!  4. halves, until the gap is at most PRECISION
//! ```
//!
//! A stream has no MTU: there the size is that of its records, and follows from the rate.

use std::time::Duration;

use crate::packet::BASE_DATAGRAM as BASE;
use crate::{Carrier, FourTuple, Instant, Rate};

/// The largest payload in use: that of a loopback interface, rounded down. It fits segmentation offload.
pub(crate) const LARGEST: u16 = 65_000;
/// The search ends when the smallest failing size is this close to the largest working one.
const PRECISION: u16 = 16;
/// A size counts as too large after the loss of this many probes.
const TRIES: u8 = 3;
/// The loss of this many large packets in a row, while small ones arrive, is rarely chance. At 5 % of random loss it
/// happens once in 8000 times, so a PMTU probe decides.
const BLACK_HOLE: u32 = 3;
const RAISE_AFTER: Duration = Duration::from_secs(600);
const RAISE_AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);
/// The IP packet size of an interface of unknown MTU, and of nearly all networks.
const ETHERNET: u16 = 1500;

/// The smallest IP packet that every IPv6 link carries: some tunnels carry no more.
const IPV6_LEAST: u16 = 1280;
/// Sizes of the records of a stream: the largest is about the 64 KiB that a record can have.
const RECORDS: [u16; 4] = [LARGEST, 32_768, 16_384, 8192];
const LEAST_RECORD: u16 = 4096;
/// The size of records before anything is known about the rate.
const FIRST_RECORD: u16 = 16_384;
/// A record takes at most about this long to send: what is more urgent waits for its end, and only whole records can
/// be read.
const RECORD_TIME: Duration = Duration::from_millis(5);

/// Bounds of a search: the largest payload that the interface and both ends take, and the size of the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    most: u16,
    headers: u16,
}

impl SizeLimit {
    /// The limit for datagrams between two addresses over an interface that carries IP packets of `interface` bytes
    /// (`None` if unknown), to a peer that takes `agreed` bytes of payload.
    pub(crate) fn new(tuple: &FourTuple, interface: Option<u32>, agreed: u16) -> Self {
        let headers = if tuple.remote.ip().to_canonical().is_ipv4() { 28 } else { 48 };
        let interface = interface.map_or(ETHERNET, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
        let most = interface.saturating_sub(headers).min(agreed).clamp(BASE, LARGEST);
        Self { most, headers }
    }

    /// Payload sizes worth trying, ascending: common tunnels, Ethernet, jumbo frames, virtual networks.
    fn rungs(self) -> [u16; 10] {
        let (least, ethernet) = (IPV6_LEAST - self.headers, ETHERNET - self.headers);
        [least, 1280, 1372, 1400, 1420, ethernet, 4000, 9000 - self.headers, 16_384, LARGEST]
    }
}

/// Searches the datagram size of one path.
#[derive(Debug, Clone)]
pub(crate) struct MtuSearch {
    /// The largest size that arrived.
    current: u16,
    /// The smallest size above `current` that seems not to fit; above the limit if there is none.
    failing: u16,
    limit: SizeLimit,
    /// Whether a black hole caused this search.
    after_black_hole: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The carrier takes records of any size: there is nothing to search.
    Stream,
    /// The peer's limit is unknown yet, or the path died during the search.
    Off,
    /// `size` is to be tried; `waiting` while a PMTU probe is in flight.
    Searching {
        size: u16,
        tries: u8,
        waiting: bool,
    },
    /// Nothing arrived for a while, possibly because of the size: it is tried again once something arrives.
    Doubted {
        size: u16,
    },
    Done {
        again_at: Instant,
    },
}

impl MtuSearch {
    /// Nothing is known about a new path yet.
    pub(crate) fn of(carrier: Carrier) -> Self {
        let limit = SizeLimit { most: BASE, headers: 28 };
        let (current, phase) =
            if carrier.is_datagram() { (BASE, Phase::Off) } else { (FIRST_RECORD, Phase::Stream) };
        Self { current, failing: BASE + 1, limit, after_black_hole: false, phase }
    }

    /// Forgets all results: the path leads through another network.
    pub(crate) fn reset(&mut self) {
        if !self.is_stream() {
            *self = Self::of(Carrier::Udp);
        }
    }

    fn is_stream(&self) -> bool {
        matches!(self.phase, Phase::Stream)
    }

    /// Chooses the size of records by the delivery rate of a stream; nothing changes on a path of datagrams.
    pub(crate) fn set_stream_rate(&mut self, rate: Rate) {
        if self.is_stream() {
            let most = rate * RECORD_TIME;
            let fits = |size: &u16| u64::from(*size) <= most.0;
            self.current = RECORDS.into_iter().find(fits).unwrap_or(LEAST_RECORD);
        }
    }

    /// Whether no search was started yet, or the last one was interrupted.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.phase, Phase::Off)
    }

    /// The payload of a datagram that is known to fit.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Starts the search below `limit`.
    pub(crate) fn start(&mut self, now: Instant, limit: SizeLimit) {
        self.limit = limit;
        if self.current > limit.most {
            self.current = BASE;
        }
        self.search(now);
    }

    /// The MTU of the interface changed. A size in use above the limit is given up at once.
    pub(crate) fn set_limit(&mut self, now: Instant, limit: SizeLimit) {
        if limit != self.limit && !self.is_off() && !self.is_stream() {
            self.start(now, limit);
        }
    }

    fn search(&mut self, now: Instant) {
        self.failing = self.limit.most + 1;
        self.after_black_hole = false;
        self.go_on(now);
    }

    fn go_on(&mut self, now: Instant) {
        let raise_after = if self.after_black_hole { RAISE_AFTER_BLACK_HOLE } else { RAISE_AFTER };
        self.phase = match self.next_size() {
            Some(size) => Phase::Searching { size, tries: 0, waiting: false },
            None => Phase::Done { again_at: now + raise_after },
        };
    }

    fn next_size(&self) -> Option<u16> {
        let (works, fails) = (self.current, self.failing);
        if fails > self.limit.most {
            return Some(self.limit.most).filter(|most| *most > works);
        }
        if fails - works <= PRECISION {
            return None;
        }
        let rungs = self.limit.rungs();
        let between = || rungs.into_iter().filter(|size| (works + 1..fails).contains(size));
        let ethernet = ETHERNET - self.limit.headers;
        if between().any(|size| size == ethernet) {
            return Some(ethernet);
        }
        if let Some(middle) = between().nth(between().count() / 2) {
            return Some(middle);
        }
        let is_rung = works == BASE || rungs.contains(&works);
        Some(if is_rung { works + PRECISION } else { works + (fails - works) / 2 })
    }

    /// The size to try now, if any.
    pub(crate) fn wanted(&self) -> Option<u16> {
        match self.phase {
            Phase::Searching { size, waiting: false, .. } => Some(size),
            Phase::Searching { waiting: true, .. }
            | Phase::Stream
            | Phase::Off
            | Phase::Doubted { .. }
            | Phase::Done { .. } => None,
        }
    }

    pub(crate) fn on_probe_sent(&mut self) {
        if let Phase::Searching { waiting, tries, .. } = &mut self.phase {
            *waiting = true;
            *tries += 1;
        }
    }

    /// The path died: the fate of a probe says nothing about its size. The search restarts when the path is back; a
    /// finished one stays finished.
    pub(crate) fn interrupt(&mut self) {
        if matches!(self.phase, Phase::Searching { .. } | Phase::Doubted { .. }) {
            self.phase = Phase::Off;
        }
    }

    /// A probe of `size` arrived.
    pub(crate) fn on_acked(&mut self, now: Instant, size: u16) {
        if size <= self.current || size > self.limit.most {
            return;
        }
        self.current = size;
        if self.failing <= size {
            // The probe had been declared lost.
            self.failing = self.limit.most + 1;
        }
        match self.phase {
            // A larger probe in flight may show more.
            Phase::Searching { size: tried, .. } if tried > size => {}
            Phase::Searching { .. } => self.go_on(now),
            Phase::Stream | Phase::Off | Phase::Doubted { .. } | Phase::Done { .. } => {}
        }
    }

    /// A probe of `size` was lost.
    pub(crate) fn on_lost(&mut self, now: Instant, size: u16) {
        let Phase::Searching { size: tried, tries, waiting } = &mut self.phase else { return };
        if *tried != size {
            return;
        }
        *waiting = false;
        if *tries >= TRIES {
            self.failing = size;
            self.go_on(now);
        }
    }

    /// The system of this host refuses datagrams of `size`: no other try is needed (spec 6.125).
    pub(crate) fn on_refused(&mut self, now: Instant, size: u16) {
        if size <= BASE || self.is_off() || self.is_stream() {
            return;
        }
        self.failing = self.failing.min(size);
        if self.current >= size {
            self.current = BASE;
        }
        let tried = match self.phase {
            Phase::Searching { size, .. } => Some(size),
            Phase::Stream | Phase::Off | Phase::Doubted { .. } | Phase::Done { .. } => None,
        };
        if tried.is_none_or(|tried| tried >= size) {
            self.go_on(now);
        }
    }

    /// `in_a_row` packets larger than [`BASE`] were lost in a row while smaller ones arrived. If that is rarely
    /// chance, falls back to the base size until a probe of the same size has arrived (spec 6.125).
    pub(crate) fn on_large_lost(&mut self, in_a_row: u32) {
        if in_a_row >= BLACK_HOLE && self.current > BASE && !self.is_stream() {
            self.phase = Phase::Searching { size: self.current, tries: 0, waiting: false };
            self.current = BASE;
            self.after_black_hole = true;
        }
    }

    /// Nothing arrives, large or small (spec 6.125): packets fall back to the base size, but the size may well be
    /// innocent.
    pub(crate) fn on_silence(&mut self) {
        if self.current > BASE && !self.is_stream() {
            self.phase = Phase::Doubted { size: self.current };
            self.current = BASE;
        }
    }

    /// A packet arrived.
    pub(crate) fn on_progress(&mut self) {
        if let Phase::Doubted { size } = self.phase {
            self.phase = Phase::Searching { size, tries: 0, waiting: false };
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Done { again_at } if self.current < self.limit.most => Some(again_at),
            Phase::Done { .. }
            | Phase::Stream
            | Phase::Off
            | Phase::Searching { .. }
            | Phase::Doubted { .. } => None,
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.search(now);
        }
    }
}

#[cfg(test)]
mod tests;
