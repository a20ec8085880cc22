//! The guard: several paths together must not be slower than the best of them alone (spec 6.42 to 6.46).
//!
//! A scheduler relies on estimates, and a path may do harm that no estimate shows: a slow path whose bytes block the
//! others, one that fills the peer's memory, one that shares its bottleneck with a faster one. So the guard compares
//! the rate of arrivals with the measured rate of the best path. If the rate is lower for a while, the connection
//! leaves out one of the others for a moment, and the difference decides.

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::path::PathReason;
use crate::{ByteCount, Instant, Rate};

/// Shortest round, over which arrivals are measured.
const SHORTEST_ROUND: Duration = Duration::from_millis(500);
/// A round also lasts this many of the longest RTTs: bytes behind a gap arrive in bursts.
const ROUND_TRIPS: u32 = 6;
/// A lower percentage of the best path's own rate is suspicious;
const SUSPICIOUS: u64 = 85;
/// after this many suspicious rounds in a row, a path is left out on trial.
const LOW_ROUNDS: u32 = 3;
/// The path does not pay if the rate without it exceeds this percentage of the rate with it.
const BETTER: u64 = 105;
/// A parked path is restored if the rate falls below this percentage of the rate at the time of parking.
const COLLAPSED: u64 = 50;
/// How long a path is parked, and how long no trial follows unsuccessful ones; doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(320);

/// The pace of a path is measured over this time: a burst from a shaper's bucket is shorter.
const STRETCH: Duration = Duration::from_millis(100);
/// The maximum pace counts for one to two times this.
const HALF: Duration = Duration::from_secs(5);

/// Watches the joint delivery of a connection's paths.
#[derive(Debug)]
pub(crate) struct Guard {
    round: Option<Round>,
    trial: Option<Trial>,
    low_rounds: u32,
    /// Largest rate of the low rounds.
    low_rate: Rate,
    parked: Vec<Parked>,
    /// Paths whose trials were unsuccessful, since the last wait.
    acquitted: Vec<PathId>,
    no_trial_before: Option<Instant>,
    next_wait: Duration,
    paces: Vec<Pace>,
    /// The end of the last measuring interval.
    looked_at: Option<Instant>,
}

/// The pace of a path over an interval, including bursts.
#[derive(Debug, Clone, Copy)]
struct Pace {
    path: PathId,
    delivered: ByteCount,
    /// The maximum since `turned_at`, and in the interval before.
    largest: [Rate; 2],
    turned_at: Instant,
}

/// A round, over which arrivals are measured.
#[derive(Debug, Clone, Copy)]
struct Round {
    since: Instant,
    arrived: ByteCount,
    /// Whether the sender ran out of data at some time.
    was_idle: bool,
}

/// A trial: the connection leaves out a path for a moment.
#[derive(Debug, Clone, Copy)]
struct Trial {
    without: PathId,
    /// The rate before the trial.
    before: Rate,
    /// Whether the packets in flight on the path have arrived, so that the round counts.
    has_settled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Parked {
    path: PathId,
    /// Whether it carries no data. It stays listed for twice as long afterwards, so that its next wait is longer.
    is_out: bool,
    until: Instant,
    wait: Duration,
    /// The rates with it and without it.
    with: Rate,
    without: Rate,
    /// Number of consecutive rounds with less than half of that rate.
    low_rounds: u32,
}

/// Properties of a path that could carry data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) path: PathId,
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    pub(crate) smoothed_rtt: Duration,
}

/// A decision about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) path: PathId,
    /// Whether the path carries data only while no other works.
    pub(crate) is_parked: bool,
    pub(crate) reason: PathReason,
}

pub(crate) type Verdicts = SmallVec<[Verdict; 4]>;

impl Parked {
    /// Ends the wait. The path stays listed for ten rounds at least, in which it may be parked again.
    fn end_wait(&mut self, now: Instant, round: Duration) -> Verdict {
        self.is_out = false;
        self.until = now + (self.wait * 2).max(round * 10);
        Verdict { path: self.path, is_parked: false, reason: PathReason::TriedAgain }
    }
}

impl Guard {
    pub(crate) fn new() -> Self {
        Self {
            round: None,
            trial: None,
            low_rounds: 0,
            low_rate: Rate::ZERO,
            parked: Vec::new(),
            acquitted: Vec::new(),
            no_trial_before: None,
            next_wait: FIRST_WAIT,
            paces: Vec::new(),
            looked_at: None,
        }
    }

    /// Whether its state may be dropped during an idle period.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.trial.is_none() && self.parked.is_empty() && self.no_trial_before.is_none()
    }

    /// Whether a measuring interval has ended.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now - at >= STRETCH)
    }

    /// Ends an interval; `delivered` is the total of each path so far.
    pub(crate) fn end_stretch(&mut self, now: Instant, delivered: impl Iterator<Item = (PathId, ByteCount)>) {
        let elapsed = self.looked_at.map_or(Duration::ZERO, |at| now - at);
        self.looked_at = Some(now);
        for (path, delivered) in delivered {
            let Some(pace) = self.paces.iter_mut().find(|pace| pace.path == path) else {
                self.paces.push(Pace { path, delivered, largest: [Rate::ZERO; 2], turned_at: now });
                continue;
            };
            let rate = (delivered - std::mem::replace(&mut pace.delivered, delivered)).per(elapsed);
            if now - pace.turned_at >= HALF {
                pace.largest = [Rate::ZERO, pace.largest[0]];
                pace.turned_at = now;
            }
            pace.largest[0] = pace.largest[0].max(rate);
        }
    }

    /// The maximum pace of a path over an interval.
    pub(crate) fn pace_of(&self, path: PathId) -> Rate {
        let pace = self.paces.iter().find(|pace| pace.path == path);
        pace.map_or(Rate::ZERO, |pace| pace.largest[0].max(pace.largest[1]))
    }

    /// There is nothing to send: arrivals now prove nothing.
    pub(crate) fn on_idle(&mut self) {
        if let Some(round) = &mut self.round {
            round.was_idle = true;
        }
    }

    /// A path was removed.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.parked.retain(|parked| parked.path != path);
        self.acquitted.retain(|acquitted| *acquitted != path);
        self.paces.retain(|pace| pace.path != path);
        self.trial = self.trial.filter(|trial| trial.without != path);
    }

    /// Whether the path is left out or parked.
    fn is_out(&self, path: PathId) -> bool {
        self.trial.is_some_and(|trial| trial.without == path)
            || self.parked.iter().any(|parked| parked.path == path && parked.is_out)
    }

    /// `arrived` is the total of in-order bytes; `candidates` are the paths that work, including parked ones. Called
    /// at the end of each interval.
    pub(crate) fn on_arrived(
        &mut self,
        now: Instant,
        arrived: ByteCount,
        candidates: impl Iterator<Item = Candidate> + Clone,
    ) -> Verdicts {
        let mut verdicts = Verdicts::new();
        let Some(round) = self.round else {
            self.begin_round(now, arrived);
            return verdicts;
        };
        let elapsed = now - round.since;
        if elapsed < SHORTEST_ROUND {
            return verdicts;
        }
        let longest = candidates.clone().map(|path| path.smoothed_rtt).max().unwrap_or_default();
        if elapsed < longest * ROUND_TRIPS {
            return verdicts;
        }
        self.begin_round(now, arrived);
        self.no_trial_before = self.no_trial_before.filter(|at| now < *at);
        self.end_waits(now, elapsed, &mut verdicts);
        let in_use: SmallVec<[Candidate; 8]> = candidates.filter(|path| !self.is_out(path.path)).collect();
        if round.was_idle || in_use.is_empty() {
            self.low_rounds = 0;
            self.parked.iter_mut().for_each(|parked| parked.low_rounds = 0);
            self.give_up_trial(&mut verdicts);
            return verdicts;
        }
        let rate = (arrived - round.arrived).per(elapsed);
        match self.trial {
            Some(trial) if !trial.has_settled => self.trial = Some(Trial { has_settled: true, ..trial }),
            Some(trial) => self.judge(now, trial, rate, &mut verdicts),
            None => self.watch(now, (rate, elapsed), &in_use, &mut verdicts),
        }
        verdicts
    }

    fn begin_round(&mut self, now: Instant, arrived: ByteCount) {
        self.round = Some(Round { since: now, arrived, was_idle: false });
    }

    fn watch(
        &mut self,
        now: Instant,
        (rate, elapsed): (Rate, Duration),
        in_use: &[Candidate],
        verdicts: &mut Verdicts,
    ) {
        if self.take_back(now, (rate, elapsed), verdicts) {
            self.low_rounds = 0;
            return;
        }
        let best = in_use.iter().max_by_key(|path| path.rate);
        let Some(best) = best.filter(|best| in_use.len() > 1 && rate < best.rate.scaled(SUSPICIOUS, 100))
        else {
            self.low_rounds = 0;
            return;
        };
        self.low_rate = if self.low_rounds == 0 { rate } else { self.low_rate.max(rate) };
        self.low_rounds += 1;
        if self.low_rounds < LOW_ROUNDS || self.no_trial_before.is_some() {
            return;
        }
        let others =
            in_use.iter().filter(|path| path.path != best.path && !self.acquitted.contains(&path.path));
        // The path with the largest delay is the most likely to block the others.
        let Some(worst) = others.max_by_key(|path| path.delay) else {
            self.acquitted.clear();
            self.no_trial_before = Some(now + self.next_wait);
            self.next_wait = (self.next_wait * 2).min(LONGEST_WAIT);
            return;
        };
        self.trial = Some(Trial { without: worst.path, before: self.low_rate, has_settled: false });
        verdicts.push(Verdict { path: worst.path, is_parked: true, reason: PathReason::TriedWithout });
    }

    fn judge(&mut self, now: Instant, trial: Trial, without: Rate, verdicts: &mut Verdicts) {
        self.trial = None;
        self.low_rounds = 0;
        let path = trial.without;
        if without <= trial.before.scaled(BETTER, 100) {
            self.acquitted.push(path);
            // The trial of the next path follows at once, if there is another.
            self.low_rounds = LOW_ROUNDS - 1;
            verdicts.push(Verdict { path, is_parked: false, reason: PathReason::Pays });
            return;
        }
        let before = self.parked.iter().find(|parked| parked.path == path);
        let wait = before.map_or(FIRST_WAIT, |parked| (parked.wait * 2).min(LONGEST_WAIT));
        self.parked.retain(|parked| parked.path != path);
        let until = now + wait;
        self.parked.push(Parked {
            path,
            is_out: true,
            until,
            wait,
            with: trial.before,
            without,
            low_rounds: 0,
        });
        self.acquitted.clear();
        self.next_wait = FIRST_WAIT;
        let reason = PathReason::DoesNotPay { with: trial.before, without };
        verdicts.push(Verdict { path, is_parked: true, reason });
    }

    fn end_waits(&mut self, now: Instant, round: Duration, verdicts: &mut Verdicts) {
        // A path that may soon be parked again keeps its longer wait.
        let is_calm = self.trial.is_none() && self.low_rounds == 0;
        self.parked.retain(|parked| parked.is_out || now < parked.until || !is_calm);
        for parked in self.parked.iter_mut().filter(|parked| parked.is_out && parked.until <= now) {
            verdicts.push(parked.end_wait(now, round));
        }
    }

    /// Restores at once the paths without which the rate has collapsed since; returns whether there was one.
    fn take_back(&mut self, now: Instant, (rate, round): (Rate, Duration), verdicts: &mut Verdicts) -> bool {
        let before = verdicts.len();
        for parked in self.parked.iter_mut().filter(|parked| parked.is_out) {
            let is_low = rate < parked.without.scaled(COLLAPSED, 100).min(parked.with);
            parked.low_rounds = if is_low { parked.low_rounds + 1 } else { 0 };
            if parked.low_rounds >= LOW_ROUNDS {
                verdicts.push(parked.end_wait(now, round));
            }
        }
        verdicts.len() > before
    }

    fn give_up_trial(&mut self, verdicts: &mut Verdicts) {
        if let Some(trial) = self.trial.take() {
            let reason = PathReason::TriedAgain;
            verdicts.push(Verdict { path: trial.without, is_parked: false, reason });
        }
    }
}

#[cfg(test)]
mod tests;
