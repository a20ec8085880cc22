//! Departure times of packets: fixed rate, token bucket, or a recorded trace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rate};

/// How fast a link takes packets from its queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RateModel {
    /// At once; there is never a queue.
    #[default]
    Unlimited,
    /// This many bytes a second. [`Rate::ZERO`] holds every packet until the rate changes.
    Fixed(Rate),
    /// Packets leave at once while there are tokens (1 a byte), which are added at `rate` up to `burst`. A packet
    /// larger than `burst` waits until the bucket would hold its own size.
    TokenBucket {
        /// Tokens a second.
        rate: Rate,
        /// Most tokens kept.
        burst: ByteCount,
    },
    /// Packets leave at the times of a recording, which repeats itself.
    Trace(Arc<DeliveryTrace>),
}

impl RateModel {
    /// The long-term rate; [`Rate::MAX`] without a limit.
    pub fn nominal(&self) -> Rate {
        match self {
            Self::Unlimited => Rate::MAX,
            Self::Fixed(rate) | Self::TokenBucket { rate, .. } => *rate,
            Self::Trace(trace) => trace.mean_rate(),
        }
    }
}

/// A recording of delivery opportunities: at each time this many bytes may leave; unused ones are lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrace {
    moments: Vec<Duration>,
    period: Duration,
    bytes: ByteCount,
}

/// Why a recording cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no opportunity in it, or no bytes in an opportunity.
    Empty,
    /// It takes no time, so it cannot repeat.
    NoDuration,
    /// A time is before its predecessor or after the end.
    OutOfOrder {
        /// The index in the list, from 0.
        index: usize,
    },
    /// A line is not a number of milliseconds.
    NotANumber {
        /// The line, from 1.
        line: usize,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the trace holds no delivery opportunity"),
            Self::NoDuration => write!(f, "the trace takes no time"),
            Self::OutOfOrder { index } => write!(f, "opportunity {index} of the trace is out of order"),
            Self::NotANumber { line } => {
                write!(f, "line {line} of the trace is not a number of milliseconds")
            }
        }
    }
}

impl std::error::Error for TraceError {}

impl DeliveryTrace {
    /// Bytes in one opportunity of a mahimahi trace, IP header included.
    pub const MAHIMAHI_BYTES: ByteCount = ByteCount(1504);

    /// Makes a trace of `bytes` at each of the `moments` (rising, counted from the start), repeated every `period`.
    ///
    /// # Errors
    /// If it is empty, takes no time, or the times are not in order.
    pub fn new(moments: Vec<Duration>, period: Duration, bytes: ByteCount) -> Result<Self, TraceError> {
        if moments.is_empty() || bytes == ByteCount::ZERO {
            return Err(TraceError::Empty);
        }
        if period.is_zero() {
            return Err(TraceError::NoDuration);
        }
        let mut previous = Duration::ZERO;
        for (index, moment) in moments.iter().enumerate() {
            if *moment < previous || *moment > period {
                return Err(TraceError::OutOfOrder { index });
            }
            previous = *moment;
        }
        Ok(Self { moments, period, bytes })
    }

    /// Reads a trace in the format of mahimahi's `mm-link`: a line for each opportunity of 1504 bytes, its time in
    /// whole milliseconds; the last line is also the period. Empty lines are skipped.
    ///
    /// # Errors
    /// If a line is not a number, or as [`Self::new`].
    ///
    /// ```
    /// use manyway_sim::link::DeliveryTrace;
    /// let trace = DeliveryTrace::from_mahimahi("5\n10\n10\n").unwrap();
    /// assert_eq!(trace.mean_rate().bits_per_second(), 3 * 1504 * 8 * 100);
    /// ```
    pub fn from_mahimahi(text: &str) -> Result<Self, TraceError> {
        let mut moments = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let millis = line.parse().map_err(|_| TraceError::NotANumber { line: index + 1 })?;
            moments.push(Duration::from_millis(millis));
        }
        let period = moments.last().copied().ok_or(TraceError::Empty)?;
        Self::new(moments, period, Self::MAHIMAHI_BYTES)
    }

    /// The average rate of the trace.
    pub fn mean_rate(&self) -> Rate {
        (self.bytes * u64::try_from(self.moments.len()).unwrap_or(u64::MAX)).per(self.period)
    }

    /// The time of opportunity `number`, counted over all repetitions.
    fn moment(&self, number: u64) -> Duration {
        let count = self.moments.len() as u64;
        let (round, place) = (number / count, number % count);
        let place = usize::try_from(place).unwrap_or(0);
        let within = self.moments.get(place).copied().unwrap_or_default();
        times(self.period, round).saturating_add(within)
    }

    /// The number of the first opportunity at or after `time`.
    fn first_from(&self, time: Duration) -> u64 {
        let count = self.moments.len() as u64;
        let round = u64::try_from(time.as_nanos() / self.period.as_nanos()).unwrap_or(u64::MAX);
        // The last times of the round before may coincide with the start of this one.
        let base = round.saturating_sub(1);
        let within = time.saturating_sub(times(self.period, base));
        let early = self.moments.partition_point(|moment| *moment < within) as u64;
        if early < count {
            return base * count + early;
        }
        let within = time.saturating_sub(times(self.period, base + 1));
        (base + 1) * count + self.moments.partition_point(|moment| *moment < within) as u64
    }
}

fn times(period: Duration, count: u64) -> Duration {
    let nanos = period.as_nanos().saturating_mul(u128::from(count));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The server of a link's queue: one packet at a time.
#[derive(Debug)]
pub(super) struct Server {
    model: RateModel,
    /// Fractions of a nanosecond (in bytes × 10⁹ modulo the rate) that the previous packets have used but not yet paid.
    carry: u64,
    /// When the previous packet had left.
    free_at: Instant,
    /// When the token bucket is full again.
    full_at: Instant,
    /// The start of a trace.
    origin: Instant,
    /// The current opportunity of a trace and what is left of it.
    opportunity: u64,
    left: ByteCount,
}

impl Server {
    pub(super) fn new(now: Instant, model: RateModel) -> Self {
        let left = match &model {
            RateModel::Trace(trace) => trace.bytes,
            RateModel::Unlimited | RateModel::Fixed(_) | RateModel::TokenBucket { .. } => ByteCount::ZERO,
        };
        Self { model, carry: 0, free_at: now, full_at: now, origin: now, opportunity: 0, left }
    }

    /// When a packet of `size` that is started at `start` has left; `None` if it stays for ever.
    pub(super) fn finish(&mut self, start: Instant, size: ByteCount) -> Option<Instant> {
        let finish = match &self.model {
            RateModel::Unlimited => start,
            RateModel::Fixed(rate) => {
                if start > self.free_at {
                    self.carry = 0;
                }
                let (time, carry) = exact_time(size, *rate, self.carry)?;
                self.carry = carry;
                start + time
            }
            RateModel::TokenBucket { rate, burst } => {
                let (time, carry) = exact_time(size, *rate, self.carry)?;
                self.carry = carry;
                let depth = (*burst).max(size) / *rate;
                let finish = start.max(self.full_at + time - depth);
                self.full_at = self.full_at.max(finish) + time;
                finish
            }
            RateModel::Trace(trace) => {
                let trace = Arc::clone(trace);
                self.follow(&trace, start, size)
            }
        };
        self.free_at = finish;
        Some(finish)
    }

    fn follow(&mut self, trace: &DeliveryTrace, start: Instant, size: ByteCount) -> Instant {
        let since = start - self.origin;
        if trace.moment(self.opportunity) < since {
            self.opportunity = trace.first_from(since);
            self.left = trace.bytes;
        }
        let mut rest = size;
        while rest > self.left {
            rest -= self.left;
            self.opportunity += 1;
            self.left = trace.bytes;
        }
        self.left -= rest;
        self.origin + trace.moment(self.opportunity)
    }
}

/// The time of `size`, in whole nanoseconds, with the fraction carried on to the next packet, so that many small
/// packets keep the rate exactly. `None` if the rate is zero.
fn exact_time(size: ByteCount, rate: Rate, carry: u64) -> Option<(Duration, u64)> {
    let rate = rate.bytes_per_second();
    let work = size.get().checked_mul(1_000_000_000)?.checked_add(carry)?;
    Some((Duration::from_nanos(work.checked_div(rate)?), work.checked_rem(rate)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn trace(millis: &[u64], period: u64) -> RateModel {
        let moments = millis.iter().map(|m| Duration::from_millis(*m)).collect();
        RateModel::Trace(Arc::new(
            DeliveryTrace::new(moments, Duration::from_millis(period), ByteCount(1500)).unwrap(),
        ))
    }

    #[test]
    fn odd_rates_are_kept_to_the_nanosecond() {
        let rate = Rate::from_bytes_per_second(333_333_337);
        let mut server = Server::new(at(0), RateModel::Fixed(rate));
        let mut now = at(0);
        for _ in 0..1_000_000 {
            now = server.finish(now, ByteCount(77)).unwrap();
        }
        assert_eq!(now - at(0), ByteCount(77_000_000) / rate);
    }

    #[test]
    fn a_bucket_lets_its_burst_pass_at_once_and_then_keeps_the_rate() {
        let model =
            RateModel::TokenBucket { rate: Rate::from_bytes_per_second(1_000_000), burst: ByteCount(3_000) };
        let mut server = Server::new(at(0), model);
        let times: Vec<_> = (0..5).map(|_| server.finish(at(0), ByteCount(1_000)).unwrap()).collect();
        assert_eq!(times, [at(0), at(0), at(0), at(1), at(2)]);
        // After an idle time of 10 ms the bucket is full again, not fuller.
        let times: Vec<_> = (0..4).map(|_| server.finish(at(12), ByteCount(1_000)).unwrap()).collect();
        assert_eq!(times, [at(12), at(12), at(12), at(13)]);
    }

    #[test]
    fn a_packet_larger_than_the_bucket_still_passes() {
        let model =
            RateModel::TokenBucket { rate: Rate::from_bytes_per_second(1_000_000), burst: ByteCount(500) };
        let mut server = Server::new(at(0), model);
        assert_eq!(server.finish(at(0), ByteCount(1_000)), Some(at(0)));
        assert_eq!(server.finish(at(0), ByteCount(1_000)), Some(at(1)));
    }

    #[test]
    fn a_trace_is_followed_and_repeated() {
        let mut server = Server::new(at(0), trace(&[2, 5, 5], 10));
        let times: Vec<_> = (0..5).map(|_| server.finish(at(0), ByteCount(1500)).unwrap()).collect();
        assert_eq!(times, [at(2), at(5), at(5), at(12), at(15)]);
    }

    #[test]
    fn an_unused_opportunity_is_lost_and_a_used_one_is_shared() {
        let mut server = Server::new(at(0), trace(&[2, 5, 10], 10));
        assert_eq!(server.finish(at(3), ByteCount(700)), Some(at(5)));
        assert_eq!(server.finish(at(5), ByteCount(800)), Some(at(5)));
        // The next begins in the opportunity at 10 ms and ends in the one at 12 ms.
        assert_eq!(server.finish(at(5), ByteCount(2000)), Some(at(12)));
        assert_eq!(server.finish(at(10_000), ByteCount(1500)), Some(at(10_000)));
    }

    #[test]
    fn a_bad_trace_is_refused_with_its_position() {
        assert_eq!(DeliveryTrace::from_mahimahi(""), Err(TraceError::Empty));
        assert_eq!(DeliveryTrace::from_mahimahi("0\n0\n"), Err(TraceError::NoDuration));
        assert_eq!(DeliveryTrace::from_mahimahi("1\n\nx\n"), Err(TraceError::NotANumber { line: 3 }));
        assert_eq!(DeliveryTrace::from_mahimahi("1\n7\n5\n"), Err(TraceError::OutOfOrder { index: 1 }));
    }

    #[test]
    fn rate_zero_holds_a_packet_for_ever() {
        assert_eq!(Server::new(at(0), RateModel::Fixed(Rate::ZERO)).finish(at(0), ByteCount(1)), None);
    }
}
