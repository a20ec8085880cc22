//! The campaign of an experiment.

use std::time::Duration;

use manyway_units::text;

use super::{Alone, Experiment, Extent, Row};
use crate::LabError;
use crate::campaign::{Case, Course, Plan, Timing, Way};
use crate::contender::Contender;
use crate::scenario::Scenario;

impl Experiment {
    /// Whether virtual time has none of its contenders.
    pub const fn needs_sockets(&self) -> bool {
        self.contenders.is_empty()
    }

    /// Default repetitions: as in the documents, which used the mean of three to five runs; on real sockets alone five,
    /// as for scenarios.
    pub const fn repetitions(&self) -> u32 {
        if self.needs_sockets() { 5 } else { 3 }
    }

    /// The rows that are run.
    pub fn rows_of(&self, extent: Extent) -> Vec<Row> {
        let is_run = |row: &Row| extent == Extent::Full || row.extent == Extent::Quick;
        (self.rows)().into_iter().filter(is_run).collect()
    }

    /// The scenario of a row in its full length.
    ///
    /// # Errors
    /// Never in a tested program: the template makes an invalid scenario.
    pub fn scenario(&self, row: &Row) -> Result<Scenario, LabError> {
        let alone = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut scenario = Scenario::parse(self.name, &(self.template)(&row.values), &alone)?;
        let names = self.values.iter().zip(&row.values);
        let values: Vec<String> = names.clone().map(|(name, value)| format!("{name} {value}")).collect();
        scenario.name = self.scenario_name(row);
        scenario.title = if values.is_empty() { self.title.to_owned() } else { values.join(", ") };
        self.group().clone_into(&mut scenario.group);
        self.source.clone_into(&mut scenario.source);
        Ok(scenario)
    }

    /// The name of the scenario of a row.
    pub(super) fn scenario_name(&self, row: &Row) -> String {
        row.values.iter().fold(self.name.to_owned(), |name, value| format!("{name}-{value}"))
    }

    /// The group of all experiments.
    pub const fn group(&self) -> &'static str {
        "experiments"
    }

    fn contenders(&self, row: &Row, scenario: &Scenario, timing: Timing) -> Result<Vec<Contender>, LabError> {
        let mut names: Vec<String> = self.contenders.iter().map(|name| row.filled(name)).collect();
        if self.alone == Alone::Runs {
            names.extend((1..=scenario.routes.len()).map(|number| format!("manyway@{number}")));
        }
        if timing == Timing::Real {
            names.extend(self.kernel.iter().map(|name| (*name).to_owned()));
        }
        let read =
            |name: &String| name.parse().map_err(|error| LabError::Scenario(format!("{name}: {error}")));
        names.iter().map(read).collect()
    }
}

/// Plans an experiment: a case for each set of values, in the order of the rows.
///
/// # Errors
/// Never in a tested program: a template or the name of a contender is wrong.
pub fn plan(experiment: &Experiment, extent: Extent, timing: Timing) -> Result<Plan, LabError> {
    let mut cases: Vec<Case> = Vec::new();
    for row in experiment.rows_of(extent) {
        let scenario = experiment.scenario(&row)?;
        if cases.iter().any(|case| case.scenario.name == scenario.name) {
            continue;
        }
        let contenders = experiment.contenders(&row, &scenario, timing)?;
        let duration = match extent {
            Extent::Full => scenario.duration,
            Extent::Quick => (scenario.duration / QUICK).max(Plan::SHORTEST.min(scenario.duration)),
        };
        cases.push(Case { scenario: scenario.with_duration(duration), way: Way::AsWritten, contenders });
    }
    Ok(Plan {
        cases,
        repetitions: if extent == Extent::Quick { 1 } else { experiment.repetitions() },
        seed: 1,
        timing,
        budget: None,
        repeats_disturbed: extent == Extent::Full,
        // Phases and routes are looked up in it.
        course: Course::Kept,
    })
}

/// Leaves runs of a quick plan out until it fits into a time: rows but the first and the last, then the first, then
/// contenders, those that no claim names first. What is left has this time as its budget, which shortens it if need be.
/// Returns a sentence if something was left out.
pub fn thin(experiment: &Experiment, plan: &mut Plan, time: Duration) -> Option<String> {
    let all = plan.runs();
    while plan.cases.len() > 1 && plan.estimate() > time {
        let middle = (plan.cases.len() - 1) / 2;
        plan.cases.remove(middle);
    }
    let mut named = Vec::new();
    experiment.claims.iter().for_each(|claim| claim.quantity.contenders(&mut named));
    let rank = |who: &Contender| {
        let name = who.to_string();
        named.iter().position(|one| *one == name).unwrap_or(usize::MAX)
    };
    while plan.estimate() > time {
        let case = plan.cases.iter_mut().max_by_key(|case| case.contenders.len());
        let Some(case) = case.filter(|case| case.contenders.len() > 1) else { break };
        let least =
            case.contenders.iter().enumerate().max_by_key(|(_, who)| rank(who)).map(|(place, _)| place);
        least.into_iter().for_each(|place| drop(case.contenders.remove(place)));
    }
    plan.budget = Some(time);
    let kept = plan.runs();
    (kept < all).then(|| format!("{kept} runs instead of {all}, to fit into {}", text::duration(time)))
}

/// Divisor of the time.
const QUICK: u32 = 10;
