//! Every scheduler with every congestion control: a table for each figure and direction, a line for each pair.

use std::fmt::Write as _;

use manyway_chart::{Align, Table};

use super::table::remarks;
use crate::campaign::{Case, Results, Way};
use crate::contender::{Contender, RouteChoice};
use crate::measures::{DeliveryFigures, Measures, count, megabits};
use crate::scenario::Direction;

/// A figure of a run, and the title of its table.
struct Figure {
    title: &'static str,
    of: fn(&Results, &Cell<'_>) -> Option<f64>,
}

/// A contender in a case.
struct Cell<'a> {
    place: usize,
    case: &'a Case,
    contender: &'a Contender,
}

const FIGURES: [Figure; 6] = [
    Figure { title: "goodput, % of what the links carry together with headers", of: of_sum },
    Figure { title: "goodput, % of our own over the best single path", of: of_best },
    Figure { title: "most bytes that waited at the receiver for others, KiB", of: held },
    Figure {
        title: "delivery delay from the first sending, median, ms",
        of: |results, cell| delay(results, cell, |it| it.median),
    },
    Figure {
        title: "delivery delay from the first sending, 95 %, ms",
        of: |results, cell| delay(results, cell, |it| it.p95),
    },
    Figure { title: "longest stall at the receiving application, ms", of: silence },
];

/// The tables. Columns are the scenarios by number, listed before; medians of the repetitions.
pub fn matrix(results: &Results) -> String {
    let mut text = String::new();
    let mut scenarios: Vec<&str> = Vec::new();
    for case in &results.plan.cases {
        if !scenarios.contains(&case.scenario.name.as_str()) {
            scenarios.push(&case.scenario.name);
            let _ = writeln!(text, "{:>3}  {}: {}", scenarios.len(), case.scenario.name, case.scenario.title);
        }
    }
    for figure in &FIGURES {
        for (way, word) in [(Way::AsWritten, ""), (Way::Reversed, " (reversed)")] {
            if results.plan.cases.iter().any(|case| case.way == way) {
                let _ = write!(text, "\n{}{word}\n{}", figure.title, table(results, figure, way, &scenarios));
            }
        }
    }
    for line in remarks(results) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn table(results: &Results, figure: &Figure, way: Way, scenarios: &[&str]) -> Table {
    let numbers: Vec<String> = (1..=scenarios.len()).map(|number| number.to_string()).collect();
    let heads = [("congestion", Align::Left), ("scheduler", Align::Left)];
    let heads = heads.into_iter().chain(numbers.iter().map(|number| (number.as_str(), Align::Right)));
    let mut table = Table::new(heads);
    let mut last = String::new();
    for name in results.contenders() {
        let Some((congestion, scheduler)) = pair(&name) else { continue };
        let cell = |scenario: &&str| -> String {
            let is_it = |case: &Case| case.way == way && case.scenario.name == **scenario;
            let Some(place) = results.plan.cases.iter().position(is_it) else { return String::new() };
            let value = results.plan.cases.get(place).and_then(|case| {
                let contender = case.contenders.iter().find(|contender| contender.to_string() == name)?;
                (figure.of)(results, &Cell { place, case, contender })
            });
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
        };
        let shown = if congestion == last { String::new() } else { congestion.clone() };
        last = congestion;
        table.row([shown, scheduler].into_iter().chain(scenarios.iter().map(cell)));
    }
    table
}

/// Congestion control and scheduler of a contender over all paths.
fn pair(name: &str) -> Option<(String, String)> {
    let Ok(Contender::Manyway(settings)) = name.parse() else { return None };
    let default = |setting: Option<String>| setting.unwrap_or_else(|| "default".to_owned());
    (settings.routes == RouteChoice::All).then(|| (default(settings.congestion), default(settings.scheduler)))
}

fn median(results: &Results, cell: &Cell<'_>, figure: impl Fn(&Measures) -> Option<f64>) -> Option<f64> {
    let contender = cell.case.contenders.iter().position(|contender| contender == cell.contender)?;
    results.spread(cell.place, contender, figure).map(|spread| spread.median)
}

fn of_sum(results: &Results, cell: &Cell<'_>) -> Option<f64> {
    let sends = |way: Direction| {
        cell.case.scenario.traffic.iter().any(|traffic| [way, Direction::Both].contains(&traffic.direction()))
    };
    let ways = [Direction::Up, Direction::Down].into_iter().filter(|way| sends(*way));
    let sum: f64 = ways.map(|way| megabits(cell.case.scenario.sum(way))).sum();
    let goodput = median(results, cell, |measures| Some(measures.megabits()))?;
    (sum > 0.0).then(|| goodput / sum * 100.0)
}

fn of_best(results: &Results, cell: &Cell<'_>) -> Option<f64> {
    let Contender::Manyway(settings) = cell.contender else { return None };
    let alone = |contender: &&Contender| match contender {
        Contender::Manyway(other) => {
            other.routes == RouteChoice::Best && other.congestion == settings.congestion
        }
        Contender::Tcp { .. }
        | Contender::Possible { .. }
        | Contender::Mptcp { .. }
        | Contender::Through(_)
        | Contender::Chunks(_)
        | Contender::External(_) => false,
    };
    let contender = cell.case.contenders.iter().find(alone)?;
    let best = Cell { place: cell.place, case: cell.case, contender };
    let goodput = |cell| median(results, cell, |measures| Some(measures.megabits()));
    let best = goodput(&best).filter(|best| *best > 0.0)?;
    Some(goodput(cell)? / best * 100.0)
}

fn held(results: &Results, cell: &Cell<'_>) -> Option<f64> {
    median(results, cell, |measures| Some(count(measures.delivery?.most_held.get()) / 1024.0))
}

fn delay(
    results: &Results,
    cell: &Cell<'_>,
    which: impl Fn(DeliveryFigures) -> Option<std::time::Duration>,
) -> Option<f64> {
    median(results, cell, |measures| Some(which(measures.delivery?)?.as_secs_f64() * 1e3))
}

fn silence(results: &Results, cell: &Cell<'_>) -> Option<f64> {
    median(results, cell, |measures| Some(measures.silence.as_secs_f64() * 1e3))
}
