//! Laws that hold in every world at any time, checked after each step.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, PathId, StreamId, Transmit};

use crate::clock::Clock;
use crate::ids::HostId;
use crate::network::NetworkCounters;

/// A violated law, with what is needed to reproduce it.
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

/// The laws, each with the facts of its violation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Law {
    /// Time goes on: the number of events at one instant is limited.
    BusyLoop {
        /// Events at this instant.
        events: u32,
    },
    /// A machine sends a bounded number of datagrams at one instant.
    EndlessTransmission {
        /// The sender.
        host: HostId,
        /// Datagrams at this instant.
        datagrams: u32,
    },
    /// A deadline is in the future once its timer has fired and everything was sent.
    DeadlineInThePast {
        /// The owner.
        host: HostId,
        /// The deadline.
        deadline: Instant,
    },
    /// A transmission is exactly the content of the buffer, in non-empty segments.
    Segments {
        /// The sender.
        host: HostId,
        /// The transmission.
        transmit: Transmit,
        /// Bytes in the buffer.
        buffer: usize,
    },
    /// Every packet is accounted for.
    NetworkBooks {
        /// The counters that do not balance.
        counters: NetworkCounters,
    },
    /// The bytes in flight do not exceed the congestion window, but for a few probes.
    Window {
        /// The sender.
        host: HostId,
        /// On which path.
        path: PathId,
        /// Bytes in flight.
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

/// The limits of the laws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most events at one instant. Default 10 000.
    pub events: u32,
    /// Most datagrams that a host sends at one instant. Default 20 000.
    pub datagrams: u32,
    /// Longest run of deadlines in the past after timers have fired and everything was sent. Default 16.
    pub late_deadlines: u32,
    /// Datagrams that may exceed the window: tail probes, two at each timeout until an answer or death, and control
    /// blocks about paths. Default 20.
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
    /// Datagrams at this instant, by host.
    datagrams: BTreeMap<HostId, u32>,
    /// Successive deadlines in the past, by host.
    late: BTreeMap<HostId, u32>,
    flights: BTreeMap<(HostId, PathId), Flying>,
}

#[derive(Debug, Clone, Copy)]
struct Flying {
    in_flight: ByteCount,
    window: ByteCount,
    /// The limit of bytes in flight: the window, or what was in flight when it shrank, as far as that still holds.
    ceiling: ByteCount,
    /// The largest datagram: the current one, and that of probes that are still beyond the window.
    datagram: ByteCount,
}

impl Laws {
    /// Makes laws without any observation.
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

    /// Reports a violation found elsewhere.
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
            return Err(self.broken(now, Law::DeadlineInThePast { host, deadline }));
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

    /// Checks that a path has not sent beyond its window since the last call, but for a few probes. A window may shrink
    /// below what is in flight already; then nothing may be added.
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
