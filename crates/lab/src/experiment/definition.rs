//! What an experiment consists of.

use super::quantity::Quantity;
use super::row::Row;

/// An experiment, mostly of a document.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line, such as `goff-fig4`.
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Document and place in it, with the page where its copy tells that.
    pub source: &'static str,
    /// The document's result, as a sentence; empty without a document.
    pub found: &'static str,
    /// Choices where the document is silent or cannot be followed, and the meaning of its words here.
    pub chosen: &'static str,
    /// The names of the values of a row, with their units. Rows that differ by their phase alone have none.
    pub values: &'static [&'static str],
    /// The rows, in the order of the table.
    pub rows: fn() -> Vec<Row>,
    /// The scenario of a row's values, as TOML.
    pub template: fn(&[f64]) -> String,
    /// The contenders everywhere; `{0}` in a name stands for the first value of the row. Without any the experiment runs on real sockets alone.
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
    /// The figures over time to draw, if those of every report are not the document's.
    pub traces: &'static [Trace],
}

/// Whether Manyway also runs over each route alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// It does.
    Runs,
    /// It is not needed.
    Not,
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
    /// A rate in 10⁶ bytes a second, or 10⁶ bytes.
    Megabytes,
    /// 10³ bytes.
    Kilobytes,
    /// A time in seconds.
    Seconds,
    /// A share of one, in percent.
    Share,
    /// How many times.
    Times,
    /// A whole number.
    Number,
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

/// AMS as its document has it: TCP connections with Reno, striped by the share of each window in use, no address in two
/// of them.
pub(super) const AMS: &str = "manyway:carrier=tcp,scheduler=outstanding-ratio,congestion=reno,pairs=disjoint";

/// A figure over time.
#[derive(Debug, Clone, Copy)]
pub enum Trace {
    /// The sequence numbers of a contender in each scenario: the bytes of each flow, and of the whole.
    Sequence(&'static str),
    /// How the receivers of these contenders hold their target rates: the rate, the sum of all receive windows, and the
    /// number of connections.
    Control(&'static [&'static str]),
}

/// Of every row.
pub(super) const fn everywhere(_: &Row) -> bool {
    true
}
