//! Many runs: every contender in every case, repeatedly, interleaved so that a temporary disturbance of the machine
//! affects all alike.

mod machine;
mod plan;
mod results;
#[cfg(test)]
pub(crate) mod tests;

use std::time::{Duration, Instant};

pub use machine::{Disturbance, Machine};
pub use plan::{Case, Course, Plan, Timing, Way};
pub use results::{End, Results, Run, Skip, Standing};

use crate::Runner;
use crate::contender::{Contender, ManywaySettings, RouteChoice};
use crate::error::LabError;
use crate::measures::Measures;
use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::stop::Stop;
pub(crate) use machine::Activity;

/// Receives the progress of a campaign.
pub trait Watcher {
    /// Handles an event.
    fn notice(&mut self, notice: Notice<'_>);
}

/// An event of a campaign.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// It begins. Sentences describe what was left out to keep to the budget.
    Begins {
        /// The plan as it will be run.
        plan: &'a Plan,
        /// Number of runs, without those of contenders that cannot run.
        runs: usize,
        /// Estimated duration.
        time: Duration,
        /// What was left out.
        left_out: &'a [String],
    },
    /// A contender is skipped, everywhere or in one case.
    Skipped(&'a Skip),
    /// A run begins.
    Runs {
        /// The case.
        case: &'a Case,
        /// The contender.
        contender: &'a str,
        /// The progress of the campaign.
        ahead: Ahead,
    },
    /// A run ended.
    Ended {
        /// The plan.
        plan: &'a Plan,
        /// The run.
        run: &'a Run,
    },
    /// Disturbed runs of a repetition are repeated.
    Repeats {
        /// How many.
        runs: usize,
    },
}

/// The progress of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Runs that ended or were skipped.
    pub done: usize,
    /// Runs of the whole plan, including repeated ones.
    pub all: usize,
    /// Estimated remaining time, from the runs so far.
    pub left: Duration,
}

/// Runs a plan. Results exist whatever happens; [`Results::end`] says how it ended.
///
/// Runs are repeated once if other programs disturbed them, at the end of their repetition, if the plan says so and the
/// budget allows; of the two the one with less disturbance counts.
pub fn run(mut plan: Plan, runner: &mut dyn Runner, watcher: &mut dyn Watcher, stop: &Stop) -> Results {
    let skipped = unsupported(&plan, runner);
    let can_run = |who: &Contender| {
        let name = who.to_string();
        skipped.iter().all(|skip| skip.contender != name)
    };
    let notes = plan.fit(&can_run);
    let (runs, time) = (plan.runs_of(&can_run), plan.estimate_of(&can_run));
    watcher.notice(Notice::Begins { plan: &plan, runs, time, left_out: &notes });
    skipped.iter().for_each(|skip| watcher.notice(Notice::Skipped(skip)));
    let mut campaign = Campaign {
        started: Instant::now(),
        pace: Pace::default(),
        done: 0,
        repeats: 0,
        runs: Vec::new(),
        skipped,
        plan,
        stop,
    };
    let end = match campaign.run(runner, watcher) {
        Ok(end) => end,
        Err(LabError::Interrupted) => End::Interrupted,
        Err(error) => End::Failed(error),
    };
    let took = campaign.started.elapsed();
    let Campaign { plan, runs, skipped, .. } = campaign;
    Results { plan, runs, skipped, notes, machine: Machine::look(), end, took }
}

/// Contenders that can run nowhere, each once, and why.
fn unsupported(plan: &Plan, runner: &dyn Runner) -> Vec<Skip> {
    let mut skipped: Vec<Skip> = Vec::new();
    for contender in plan.cases.iter().flat_map(|case| &case.contenders) {
        let name = contender.to_string();
        if skipped.iter().any(|skip| skip.contender == name) {
            continue;
        }
        if let Err(error) = runner.supports(contender) {
            skipped.push(Skip { contender: name, case: None, reason: error.to_string() });
        }
    }
    skipped
}

/// Runs a contender once. For the best single route each route is run, and the outcome with the most delivered data
/// counts; of equal ones that of the best route by its numbers.
fn outcome(
    runner: &mut dyn Runner,
    scenario: &Scenario,
    contender: &Contender,
    seed: u64,
) -> Result<Outcome, LabError> {
    let Contender::Manyway(settings @ ManywaySettings { routes: RouteChoice::Best, .. }) = contender else {
        return runner.run(scenario, contender, seed);
    };
    let first = scenario.best_route();
    let others = (0..scenario.routes.len()).filter(|route| *route != first);
    let mut best: Option<(f64, Outcome)> = None;
    for route in std::iter::once(first).chain(others) {
        let alone = ManywaySettings { routes: RouteChoice::Only(route), ..settings.clone() };
        let outcome = runner.run(scenario, &Contender::Manyway(alone), seed)?;
        let broke_down = outcome.failure.is_some();
        let carried = if broke_down { -1.0 } else { Measures::of(scenario, &outcome).megabits() };
        if best.as_ref().is_none_or(|(most, _)| carried > *most) {
            best = Some((carried, outcome));
        }
    }
    best.map(|(_, outcome)| outcome).ok_or_else(|| LabError::System("the scenario has no route".to_owned()))
}

struct Campaign<'a> {
    plan: Plan,
    started: Instant,
    pace: Pace,
    done: usize,
    /// Disturbed runs that are repeated.
    repeats: usize,
    runs: Vec<Run>,
    skipped: Vec<Skip>,
    stop: &'a Stop,
}

/// A contender, a case and a repetition.
#[derive(Clone, Copy)]
struct Job {
    case: usize,
    contender: usize,
    repetition: u32,
}

/// Actual against expected durations.
#[derive(Default)]
struct Pace {
    expected: Duration,
    took: Duration,
}

impl Pace {
    fn note(&mut self, expected: Duration, took: Duration) {
        self.expected += expected;
        self.took += took;
    }

    /// An estimate corrected by experience.
    fn correct(&self, expected: Duration) -> Duration {
        if self.expected.is_zero() {
            return expected;
        }
        let factor = self.took.as_secs_f64() / self.expected.as_secs_f64();
        Duration::try_from_secs_f64(expected.as_secs_f64() * factor).unwrap_or(expected)
    }
}

impl Campaign<'_> {
    fn run(&mut self, runner: &mut dyn Runner, watcher: &mut dyn Watcher) -> Result<End, LabError> {
        for repetition in 0..self.plan.repetitions {
            let mut disturbed = Vec::new();
            for job in self.round(repetition) {
                if self.is_out_of_time() {
                    return Ok(End::OutOfTime);
                }
                let run = self.once(job, runner, watcher)?;
                if run.as_ref().is_some_and(Run::is_disturbed) {
                    disturbed.push(job);
                }
                if let Some(run) = run {
                    self.keep(run, watcher);
                }
                self.done += 1;
            }
            self.repeat(&disturbed, runner, watcher)?;
        }
        Ok(End::Complete)
    }

    /// Every contender in every case, in order.
    fn round(&self, repetition: u32) -> Vec<Job> {
        let places = |(case, of): (usize, &Case)| {
            (0..of.contenders.len()).map(move |contender| Job { case, contender, repetition })
        };
        self.plan.cases.iter().enumerate().flat_map(places).collect()
    }

    fn repeat(
        &mut self,
        disturbed: &[Job],
        runner: &mut dyn Runner,
        watcher: &mut dyn Watcher,
    ) -> Result<(), LabError> {
        if disturbed.is_empty() || !self.plan.repeats_disturbed || self.is_out_of_time() {
            return Ok(());
        }
        watcher.notice(Notice::Repeats { runs: disturbed.len() });
        self.repeats += disturbed.len();
        for job in disturbed {
            if self.has_time_for_more(job)
                && let Some(run) = self.once(*job, runner, watcher)?
            {
                self.replace(run, watcher);
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Of the two runs of a repetition the one with less disturbance counts.
    fn replace(&mut self, mut run: Run, watcher: &mut dyn Watcher) {
        let same = |old: &&mut Run| {
            (old.case, old.contender, old.repetition) == (run.case, run.contender, run.repetition)
        };
        if let Some(old) = self.runs.iter_mut().find(same) {
            if old.disturbance_weight() <= run.disturbance_weight() {
                run.standing = Standing::Replaced;
            } else {
                old.standing = Standing::Replaced;
            }
        }
        self.keep(run, watcher);
    }

    fn keep(&mut self, run: Run, watcher: &mut dyn Watcher) {
        watcher.notice(Notice::Ended { plan: &self.plan, run: &run });
        self.runs.push(run);
    }

    /// Runs once; `None` if the contender is skipped here.
    fn once(
        &mut self,
        job: Job,
        runner: &mut dyn Runner,
        watcher: &mut dyn Watcher,
    ) -> Result<Option<Run>, LabError> {
        self.stop.check()?;
        let Some((case, contender)) = self.look_up(job) else { return Ok(None) };
        let name = contender.to_string();
        if self.is_skipped(job.case, &name) {
            return Ok(None);
        }
        watcher.notice(Notice::Runs { case, contender: &name, ahead: self.ahead(job) });
        let seed = self.plan.seed.wrapping_add(job.repetition.into());
        let (began, before) = (Instant::now(), self.activity());
        let outcome = match outcome(runner, &case.scenario, contender, seed) {
            Err(LabError::Unsupported(reason)) => {
                let skip = Skip { contender: name, case: Some(job.case), reason };
                watcher.notice(Notice::Skipped(&skip));
                self.skipped.push(skip);
                return Ok(None);
            }
            other => other?,
        };
        let took = began.elapsed();
        let disturbance = before.zip(self.activity()).map(|(before, after)| after.since(before));
        let expected = plan::expected_of(self.plan.timing, case, contender);
        let run = Run {
            case: job.case,
            contender: job.contender,
            repetition: job.repetition,
            seed,
            standing: Standing::Counts,
            measures: Measures::of(&case.scenario, &outcome),
            failure: outcome.failure.clone(),
            remarks: outcome.remarks.clone(),
            disturbance,
            took,
            course: (self.plan.course == Course::Kept).then_some(outcome),
        };
        self.pace.note(expected, took);
        Ok(Some(run))
    }

    fn look_up(&self, job: Job) -> Option<(&Case, &Contender)> {
        let case = self.plan.cases.get(job.case)?;
        case.contenders.get(job.contender).map(|contender| (case, contender))
    }

    fn activity(&self) -> Option<Activity> {
        match self.plan.timing {
            Timing::Real => Activity::now(),
            Timing::Virtual => None,
        }
    }

    fn is_skipped(&self, case: usize, name: &str) -> bool {
        let here = |skip: &&Skip| skip.case.is_none_or(|skipped| skipped == case);
        self.skipped.iter().filter(here).any(|skip| skip.contender == name)
    }

    fn ahead(&self, job: Job) -> Ahead {
        let rounds = self.plan.repetitions.saturating_sub(job.repetition + 1);
        let mut left = Duration::ZERO;
        for other in self.round(job.repetition) {
            let Some((case, contender)) = self.look_up(other) else { continue };
            if self.is_skipped(other.case, &contender.to_string()) {
                continue;
            }
            let once = plan::expected_of(self.plan.timing, case, contender);
            left += once * rounds;
            if (other.case, other.contender) >= (job.case, job.contender) {
                left += once;
            }
        }
        Ahead { done: self.done, all: self.plan.runs() + self.repeats, left: self.pace.correct(left) }
    }

    fn is_out_of_time(&self) -> bool {
        self.plan.budget.is_some_and(|budget| self.started.elapsed() >= budget)
    }

    /// Whether a run can be repeated and the rest of the plan still fits into the budget.
    fn has_time_for_more(&self, job: &Job) -> bool {
        let Some(budget) = self.plan.budget else { return true };
        let (mut needed, rounds) = (Duration::ZERO, self.plan.repetitions.saturating_sub(job.repetition + 1));
        if let Some((case, contender)) = self.look_up(*job) {
            needed += plan::expected_of(self.plan.timing, case, contender);
        }
        let can_run = |who: &Contender| {
            let name = who.to_string();
            self.skipped.iter().all(|skip| skip.case.is_some() || skip.contender != name)
        };
        needed += self.plan.estimate_of(&can_run) / self.plan.repetitions.max(1) * rounds;
        self.started.elapsed() + self.pace.correct(needed) <= budget
    }
}
