//! The figures of a run: what is compared and reported, drawn from its [`Outcome`].

mod cross;
mod flows;
mod recovery;
mod spread;
#[cfg(test)]
mod tests;

use std::time::Duration;

use manyway_proto::{ByteCount, Rate};

pub use cross::CrossFigures;
pub(crate) use flows::{Counted, counted, of_entry, silence_of};
pub use recovery::{Fault, Recovery, recoveries};
pub use spread::Spread;

use crate::outcome::{CpuTime, Delivery, Flow, Outcome};
use crate::scenario::Scenario;

/// The figures of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// Bulk data at the receiving applications, from first to last byte, all flows together; messages if there is no
    /// bulk traffic. A connection that fell silent for longer than [`Self::STALLED`] before the end is counted until
    /// the end.
    pub goodput: Rate,
    /// The same for the slowest of these flows.
    pub slowest: Rate,
    /// All of it.
    pub bytes: ByteCount,
    /// The longest time without a byte between the first and the last, or until the end for a flow that fell silent.
    pub silence: Duration,
    /// Time until every expected path carried data; `None` where several contenders ran at the same time.
    pub set_up: Option<Duration>,
    /// Events of routes, and the reaction of the traffic.
    pub recoveries: Vec<Recovery>,
    /// Delivery to the receiving applications; `None` on real sockets.
    pub delivery: Option<DeliveryFigures>,
    /// Processor time of the process at each end.
    pub cpu: Option<CpuTime>,
    /// The messages, if there were any.
    pub messages: Option<MessageFigures>,
    /// Each entry of the traffic of others.
    pub cross: Vec<CrossFigures>,
    /// Bytes that each route delivered, both ways, in the order of the scenario.
    pub routes: Vec<ByteCount>,
    /// Packets that links dropped.
    pub dropped: u64,
}

/// Delivery to the receiving applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryFigures {
    /// Most bytes that waited at a receiver for earlier ones.
    pub most_held: ByteCount,
    /// Time from the first sending of a byte until it and all before it had arrived: median. `None` if it was not
    /// measured.
    pub median: Option<Duration>,
    /// 95th percentile.
    pub p95: Option<Duration>,
}

/// Figures of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFigures {
    /// How many arrived.
    pub arrived: u64,
    /// How many did not.
    pub missing: u64,
    /// Median latency of those sent; `None` if it never arrived.
    pub median: Option<Duration>,
    /// 99th percentile of those sent; `None` if it never arrived.
    pub p99: Option<Duration>,
    /// 99.9th percentile of those sent; `None` if it never arrived.
    pub p999: Option<Duration>,
}

impl Measures {
    /// A flow that ends this long before the run has not ended but stalled.
    pub const STALLED: Duration = flows::STALLED;

    /// Computes the figures of an outcome.
    pub fn of(scenario: &Scenario, outcome: &Outcome) -> Self {
        let flows = counted(scenario, outcome);
        let end = |counted: &Counted<'_>| stalled_until(scenario, counted);
        Self {
            goodput: flows.iter().map(|one| goodput(scenario, one)).sum(),
            slowest: flows.iter().map(|one| goodput(scenario, one)).min().unwrap_or_default(),
            bytes: flows.iter().map(|one| one.flow.arrivals.total()).sum(),
            silence: flows.iter().map(|one| silence(one.flow, end(one))).max().unwrap_or_default(),
            set_up: outcome.set_up.map(|set_up| set_up.took),
            recoveries: recoveries(scenario, outcome),
            delivery: outcome.delivery.as_ref().map(DeliveryFigures::of),
            cpu: outcome.cpu,
            messages: MessageFigures::of(outcome),
            cross: cross::figures(scenario, outcome),
            routes: outcome.routes.iter().map(|route| route.up.total() + route.down.total()).collect(),
            dropped: outcome.routes.iter().map(|route| route.dropped).sum(),
        }
    }

    /// Processor seconds of both ends for each 10⁹ bytes that arrived.
    pub fn cpu_per_gigabyte(&self) -> Option<f64> {
        let cpu = self.cpu.filter(|_| self.bytes > ByteCount::ZERO)?;
        Some((cpu.client + cpu.server).as_secs_f64() / (count(self.bytes.get()) / 1e9))
    }

    /// The goodput in Mbit/s.
    pub fn megabits(&self) -> f64 {
        megabits(self.goodput)
    }

    /// How long set-up took, in seconds.
    pub fn set_up_seconds(&self) -> Option<f64> {
        Some(self.set_up?.as_secs_f64())
    }

    /// The longest time from the return of a route until it was used again, in seconds; infinite if it never was,
    /// `None` if no return was long enough to judge.
    pub fn used_again(&self) -> Option<f64> {
        let times = self.returns().filter(|returned| returned.tells_use()).map(|returned| returned.used);
        times.map(|time| time.map_or(f64::INFINITY, |time| time.as_secs_f64())).reduce(f64::max)
    }

    /// The longest time from the return of a route, if it was long enough to judge, until it carried 90 % of its rate,
    /// in seconds; infinite if it never did, `None` if none returned.
    pub fn restored(&self) -> Option<f64> {
        let stayed = self.returns().filter(|returned| returned.stayed >= Recovery::LEAST);
        let times = stayed.map(|returned| returned.restored.map_or(f64::INFINITY, |time| time.as_secs_f64()));
        times.reduce(f64::max)
    }

    /// Number of returns of routes that were too short to judge, and number of all returns.
    pub fn untold_returns(&self) -> (usize, usize) {
        (self.returns().filter(|returned| !returned.tells_use()).count(), self.returns().count())
    }

    fn returns(&self) -> impl Iterator<Item = &Recovery> {
        self.recoveries.iter().filter(|recovery| recovery.fault == Fault::Returned && recovery.is_filled)
    }

    /// The longest time after a route was lost until the survivors were fully used, and after one returned until all
    /// were, in seconds; infinite if that never happened, `None` if no route had an event.
    pub fn recovery(&self) -> Option<f64> {
        self.recovery_where(|_| true)
    }

    /// The same after events of one kind only.
    pub fn recovery_from(&self, fault: Fault) -> Option<f64> {
        self.recovery_where(|recovery| recovery.fault == fault)
    }

    fn recovery_where(&self, is_meant: impl Fn(&Recovery) -> bool) -> Option<f64> {
        let watched = self.recoveries.iter().filter(|recovery| recovery.is_judged() && is_meant(recovery));
        watched
            .map(|recovery| recovery.full.map_or(f64::INFINITY, |time| time.as_secs_f64()))
            .reduce(f64::max)
    }
}

impl DeliveryFigures {
    fn of(delivery: &Delivery) -> Self {
        let mut delays = delivery.delays.clone();
        delays.sort_unstable();
        let kept = |percent: usize| {
            let place = (delays.len() * percent).div_ceil(100).saturating_sub(1);
            delays.get(place).copied()
        };
        Self { most_held: delivery.most_held, median: kept(50), p95: kept(95) }
    }
}

impl MessageFigures {
    fn of(outcome: &Outcome) -> Option<Self> {
        let mut latencies: Vec<Duration> = Vec::new();
        let (mut missing, mut any) = (0, false);
        for flow in &outcome.flows {
            if let Some(own) = &flow.latencies {
                latencies.extend(own);
                missing += flow.missing;
                any = true;
            }
        }
        latencies.sort_unstable();
        let arrived = u64::try_from(latencies.len()).unwrap_or(u64::MAX);
        // The message with this share of all at or before it; missing ones are at the end.
        let kept = |permille: u64| {
            let place = ((arrived + missing) * permille).div_ceil(1_000).saturating_sub(1);
            latencies.get(usize::try_from(place).unwrap_or(usize::MAX)).copied()
        };
        any.then(|| Self { arrived, missing, median: kept(500), p99: kept(990), p999: kept(999) })
    }
}

/// A rate as a number of Mbit/s.
pub fn megabits(rate: Rate) -> f64 {
    count(rate.bits_per_second()) / 1e6
}

/// A number for division.
#[expect(clippy::as_conversions, reason = "beyond 2^53 the last digits do not matter")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// The end of the run, for a flow that should have gone on until then and did not.
fn stalled_until(scenario: &Scenario, counted: &Counted<'_>) -> Option<Duration> {
    let last = counted.flow.arrivals.span().map_or(Duration::ZERO, |(_, last)| last);
    let is_early = last.saturating_add(Measures::STALLED) < scenario.duration;
    (is_early && counted.lasts).then_some(scenario.duration)
}

fn goodput(scenario: &Scenario, counted: &Counted<'_>) -> Rate {
    let arrivals = &counted.flow.arrivals;
    if counted.lasts { arrivals.goodput_to(scenario.duration, Measures::STALLED) } else { arrivals.goodput() }
}

fn silence(flow: &Flow, stalled_until: Option<Duration>) -> Duration {
    let last = flow.arrivals.span().map_or(Duration::ZERO, |(_, last)| last);
    let tail = stalled_until.map_or(Duration::ZERO, |end| end.saturating_sub(last));
    flow.arrivals.longest_silence().map_or(tail, |silence| silence.length.max(tail))
}
