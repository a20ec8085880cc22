//! The results of a run, measured in the same way for every contender: at the receiving application.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_proto::{ByteCount, Rate, TargetReport};
use manyway_sim::pair::Side;
use serde::{Deserialize, Serialize};

/// The results of one run of a contender in a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Arrived data, for each direction of each entry of the scenario's traffic, in that order (up before down).
    pub flows: Vec<Flow>,
    /// Data delivered by each route, in the order of the scenario, in IP packets and bytes.
    pub routes: Vec<RouteTotals>,
    /// What arrived of each entry of the scenario's traffic of others, in that order: payload, each flow as a parallel
    /// connection.
    pub cross: Vec<Arrivals>,
    /// Delivery to the receiving applications; `None` on real sockets, where it is not observable but in a program that puts
    /// bytes into order itself.
    pub delivery: Option<Delivery>,
    /// Processor time of the process at each end, user and system. What the system does for a host on the arrival of a
    /// packet is accounted to no process: most of TCP, nothing of a protocol in user space.
    pub cpu: Option<CpuTime>,
    /// When each end of the connection gave it up, from the start of the traffic, the client first; empty where that is
    /// not expected, or not observable.
    pub ended: Vec<Duration>,
    /// What receivers did to hold target rates, in the order of time.
    pub control: Vec<Control>,
    /// What set-up took; `None` where several contenders run at the same time.
    pub set_up: Option<SetUp>,
    /// What programs of others told of the run, and the log of Manyway beside them, by name: numbers for experiments.
    pub told: BTreeMap<&'static str, f64>,
    /// Why the contender failed.
    pub failure: Option<String>,
    /// Remarks for the reader of the figures, such as a subflow without data or a disturbed machine.
    pub remarks: Vec<String>,
}

/// The data that one application sent to the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The receiver.
    pub receiver: Side,
    /// Arrivals over time; time 0 is the start of the traffic, as for the scenario's events.
    pub arrivals: Arrivals,
    /// Latency of each message in order of arrival, if these were messages.
    pub latencies: Option<Vec<Duration>>,
    /// Messages that were sent but did not arrive by the end.
    pub missing: u64,
    /// Messages that arrived after one that was sent later.
    pub overtaken: u64,
}

/// Data delivered by a route.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RouteTotals {
    /// From client to server.
    pub up: Arrivals,
    /// From server to client.
    pub down: Arrivals,
    /// Packets dropped by its links, both ways, for any reason.
    pub dropped: u64,
}

/// Delivery to the receiving applications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivery {
    /// Most bytes that waited at a receiver for earlier ones.
    pub most_held: ByteCount,
    /// Time from the first sending of a byte until it and all before it had arrived, of one byte in 16 KiB, in the order of
    /// their arrival.
    pub delays: Vec<Duration>,
    /// Bytes that both receivers discarded, since they had arrived before.
    pub discarded: ByteCount,
}

/// A step of a receiver towards its target rate, once in each interval of its control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// When, from the start of the traffic.
    pub at: Duration,
    /// The moving average of the rate of payload, in bits a second.
    pub rate: u64,
    /// The sum of all receive windows in bytes.
    pub window: u64,
    /// Wanted TCP connections on each interface that uses TCP.
    pub connections: u8,
}

impl Control {
    /// A report of a receiver at a time from the start of the traffic.
    pub fn new(at: Duration, report: &TargetReport) -> Self {
        Self {
            at,
            rate: report.mean.bits_per_second(),
            window: report.window.get(),
            connections: report.connections,
        }
    }
}

/// What set-up took: the handshake, the choice of address pairs, and the paths over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetUp {
    /// Time until every expected path carried data; on real sockets with the first words over each stream.
    pub took: Duration,
    /// IP packets that arrived at either end until then.
    pub packets: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Memory in which the client keeps its measurements of address pairs; in virtual time alone.
    pub memory: Option<ByteCount>,
}

/// Processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuTime {
    /// At the client.
    pub client: Duration,
    /// At the server.
    pub server: Duration,
}

/// Bytes over time at one place.
///
/// ```
/// use manyway_lab::outcome::Arrivals;
/// use manyway_proto::Rate;
/// use std::time::Duration;
/// let mut arrivals = Arrivals::default();
/// for millis in [0, 50, 100, 300] {
///     arrivals.record(Duration::from_millis(millis), 1_000);
/// }
/// assert_eq!(arrivals.goodput(), Rate::from_bytes_per_second(4_000 * 1_000 / 300));
/// assert_eq!(arrivals.longest_silence().unwrap().length, Duration::from_millis(200));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arrivals {
    /// Bytes in each [`Self::BIN`] from time 0.
    bins: Vec<u64>,
    bytes: u64,
    last: Option<Duration>,
    /// Parallel connections, or the only one.
    lanes: Vec<Lane>,
    /// Times of [`Self::NOTABLE`] or more without a byte, between two bytes.
    silences: Vec<Silence>,
}

/// Arrived data of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Lane {
    number: usize,
    bytes: u64,
    first: Duration,
    last: Duration,
}

impl Lane {
    /// Its bytes over the time from the first to the last, or to `end` if there is one.
    fn goodput(&self, end: Option<Duration>) -> Rate {
        let time = end.unwrap_or(self.last).saturating_sub(self.first);
        if time.is_zero() { Rate::ZERO } else { ByteCount(self.bytes).per(time) }
    }
}

/// A time without a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// When it began.
    pub from: Duration,
    /// How long it lasted.
    pub length: Duration,
}

impl Arrivals {
    /// Time that one entry of [`Self::bins`] covers.
    pub const BIN: Duration = Duration::from_millis(10);
    /// Times without a byte from this length on are recorded.
    pub const NOTABLE: Duration = Duration::from_millis(5);
    /// Most recorded silences; of more, the longest.
    const MOST_SILENCES: usize = 4096;
    /// Arrivals later than this many bins are counted in the totals alone.
    const MOST_BINS: usize = 1 << 20;

    /// Adds bytes at a moment, not before those added earlier.
    pub fn record(&mut self, at: Duration, bytes: u64) {
        self.record_on(0, at, bytes);
    }

    /// The same for one of several parallel connections.
    pub fn record_on(&mut self, lane: usize, at: Duration, bytes: u64) {
        let place = usize::try_from(at.as_nanos() / Self::BIN.as_nanos()).unwrap_or(usize::MAX);
        if place < Self::MOST_BINS && place >= self.bins.len() {
            self.bins.resize(place + 1, 0);
        }
        if let Some(bin) = self.bins.get_mut(place) {
            *bin += bytes;
        }
        self.bytes += bytes;
        match self.lanes.iter_mut().find(|known| known.number == lane) {
            Some(known) => {
                known.bytes += bytes;
                known.last = at;
            }
            None => self.lanes.push(Lane { number: lane, bytes, first: at, last: at }),
        }
        let silence = self.last.map(|last| Silence { from: last, length: at.saturating_sub(last) });
        if let Some(silence) = silence.filter(|silence| silence.length >= Self::NOTABLE) {
            self.keep(silence);
        }
        self.last = Some(at);
    }

    fn keep(&mut self, silence: Silence) {
        if self.silences.len() < Self::MOST_SILENCES {
            return self.silences.push(silence);
        }
        if let Some(least) = self.silences.iter_mut().min_by_key(|kept| kept.length)
            && least.length < silence.length
        {
            *least = silence;
            self.silences.sort_by_key(|kept| kept.from);
        }
    }

    /// Bytes in each [`Self::BIN`] from time 0 to the last byte.
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// All bytes.
    pub fn total(&self) -> ByteCount {
        ByteCount(self.bytes)
    }

    /// The moments of the first and the last byte.
    pub fn span(&self) -> Option<(Duration, Duration)> {
        self.lanes.iter().map(|lane| lane.first).min().zip(self.last)
    }

    /// All bytes over the time from the first to the last. Each parallel connection has its own time, and the rates are
    /// added up: data in the buffers of one of them when the others are done says nothing about these.
    pub fn goodput(&self) -> Rate {
        self.lanes.iter().map(|lane| lane.goodput(None)).sum()
    }

    /// The same, but a connection that falls silent for longer than `patience` before `end` counts until `end`.
    pub fn goodput_to(&self, end: Duration, patience: Duration) -> Rate {
        let stalled = |lane: &Lane| lane.last.saturating_add(patience) < end;
        self.lanes.iter().map(|lane| lane.goodput(stalled(lane).then_some(end))).sum()
    }

    /// The bytes of each parallel connection that delivered any.
    pub fn of_lanes(&self) -> impl Iterator<Item = ByteCount> + '_ {
        self.lanes.iter().map(|lane| ByteCount(lane.bytes))
    }

    /// The longest time without a byte between two bytes, of [`Self::NOTABLE`] or more.
    pub fn longest_silence(&self) -> Option<Silence> {
        self.silences.iter().copied().max_by_key(|silence| silence.length)
    }

    /// Times without a byte, in order.
    pub fn silences(&self) -> &[Silence] {
        &self.silences
    }

    /// The bytes of several in each [`Self::BIN`].
    pub(crate) fn summed<'a>(several: impl Iterator<Item = &'a Self>) -> Vec<u64> {
        let mut sum: Vec<u64> = Vec::new();
        for bins in several.map(Self::bins) {
            sum.resize(sum.len().max(bins.len()), 0);
            sum.iter_mut().zip(bins).for_each(|(sum, bytes)| *sum += bytes);
        }
        sum
    }

    /// The mean rate between two moments, both rounded down to whole bins.
    pub fn rate(&self, from: Duration, to: Duration) -> Rate {
        let place =
            |at: Duration| usize::try_from(at.as_nanos() / Self::BIN.as_nanos()).unwrap_or(usize::MAX);
        let (first, end) = (place(from), place(to));
        let count = end.saturating_sub(first);
        let bytes: u64 = self.bins.iter().skip(first).take(count).sum();
        let bins = u32::try_from(count).unwrap_or(u32::MAX);
        if bins == 0 { Rate::ZERO } else { ByteCount(bytes).per(Self::BIN.saturating_mul(bins)) }
    }

    /// Delay from `from` until the rate over a `window` first reached `rate`; `None` if never.
    ///
    /// The delay is measured to the end of that window, so it is at least `window`.
    pub fn reaches(&self, from: Duration, rate: Rate, window: Duration) -> Option<Duration> {
        let mut start = from;
        let end = self.last?;
        while start + window <= end {
            if self.rate(start, start + window) >= rate {
                return Some((start + window).saturating_sub(from));
            }
            start += Self::BIN;
        }
        None
    }
}
