//! The account of a run: what one end did beside receiving.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use manyway_session::{Transport, TransportFacts};
use tokio::time::Instant;

use crate::codec::{CodecError, Fields, put_text};

use super::request::micros;

/// The account of one end for a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BenchAccount {
    /// Bytes that it wrote to its bench streams, without the omitted beginning. Some of the last may not have arrived.
    pub bytes_sent: u64,
    /// Processor time of its whole process; zero where the system does not report it.
    pub cpu: Duration,
    /// The longest time without a byte on any of the streams that it measured; zero if it measured none.
    pub longest_stall: Duration,
    /// Packets and congestion control; zero and empty if its transport does not report them.
    pub transport: TransportFacts,
}

impl BenchAccount {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for value in [
            self.bytes_sent,
            micros(self.cpu),
            micros(self.longest_stall),
            self.transport.packets_sent,
            self.transport.packets_lost,
        ] {
            out.extend_from_slice(&value.to_be_bytes());
        }
        put_text(out, crate::codec::cut(&self.transport.congestion, MAX_NAME));
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            bytes_sent: fields.u64("bytes sent")?,
            cpu: Duration::from_micros(fields.u64("processor time")?),
            longest_stall: Duration::from_micros(fields.u64("silence")?),
            transport: TransportFacts {
                packets_sent: fields.u64("packets sent")?,
                packets_lost: fields.u64("packets lost")?,
                congestion: fields.text("congestion control", MAX_NAME)?.to_owned(),
            },
        })
    }
}

/// The figures, or the defaults if the transport reports none.
pub(crate) async fn facts_of(transport: Option<&dyn Transport>) -> TransportFacts {
    match transport {
        Some(transport) => transport.facts().await.unwrap_or_default(),
        None => TransportFacts::default(),
    }
}

const MAX_NAME: usize = 64;

/// Adds up what the bench streams of one connection do at one end, and holds the clock of their run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    sent: AtomicU64,
    silence: Mutex<Silence>,
    clock: Mutex<Clock>,
}

/// When the streams of a run begin to count.
#[derive(Debug, Clone, Copy, Default)]
enum Clock {
    /// No account is open: each stream has its own clock.
    #[default]
    None,
    /// The first stream of the run starts it.
    Ready,
    Running(Instant),
}

#[derive(Debug, Default)]
struct Silence {
    since: Option<Instant>,
    longest: Duration,
}

impl Tally {
    pub(crate) fn on_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the start of the run's clock to a stream that begins to count; the first one starts the clock.
    // transfer 6.4
    pub(crate) fn start_clock(&self) -> Instant {
        let now = Instant::now();
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        match *clock {
            Clock::None => now,
            Clock::Ready => {
                *clock = Clock::Running(now);
                now
            }
            Clock::Running(began) => began,
        }
    }

    fn set_clock(&self, to: Clock) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Records an arrival, or the start or end of a stream's measurement.
    pub(crate) fn on_sign(&self, now: Instant) {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        // A stream that starts late reports the start of the clock, which lies before the last arrival.
        let since = silence.since.map_or(now, |since| since.max(now));
        if let Some(before) = silence.since.replace(since) {
            silence.longest = silence.longest.max(since.saturating_duration_since(before));
        }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Takes the longest stall since the last call and restarts the measurement.
    pub(crate) fn take_silence(&self) -> Duration {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *silence).longest
    }
}

/// A run as one end sees it, from its creation on.
#[derive(Debug)]
pub(crate) struct Bookkeeping<'a> {
    tally: &'a Tally,
    sent: u64,
    cpu: Option<Duration>,
    transport: TransportFacts,
}

impl<'a> Bookkeeping<'a> {
    pub(crate) fn start(tally: &'a Tally, transport: TransportFacts) -> Self {
        tally.take_silence();
        tally.set_clock(Clock::Ready);
        Self { tally, sent: tally.sent(), cpu: processor_time(), transport }
    }

    pub(crate) fn finish(self, transport: TransportFacts) -> BenchAccount {
        self.tally.set_clock(Clock::None);
        let cpu = processor_time().zip(self.cpu).map(|(after, before)| after.saturating_sub(before));
        BenchAccount {
            bytes_sent: self.tally.sent().saturating_sub(self.sent),
            cpu: cpu.unwrap_or_default(),
            longest_stall: self.tally.take_silence(),
            transport: TransportFacts {
                packets_sent: transport.packets_sent.saturating_sub(self.transport.packets_sent),
                packets_lost: transport.packets_lost.saturating_sub(self.transport.packets_lost),
                congestion: transport.congestion,
            },
        }
    }
}

/// The processor time of this process so far.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silence_is_that_of_all_streams_together() {
        let tally = Tally::default();
        let book = Bookkeeping::start(&tally, TransportFacts::default());
        for wait in [0, 30, 50, 20] {
            tokio::time::advance(Duration::from_millis(wait)).await;
            tally.on_sign(Instant::now());
        }
        tally.on_sent(700);
        let account = book.finish(TransportFacts { packets_sent: 7, ..TransportFacts::default() });
        assert_eq!((account.longest_stall.as_millis(), account.bytes_sent), (50, 700));
        assert_eq!(account.transport.packets_sent, 7);
        let next = Bookkeeping::start(&tally, account.transport).finish(TransportFacts::default());
        assert_eq!((next.longest_stall, next.bytes_sent), (Duration::ZERO, 0));
    }
}
