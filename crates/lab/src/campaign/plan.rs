//! The plan of a campaign, its estimated duration, and how it is fitted into a budget.

use std::time::Duration;

use manyway_units::text;

use crate::contender::{Contender, ManywaySettings, RouteChoice};
use crate::measures::count;
use crate::scenario::{Direction, Scenario};

/// A scenario in one direction, and its contenders.
#[derive(Debug, Clone)]
pub struct Case {
    /// The scenario as it is run: reversed and of its final length.
    pub scenario: Scenario,
    /// Direction.
    pub way: Way,
    /// The contenders, in this order.
    pub contenders: Vec<Contender>,
}

impl Case {
    /// Its name in reports: the scenario, with `(reversed)` if so.
    pub fn label(&self) -> String {
        match self.way {
            Way::AsWritten => self.scenario.name.clone(),
            Way::Reversed => format!("{} (reversed)", self.scenario.name),
        }
    }
}

/// Direction of the traffic of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As the scenario says.
    AsWritten,
    /// The opposite direction.
    Reversed,
}

/// The source of differences between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Only the seed: time is virtual.
    Virtual,
    /// Time is real, so other programs disturb.
    Real,
}

/// A planned campaign.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The cases, in the order of the report.
    pub cases: Vec<Case>,
    /// Number of repetitions. At least 1.
    pub repetitions: u32,
    /// The seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// What makes runs differ.
    pub timing: Timing,
    /// Time budget. Default: unlimited.
    pub budget: Option<Duration>,
    /// Whether runs that other programs disturbed are repeated once.
    pub repeats_disturbed: bool,
    /// Whether the course of each run is kept.
    pub course: Course,
}

/// Whether the bytes over time of each run are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// They are kept for figures. Costs about 100 kB a run.
    Kept,
    /// Only the measures are kept.
    Dropped,
}

impl Plan {
    /// Shortest run to which a budget shortens a longer one.
    pub const SHORTEST: Duration = Duration::from_secs(3);

    /// Number of runs, without repetitions of disturbed ones.
    pub fn runs(&self) -> usize {
        self.runs_of(&|_| true)
    }

    /// Estimated duration.
    pub fn estimate(&self) -> Duration {
        self.estimate_of(&|_| true)
    }

    /// As [`Self::runs`], for contenders that can run.
    pub(super) fn runs_of(&self, can_run: CanRun<'_>) -> usize {
        let once = self.pairs(can_run).count();
        once * usize::try_from(self.repetitions).unwrap_or(usize::MAX)
    }

    /// As [`Self::estimate`], for contenders that can run.
    pub(super) fn estimate_of(&self, can_run: CanRun<'_>) -> Duration {
        let pairs = self.pairs(can_run);
        let once: Duration = pairs.map(|(case, who)| expected_of(self.timing, case, who)).sum();
        once.saturating_mul(self.repetitions)
    }

    fn pairs<'a>(&'a self, can_run: CanRun<'a>) -> impl Iterator<Item = (&'a Case, &'a Contender)> {
        let pairs = self.cases.iter().flat_map(|case| case.contenders.iter().map(move |who| (case, who)));
        pairs.filter(|(_, who)| can_run(who))
    }

    /// Fits the plan into its budget: fewer repetitions, then shorter runs. Returns a sentence for each thing that was
    /// left out, and one if the plan still does not fit; then the campaign ends when its time is over. Contenders that
    /// cannot run take no time.
    pub fn fit(&mut self, can_run: CanRun<'_>) -> Vec<String> {
        let Some(budget) = self.budget else { return Vec::new() };
        let mut sentences = Vec::new();
        let wanted = self.repetitions;
        while self.repetitions > 1 && self.estimate_of(can_run) > budget {
            self.repetitions -= 1;
        }
        let time = text::duration(budget);
        if self.repetitions < wanted {
            let plural = if self.repetitions == 1 { "repetition" } else { "repetitions" };
            sentences.push(format!("{} {plural} instead of {wanted}, to fit into {time}", self.repetitions));
        }
        if self.estimate_of(can_run) > budget {
            sentences.extend(self.shorten(budget, can_run));
        }
        let needed = self.estimate_of(can_run);
        if needed > budget {
            let needed = text::duration(needed);
            sentences
                .push(format!("even so it takes about {needed}, so not everything is run within {time}"));
        }
        sentences
    }

    /// Shortens runs by the same factor, the largest that fits, but not below [`Self::SHORTEST`].
    fn shorten(&mut self, budget: Duration, can_run: CanRun<'_>) -> Option<String> {
        let longest = self.cases.iter().map(|case| case.scenario.duration).max()?;
        let original = self.cases.clone();
        let (mut fits, mut too_long) = (0, WHOLE);
        while too_long - fits > 1 {
            let share = u32::midpoint(fits, too_long);
            self.shorten_to(&original, share);
            if self.estimate_of(can_run) <= budget { fits = share } else { too_long = share }
        }
        self.shorten_to(&original, fits);
        let now = self.cases.iter().map(|case| case.scenario.duration).max()?;
        let is_shorter = self
            .cases
            .iter()
            .zip(&original)
            .any(|(case, original)| case.scenario.duration < original.scenario.duration);
        let (now, before) = (text::duration(now), text::duration(longest));
        is_shorter.then(|| {
            format!(
                "runs last {now} at most instead of {before}, and events come as much earlier, to fit into {}",
                text::duration(budget)
            )
        })
    }

    /// Scales every run to this many thousandths of its original length.
    fn shorten_to(&mut self, original: &[Case], share: u32) {
        for (case, original) in self.cases.iter_mut().zip(original) {
            let old = original.scenario.duration;
            let new = (old * share / WHOLE).max(Self::SHORTEST).min(old);
            case.scenario = original.scenario.clone().with_duration(new);
        }
    }
}

/// Whether a contender can run.
type CanRun<'a> = &'a dyn Fn(&Contender) -> bool;

/// A run of full length, in thousandths.
const WHOLE: u32 = 1000;

/// Estimated time of a contender for a run: the best route is found by running each.
pub(super) fn expected_of(timing: Timing, case: &Case, contender: &Contender) -> Duration {
    let once = expected(timing, &case.scenario);
    match contender {
        Contender::Manyway(ManywaySettings { routes: RouteChoice::Best, .. }) => {
            once.saturating_mul(u32::try_from(case.scenario.routes.len()).unwrap_or(u32::MAX))
        }
        Contender::Manyway(_)
        | Contender::Tcp { .. }
        | Contender::Possible { .. }
        | Contender::Mptcp { .. }
        | Contender::Through(_)
        | Contender::Chunks(_)
        | Contender::External(_) => once,
    }
}

/// Estimated time of a run.
fn expected(timing: Timing, scenario: &Scenario) -> Duration {
    match timing {
        // Namespaces, links, agents, and the last bytes in the queues.
        Timing::Real => scenario.duration + Duration::from_secs(4),
        Timing::Virtual => {
            let rate = scenario.sum(Direction::Up).max(scenario.sum(Direction::Down));
            let gigabytes = count(rate.bytes_per_second()) / 1e9 * scenario.duration.as_secs_f64();
            Duration::from_millis(20) + Duration::from_secs_f64((gigabytes * VIRTUAL_COST).min(1e6))
        }
    }
}

/// Estimated seconds of real time for each 10⁹ bytes over emulated links in virtual time, in a release build. A
/// campaign measures its own value and uses that.
const VIRTUAL_COST: f64 = 6.0;
