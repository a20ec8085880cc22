//! Conducts a campaign: runs its plan, and writes and prints what was requested.

use std::path::Path;

use manyway_lab::campaign::{self, End, Plan, Results, Run, Standing};
use manyway_lab::experiment::{Findings, report as report_of_experiment};
use manyway_lab::report::{self, Lead, Origin};
use manyway_lab::{LabError, Runner, Stop};
use manyway_terminal::signal::signalled;
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use serde_json::Value;

use super::watch::Watch;
use crate::args::{CampaignArgs, GlobalArgs};

/// Checks that the requested files can be written: after a campaign of hours it would be too late.
pub(super) fn prepare(arguments: &CampaignArgs) -> Result<(), CommandError> {
    if let Some(directory) = &arguments.report {
        report::prepare(directory).map_err(of_lab)?;
    }
    if let Some(file) = &arguments.csv {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| not_written(file, &error))?;
    }
    Ok(())
}

/// Runs a plan, which Ctrl-C ends; the second value is an error if the output is closed or cannot be written.
pub(super) fn execute(
    global: &GlobalArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> (Results, Result<(), CommandError>) {
    end_on_signal(stop.clone());
    conduct(global, plan, runner, stop)
}

/// Runs a plan, which only `stop` ends; the second value is an error if the output is closed or cannot be written.
pub fn conduct(
    global: &GlobalArgs,
    plan: Plan,
    runner: &mut dyn Runner,
    stop: &Stop,
) -> (Results, Result<(), CommandError>) {
    let mut watch = Watch::new(global, stop.clone());
    let results = campaign::run(plan, runner, &mut watch, stop);
    (results, watch.finish())
}

/// Writes the requested files, beginning with the results of an experiment, then reports how the campaign ended.
pub(super) fn finish(
    global: &GlobalArgs,
    arguments: &CampaignArgs,
    (results, findings): (&Results, Option<&Findings<'_>>),
    printed: Result<(), CommandError>,
) -> Result<ExitCode, CommandError> {
    // If one cannot be written, the other still is.
    let table = arguments.csv.as_ref().map_or(Ok(()), |file| write_csv(file, results));
    if let Some(directory) = &arguments.report {
        let lead = findings.map_or_else(|| Ok(Lead::default()), lead)?;
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
pub(super) fn ended(arguments: &CampaignArgs, results: &Results) -> Result<ExitCode, CommandError> {
    match &results.end {
        End::Interrupted => Err(CommandError::new(
            ExitCode::Interrupted,
            "interrupted; what there was until then stands above",
        )),
        End::Failed(error) => Err(CommandError::new(ExitCode::Failed, error)),
        End::Complete | End::OutOfTime if results.runs.is_empty() => {
            let reasons: Vec<&str> = results.skipped.iter().map(|skip| skip.reason.as_str()).collect();
            Err(CommandError::new(
                ExitCode::Failed,
                format!("no contender could run: {}", reasons.join("; ")),
            ))
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

pub(super) fn not_strict(lacking: &[String]) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("{}, which --strict does not take", lacking.join(", ")))
}

fn write_csv(file: &Path, results: &Results) -> Result<(), CommandError> {
    std::fs::write(file, report::csv(results)).map_err(|error| not_written(file, &error))
}

fn not_written(file: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(ExitCode::Failed, format!("writing {}: {error}", file.display()))
}

/// Prints the results. A closed output does not keep the report from being written.
///
/// # Errors
/// The output fails.
pub fn tell(
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

/// This program and its command line.
pub fn origin() -> Origin {
    Origin {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(std::env::args()),
        date: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}

/// The arguments, with the program's name alone: its directory says nothing about the runs.
fn command_line(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut command: Vec<_> = arguments.collect();
    if let Some(program) = command.first_mut()
        && let Some(name) = Path::new(program).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    command
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

/// The beginning of a report.
///
/// # Errors
/// The figure cannot be drawn.
fn lead(findings: &Findings<'_>) -> Result<Lead, CommandError> {
    let pictures = report_of_experiment::pictures(findings).map_err(of_lab)?;
    Ok(Lead {
        title: findings.experiment.title.to_owned(),
        text: report_of_experiment::text(findings),
        pictures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_program_without_its_directory() {
        let arguments = ["/usr/local/bin/manyway-lab", "experiments", "--quick"].map(str::to_owned);
        assert_eq!(command_line(arguments.into_iter()), ["manyway-lab", "experiments", "--quick"]);
    }
}
