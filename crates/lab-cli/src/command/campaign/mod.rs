//! Runs a campaign from the command line to its report, on real sockets or in virtual time.

mod conduct;
mod experiment;
mod plan;
#[cfg(test)]
mod tests;
mod watch;

use manyway_chart::{Align, Table};
use manyway_lab::agreement::{self, Agreement};
use manyway_lab::campaign::{Course, End, Plan, Results, Timing};
use manyway_lab::experiment::{Experiment, Extent, all};
use manyway_lab::gates;
use manyway_lab::report::{self, describe_cross};
use manyway_lab::scenario::Library;
use manyway_lab::{LabError, Runner, Scenario, Stop};
use manyway_terminal::{CommandError, ExitCode, json, print_line};
use manyway_units::text;
use serde_json::{Value, json};

pub use conduct::{conduct, end_on_signal, of_lab, origin, tell};
pub use experiment::Named;
pub use plan::{Defaults, contender, of_gates, of_matrix, of_scenarios};

use crate::args::{CampaignArgs, GlobalArgs};
use conduct::{ended, execute, finish, not_strict, prepare};

/// Runs a plan and prints the results.
///
/// # Errors
/// The report cannot be written, the campaign could not continue, no contender could run, or the user interrupted; the
/// results so far have been printed before.
pub fn run(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> Result<ExitCode, CommandError> {
    run_told(global, arguments, plan, (runner, stop), report::table)
}

/// As [`run`], but the table has a line for each pair of scheduler and congestion control.
///
/// # Errors
/// As [`run`].
pub fn run_matrix(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> Result<ExitCode, CommandError> {
    run_told(global, arguments, plan, (runner, stop), report::matrix)
}

fn run_told(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    plan: Plan,
    (runner, stop): (&mut dyn Runner, &Stop),
    text: fn(&Results) -> String,
) -> Result<ExitCode, CommandError> {
    prepare(arguments)?;
    let (results, printed) = execute(global, plan, runner, stop);
    let printed = printed.and_then(|()| tell(global, || summary(&results), || text(&results)));
    finish(global, arguments, (&results, None), printed)
}

/// The document that `--json` prints at the end.
fn summary(results: &Results) -> Value {
    let document = report::document(results, &origin());
    let kept = ["summary", "skipped", "notes", "end", "elapsed"];
    kept.iter().map(|key| ((*key).to_owned(), document.get(*key).cloned().unwrap_or_default())).collect()
}

/// As [`run`], and judges the results by the gates.
///
/// # Errors
/// As [`run`].
pub fn run_gates(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> Result<ExitCode, CommandError> {
    prepare(arguments)?;
    let (results, printed) = execute(global, plan, runner, stop);
    let verdicts = gates::judge(&results);
    let document = || json!({ "gates": gates::json(&verdicts), "end": results.end.name() });
    let text = || format!("{}\n\n{}", report::table(&results).trim_end(), gates::text(&verdicts));
    let printed = printed.and_then(|()| tell(global, document, text));
    let code = finish(global, arguments, (&results, None), printed)?;
    if verdicts.judged.is_empty() {
        return Err(CommandError::new(ExitCode::Failed, "there was nothing that a gate could judge"));
    }
    if !verdicts.have_passed() {
        return Ok(ExitCode::Gain);
    }
    let unjudged = verdicts.unjudged.len();
    if arguments.strict && unjudged > 0 {
        return Err(not_strict(&[format!("{unjudged} comparisons could not be made")]));
    }
    Ok(code)
}

/// Runs a plan on real sockets and in virtual time, and compares.
///
/// # Errors
/// As [`run`]; a report is one of the runs on real sockets.
pub fn run_both(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    plan: Plan,
    (real, simulated): (&mut dyn Runner, &mut dyn Runner),
    stop: &Stop,
) -> Result<ExitCode, CommandError> {
    prepare(arguments)?;
    let (results, printed) = execute(global, plan, real, stop);
    // With the durations that were run: a budget may have shortened them.
    let twin =
        Plan { timing: Timing::Virtual, budget: None, course: Course::Dropped, ..results.plan.clone() };
    let (virtual_results, printed_later) = execute(global, twin, simulated, stop);
    let (compared, missing) = agreement::compare(&results, &virtual_results);
    let is_through = |results: &Results| matches!(results.end, End::Complete | End::OutOfTime);
    let last =
        if is_through(&results) && !is_through(&virtual_results) { &virtual_results } else { &results };
    let document = || json!({ "agreement": compared, "missing": missing, "end": last.end.name() });
    let text = || agreement::text(&compared, &missing);
    let printed = printed.and(printed_later).and_then(|()| tell(global, document, text));
    finish(global, arguments, (&results, None), printed)?;
    let code = ended(arguments, &virtual_results)?;
    let holds = missing.is_empty() && compared.iter().all(Agreement::holds);
    Ok(if holds { code } else { ExitCode::Gain })
}

/// Lists the scenarios and the experiments.
///
/// # Errors
/// Standard output is closed or full.
pub fn list(global: &GlobalArgs) -> Result<ExitCode, CommandError> {
    let library = Library::builtin().map_err(of_lab)?;
    let experiments = all().map(|experiment| Ok((experiment, scenarios(experiment)?)));
    let experiments: Vec<_> = experiments.collect::<Result<_, LabError>>().map_err(of_lab)?;
    if global.json {
        for scenario in library.all() {
            json::print(&json!({
                "scenario": scenario.name,
                "group": scenario.group,
                "title": scenario.title,
                "source": scenario.source,
                "routes": scenario.routes.len(),
                "duration": scenario.duration.as_secs_f64(),
                "cross": scenario.cross_traffic.iter().map(|one| describe_cross(scenario, one)).collect::<Vec<_>>(),
            }))?;
        }
        for (experiment, scenarios) in &experiments {
            json::print(&json!({
                "experiment": experiment.name,
                "group": experiment.group(),
                "title": experiment.title,
                "source": experiment.source,
                "scenarios": scenarios.len(),
                "routes": scenarios.iter().map(|scenario| scenario.routes.len()).max(),
                "duration": scenarios.iter().map(|scenario| scenario.duration.as_secs_f64()).reduce(f64::max),
            }))?;
        }
        return Ok(ExitCode::Ok);
    }
    let mut table = Table::new([
        ("group", Align::Left),
        ("scenario", Align::Left),
        ("routes", Align::Right),
        ("lasts", Align::Right),
        ("", Align::Left),
    ]);
    for scenario in library.all() {
        table.row(row(scenario));
    }
    for (experiment, scenarios) in &experiments {
        table.row(experiment_row(experiment, scenarios));
    }
    print_line(table.to_string().trim_end())?;
    Ok(ExitCode::Ok)
}

fn row(scenario: &Scenario) -> [String; 5] {
    [
        scenario.group.clone(),
        scenario.name.clone(),
        scenario.routes.len().to_string(),
        text::duration(scenario.duration),
        scenario.title.clone(),
    ]
}

/// The runs of an experiment, each once.
fn scenarios(experiment: &Experiment) -> Result<Vec<Scenario>, LabError> {
    let plan = manyway_lab::experiment::plan(experiment, Extent::Full, Timing::Virtual)?;
    Ok(plan.cases.into_iter().map(|case| case.scenario).collect())
}

fn experiment_row(experiment: &Experiment, scenarios: &[Scenario]) -> [String; 5] {
    let longest = scenarios.iter().map(|scenario| scenario.duration).max().unwrap_or_default();
    let routes = scenarios.iter().map(|scenario| scenario.routes.len()).max().unwrap_or_default();
    [
        experiment.group().to_owned(),
        experiment.name.to_owned(),
        routes.to_string(),
        text::duration(longest),
        format!("{} ({})", experiment.title, experiment.source),
    ]
}
