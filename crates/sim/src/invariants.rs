//! Laws that hold in every world at any time, checked after each step.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, PathId, StreamId, Transmit};

use crate::clock::Clock;
use crate::network::{HostId, NetworkCounters};

/// A law that did not hold, with what is needed to see it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLaw {
    /// The seed of the world.
    pub seed: u64,
    /// Virtual time since the start.
    pub at: Duration,
    /// The law and the facts.
    pub law: Box<Law>,
}

impl fmt::Display for BrokenLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, after {:?}: {:?}", self.seed, self.at, self.law)
    }
}

impl std::error::Error for BrokenLaw {}

/// The laws, each with the facts that break it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Law {
    /// Time goes on: only so many events happen at one moment.
    BusyLoop {
        /// Events at this moment.
        events: u32,
    },
    /// A machine sends a bounded number of datagrams at one moment.
    EndlessTransmission {
        /// The sender.
        host: HostId,
        /// Datagrams at this moment.
        datagrams: u32,
    },
    /// A deadline lies in the future once its timer has fired and everything was sent.
    StuckDeadline {
        /// The owner.
        host: HostId,
        /// The deadline.
        deadline: Instant,
    },
    /// A transmission is exactly what stands in the buffer, in segments that are not empty.
    Segments {
        /// The sender.
        host: HostId,
        /// What it said.
        transmit: Transmit,
        /// Bytes in the buffer.
        buffer: usize,
    },
    /// Every packet is accounted for.
    NetworkBooks {
        /// The books that do not balance.
        counters: NetworkCounters,
    },
    /// Nothing is sent that exceeds the congestion window, but a few probes.
    Window {
        /// The sender.
        host: HostId,
        /// On which path.
        path: PathId,
        /// Bytes sent and neither acknowledged nor lost.
        in_flight: ByteCount,
        /// The window.
        window: ByteCount,
        /// Bytes in flight and window one event earlier.
        before: (ByteCount, ByteCount),
    },
    /// The application reads what was written, in order, each byte once.
    Content {
        /// The writer.
        writer: HostId,
        /// The stream.
        stream: StreamId,
        /// The first byte that differs.
        offset: u64,
    },
    /// The application never reads more than was written.
    Invention {
        /// The writer.
        writer: HostId,
        /// The stream.
        stream: StreamId,
        /// Bytes written.
        written: u64,
        /// Bytes read.
        read: u64,
    },
    /// A stream ends for the reader where the writer finished it, and only then.
    End {
        /// The writer.
        writer: HostId,
        /// The stream.
        stream: StreamId,
        /// Where it was finished, if it was.
        finished: Option<u64>,
        /// Bytes read before the end.
        read: u64,
    },
    /// A stream is reset for the reader only if the writer reset it.
    Reset {
        /// The writer.
        writer: HostId,
        /// The stream.
        stream: StreamId,
    },
}

/// How much is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most events at one moment. Default 10 000.
    pub events: u32,
    /// Most datagrams that a host sends at one moment. Default 20 000.
    pub datagrams: u32,
    /// How often in a row a deadline may lie in the past when timers have fired and all was sent. Default 16.
    pub late_deadlines: u32,
    /// Datagrams that may exceed the window: probes of the tail, two at each timeout until an answer or death, and
    /// facts about paths. Default 20.
    pub probes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: 10_000, datagrams: 20_000, late_deadlines: 16, probes: 20 }
    }
}

/// The figures of a path that a law needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathFigures {
    /// The path.
    pub path: PathId,
    /// Bytes sent in all.
    pub sent: ByteCount,
    /// Bytes received in all.
    pub received: ByteCount,
    /// Bytes sent and neither acknowledged nor lost.
    pub in_flight: ByteCount,
    /// The congestion window.
    pub window: ByteCount,
    /// The largest datagram.
    pub datagram: ByteCount,
}

/// The state that checking needs.
#[derive(Debug)]
pub struct Laws {
    seed: u64,
    limits: Limits,
    events: u32,
    /// Datagrams at this moment, by host.
    datagrams: BTreeMap<HostId, u32>,
    /// Deadlines in the past, in a row, by host.
    late: BTreeMap<HostId, u32>,
    flights: BTreeMap<(HostId, PathId), Flying>,
}

#[derive(Debug, Clone, Copy)]
struct Flying {
    in_flight: ByteCount,
    window: ByteCount,
    /// What may be in flight: the window, or what was in flight when it shrank, as far as that is still so.
    ceiling: ByteCount,
    /// The largest datagram: that of now, and of probes that are still beyond the window.
    datagram: ByteCount,
}

impl Laws {
    /// Makes laws that have seen nothing.
    pub fn new(seed: u64, limits: Limits) -> Self {
        Self {
            seed,
            limits,
            events: 0,
            datagrams: BTreeMap::new(),
            late: BTreeMap::new(),
            flights: BTreeMap::new(),
        }
    }

    /// Changes the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Tells of a breach found elsewhere.
    pub fn broken(&self, now: Instant, law: Law) -> BrokenLaw {
        BrokenLaw { seed: self.seed, at: now - Clock::START, law: Box::new(law) }
    }

    pub(crate) fn on_step(&mut self, now: Instant, moved: bool) -> Result<(), BrokenLaw> {
        if moved {
            self.events = 0;
            self.datagrams.clear();
        }
        self.events += 1;
        if self.events > self.limits.events {
            return Err(self.broken(now, Law::BusyLoop { events: self.events }));
        }
        Ok(())
    }

    pub(crate) fn on_deadline(
        &mut self,
        now: Instant,
        host: HostId,
        next: Option<Instant>,
    ) -> Result<(), BrokenLaw> {
        let late = self.late.entry(host).or_insert(0);
        let Some(deadline) = next.filter(|deadline| *deadline <= now) else {
            *late = 0;
            return Ok(());
        };
        *late += 1;
        if *late > self.limits.late_deadlines {
            return Err(self.broken(now, Law::StuckDeadline { host, deadline }));
        }
        Ok(())
    }

    pub(crate) fn on_transmit(
        &mut self,
        now: Instant,
        host: HostId,
        transmit: Transmit,
        buffer: usize,
    ) -> Result<(), BrokenLaw> {
        let whole = transmit.segment > 0 && transmit.segment <= transmit.length && transmit.length == buffer;
        if !whole {
            return Err(self.broken(now, Law::Segments { host, transmit, buffer }));
        }
        let count = u32::try_from(transmit.length.div_ceil(transmit.segment)).unwrap_or(u32::MAX);
        let datagrams = self.datagrams.entry(host).or_insert(0);
        *datagrams = datagrams.saturating_add(count);
        let datagrams = *datagrams;
        if datagrams > self.limits.datagrams {
            return Err(self.broken(now, Law::EndlessTransmission { host, datagrams }));
        }
        Ok(())
    }

    /// Checks that a path has not sent beyond its window since the last call, but for a few probes. A window may
    /// shrink below what is in flight already; then nothing else may be added.
    ///
    /// # Errors
    /// If it has.
    pub fn on_path(&mut self, now: Instant, host: HostId, figures: PathFigures) -> Result<(), BrokenLaw> {
        let PathFigures { path, in_flight, window, datagram, .. } = figures;
        let new = Flying { in_flight: ByteCount::ZERO, window, ceiling: window, datagram };
        let before = self.flights.get(&(host, path)).copied().unwrap_or(new);
        // Since the last call the window may have been the old or the new one.
        let excess = before.ceiling.min(before.in_flight);
        let allowed = before.window.max(window).max(excess);
        let largest = if in_flight > allowed { datagram.max(before.datagram) } else { datagram };
        let flying = Flying { in_flight, window, ceiling: window.max(excess), datagram: largest };
        self.flights.insert((host, path), flying);
        let probes = largest * self.limits.probes;
        if in_flight > before.in_flight && in_flight > allowed + probes {
            let before = (before.in_flight, before.window);
            return Err(self.broken(now, Law::Window { host, path, in_flight, window, before }));
        }
        Ok(())
    }
}
