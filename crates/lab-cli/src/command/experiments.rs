//! `manyway-lab experiments`: the experiments of all documents, one after the other, and one page of them.

use std::time::{Duration, Instant};

use manyway_chart::{Align, Table};
use manyway_lab::campaign::{End, Plan, Timing};
use manyway_lab::experiment::{self, EXPERIMENTS, Experiment, Extent, Findings, PROGRAMS, report as words};
use manyway_lab::report::{self, Chapter, HEADS, Origin, World};
use manyway_lab::simulated::Simulated;
use manyway_lab::{Runner, Stop};
use manyway_terminal::{CommandError, ExitCode, note, print_line};
use serde_json::json;

use super::campaign::{conduct, end_on_signal, of_lab, origin, tell};
use super::lab;
use crate::args::{ExperimentsArgs, GlobalArgs, Only, SeriesArgs};

/// Runs the command.
///
/// # Errors
/// An experiment is unknown; only sockets are wanted and cannot be had; the page cannot be written; the user interrupted.
pub fn run(global: &GlobalArgs, arguments: &ExperimentsArgs) -> Result<ExitCode, CommandError> {
    series(global, &arguments.series, arguments.only, &EXPERIMENTS)
}

/// Runs the experiments of programs.
///
/// # Errors
/// As [`run`].
pub fn run_programs(global: &GlobalArgs, arguments: &SeriesArgs) -> Result<ExitCode, CommandError> {
    series(global, arguments, Some(Only::Sockets), &PROGRAMS)
}

fn series(
    global: &GlobalArgs,
    arguments: &SeriesArgs,
    only: Option<Only>,
    all: &[&'static Experiment],
) -> Result<ExitCode, CommandError> {
    let experiments = find(&arguments.names, all)?;
    let origin = origin();
    if let Some(directory) = &arguments.report {
        report::prepare(directory).map_err(of_lab)?;
    }
    let mut worlds = Worlds::new(global, only)?;
    end_on_signal(worlds.stop.clone());
    let mut chapters: Vec<Chapter> = experiments.iter().map(|experiment| Chapter::new(experiment)).collect();
    let result = run_all(global, arguments, (&mut worlds, &origin), experiments.iter().zip(&mut chapters));
    if !global.json {
        let mut table = Table::new(HEADS.map(|head| (head, Align::Left)));
        report::verdicts(&chapters).into_iter().for_each(|row| table.row(row));
        ExitCode::Ok.after_printing(print_line(table.to_string().trim_end()))?;
    }
    if let Some(directory) = &arguments.report {
        report::write_volume(&chapters, all, &origin, directory).map_err(of_lab)?;
        if !global.quiet {
            note(&format!("the report is {}", directory.join("index.html").display()));
        }
    }
    result
}

/// The named experiments, or all.
fn find(names: &[String], all: &[&'static Experiment]) -> Result<Vec<&'static Experiment>, CommandError> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let find = |name: &String| {
        let found = all.iter().copied().find(|experiment| experiment.name == name);
        found.ok_or_else(|| {
            CommandError::usage(format!("no experiment is called {name:?}; `manyway-lab list` shows them"))
        })
    };
    names.iter().map(find).collect()
}

/// Where experiments run.
struct Worlds {
    simulated: Option<Simulated>,
    real: Option<Box<dyn Runner>>,
    stop: Stop,
}

impl Worlds {
    fn new(global: &GlobalArgs, only: Option<Only>) -> Result<Self, CommandError> {
        let simulated = (only != Some(Only::Sockets)).then(Simulated::new);
        let real = if only == Some(Only::Virtual) { Ok(None) } else { lab::runner().map(Some) };
        let real = match real {
            Err(error) if only.is_none() => {
                if !global.quiet {
                    note(&format!("in virtual time alone: {error}"));
                }
                None
            }
            other => other?,
        };
        let (real, stop) = real.map_or_else(|| (None, Stop::default()), |(real, stop)| (Some(real), stop));
        Ok(Self { simulated, real, stop })
    }

    /// Those that there are, virtual time first, since that is soon done.
    fn runners(&mut self) -> Vec<(World, Timing, &mut dyn Runner)> {
        let Self { simulated, real, .. } = self;
        let simulated =
            simulated.as_mut().map(|runner| (World::Virtual, Timing::Virtual, runner as &mut dyn Runner));
        let real =
            real.as_mut().map(|runner| (World::Sockets, Timing::Real, &mut **runner as &mut dyn Runner));
        simulated.into_iter().chain(real).collect()
    }
}

/// Whether plans have to fit into a part of the time: quick ones in virtual time take little and have what they need, unless
/// the user sets a budget.
fn is_bounded(arguments: &SeriesArgs, timing: Timing) -> bool {
    !arguments.quick || timing == Timing::Real || arguments.budget.is_some()
}

/// The plan of an experiment, with the repetitions and the length that the user wants.
fn planned(
    arguments: &SeriesArgs,
    extent: Extent,
    experiment: &Experiment,
    timing: Timing,
) -> Result<Plan, CommandError> {
    let mut plan = experiment::plan(experiment, extent, timing).map_err(of_lab)?;
    plan.repetitions = arguments.repeat.unwrap_or(plan.repetitions);
    if let Some(duration) = arguments.duration {
        for case in &mut plan.cases {
            case.scenario = case.scenario.clone().with_duration(duration);
        }
    }
    Ok(plan)
}

/// The time that is left for plans which were not run yet: each has a part of it in proportion to what it would take.
struct Rest {
    begun: Instant,
    budget: Option<Duration>,
    expected: Duration,
    /// Time that is set aside for plans that run in full.
    set_aside: Duration,
}

impl Rest {
    fn new(arguments: &SeriesArgs) -> Self {
        let budget = arguments.budget.or_else(|| arguments.quick.then_some(QUICK));
        Self { begun: Instant::now(), budget, expected: Duration::ZERO, set_aside: Duration::ZERO }
    }

    /// Adds a plan that takes this time in full; a bounded one may get a part of it.
    fn expect(&mut self, time: Duration, is_bounded: bool) {
        *(if is_bounded { &mut self.expected } else { &mut self.set_aside }) += time;
    }

    /// A plan that runs in full begins.
    fn release(&mut self, time: Duration) {
        self.set_aside = self.set_aside.saturating_sub(time);
    }

    /// The part of the next plan, which would take this time.
    fn share(&mut self, time: Duration) -> Option<Duration> {
        let left = self.budget?.saturating_sub(self.begun.elapsed()).saturating_sub(self.set_aside);
        let part = time.as_secs_f64() / self.expected.as_secs_f64().max(1e-3);
        self.expected = self.expected.saturating_sub(time);
        Some(left.mul_f64(part.clamp(0.0, 1.0)))
    }
}

/// Time of quick runs of everything.
const QUICK: Duration = Duration::from_secs(19 * 60);

/// Runs each experiment in each world, and prints it.
fn run_all<'a>(
    global: &GlobalArgs,
    arguments: &SeriesArgs,
    (worlds, origin): (&mut Worlds, &Origin),
    chapters: impl Iterator<Item = (&'a &'static Experiment, &'a mut Chapter)>,
) -> Result<ExitCode, CommandError> {
    let extent = if arguments.quick { Extent::Quick } else { Extent::Full };
    let stop = worlds.stop.clone();
    let mut chapters: Vec<_> = chapters.collect();
    let timings: Vec<Timing> = worlds.runners().iter().map(|(_, timing, _)| *timing).collect();
    let plan = |experiment, timing| planned(arguments, extent, experiment, timing);
    let mut rest = Rest::new(arguments);
    for (experiment, _) in &chapters {
        for timing in &timings {
            rest.expect(plan(experiment, *timing)?.estimate(), is_bounded(arguments, *timing));
        }
    }
    let mut code = ExitCode::Ok;
    for (experiment, chapter) in &mut chapters {
        for (world, timing, runner) in worlds.runners() {
            let mut plan = plan(experiment, timing)?;
            let share = if is_bounded(arguments, timing) {
                rest.share(plan.estimate())
            } else {
                rest.release(plan.estimate());
                None
            };
            let left_out = match share {
                Some(share) if extent == Extent::Quick => experiment::thin(experiment, &mut plan, share),
                share => {
                    plan.budget = share;
                    None
                }
            };
            let (mut results, printed) = conduct(global, plan, runner, &stop);
            printed?;
            results.notes.splice(0..0, left_out);
            let findings = Findings::new(experiment, extent, &results);
            let holds = chapter.add(world, &findings, origin).map_err(of_lab)?;
            let document = || json!({ "mode": world.name(), "experiment": words::document(&findings) });
            tell(global, document, || format!("{}:\n{}", world.name(), words::text(&findings)))?;
            match &results.end {
                End::Interrupted => {
                    let text = "interrupted; what there was until then stands above";
                    return Err(CommandError::new(ExitCode::Interrupted, text));
                }
                End::Failed(error) => return Err(CommandError::new(ExitCode::Failed, error)),
                End::Complete | End::OutOfTime => {}
            }
            if holds == Some(false) {
                code = ExitCode::Gain;
            }
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_runs_in_virtual_time_is_set_aside_before_others_share_the_rest() {
        let second = Duration::from_secs(1);
        let mut rest = Rest {
            begun: Instant::now(),
            budget: Some(1000 * second),
            expected: Duration::ZERO,
            set_aside: Duration::ZERO,
        };
        for _ in 0..2 {
            rest.expect(200 * second, false);
            rest.expect(900 * second, true);
        }
        let near = |share: Option<Duration>, expected: u32| {
            let share = share.unwrap();
            assert!(share <= expected * second && share > (expected - 60) * second, "{share:?}");
        };
        rest.release(200 * second);
        near(rest.share(900 * second), 400);
        rest.release(200 * second);
        near(rest.share(900 * second), 1000);
    }
}
