//! Rows and columns of a table.

use manyway_chart::Align;

use crate::campaign::Results;

/// A contender in a case.
pub(super) struct Row {
    pub(super) case: usize,
    pub(super) contender: usize,
    pub(super) name: String,
}

/// Every contender in every case that ran at least once, in the order of the plan.
pub(super) fn rows(results: &Results) -> Vec<Row> {
    let cases = results.plan.cases.iter().enumerate();
    let rows = cases.flat_map(|(case, of)| {
        let names = of.contenders.iter().map(ToString::to_string).enumerate();
        names.map(move |(contender, name)| Row { case, contender, name })
    });
    rows.filter(|row| results.of(row.case, row.contender).next().is_some()).collect()
}

/// Columns with their names, and the cells of each row.
pub(super) struct Grid {
    pub(super) columns: Vec<(&'static str, Align)>,
    pub(super) rows: Vec<Vec<String>>,
}
