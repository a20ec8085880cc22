//! The table for people.

use manyway_chart::{Align, Table};

use super::cross;
pub(super) use super::grid::{Grid, Row, rows};
use super::numbers::{self, milliseconds, seconds};
use crate::campaign::{End, Results, Run, Skip};
use crate::measures::{Measures, MessageFigures, Spread};

/// Latency of messages in seconds; infinite if it never arrived.
pub(super) fn latency(
    messages: Option<MessageFigures>,
    which: impl Fn(MessageFigures) -> Option<std::time::Duration>,
) -> Option<f64> {
    messages.map(|figures| which(figures).map_or(f64::INFINITY, |time| time.as_secs_f64()))
}

/// The share of `possible` in a case that a contender reached.
pub(super) fn of_possible(results: &Results, case: usize, goodput: Option<Spread>) -> Option<f64> {
    let possible = results.goodput(case, "possible")?;
    goodput.filter(|_| possible.median > 0.0).map(|goodput| goodput.median / possible.median)
}

/// Columns with any figure, and a row for each contender in each case.
impl Grid {
    pub(super) fn of(results: &Results) -> Self {
        let cells: Vec<Vec<String>> = rows(results).iter().map(|row| cells(results, row)).collect();
        let is_used =
            |place: &usize| cells.iter().any(|row| row.get(*place).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<usize> = (0..COLUMNS.len()).filter(is_used).collect();
        let kept = |row: &Vec<String>| used.iter().filter_map(|place| row.get(*place).cloned()).collect();
        Self {
            columns: used.iter().filter_map(|place| COLUMNS.get(*place).copied()).collect(),
            rows: cells.iter().map(kept).collect(),
        }
    }
}

/// The whole table, and below it the remarks. Columns without any figure are left out.
pub fn table(results: &Results) -> String {
    let mut text = written(Grid::of(results));
    let cross = written(cross::grid(results));
    if !cross.is_empty() {
        text.push('\n');
        text.push_str(&cross);
        text.push('\n');
    }
    for line in remarks(results) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A grid as text; nothing for one without rows.
fn written(Grid { columns, rows }: Grid) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(columns);
    let mut last = String::new();
    for mut row in rows {
        // The name of a scenario is printed once.
        if let Some(name) = row.first_mut() {
            let is_same = *name == last;
            last.clone_from(name);
            if is_same {
                name.clear();
            }
        }
        table.row(row);
    }
    table.to_string()
}

const COLUMNS: [(&str, Align); 14] = [
    ("scenario", Align::Left),
    ("contender", Align::Left),
    ("Mbit/s", Align::Right),
    ("least–most", Align::Right),
    ("of possible", Align::Right),
    ("set-up", Align::Right),
    ("stall", Align::Right),
    ("used again", Align::Right),
    ("recovery", Align::Right),
    ("CPU s/GB", Align::Right),
    ("message p50", Align::Right),
    ("p99", Align::Right),
    ("p99.9", Align::Right),
    ("", Align::Left),
];

fn cells(results: &Results, row: &Row) -> Vec<String> {
    let spread = |figure: &dyn Fn(&Measures) -> Option<f64>| results.spread(row.case, row.contender, figure);
    let goodput = spread(&|measures| Some(measures.megabits()));
    let share = of_possible(results, row.case, goodput);
    let failed = results.of(row.case, row.contender).filter(|run| run.failure.is_some()).count();
    let case = results.plan.cases.get(row.case);
    let label = case.map(crate::campaign::Case::label);
    // Elsewhere it is a matter of a few round trips.
    let set_up =
        case.filter(|case| case.scenario.blocks_udp()).and_then(|_| spread(&Measures::set_up_seconds));
    vec![
        label.unwrap_or_default(),
        row.name.clone(),
        numbers::of(goodput, numbers::megabits),
        numbers::range(goodput, numbers::megabits),
        share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0)),
        numbers::of(set_up, seconds),
        numbers::of(spread(&|measures| Some(measures.silence.as_secs_f64())), seconds),
        numbers::of(spread(&Measures::used_again), seconds),
        numbers::of(spread(&Measures::recovery), seconds),
        numbers::of(spread(&Measures::cpu_per_gigabyte), |value| format!("{value:.2}")),
        numbers::of(spread(&|measures| latency(measures.messages, |figures| figures.median)), milliseconds),
        numbers::of(spread(&|measures| latency(measures.messages, |figures| figures.p99)), milliseconds),
        numbers::of(spread(&|measures| latency(measures.messages, |figures| figures.p999)), milliseconds),
        if failed == 0 { String::new() } else { format!("{failed} failed") },
    ]
}

/// Remarks for the reader of the figures, a sentence a line.
pub(crate) fn remarks(results: &Results) -> Vec<String> {
    let label =
        |case: usize| results.plan.cases.get(case).map(crate::campaign::Case::label).unwrap_or_default();
    let name = |run: &Run| -> String {
        let case = results.plan.cases.get(run.case);
        case.and_then(|case| case.contenders.get(run.contender)).map(ToString::to_string).unwrap_or_default()
    };
    let mut lines = results.notes.clone();
    for skip in &results.skipped {
        lines.push(skipped(skip, skip.case.map(label)));
    }
    let mut told: Vec<String> = Vec::new();
    for run in &results.runs {
        let failure = run.failure.iter().map(|reason| format!("failed: {reason}"));
        for remark in failure.chain(run.remarks.clone()) {
            let line = format!("{}, {}: {remark}", label(run.case), name(run));
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    told.extend(rows(results).iter().filter_map(|row| {
        let remark = untold(results.of(row.case, row.contender))?;
        Some(format!("{}, {}: {remark}", label(row.case), row.name))
    }));
    let more = told.len().saturating_sub(MOST_REMARKS);
    lines.extend(told.into_iter().take(MOST_REMARKS));
    if more > 0 {
        lines.push(format!("… and {more} more remarks, which the JSON has"));
    }
    if let Some(line) = disturbance(results) {
        lines.push(line);
    }
    lines.extend(end(results));
    lines
}

/// Number of returns of routes, in all runs that count, that were too short to judge.
fn untold<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<String> {
    let sum = |all: (usize, usize), one: (usize, usize)| (all.0 + one.0, all.1 + one.1);
    let (untold, returns) = runs.map(|run| run.measures.untold_returns()).fold((0, 0), sum);
    let what = format!("{untold} of {returns} returns were too short to see whether the route is used again");
    (untold > 0).then_some(what)
}

/// Why a contender did not run.
pub(super) fn skipped(skip: &Skip, case: Option<String>) -> String {
    match case {
        Some(case) => format!("{} did not run in {case}: {}", skip.contender, skip.reason),
        None => format!("{} did not run: {}", skip.contender, skip.reason),
    }
}

fn disturbance(results: &Results) -> Option<String> {
    let disturbed = results.disturbed();
    let counted = results.runs.iter().filter(|run| run.standing == crate::campaign::Standing::Counts);
    let worst =
        counted.clone().filter_map(|run| run.disturbance).max_by(|a, b| a.weight().total_cmp(&b.weight()))?;
    let all = counted.count();
    (disturbed > 0).then(|| {
        let runs =
            if all == 1 { "the run was".to_owned() } else { format!("{disturbed} of {all} runs were") };
        format!("warning: {runs} disturbed; at worst {}", worst.words())
    })
}

fn end(results: &Results) -> Option<String> {
    let (ran, all) = (results.counted(), results.plan.runs());
    match &results.end {
        End::Complete => None,
        End::OutOfTime => Some(format!("the time was over: {ran} of {all} runs were made")),
        End::Interrupted => Some(format!("interrupted: {ran} of {all} runs were made")),
        End::Failed(error) => Some(format!("could not go on after {ran} of {all} runs: {error}")),
    }
}

const MOST_REMARKS: usize = 12;
