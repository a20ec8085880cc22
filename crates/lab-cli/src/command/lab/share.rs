//! `manyway-lab share`: how contenders share links that they use at the same time.

use std::path::PathBuf;
use std::time::Duration;

use manyway_lab::contender::Contender;
use manyway_lab::outcome::Outcome;
use manyway_lab::real::Real;
use manyway_lab::scenario::{Library, Scenario, Traffic};
use manyway_lab::sharing::{self, Share};
use manyway_lab::{LabError, Runner as _};
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use manyway_units::text;
use serde_json::json;

use super::budget;
use crate::args::{GlobalArgs, ShareArgs};
use crate::command::campaign::{contender, end_on_signal, of_lab};

/// Runs and prints.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &ShareArgs,
    program: PathBuf,
) -> Result<ExitCode, CommandError> {
    let contenders = contenders(arguments)?;
    let mut plan = Plan::new(arguments)?;
    let mut real = Real::new(program).map_err(of_lab)?;
    let contenders = able(&real, contenders)?;
    let left_out = arguments.budget.map_or_else(Vec::new, |budget| plan.fit(budget));
    if !global.quiet {
        left_out.iter().for_each(|sentence| note(sentence));
        note(&format!("this takes about {}", text::duration(plan.each() * plan.repetitions)));
    }
    end_on_signal(real.stop());
    let (mut runs, mut interrupted) = (Vec::new(), None);
    for number in 0..plan.repetitions {
        if !global.quiet {
            let left = text::duration(plan.each() * (plan.repetitions - number));
            note(&format!("{} of {}, {left} left", number + 1, plan.repetitions));
        }
        // Each contender of a run has a seed of its own.
        let seed = arguments.seed.wrapping_add(u64::from(number) * MOST_SEEDS);
        match real.run_together(&plan.scenario, &contenders, seed) {
            Ok(outcomes) => {
                tell(global, number + 1, &contenders, &outcomes);
                runs.push(outcomes);
            }
            Err(LabError::Interrupted) => {
                interrupted = Some(of_lab(LabError::Interrupted));
                break;
            }
            Err(error) => return Err(of_lab(error)),
        }
    }
    let Some(shares) = sharing::shares(&plan.scenario, &contenders, &runs) else {
        let broken = || CommandError::new(ExitCode::Failed, "a contender broke down in every run");
        return Err(interrupted.unwrap_or_else(broken));
    };
    let outside = arguments.within.and_then(|bounds| outside(&shares, bounds));
    print(global, &plan.scenario, &shares, interrupted.is_some())?;
    match (interrupted, outside) {
        (Some(interrupted), _) => Err(interrupted),
        (None, Some(sentence)) => Err(CommandError::new(ExitCode::Gain, sentence)),
        (None, None) => Ok(ExitCode::Ok),
    }
}

/// The runs and their number.
struct Plan {
    scenario: Scenario,
    repetitions: u32,
}

impl Plan {
    fn new(arguments: &ShareArgs) -> Result<Self, CommandError> {
        let library = Library::builtin().map_err(of_lab)?;
        let mut found = library.find(&arguments.scenario).map_err(of_lab)?;
        let (Some(mut scenario), true) = (found.pop(), found.is_empty()) else {
            let name = &arguments.scenario;
            return Err(CommandError::usage(format!("{name} is a group; name one scenario")));
        };
        // All contenders have to be active until the end.
        for traffic in &mut scenario.traffic {
            if let Traffic::Bulk { size, .. } = traffic {
                *size = None;
            }
        }
        let quick = arguments.quick.then(|| QUICK.min(scenario.duration));
        if let Some(duration) = arguments.duration.or(quick) {
            scenario = scenario.with_duration(duration);
        }
        let repetitions = arguments.repeat.unwrap_or(if arguments.quick { 1 } else { REPETITIONS });
        Ok(Self { scenario, repetitions })
    }

    /// About how long a run takes.
    fn each(&self) -> Duration {
        self.scenario.duration + AROUND
    }

    /// Keeps to a budget; returns a sentence for each thing that is left out.
    fn fit(&mut self, budget: Duration) -> Vec<String> {
        let mut left_out = Vec::new();
        self.repetitions = budget::repetitions(self.repetitions, self.each(), budget, &mut left_out);
        if self.each() > budget {
            let before = text::duration(self.scenario.duration);
            let length = budget.saturating_sub(AROUND).max(SHORTEST).min(self.scenario.duration);
            self.scenario = self.scenario.clone().with_duration(length);
            left_out.push(format!("{} instead of {before}, to fit", text::duration(length)));
        }
        budget::check(self.each(), budget, &mut left_out);
        left_out
    }
}

fn contenders(arguments: &ShareArgs) -> Result<Vec<Contender>, CommandError> {
    let named: Vec<&str> =
        arguments.contenders.iter().flat_map(|list| list.0.iter().map(String::as_str)).collect();
    let named = if named.is_empty() { DEFAULT.to_vec() } else { named };
    if named.len() > MOST {
        return Err(CommandError::usage(format!("{} contenders at once; at most {MOST}", named.len())));
    }
    if let Some(name) = named.iter().find(|name| name.starts_with("external:")) {
        return Err(CommandError::usage(format!("{name}: programs of others can not run in `share`")));
    }
    named.iter().map(|name| contender(&arguments.settings, name, &[])).collect()
}

/// The contenders that can run here. Without the last one there is no reference for the comparison.
fn able(real: &Real, contenders: Vec<Contender>) -> Result<Vec<Contender>, CommandError> {
    let last = contenders.len().saturating_sub(1);
    let mut able = Vec::new();
    for (place, contender) in contenders.into_iter().enumerate() {
        match real.supports(&contender) {
            Ok(()) => able.push(contender),
            Err(error) if place < last => note(&error.to_string()),
            Err(error) => return Err(of_lab(error)),
        }
    }
    Ok(able)
}

/// Reports failed contenders, and remarks for the reader.
fn tell(global: &GlobalArgs, number: u32, contenders: &[Contender], outcomes: &[Outcome]) {
    let mut told: Vec<&str> = Vec::new();
    for (contender, outcome) in contenders.iter().zip(outcomes) {
        if let Some(failure) = &outcome.failure {
            note(&format!("run {number}: {contender} broke down: {failure}"));
        }
        // Remarks about the links are the same for all.
        for remark in outcome.remarks.iter().filter(|_| !global.quiet) {
            if !told.contains(&remark.as_str()) {
                note(&format!("run {number}: {remark}"));
                told.push(remark);
            }
        }
    }
}

/// The contenders outside the limits, if any.
fn outside(shares: &[Share], (least, most): (f64, f64)) -> Option<String> {
    let is_outside = |share: &&Share| !(least..=most).contains(&share.of_last.median);
    let found: Vec<String> = shares
        .iter()
        .filter(is_outside)
        .map(|share| format!("{} got {:.2}", share.contender, share.of_last.median))
        .collect();
    let joined = found.join(", ");
    (!found.is_empty()).then(|| format!("{joined} of what the last got; {least} to {most} were asked for"))
}

fn print(
    global: &GlobalArgs,
    scenario: &Scenario,
    shares: &[Share],
    is_interrupted: bool,
) -> Result<(), CommandError> {
    if global.json {
        let document = json!({
            "scenario": scenario.name,
            "seconds": scenario.duration.as_secs_f64(),
            "runs": shares.first().map_or(0, |share| share.goodput.count),
            "shares": shares,
            "end": if is_interrupted { "interrupted" } else { "complete" },
        });
        return json::print(&document).map_err(CommandError::from);
    }
    print_line(sharing::text(shares).trim_end())
}

const DEFAULT: [&str; 4] =
    ["manyway:congestion=fair", "manyway:congestion=fair", "manyway:congestion=fair", "tcp-cubic"];
const REPETITIONS: u32 = 3;
const QUICK: Duration = Duration::from_secs(10);
/// A shorter run says nothing about shares.
const SHORTEST: Duration = Duration::from_secs(4);
/// Setting up and tearing down hosts, links and connections.
const AROUND: Duration = Duration::from_secs(3);
/// Each is two processes.
const MOST: usize = 16;
const MOST_SEEDS: u64 = 16;

#[cfg(test)]
mod tests {
    use manyway_lab::measures::Spread;

    use super::*;

    #[test]
    fn contenders_outside_the_limits_are_named() {
        let share = |contender: &str, of_last: f64| Share {
            contender: contender.to_owned(),
            goodput: Spread::of([10.0]).unwrap(),
            of_last: Spread::of([of_last]).unwrap(),
            over_time: Vec::new(),
        };
        let shares = [share("manyway", 1.9), share("tcp-bbr", 0.8), share("tcp-cubic", 1.0)];
        let sentence = outside(&shares, (0.7, 1.4)).unwrap();
        assert_eq!(sentence, "manyway got 1.90 of what the last got; 0.7 to 1.4 were asked for");
        assert_eq!(outside(&shares, (0.7, 1.9)), None);
    }

    #[test]
    fn a_budget_takes_runs_first_and_then_length() {
        let fitted = |budget| {
            let scenario = Library::builtin().unwrap().find("one-bottleneck").unwrap().remove(0);
            let mut plan = Plan { scenario, repetitions: REPETITIONS };
            plan.fit(Duration::from_secs(budget));
            (plan.repetitions, plan.scenario.duration.as_secs())
        };
        // A minute each, plus setup.
        assert_eq!(fitted(200), (3, 60));
        assert_eq!(fitted(130), (2, 60));
        assert_eq!(fitted(30), (1, 27));
        assert_eq!(fitted(1), (1, 4));
    }
}
