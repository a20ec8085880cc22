//! Makes a plan from the command line.

use std::time::Duration;

use manyway_lab::campaign::{Case, Course, Plan, Timing, Way};
use manyway_lab::contender::{Contender, ExternalProgram};
use manyway_lab::gates::{self, Contest};
use manyway_lab::scenario::{Library, Scenario};
use manyway_proto::{congestion, scheduler};
use manyway_terminal::CommandError;

use super::of_lab;
use crate::args::{CampaignArgs, MatrixArgs, NameList, SettingsArgs, Ways};

/// Defaults of the command line.
#[derive(Debug, Clone, Copy)]
pub struct Defaults {
    /// The contenders.
    pub contenders: &'static [&'static str],
    /// The repetitions.
    pub repetitions: u32,
    /// The source of differences between runs.
    pub timing: Timing,
}

/// Plans scenarios for contenders.
///
/// # Errors
/// A scenario or a contender is unknown or invalid.
pub fn of_scenarios(
    arguments: &CampaignArgs,
    (names, externals): (&[NameList], &[ExternalProgram]),
    defaults: Defaults,
) -> Result<Plan, CommandError> {
    let contenders = contenders(&arguments.settings, names, externals, defaults.contenders)?;
    let scenarios = scenarios(arguments, "table", Ways::Up)?;
    let case = |(scenario, way)| Case { scenario, way, contenders: contenders.clone() };
    Ok(Plan {
        cases: scenarios.into_iter().map(case).collect(),
        repetitions: repetitions(arguments, defaults.repetitions),
        seed: arguments.seed,
        timing: defaults.timing,
        budget: arguments.budget,
        repeats_disturbed: !arguments.quick,
        course: if arguments.report.is_some() { Course::Kept } else { Course::Dropped },
    })
}

/// Plans every scheduler with every congestion control, and the best single path with each of these.
///
/// # Errors
/// A scenario, a scheduler or a congestion control is unknown.
pub fn of_matrix(arguments: &MatrixArgs, defaults: Defaults) -> Result<Plan, CommandError> {
    let or_all = |given: &[String], all: &mut dyn Iterator<Item = &'static str>| -> Vec<String> {
        if given.is_empty() { all.map(str::to_owned).collect() } else { given.to_vec() }
    };
    let schedulers = or_all(&arguments.schedulers, &mut scheduler::names());
    let congestions = or_all(&arguments.congestions, &mut congestion::names());
    let mut names = Vec::new();
    for congestion in &congestions {
        names.push(format!("manyway-best:congestion={congestion}"));
        let pair = |scheduler| format!("manyway:scheduler={scheduler},congestion={congestion}");
        names.extend(schedulers.iter().map(pair));
    }
    let mut campaign = arguments.campaign.clone();
    if campaign.names.is_empty() {
        campaign.names = MATRIX.map(str::to_owned).to_vec();
    }
    campaign.direction = campaign.direction.or(Some(Ways::Both));
    let defaults = Defaults { repetitions: 1, ..defaults };
    of_scenarios(&campaign, (&[NameList(names)], &[]), defaults)
}

/// The groups that show the differences between schedulers.
const MATRIX: [&str; 3] = ["unequal", "environments", "simult-flows"];

/// Plans the runs that the gates judge.
///
/// # Errors
/// A scenario is unknown or invalid, or the command line sets an option that the gates leave at its default.
pub fn of_gates(arguments: &CampaignArgs, contest: Contest) -> Result<Plan, CommandError> {
    if !arguments.settings.are_default() {
        return Err(CommandError::usage(
            "the gates judge default settings: leave --scheduler, --congestion and --pairs out",
        ));
    }
    let way = match contest {
        Contest::Simulated => Ways::Both,
        Contest::Real => Ways::Up,
    };
    let scenarios = scenarios(arguments, "all", way)?;
    let mut plan = gates::plan(&scenarios, contest).map_err(CommandError::usage)?;
    plan.repetitions = repetitions(arguments, plan.repetitions);
    plan.seed = arguments.seed;
    plan.budget = arguments.budget;
    plan.repeats_disturbed = !arguments.quick;
    if arguments.report.is_some() {
        plan.course = Course::Kept;
    }
    Ok(plan)
}

fn repetitions(arguments: &CampaignArgs, default: u32) -> u32 {
    arguments.repeat.unwrap_or(if arguments.quick { 1 } else { default })
}

/// All named contenders, each once; `settings` apply to each Manyway without its own.
fn contenders(
    settings: &SettingsArgs,
    names: &[NameList],
    externals: &[ExternalProgram],
    defaults: &[&str],
) -> Result<Vec<Contender>, CommandError> {
    let mut named: Vec<String> = names.iter().flat_map(|list| list.0.clone()).collect();
    if named.is_empty() {
        named = defaults.iter().map(|name| (*name).to_owned()).collect();
        named.extend(externals.iter().map(|program| format!("external:{}", program.name)));
    }
    let mut found: Vec<Contender> = Vec::new();
    for name in &named {
        let contender = contender(settings, name, externals)?;
        if !found.contains(&contender) {
            found.push(contender);
        }
    }
    Ok(found)
}

/// The contender of a name; `settings` apply to a Manyway without its own.
///
/// # Errors
/// There is no such contender or setting.
pub fn contender(
    settings: &SettingsArgs,
    name: &str,
    externals: &[ExternalProgram],
) -> Result<Contender, CommandError> {
    let mut contender = Contender::find(name, externals).map_err(CommandError::usage)?;
    if let Contender::Manyway(own) = &mut contender {
        own.scheduler = own.scheduler.take().or_else(|| settings.scheduler.clone());
        own.congestion = own.congestion.take().or_else(|| settings.congestion.clone());
        own.pairs = own.pairs.or(settings.pairs);
        // A name that the command line accepted must be known here, too.
        contender = contender.to_string().parse().map_err(CommandError::usage)?;
    }
    Ok(contender)
}

/// The scenarios, each once in every requested direction.
fn scenarios(
    arguments: &CampaignArgs,
    default: &str,
    way: Ways,
) -> Result<Vec<(Scenario, Way)>, CommandError> {
    let library = Library::builtin().map_err(of_lab)?;
    let names: Vec<&str> = arguments.names.iter().map(String::as_str).collect();
    let names = if names.is_empty() { vec![default] } else { names };
    let mut found: Vec<Scenario> = Vec::new();
    for name in names {
        for scenario in library.find(name).map_err(of_lab)? {
            match found.iter().find(|other| other.name == scenario.name) {
                None => found.push(scenario),
                Some(other) if is_same(other, &scenario) => {}
                Some(other) => {
                    return Err(CommandError::usage(format!(
                        "two scenarios are called {}: that of {} and that of {}; give one another `name`",
                        scenario.name, other.source, scenario.source
                    )));
                }
            }
        }
    }
    let ways = match arguments.direction.unwrap_or(way) {
        Ways::Up => vec![Way::AsWritten],
        Ways::Down => vec![Way::Reversed],
        Ways::Both => vec![Way::AsWritten, Way::Reversed],
    };
    let mut cases = Vec::new();
    for scenario in found {
        let scenario = lasting(scenario, arguments);
        for way in &ways {
            let reversed = scenario.clone().reversed();
            match way {
                Way::AsWritten => cases.push((scenario.clone(), Way::AsWritten)),
                // Bidirectional traffic is the same in both directions.
                Way::Reversed if ways.len() > 1 && reversed.traffic == scenario.traffic => {}
                Way::Reversed => cases.push((reversed, Way::Reversed)),
            }
        }
    }
    Ok(cases)
}

/// Whether two scenarios are equal in every part; compared by their printed form.
fn is_same(one: &Scenario, other: &Scenario) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

/// The scenario with the requested duration.
fn lasting(scenario: Scenario, arguments: &CampaignArgs) -> Scenario {
    match arguments.duration {
        Some(duration) => scenario.with_duration(duration),
        None if arguments.quick && scenario.duration > QUICK => {
            // The effect of events needs time to be seen.
            let length = if scenario.events.is_empty() { QUICK } else { (scenario.duration / 2).max(QUICK) };
            scenario.with_duration(length)
        }
        None => scenario,
    }
}

const QUICK: Duration = Duration::from_secs(3);
