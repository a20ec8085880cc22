//! Records what happened: the last events, a digest of all of them, and figures over time.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{ByteCount, FourTuple, Instant, Rate};

use crate::ids::HostId;

/// An event at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Instant,
    /// Where.
    pub host: HostId,
    /// What.
    pub what: What,
    /// Bytes of the datagram.
    pub size: usize,
}

/// What happened at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// It sent a datagram.
    Sent {
        /// From where to where.
        tuple: FourTuple,
    },
    /// Its system refused to send a datagram.
    Refused {
        /// From where to where.
        tuple: FourTuple,
    },
    /// It received a datagram.
    Received {
        /// As the host sees it.
        tuple: FourTuple,
    },
    /// A timer fired.
    Timeout,
}

/// The last events and a digest of all events: two runs that agree in it did the same.
#[derive(Debug)]
pub struct Record {
    entries: VecDeque<Entry>,
    keep: usize,
    digest: u64,
}

impl Default for Record {
    /// Keeps the last 200 events.
    fn default() -> Self {
        Self { entries: VecDeque::new(), keep: 200, digest: 0xCBF2_9CE4_8422_2325 }
    }
}

impl Record {
    /// Sets how many events are kept.
    pub fn keep(&mut self, entries: usize) {
        self.keep = entries;
        while self.entries.len() > entries {
            self.entries.pop_front();
        }
    }

    /// The last events, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// A number that depends on every event so far: time, host, kind, addresses and size. Not on content, since the TLS
    /// library draws its keys and they differ from run to run; sizes and times do not.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn note(&mut self, at: Instant, host: HostId, what: What, size: usize) {
        self.mix(at.as_nanos());
        self.mix(host.0 as u64);
        match what {
            What::Sent { tuple } => self.mix_tuple(1, tuple),
            What::Refused { tuple } => self.mix_tuple(2, tuple),
            What::Received { tuple } => self.mix_tuple(3, tuple),
            What::Timeout => self.mix(4),
        }
        self.mix(size as u64);
        if self.entries.len() >= self.keep {
            self.entries.pop_front();
        }
        if self.keep > 0 {
            self.entries.push_back(Entry { at, host, what, size });
        }
    }

    fn mix_tuple(&mut self, kind: u64, tuple: FourTuple) {
        self.mix(kind);
        self.mix(u64::from(tuple.local.interface));
        for address in [tuple.local.address, tuple.remote] {
            self.mix(u64::from(address.port()));
            let bits = match address.ip() {
                IpAddr::V4(v4) => u128::from(v4.to_bits()),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            self.mix(u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0));
            self.mix(u64::try_from(bits >> 64).unwrap_or(0));
        }
    }

    /// FNV-1a on whole words, with a shift so that high bits reach low ones.
    fn mix(&mut self, word: u64) {
        let mixed = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3);
        self.digest = mixed ^ (mixed >> 29);
    }
}

/// Bytes over time at one place, in bins of equal length, with the longest silence.
///
/// ```
/// use manyway_proto::{ByteCount, Instant, Rate};
/// use manyway_sim::Series;
/// use std::time::Duration;
/// let start = Instant::from_nanos(0);
/// let mut series = Series::new(start, Duration::from_millis(100));
/// for millis in [0, 50, 100, 300] {
///     series.add(start + Duration::from_millis(millis), 1_000);
/// }
/// assert_eq!(series.total(), ByteCount(4_000));
/// assert_eq!(series.longest_silence(), Duration::from_millis(200));
/// assert_eq!(series.rate(start, start + Duration::from_millis(200)), Rate::from_bytes_per_second(15_000));
/// ```
#[derive(Debug, Clone)]
pub struct Series {
    start: Instant,
    bin: Duration,
    bins: Vec<u64>,
    total: u64,
    first: Option<Instant>,
    last: Option<Instant>,
    longest_silence: Duration,
    /// When the longest silence began.
    silent_from: Option<Instant>,
}

impl Series {
    /// Makes an empty series; a bin of zero counts as a millisecond.
    pub fn new(start: Instant, bin: Duration) -> Self {
        let bin = if bin.is_zero() { Duration::from_millis(1) } else { bin };
        Self {
            start,
            bin,
            bins: Vec::new(),
            total: 0,
            first: None,
            last: None,
            longest_silence: Duration::ZERO,
            silent_from: None,
        }
    }

    /// Adds bytes at a moment, not before those added earlier.
    pub fn add(&mut self, now: Instant, bytes: usize) {
        let bytes = bytes as u64;
        let place =
            usize::try_from((now - self.start).as_nanos() / self.bin.as_nanos()).unwrap_or(usize::MAX);
        if place < MOST_BINS && place >= self.bins.len() {
            self.bins.resize(place + 1, 0);
        }
        if let Some(bin) = self.bins.get_mut(place) {
            *bin += bytes;
        }
        self.total += bytes;
        self.first.get_or_insert(now);
        if let Some(last) = self.last.filter(|last| now - *last > self.longest_silence) {
            self.longest_silence = now - last;
            self.silent_from = Some(last);
        }
        self.last = Some(now);
    }

    /// All bytes.
    pub fn total(&self) -> ByteCount {
        ByteCount(self.total)
    }

    /// The first and the last moment with bytes.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        self.first.zip(self.last)
    }

    /// The longest time between two arrivals.
    pub fn longest_silence(&self) -> Duration {
        self.longest_silence
    }

    /// When the longest silence began.
    pub fn longest_silence_from(&self) -> Option<Instant> {
        self.silent_from
    }

    /// All bytes over the time from the first to the last arrival.
    pub fn goodput(&self) -> Rate {
        self.span().map_or(Rate::ZERO, |(first, last)| self.total().per(last - first))
    }

    /// The mean rate between two moments, both rounded down to whole bins.
    pub fn rate(&self, from: Instant, to: Instant) -> Rate {
        let place = |moment: Instant| {
            usize::try_from((moment - self.start).as_nanos() / self.bin.as_nanos()).unwrap_or(usize::MAX)
        };
        let (first, end) = (place(from), place(to));
        let bytes: u64 = self.bins.iter().skip(first).take(end.saturating_sub(first)).sum();
        let bins = u32::try_from(end.saturating_sub(first)).unwrap_or(u32::MAX);
        if bins == 0 { Rate::ZERO } else { ByteCount(bytes).per(self.bin.saturating_mul(bins)) }
    }

    /// The rate in each bin, with the time at which the bin begins, counted from the start.
    pub fn rates(&self) -> impl Iterator<Item = (Duration, Rate)> + '_ {
        (0..)
            .zip(&self.bins)
            .map(|(number, bytes)| (self.bin.saturating_mul(number), ByteCount(*bytes).per(self.bin)))
    }

    /// When bytes came again at or after a moment.
    pub fn first_bin_with_bytes_after(&self, moment: Instant) -> Option<Instant> {
        (0..)
            .zip(&self.bins)
            .map(|(number, bytes)| (self.start + self.bin.saturating_mul(number), *bytes))
            .find(|(start, bytes)| *start >= moment && *bytes > 0)
            .map(|(start, _)| start)
    }
}

/// A series is not extended beyond this number of bins; the total still is.
const MOST_BINS: usize = 1 << 22;
