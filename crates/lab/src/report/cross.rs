//! What others got beside each contender: whether they shared the links.

use manyway_chart::Align;
use serde_json::{Value, json};

use super::grid::{self, Grid, Row};
use super::{describe, numbers};
use crate::campaign::Results;
use crate::measures::{CrossFigures, Measures, Spread, megabits};
use crate::scenario::Scenario;

const COLUMNS: [(&str, Align); 6] = [
    ("scenario", Align::Left),
    ("beside", Align::Left),
    ("traffic of others", Align::Left),
    ("Mbit/s", Align::Right),
    ("a flow", Align::Right),
    ("contender meanwhile", Align::Right),
];

/// A line for each entry of the traffic of others beside each contender; no line if there is no such traffic.
pub(super) fn grid(results: &Results) -> Grid {
    let rows = grid::rows(results);
    let lines = rows.iter().flat_map(|row| {
        let case = results.plan.cases.get(row.case);
        let entries = case.into_iter().flat_map(|case| {
            let traffic = case.scenario.cross_traffic.iter().enumerate();
            traffic
                .map(move |(entry, traffic)| (entry, case.label(), describe::cross(&case.scenario, traffic)))
        });
        entries.map(|(entry, label, words)| {
            let figure = |which: fn(&CrossFigures) -> f64| {
                numbers::of(spread(results, row, entry, which), numbers::megabits)
            };
            let (least, most) = (figure(|one| megabits(one.slowest)), figure(|one| megabits(one.fastest)));
            vec![
                label,
                row.name.clone(),
                words,
                figure(|one| megabits(one.goodput)),
                if least == most { least } else { format!("{least}–{most}") },
                figure(|one| megabits(one.beside)),
            ]
        })
    });
    Grid { columns: COLUMNS.to_vec(), rows: lines.collect() }
}

/// The entries of a run.
pub(super) fn of_run(scenario: &Scenario, measures: &Measures) -> Value {
    let entries = scenario.cross_traffic.iter().zip(&measures.cross);
    let entry = |(traffic, figures): (&_, &CrossFigures)| {
        json!({
            "traffic": describe::cross(scenario, traffic),
            "bits_per_second": figures.goodput.bits_per_second(),
            "slowest": figures.slowest.bits_per_second(),
            "fastest": figures.fastest.bits_per_second(),
            "contender_bits_per_second": figures.beside.bits_per_second(),
        })
    };
    entries.map(entry).collect()
}

/// The entries beside a contender in a case, over all runs.
pub(super) fn summary(results: &Results, row: &Row) -> Value {
    let scenario = results.plan.cases.get(row.case).map(|case| &case.scenario);
    let entries = scenario.into_iter().flat_map(|scenario| {
        let traffic = scenario.cross_traffic.iter().enumerate();
        traffic.map(move |(entry, traffic)| (entry, describe::cross(scenario, traffic)))
    });
    let entry = |(entry, words): (usize, String)| {
        json!({
            "traffic": words,
            "megabits": spread(results, row, entry, |one| megabits(one.goodput)),
            "contender_megabits": spread(results, row, entry, |one| megabits(one.beside)),
        })
    };
    entries.map(entry).collect()
}

fn spread(results: &Results, row: &Row, entry: usize, which: fn(&CrossFigures) -> f64) -> Option<Spread> {
    results.spread(row.case, row.contender, |measures| measures.cross.get(entry).map(which))
}
