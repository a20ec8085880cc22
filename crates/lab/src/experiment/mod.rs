//! The experiments of the documents that this project implements, as data: the setting, the contenders, the document's
//! results, what is compared, and which claims must hold.
//!
//! An [`Experiment`] is a list of [`Row`]s. Each is run in the scenario that the experiment's template makes of its
//! values; rows of equal values share their runs, and look at different phases of them. [`plan`] makes a campaign of
//! it, [`Findings`] evaluate the results, and [`report`] prints them. An experiment is a file here and a line in
//! [`EXPERIMENTS`].

mod ams_fig10;
mod ams_fig12;
mod ams_fig9;
mod cmt_chunks;
mod cmt_duplicates;
mod cmt_paths;
mod findings;
mod goff_fig3;
mod goff_fig4;
mod goff_fig5;
mod plan;
mod quantity;
pub mod report;
#[cfg(test)]
mod tests;

pub use findings::{Finding, Findings};
pub use plan::{Extent, plan};
pub use quantity::{Measure, Quantity};

/// All, in the order of lists.
pub const EXPERIMENTS: [&Experiment; 11] = [
    &ams_fig9::EXPERIMENT,
    &ams_fig10::EXPERIMENT,
    &ams_fig12::EXPERIMENT,
    &cmt_chunks::BY_SIZE,
    &cmt_chunks::BY_NUMBER,
    &cmt_paths::EXPERIMENT,
    &cmt_duplicates::EXPERIMENT,
    &goff_fig3::EXPERIMENT,
    &goff_fig4::EXPERIMENT,
    &goff_fig5::SAME_ADDRESS,
    &goff_fig5::OTHER_ADDRESS,
];

/// Finds an experiment by its name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.into_iter().find(|experiment| experiment.name == name)
}

/// An experiment of a document.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line, such as `goff-fig4`.
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Document and place in it.
    pub source: &'static str,
    /// The document's result, as a sentence.
    pub found: &'static str,
    /// Choices where the document is silent or cannot be followed, and the meaning of its words here.
    pub chosen: &'static str,
    /// The names of the values of a row, with their units. Rows that differ by their phase alone have none.
    pub values: &'static [&'static str],
    /// The rows, in the order of the table.
    pub rows: fn() -> Vec<Row>,
    /// The scenario of a row's values, as TOML.
    pub template: fn(&[f64]) -> String,
    /// The contenders everywhere.
    pub contenders: &'static [&'static str],
    /// The additional contenders on real sockets.
    pub kernel: &'static [&'static str],
    /// Whether Manyway also runs over each route alone, for [`Quantity::Alone`].
    pub alone: Alone,
    /// The columns of the table after the values, in order.
    pub columns: &'static [Column],
    /// The claims.
    pub claims: &'static [Claim],
    /// The curves to draw, if the figure of the document is not one over time.
    pub curves: Option<Curves>,
}

/// Whether Manyway also runs over each route alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// It does.
    Runs,
    /// It is not needed.
    Not,
}

/// A line of the table.
#[derive(Debug, Clone)]
pub struct Row {
    /// The values for the scenario.
    pub values: Vec<f64>,
    /// The evaluated part of the runs; `None` for all of it.
    pub phase: Option<Phase>,
    /// The document's numbers.
    pub document: Vec<f64>,
    /// Whether it is also run in a quick extent.
    pub extent: Extent,
}

impl Row {
    /// A row that is only run in the full extent.
    pub fn new(values: impl Into<Vec<f64>>, document: impl Into<Vec<f64>>) -> Self {
        Self { values: values.into(), phase: None, document: document.into(), extent: Extent::Full }
    }

    /// The same, also run in a quick extent.
    #[must_use]
    pub fn quick(self) -> Self {
        Self { extent: Extent::Quick, ..self }
    }

    /// The same, evaluated in a part of the runs.
    #[must_use]
    pub fn during(self, name: &'static str, from: f64, to: f64) -> Self {
        Self { phase: Some(Phase { name, from, to }), ..self }
    }
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Its description.
    pub name: &'static str,
    /// Its start as a share of the duration.
    pub from: f64,
    /// Its end, likewise.
    pub to: f64,
}

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    /// Its head.
    pub head: &'static str,
    /// Its numbers.
    pub quantity: Quantity,
    /// The unit.
    pub unit: Unit,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A rate in Mbit/s.
    Megabits,
    /// A rate in 10⁶ bytes a second.
    Megabytes,
    /// A time in seconds.
    Seconds,
    /// A share of one, in percent.
    Share,
    /// How many times.
    Times,
}

/// A claim.
#[derive(Debug)]
pub struct Claim {
    /// What is compared, as text.
    pub what: &'static str,
    /// What is compared.
    pub quantity: Quantity,
    /// The bound.
    pub bound: Bound,
    /// The unit of both.
    pub unit: Unit,
    /// The rows to which it applies.
    pub applies: fn(&Row) -> bool,
}

/// The bound of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// It is not less.
    AtLeast(f64),
    /// It is not more.
    AtMost(f64),
}

/// A figure over one of the values.
#[derive(Debug)]
pub struct Curves {
    /// Index of the value on the horizontal axis; a figure is drawn for each value before it.
    pub over: usize,
    /// Label of the vertical axis, with the unit.
    pub unit: &'static str,
    /// The curves: name and numbers.
    pub series: &'static [(&'static str, Quantity)],
}

/// Of every row.
const fn everywhere(_: &Row) -> bool {
    true
}
