//! What came out of a campaign, run by run.

use std::time::Duration;

use super::machine::{Disturbance, Machine};
use super::plan::{Case, Plan};
use crate::error::LabError;
use crate::measures::{Measures, Spread};
use crate::outcome::Outcome;

/// A run that ended.
#[derive(Debug, Clone)]
pub struct Run {
    /// The place of its case in the plan.
    pub case: usize,
    /// The place of the contender in its case.
    pub contender: usize,
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Its seed.
    pub seed: u64,
    /// Whether it stands for its repetition.
    pub standing: Standing,
    /// What counts of it.
    pub measures: Measures,
    /// Why the contender broke down.
    pub failure: Option<String>,
    /// What a reader of the figures must know.
    pub remarks: Vec<String>,
    /// What others took of the machine; `None` in virtual time.
    pub disturbance: Option<Disturbance>,
    /// How long it took, set-up included.
    pub took: Duration,
    /// Bytes over time, if they are kept.
    pub course: Option<Outcome>,
}

/// Whether a run stands for its repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    Counts,
    /// It was disturbed, and another one was disturbed less.
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
    /// Where it did not; `None` means nowhere.
    pub case: Option<usize>,
    /// Why, in a sentence.
    pub reason: String,
}

/// How a campaign ended.
#[derive(Debug)]
pub enum End {
    /// Everything was run.
    Complete,
    /// The time was over.
    OutOfTime,
    /// The user had enough.
    Interrupted,
    /// It could not go on.
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

/// What came out.
#[derive(Debug)]
pub struct Results {
    /// What was to be run.
    pub plan: Plan,
    /// Every run that ended, in order.
    pub runs: Vec<Run>,
    /// Who did not run.
    pub skipped: Vec<Skip>,
    /// What was left out to keep to the budget.
    pub notes: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// How it ended.
    pub end: End,
    /// How long it took.
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

    /// The place of a contender in a case by its name.
    pub fn place(&self, case: usize, name: &str) -> Option<usize> {
        self.plan.cases.get(case)?.contenders.iter().position(|contender| contender.to_string() == name)
    }

    /// The goodput of a contender in a case in Mbit/s, by name. A run that failed counts with what it delivered.
    pub fn goodput(&self, case: usize, name: &str) -> Option<Spread> {
        self.spread(case, self.place(case, name)?, |measures| Some(measures.megabits()))
    }

    /// The names of all contenders, in the order in which they first stand in the plan.
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

    /// How many runs count, those that stand for no repetition left out.
    pub fn counted(&self) -> usize {
        self.runs.iter().filter(|run| run.standing == Standing::Counts).count()
    }

    /// How many runs that count were disturbed by other programs.
    pub fn disturbed(&self) -> usize {
        self.runs.iter().filter(|run| run.standing == Standing::Counts && run.is_disturbed()).count()
    }
}
