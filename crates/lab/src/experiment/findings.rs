//! The results of an experiment, and whether its claims hold.

use super::quantity::Place;
use super::{Bound, Claim, Experiment, Extent, Quantity, Row};
use crate::campaign::{Results, Standing, Timing};
use crate::gates::{Judgement, at_least, at_most};
use crate::measures::Spread;

/// An experiment that was run.
#[derive(Debug)]
pub struct Findings<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The results of its campaign.
    pub results: &'a Results,
    /// Every planned row, with the index of its case.
    rows: Vec<(Row, usize)>,
}

/// The result of a claim in a row.
#[derive(Debug)]
pub struct Finding<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Index of the row.
    pub row: usize,
    /// The value reached; `None` if it was not measured.
    pub reached: Option<Spread>,
    /// Whether that satisfies the claim; `None` if it was not measured.
    pub judgement: Option<Judgement>,
}

impl<'a> Findings<'a> {
    /// Uses the results of the campaign that [`plan`](super::plan) made of the same extent.
    pub fn new(experiment: &'a Experiment, extent: Extent, results: &'a Results) -> Self {
        let case = |row: Row| {
            let name = experiment.scenario_name(&row);
            let place = results.plan.cases.iter().position(|case| case.scenario.name == name)?;
            Some((row, place))
        };
        let rows = experiment.rows_of(extent).into_iter().filter_map(case).collect();
        Self { experiment, results, rows }
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().map(|(row, _)| row)
    }

    /// A number of a row over all repetitions; `None` if it was not measured.
    pub fn number(&self, row: usize, quantity: &Quantity) -> Option<Spread> {
        let place = |repetition| Place { results: self.results, rows: &self.rows, row, repetition };
        Spread::of((0..self.results.plan.repetitions).filter_map(|repetition| quantity.of(place(repetition))))
    }

    /// The result of each claim in each row to which it applies.
    pub fn judged(&self) -> Vec<Finding<'a>> {
        let pairs = self.experiment.claims.iter().flat_map(|claim| {
            let rows = self.rows().enumerate().filter(|(_, row)| (claim.applies)(row));
            rows.map(move |(row, _)| (claim, row))
        });
        let judge = |(claim, row): (&'a Claim, usize)| {
            let reached = self.number(row, &claim.quantity);
            Finding { claim, row, reached, judgement: reached.map(|reached| self.judge(claim, reached)) }
        };
        pairs.map(judge).collect()
    }

    /// Number of failed runs of Manyway and its verbs.
    pub fn broken(&self) -> usize {
        let is_ours = |run: &&crate::campaign::Run| {
            let case = self.results.plan.cases.get(run.case);
            let contender = case.and_then(|case| case.contenders.get(run.contender));
            matches!(contender, Some(crate::Contender::Manyway(_) | crate::Contender::Through(_)))
        };
        let counted = self.results.runs.iter().filter(|run| run.standing == Standing::Counts);
        counted.filter(is_ours).filter(|run| run.failure.is_some()).count()
    }

    /// Whether all measured claims hold; `None` if none was measured.
    pub fn hold(&self) -> Option<bool> {
        let judgements: Vec<Judgement> = self.judged().iter().filter_map(|one| one.judgement).collect();
        let all = judgements.iter().all(|judgement| judgement.has_passed()) && self.broken() == 0;
        (!judgements.is_empty()).then_some(all)
    }

    fn judge(&self, claim: &Claim, reached: Spread) -> Judgement {
        let judgement = match claim.bound {
            Bound::AtLeast(limit) => at_least(reached, 1.0, certain(limit)),
            Bound::AtMost(limit) => at_most(reached, limit),
        };
        match self.results.plan.timing {
            Timing::Real => judgement,
            Timing::Virtual => judgement.by_the_median(),
        }
    }
}

/// A number that does not vary.
const fn certain(value: f64) -> Spread {
    Spread { median: value, least: value, most: value, lower: value, upper: value, count: 1 }
}
