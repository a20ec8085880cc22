//! Runs a campaign from the command line to its report, on real sockets or in virtual time.

mod experiment;
mod plan;
#[cfg(test)]
mod tests;
mod watch;

use std::path::Path;

use manyway_chart::{Align, Table};
use manyway_lab::agreement::{self, Agreement};
use manyway_lab::campaign::{self, Course, End, Plan, Results, Run, Standing, Timing};
use manyway_lab::experiment::{EXPERIMENTS, Experiment, Extent, Findings};
use manyway_lab::gates;
use manyway_lab::report::{self, Lead, Origin};
use manyway_lab::scenario::Library;
use manyway_lab::{LabError, Runner, Scenario, Stop};
use manyway_proto::text;
use manyway_terminal::signal::signalled;
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use serde_json::{Value, json};

pub use experiment::Named;
pub use plan::{Defaults, contender, of_gates, of_matrix, of_scenarios};

use crate::args::{CampaignArgs, GlobalArgs};
use watch::Watch;

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
    let kept = ["summary", "skipped", "notes", "end", "took"];
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

/// Checks that the requested files can be written: after a campaign of hours it would be too late.
fn prepare(arguments: &CampaignArgs) -> Result<(), CommandError> {
    if let Some(directory) = &arguments.report {
        report::prepare(directory).map_err(of_lab)?;
    }
    if let Some(file) = &arguments.csv {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| not_written(file, &error))?;
    }
    Ok(())
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

/// Runs a plan; the second value is an error if the output is closed or cannot be written.
fn execute(
    global: &GlobalArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> (Results, Result<(), CommandError>) {
    end_on_signal(stop.clone());
    let mut watch = Watch::new(global, stop.clone());
    let results = campaign::run(plan, runner, &mut watch, stop);
    (results, watch.finish())
}

/// Writes the requested files, beginning with the results of an experiment, then reports how the campaign ended.
fn finish(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    (results, findings): (&Results, Option<&Findings<'_>>),
    printed: Result<(), CommandError>,
) -> Result<ExitCode, CommandError> {
    // If one cannot be written, the other still is.
    let table = arguments.csv.as_ref().map_or(Ok(()), |file| write_csv(file, results));
    if let Some(directory) = &arguments.report {
        let lead = findings.map_or_else(|| Ok(Lead::default()), experiment::lead)?;
        report::write_with(results, &origin(), directory, &lead).map_err(of_lab)?;
        if !global.quiet {
            note(&format!("the report is {}", directory.join("index.html").display()));
        }
    }
    table?;
    printed?;
    ended(arguments, results)
}

/// The exit status for the end of a campaign.
fn ended(arguments: &CampaignArgs, results: &Results) -> Result<ExitCode, CommandError> {
    match &results.end {
        End::Interrupted => Err(CommandError::new(
            ExitCode::Interrupted,
            "interrupted; what there was until then stands above",
        )),
        End::Failed(error) => Err(CommandError::new(ExitCode::Failed, error)),
        End::Complete | End::OutOfTime if results.runs.is_empty() => {
            let reasons: Vec<&str> = results.skipped.iter().map(|skip| skip.reason.as_str()).collect();
            Err(CommandError::new(ExitCode::Failed, format!("nobody could run: {}", reasons.join("; "))))
        }
        End::Complete | End::OutOfTime => {
            if arguments.strict {
                all_ran(results).map(|()| ExitCode::Ok)
            } else {
                Ok(ExitCode::Ok)
            }
        }
    }
}

/// Whether every contender ran as often as planned, and completed.
fn all_ran(results: &Results) -> Result<(), CommandError> {
    let skipped = results.skipped.len();
    let counts = |run: &&Run| run.standing == Standing::Counts;
    let failed = results.runs.iter().filter(counts).filter(|run| run.failure.is_some()).count();
    let mut lacking = Vec::new();
    if failed > 0 {
        lacking.push(format!("{failed} runs broke down"));
    }
    if skipped > 0 {
        lacking.push(format!("{skipped} contenders were left out"));
    }
    if matches!(results.end, End::OutOfTime) {
        let (ran, all) = (results.counted(), results.plan.runs());
        lacking.push(format!("{ran} of {all} runs were made in time"));
    }
    if lacking.is_empty() { Ok(()) } else { Err(not_strict(&lacking)) }
}

fn not_strict(lacking: &[String]) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("{}, which --strict does not take", lacking.join(", ")))
}

fn write_csv(file: &Path, results: &Results) -> Result<(), CommandError> {
    std::fs::write(file, report::csv(results)).map_err(|error| not_written(file, &error))
}

fn not_written(file: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("writing {}: {error}", file.display()))
}

/// Prints the results. A closed output does not keep the report from being written.
fn tell(
    global: &GlobalArgs,
    document: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    let printed = if global.json {
        json::print(&document()).map_err(CommandError::from)
    } else {
        print_line(text().trim_end())
    };
    ExitCode::Ok.after_printing(printed).map(drop)
}

fn origin() -> Origin {
    Origin {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: std::env::args().collect(),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}

/// Makes Ctrl-C and SIGTERM set a stop flag. Without threads or signals their default ends the program.
pub fn end_on_signal(stop: Stop) {
    let wait = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(async { signalled().await });
            stop.set();
        }
    };
    // The thread ends with the program.
    drop(std::thread::Builder::new().name("signals".to_owned()).spawn(wait));
}

/// Lists the scenarios and the experiments.
///
/// # Errors
/// Standard output is closed or full.
pub fn list(global: &GlobalArgs) -> Result<ExitCode, CommandError> {
    let library = Library::builtin().map_err(of_lab)?;
    let experiments = EXPERIMENTS.iter().map(|experiment| Ok((*experiment, scenarios(experiment)?)));
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

/// The exit status for a failure of the lab.
pub fn of_lab(error: LabError) -> CommandError {
    let code = match &error {
        LabError::Scenario(_) => ExitCode::Usage,
        LabError::Interrupted => ExitCode::Interrupted,
        // The enum is non-exhaustive.
        LabError::Io { .. } | LabError::Unsupported(_) | LabError::System(_) | _ => ExitCode::Failed,
    };
    CommandError::new(code, error)
}
