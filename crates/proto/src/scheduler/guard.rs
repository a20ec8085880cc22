//! The guard: several paths together must not be slower than the best of them alone (spec 6.42 to 6.46).
//!
//! A scheduler goes by estimates, and a path may do harm that no estimate shows: a slow one whose bytes the others
//! wait for, one that holds the peer's memory, one that shares its bottleneck with a faster one. So what arrives is
//! compared with what the best path was measured to deliver; if it is less for a while, the connection does without
//! one of the others for a moment, and whether more arrives then decides.

use std::time::Duration;

use manyway_wire::PathId;
use smallvec::SmallVec;

use crate::path::PathReason;
use crate::{ByteCount, Instant, Rate};

/// The shortest time over which arrivals are measured.
const SHORTEST_ROUND: Duration = Duration::from_millis(500);
/// And so many of the longest round trips: what waits for a gap arrives in heaps.
const ROUND_TRIPS: u32 = 6;
/// Less than so much of what the best path delivers alone, of a hundred, is suspicious;
const SUSPICIOUS: u64 = 85;
/// so many times in a row, a path is tried without.
const LOW_ROUNDS: u32 = 3;
/// It does not pay if without it this much arrives of what did with it, of a hundred.
const BETTER: u64 = 105;
/// The others do not do without it any more if less arrives of what did when it was parked, of a hundred.
const COLLAPSED: u64 = 50;
/// How long a path is parked, and how long nothing is tried after it was in vain; doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(320);

/// What a path delivers is measured over so long: a burst that a shaper had saved up is over sooner.
const STRETCH: Duration = Duration::from_millis(100);
/// The most that it delivered counts for once to twice as long.
const HALF: Duration = Duration::from_secs(5);

/// Watches what a connection's paths deliver together.
#[derive(Debug)]
pub(crate) struct Guard {
    round: Option<Round>,
    trial: Option<Trial>,
    low_rounds: u32,
    /// Most that arrived in one of the low rounds.
    low_rate: Rate,
    parked: Vec<Parked>,
    /// Paths that the connection was tried without in vain, since the last wait.
    acquitted: Vec<PathId>,
    no_trial_before: Option<Instant>,
    next_wait: Duration,
    paces: Vec<Pace>,
    /// The end of the last stretch.
    looked_at: Option<Instant>,
}

/// What a path delivers over a stretch, bursts included.
#[derive(Debug, Clone, Copy)]
struct Pace {
    path: PathId,
    delivered: ByteCount,
    /// The most since `turned_at`, and in the time before.
    largest: [Rate; 2],
    turned_at: Instant,
}

/// A stretch of time over which arrivals are measured.
#[derive(Debug, Clone, Copy)]
struct Round {
    since: Instant,
    arrived: ByteCount,
    /// There was nothing to send at some moment.
    was_idle: bool,
}

/// The connection does without a path for a moment.
#[derive(Debug, Clone, Copy)]
struct Trial {
    without: PathId,
    /// What arrived before it.
    before: Rate,
    /// What was in flight on the path has arrived: the round counts.
    has_settled: bool,
}

#[derive(Debug, Clone, Copy)]
struct Parked {
    path: PathId,
    /// Whether it carries no data. Afterwards it stays listed for twice as long, so that its next wait is longer.
    is_out: bool,
    until: Instant,
    wait: Duration,
    /// What arrived with it and without it.
    with: Rate,
    without: Rate,
    /// In how many rounds in a row less than half of that did.
    low_rounds: u32,
}

/// What the guard knows of a path that could carry data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) path: PathId,
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    pub(crate) smoothed_rtt: Duration,
}

/// What is to happen to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) path: PathId,
    /// Whether it carries data only while no other path works.
    pub(crate) is_parked: bool,
    pub(crate) reason: PathReason,
}

type Verdicts = SmallVec<[Verdict; 4]>;

impl Parked {
    /// It is listed for ten rounds at least, in which it may be found in the way again.
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

    /// Whether it knows nothing that would be missed after a rest.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.trial.is_none() && self.parked.is_empty() && self.no_trial_before.is_none()
    }

    /// Whether a stretch is over, so that it wants to know what arrived.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now - at >= STRETCH)
    }

    /// A stretch ends; `delivered` is what each path delivered so far in all.
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

    /// The most that a path delivered lately over a whole stretch.
    pub(crate) fn pace_of(&self, path: PathId) -> Rate {
        let pace = self.paces.iter().find(|pace| pace.path == path);
        pace.map_or(Rate::ZERO, |pace| pace.largest[0].max(pace.largest[1]))
    }

    /// There is nothing to send: what arrives now says nothing.
    pub(crate) fn on_idle(&mut self) {
        if let Some(round) = &mut self.round {
            round.was_idle = true;
        }
    }

    /// A path is gone.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.parked.retain(|parked| parked.path != path);
        self.acquitted.retain(|acquitted| *acquitted != path);
        self.paces.retain(|pace| pace.path != path);
        self.trial = self.trial.filter(|trial| trial.without != path);
    }

    /// Whether the path carries no data.
    fn is_out(&self, path: PathId) -> bool {
        self.trial.is_some_and(|trial| trial.without == path)
            || self.parked.iter().any(|parked| parked.path == path && parked.is_out)
    }

    /// So much has arrived in all, in order; `candidates` are the paths that work, also those that are parked. To be
    /// called at the end of each stretch.
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
        // The one that others wait for longest.
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
            // The next one at once, if there is another.
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
        // One that may be parked again in a moment does not begin anew.
        let is_calm = self.trial.is_none() && self.low_rounds == 0;
        self.parked.retain(|parked| parked.is_out || now < parked.until || !is_calm);
        for parked in self.parked.iter_mut().filter(|parked| parked.is_out && parked.until <= now) {
            verdicts.push(parked.end_wait(now, round));
        }
    }

    /// Gives back at once the paths without which the others did better than they do now; tells whether there was one.
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
