//! The results of a campaign, run by run.

use std::time::Duration;

use super::machine::{Disturbance, Machine};
use super::plan::{Case, Plan};
use crate::error::LabError;
use crate::measures::{Measures, Spread};
use crate::outcome::Outcome;

/// A run that ended.
#[derive(Debug, Clone)]
pub struct Run {
    /// Index of its case in the plan.
    pub case: usize,
    /// Index of the contender in its case.
    pub contender: usize,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Its seed.
    pub seed: u64,
    /// Whether it counts for its repetition.
    pub standing: Standing,
    /// Its figures.
    pub measures: Measures,
    /// Why the contender failed.
    pub failure: Option<String>,
    /// Remarks for the reader of the figures.
    pub remarks: Vec<String>,
    /// Load by others; `None` in virtual time.
    pub disturbance: Option<Disturbance>,
    /// Its duration, setup included.
    pub took: Duration,
    /// Bytes over time, if they are kept.
    pub course: Option<Outcome>,
}

/// Whether a run counts for its repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Counts,
    /// It was disturbed, and its repetition was disturbed less.
    Replaced,
}

impl Run {
    /// Whether other programs disturbed it.
    pub fn is_disturbed(&self) -> bool {
        self.disturbance.is_some_and(|disturbance| disturbance.is_notable())
    }

    pub(super) fn disturbance_weight(&self) -> f64 {
        self.disturbance.map_or(0.0, |disturbance| disturbance.weight())
    }
}

/// A contender that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Its name.
    pub contender: String,
    /// The case; `None` means everywhere.
    pub case: Option<usize>,
    /// Why, in a sentence.
    pub reason: String,
}

/// How a campaign ended.
#[derive(Debug)]
pub enum End {
    /// Everything was run.
    Complete,
    /// The budget was used up.
    OutOfTime,
    /// The user interrupted.
    Interrupted,
    /// It could not continue.
    Failed(LabError),
}

impl End {
    /// Its name in documents for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::OutOfTime => "out-of-time",
            Self::Interrupted => "interrupted",
            Self::Failed(_) => "failed",
        }
    }
}

/// The results of a campaign.
#[derive(Debug)]
pub struct Results {
    /// The plan.
    pub plan: Plan,
    /// Every run that ended, in order.
    pub runs: Vec<Run>,
    /// Contenders that did not run.
    pub skipped: Vec<Skip>,
    /// What was left out to keep to the budget.
    pub notes: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// How it ended.
    pub end: End,
    /// Its duration.
    pub took: Duration,
}

impl Results {
    /// The runs of a contender in a case that count, in order.
    pub fn of(&self, case: usize, contender: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| {
            (run.case, run.contender) == (case, contender) && run.standing == Standing::Counts
        })
    }

    /// A figure of a contender in a case over all repetitions. Runs without that figure are left out.
    pub fn spread(
        &self,
        case: usize,
        contender: usize,
        figure: impl Fn(&Measures) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.of(case, contender).filter_map(|run| figure(&run.measures)))
    }

    /// Index of a contender in a case, by its name.
    pub fn place(&self, case: usize, name: &str) -> Option<usize> {
        self.plan.cases.get(case)?.contenders.iter().position(|contender| contender.to_string() == name)
    }

    /// The goodput of a contender in a case in Mbit/s, by name. A failed run counts with what it delivered.
    pub fn goodput(&self, case: usize, name: &str) -> Option<Spread> {
        self.spread(case, self.place(case, name)?, |measures| Some(measures.megabits()))
    }

    /// The run of a contender in a case, by name, whose goodput is nearest to the median.
    pub fn middle(&self, case: usize, name: &str) -> Option<&Run> {
        let median = self.goodput(case, name)?.median;
        let distance = |run: &&Run| (run.measures.megabits() - median).abs();
        let runs = self.of(case, self.place(case, name)?);
        runs.min_by(|one, other| distance(one).total_cmp(&distance(other)))
    }

    /// The names of all contenders, in the order of their first appearance in the plan.
    pub fn contenders(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for contender in self.plan.cases.iter().flat_map(|case: &Case| &case.contenders) {
            let name = contender.to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Number of runs that count for a repetition.
    pub fn counted(&self) -> usize {
        self.runs.iter().filter(|run| run.standing == Standing::Counts).count()
    }

    /// Number of those runs that were disturbed by other programs.
    pub fn disturbed(&self) -> usize {
        self.runs.iter().filter(|run| run.standing == Standing::Counts && run.is_disturbed()).count()
    }
}
