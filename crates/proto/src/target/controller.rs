//! The two algorithms of MultiTCP, sections 6.3 to 6.5, with these readings of what the document leaves open:
//!
//! * The mean begins at the target: without congestion the first windows are right, and the first samples, which a slow
//!   start lowers, do not inflate them.
//! * "Increases by one" is meant in whole steps: n connections are right for a congestion ratio of n. Against the ratio of
//!   the last interval a slow rise would never count, and against that at the last change of the number a fast one would
//!   pass the congestion factor before there are enough.
//! * A connection ends at the earliest four intervals after the last change of their number, and after an end none is
//!   added for four intervals, so that each change shows its effect first.
//! * An interval without any data changes neither the mean nor the windows.
//! * Windows are counted in segments and never below one: TCP stalls below that.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_wire::PathId;

use super::{RateAlgorithm, TargetRate, TargetReport};
use crate::{ByteCount, Instant, Rate};

/// Round trips between two adjustments, if nothing else is wanted.
const ROUND_TRIPS: u32 = 8;
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const MOST_INTERVAL: Duration = Duration::from_secs(5);
/// Up to this congestion ratio there is no congestion: 1, and the rest of whole segments. In percent.
const UNCONGESTED: u64 = 125;
/// Least intervals between two changes of the number of connections, unless both add one.
const REST: u32 = 4;

/// Holds a target: a window for each path, and the number of connections.
#[derive(Debug)]
pub(crate) struct RateController {
    target: TargetRate,
    /// In segments.
    windows: BTreeMap<PathId, u64>,
    mean: Rate,
    connections: u8,
    /// Intervals until a connection may be added.
    no_more_for: u32,
    /// Intervals until one may end.
    no_fewer_for: u32,
    began_at: Instant,
    interval: Duration,
}

/// What was measured in an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub(crate) now: Instant,
    /// Payload that arrived since the last sample.
    pub(crate) payload: ByteCount,
    pub(crate) rtt: Duration,
    /// Payload of a full packet.
    pub(crate) segment: ByteCount,
    /// The paths in use.
    pub(crate) paths: &'a [PathId],
    /// How long nothing has arrived.
    pub(crate) silent_for: Duration,
}

impl RateController {
    pub(crate) fn new(target: TargetRate, now: Instant, rtt: Duration) -> Self {
        let connections = match target.algorithm {
            RateAlgorithm::Basic => target.connections,
            RateAlgorithm::Advanced => 1,
        };
        Self {
            target,
            windows: BTreeMap::new(),
            mean: target.rate,
            connections,
            no_more_for: 0,
            no_fewer_for: 0,
            began_at: now,
            interval: interval(&target, rtt),
        }
    }

    /// When the next sample is due.
    pub(crate) fn deadline(&self) -> Instant {
        self.began_at + self.interval
    }

    /// Wanted TCP connections on each interface that uses TCP.
    pub(crate) fn connections(&self) -> u8 {
        self.connections
    }

    /// The window of each path, in segments.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (PathId, u64)> {
        self.windows.iter().map(|(path, window)| (*path, *window))
    }

    /// The largest window that a path gets.
    pub(crate) fn most_receive_window(&self) -> ByteCount {
        self.target.most_receive_window.unwrap_or(ByteCount::MAX)
    }

    /// Changes the target. The windows change in proportion, and the mean begins at the new target.
    pub(crate) fn set_target(&mut self, target: TargetRate) {
        let (new, old) = (target.rate.bytes_per_second(), self.target.rate.bytes_per_second());
        let scaled = |window: u64| Rate::from_bytes_per_second(window).scaled(new, old).bytes_per_second();
        self.windows.values_mut().for_each(|window| *window = scaled(*window).max(1));
        self.connections = match target.algorithm {
            RateAlgorithm::Basic => target.connections,
            RateAlgorithm::Advanced => self.connections.min(target.connections),
        };
        (self.target, self.mean) = (target, target.rate);
    }

    /// The largest rate for each segment of a path's window, if a segment on each path in the shortest round trip is more
    /// than the target already (spec 6.93).
    pub(crate) fn rate_of_segment(
        &self,
        (rtt, shortest): (Duration, Duration),
        segment: ByteCount,
    ) -> Option<Rate> {
        let count = u64::try_from(self.windows.len()).unwrap_or(u64::MAX);
        let is_coarse = self.target.rate * shortest < segment * count;
        // Headers take a part of it.
        let most = self.target.rate + self.target.guard().scaled(1, 2);
        is_coarse.then(|| most.scaled(1, self.segments(rtt, segment).max(count)))
    }

    /// What the target needs without congestion.
    fn segments(&self, rtt: Duration, segment: ByteCount) -> u64 {
        (self.target.rate * rtt).get().div_ceil(segment.get().max(1))
    }

    /// Adopts the paths in use. The sum of the windows stays, if any path has one yet, and is divided anew.
    pub(crate) fn set_paths(&mut self, paths: &[PathId], rtt: Duration, segment: ByteCount) {
        if paths.iter().eq(self.windows.keys()) {
            return;
        }
        let sum = if self.windows.is_empty() { self.segments(rtt, segment) } else { self.sum() };
        let count = u64::try_from(paths.len()).unwrap_or(u64::MAX).max(1);
        let (each, rest) = (sum / count, sum % count);
        let place = |(at, path): (u64, &PathId)| (*path, (each + u64::from(at < rest)).max(1));
        self.windows = (0..).zip(paths).map(place).collect();
    }

    /// Ends an interval: measures, adjusts, and begins the next one.
    pub(crate) fn on_sample(&mut self, sample: &Sample<'_>) -> TargetReport {
        let nominal = self.target.rate * sample.rtt;
        self.set_paths(sample.paths, sample.rtt, sample.segment);
        let elapsed = (sample.now - self.began_at).max(Duration::from_millis(1));
        let measured = sample.payload.per(elapsed);
        // Without any data the sender is idle or the network dead: larger windows would be of no use now, and too large
        // later.
        let has_data = sample.payload > ByteCount::ZERO;
        if has_data {
            let old = u64::from(self.target.smoothing);
            self.mean = self.mean.scaled(old, 100) + measured.scaled(100 - old, 100);
        }
        if self.target.algorithm == RateAlgorithm::Advanced {
            self.review_connections(sample, nominal);
        }
        if has_data {
            self.adjust(sample, nominal);
        }
        (self.began_at, self.interval) = (sample.now, interval(&self.target, sample.rtt));
        TargetReport {
            target: self.target.rate,
            interval: elapsed,
            sample: measured,
            mean: self.mean,
            window: self.window(sample.segment),
            congestion_percent: self.ratio(sample.segment, nominal),
            paths: self.windows.len(),
            connections: self.connections,
        }
    }

    /// MultiTCP, section 6.3.
    fn adjust(&mut self, sample: &Sample<'_>, nominal: ByteCount) {
        let (wanted, mean) = (self.target.rate, self.mean);
        let may_grow = self.window(sample.segment) <= nominal * u64::from(self.target.spike);
        if (mean < wanted && may_grow) || mean > wanted + self.target.guard() {
            self.step(wanted, sample);
        }
    }

    /// *AdjustWindow* (MultiTCP, section 6.4): as many segments as the difference of the rates needs, one after another
    /// to the smallest window, or from the largest one.
    fn step(&mut self, wanted: Rate, sample: &Sample<'_>) {
        let grows = self.mean < wanted;
        let (high, low) = (self.mean.max(wanted), self.mean.min(wanted));
        let difference = Rate::from_bytes_per_second(high.bytes_per_second() - low.bytes_per_second());
        let steps = (difference * sample.rtt).get().div_ceil(sample.segment.get().max(1));
        let mut order: Vec<&mut u64> = self.windows.values_mut().collect();
        if order.is_empty() {
            return;
        }
        order.sort_by_key(|window| **window);
        if !grows {
            order.reverse();
        }
        let count = u64::try_from(order.len()).unwrap_or(u64::MAX);
        for (at, window) in (0..).zip(order) {
            let share = steps / count + u64::from(at < steps % count);
            *window = if grows { window.saturating_add(share) } else { window.saturating_sub(share).max(1) };
        }
    }

    /// MultiTCP, section 6.5.
    fn review_connections(&mut self, sample: &Sample<'_>, nominal: ByteCount) {
        self.no_more_for = self.no_more_for.saturating_sub(1);
        self.no_fewer_for = self.no_fewer_for.saturating_sub(1);
        let ratio = self.ratio(sample.segment, nominal);
        let steps = u64::from(self.connections) * 100;
        let severe = u64::from(self.target.congestion) * 100;
        let is_silent = sample.silent_for > sample.rtt * u32::from(self.target.silence);
        let is_free = ratio.saturating_add(100) <= steps || ratio <= UNCONGESTED;
        let fewer = (is_free && self.mean > self.target.rate) || (ratio >= severe && is_silent);
        let more = ratio >= steps + 100 && ratio < severe && self.mean < self.target.rate;
        if fewer && self.connections > 1 && self.no_fewer_for == 0 {
            self.connections -= 1;
            (self.no_more_for, self.no_fewer_for) = (REST, REST);
        } else if more && self.connections < self.target.connections && self.no_more_for == 0 {
            self.connections += 1;
            self.no_fewer_for = REST;
        }
    }

    fn sum(&self) -> u64 {
        self.windows.values().fold(0, |sum, window| sum.saturating_add(*window))
    }

    fn window(&self, segment: ByteCount) -> ByteCount {
        segment * self.sum()
    }

    /// The congestion ratio, in percent.
    fn ratio(&self, segment: ByteCount, nominal: ByteCount) -> u64 {
        self.window(segment).get().saturating_mul(100) / nominal.get().max(1)
    }
}

fn interval(target: &TargetRate, rtt: Duration) -> Duration {
    target.interval.unwrap_or_else(|| (rtt * ROUND_TRIPS).clamp(LEAST_INTERVAL, MOST_INTERVAL))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
