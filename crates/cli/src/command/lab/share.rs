//! `manyway lab share`: who gets how much of links that all use at once.

use std::time::Duration;

use manyway_lab::contender::Contender;
use manyway_lab::outcome::Outcome;
use manyway_lab::real::Real;
use manyway_lab::scenario::{Library, Scenario};
use manyway_lab::sharing;
use serde_json::json;

use crate::args::{GlobalArgs, ShareArgs};
use crate::command::campaign::{end_on_signal, of_lab};
use crate::command::error::CommandError;
use crate::exit_code::ExitCode;
use crate::output::{json, note, print_line, units};

/// Runs and prints.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &ShareArgs,
    mut real: Real,
) -> Result<ExitCode, CommandError> {
    let contenders = contenders(arguments)?;
    let scenario = scenario(arguments)?;
    let count = repetitions(arguments, &scenario);
    if !global.quiet {
        if Some(count) < arguments.repeat {
            note(&format!("{count} runs, to fit"));
        }
        note(&format!("this takes about {}", units::duration(each(&scenario) * count)));
    }
    end_on_signal(real.stop());
    let mut runs = Vec::new();
    for (number, seed) in (1..=count).zip(arguments.seed..) {
        if !global.quiet {
            note(&format!(
                "{number} of {count}, {} left",
                units::duration(each(&scenario) * (count + 1 - number))
            ));
        }
        let outcomes = real.run_together(&scenario, &contenders, seed).map_err(of_lab)?;
        tell(global, number, &contenders, &outcomes);
        runs.push(outcomes);
    }
    let shares = sharing::shares(&scenario, &contenders, &runs)
        .ok_or_else(|| CommandError::new(ExitCode::Failed, "somebody broke down in every run"))?;
    if global.json {
        let seconds = scenario.duration.as_secs_f64();
        let document =
            json!({ "scenario": scenario.name, "seconds": seconds, "runs": count, "shares": shares });
        return ExitCode::Ok.after_printing(json::print(&document).map_err(CommandError::from));
    }
    ExitCode::Ok.after_printing(print_line(sharing::text(&shares).trim_end()))
}

fn contenders(arguments: &ShareArgs) -> Result<Vec<Contender>, CommandError> {
    let named: Vec<&str> =
        arguments.contenders.iter().flat_map(|list| list.0.iter().map(String::as_str)).collect();
    let named = if named.is_empty() { DEFAULT.to_vec() } else { named };
    if named.len() > MOST {
        return Err(CommandError::usage(format!("{} contenders at once; at most {MOST}", named.len())));
    }
    named.iter().map(|name| name.parse().map_err(CommandError::usage)).collect()
}

fn scenario(arguments: &ShareArgs) -> Result<Scenario, CommandError> {
    let mut found =
        Library::builtin().and_then(|library| library.find(&arguments.scenario)).map_err(of_lab)?;
    let (Some(scenario), true) = (found.pop(), found.is_empty()) else {
        return Err(CommandError::usage(format!("{} is a group; name one scenario", arguments.scenario)));
    };
    let longest = arguments.duration.or_else(|| arguments.quick.then(|| QUICK.min(scenario.duration)));
    Ok(match longest {
        Some(duration) => scenario.with_duration(duration),
        None => scenario,
    })
}

fn repetitions(arguments: &ShareArgs, scenario: &Scenario) -> u32 {
    let wanted = arguments.repeat.unwrap_or(if arguments.quick { 1 } else { REPETITIONS });
    let Some(budget) = arguments.budget else { return wanted };
    let fitting = budget.as_nanos() / each(scenario).as_nanos().max(1);
    wanted.min(u32::try_from(fitting).unwrap_or(u32::MAX)).max(1)
}

/// About how long a run takes.
fn each(scenario: &Scenario) -> Duration {
    scenario.duration + AROUND
}

/// Says who broke down, and what else a reader must know.
fn tell(global: &GlobalArgs, number: u32, contenders: &[Contender], outcomes: &[Outcome]) {
    for (contender, outcome) in contenders.iter().zip(outcomes) {
        if let Some(failure) = &outcome.failure {
            note(&format!("run {number}: {contender} broke down: {failure}"));
        }
        for remark in outcome.remarks.iter().filter(|_| !global.quiet) {
            note(&format!("run {number}: {contender}: {remark}"));
        }
    }
}

const DEFAULT: [&str; 4] =
    ["manyway:congestion=fair", "manyway:congestion=fair", "manyway:congestion=fair", "tcp-cubic"];
const REPETITIONS: u32 = 3;
const QUICK: Duration = Duration::from_secs(10);
/// Hosts, links and connections before and after the traffic.
const AROUND: Duration = Duration::from_secs(3);
/// Each is two processes.
const MOST: usize = 16;
