//! Prints an experiment for people and programs, and draws its figures.

use std::fmt::Write as _;

use manyway_chart::{Align, Curve, CurvePlot, Table};
use serde_json::{Map, Value, json};

use super::{Bound, Curves, Finding, Findings, Phase, Quantity, Row, Unit, trace};
use crate::error::LabError;
use crate::gates::Judgement;
use crate::measures::Spread;
use crate::report::{Picture, remarks};

/// The document's result, the table, the claims that do not hold, and remarks.
pub fn text(findings: &Findings<'_>) -> String {
    let experiment = findings.experiment;
    let mut text = format!("{}: {}\n{}\n", experiment.name, experiment.title, experiment.source);
    if !experiment.found.is_empty() {
        let _ = writeln!(text, "the document: {}", experiment.found);
    }
    if !experiment.chosen.is_empty() {
        let _ = writeln!(text, "here: {}", experiment.chosen);
    }
    text.push('\n');
    text + &result(findings)
}

/// The table, the claims that do not hold, and remarks.
pub fn result(findings: &Findings<'_>) -> String {
    let mut text = format!("{}\n{}", grid(findings), verdicts(findings));
    for line in remarks(findings.results) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The values and phases of rows, and the columns with any number.
fn grid(findings: &Findings<'_>) -> Table {
    let experiment = findings.experiment;
    let has_phases = findings.rows().any(|row| row.phase.is_some());
    let has_number = |quantity: &Quantity| {
        (0..findings.rows().count()).any(|row| findings.number(row, quantity).is_some())
    };
    let columns: Vec<_> = experiment.columns.iter().filter(|column| has_number(&column.quantity)).collect();
    let heads = experiment.values.iter().map(|name| (*name, Align::Right));
    let heads =
        heads.chain(has_phases.then_some([("time", Align::Right), ("", Align::Left)]).into_iter().flatten());
    let mut table = Table::new(heads.chain(columns.iter().map(|column| (column.head, Align::Right))));
    for (place, row) in findings.rows().enumerate() {
        let mut cells: Vec<String> = row.values.iter().map(ToString::to_string).collect();
        if has_phases {
            cells.extend(
                row.phase
                    .map_or_else(Default::default, |phase| [span(findings, &phase), phase.name.to_owned()]),
            );
        }
        let cell = |quantity, unit| {
            let spread: Option<Spread> = findings.number(place, quantity);
            spread.map_or_else(|| "-".to_owned(), |spread| ranged(findings, unit, spread))
        };
        cells.extend(columns.iter().map(|column| cell(&column.quantity, column.unit)));
        table.row(cells);
    }
    table
}

/// The median; where machines make runs differ, also the least and the greatest value.
fn ranged(findings: &Findings<'_>, unit: Unit, spread: Spread) -> String {
    let median = number(unit, spread.median);
    let is_ranged = findings.experiment.needs_sockets() && spread.count > 1;
    if !is_ranged {
        return median;
    }
    format!("{median} ({}–{})", number(unit, spread.least), number(unit, spread.most))
}

/// Start and end, in seconds.
fn span(findings: &Findings<'_>, phase: &Phase) -> String {
    let duration = findings.results.plan.cases.first().map(|case| case.scenario.duration).unwrap_or_default();
    let at = |share: f64| format!("{:.3}", duration.as_secs_f64() * share);
    let short = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    format!("{}–{} s", short(at(phase.from)), short(at(phase.to)))
}

/// A sentence for each claim, and a line for each row in which it does not hold.
fn verdicts(findings: &Findings<'_>) -> String {
    let judged = findings.judged();
    let mut text = String::new();
    for claim in findings.experiment.claims {
        let of_claim: Vec<&Finding<'_>> =
            judged.iter().filter(|finding| std::ptr::eq(finding.claim, claim)).collect();
        let known: Vec<Judgement> = of_claim.iter().filter_map(|finding| finding.judgement).collect();
        let passed = known.iter().filter(|judgement| judgement.has_passed()).count();
        let head = format!("{}, {}", claim.what, bound(claim.bound, claim.unit));
        let _ = match (known.len(), of_claim.len() - known.len()) {
            (0, _) => writeln!(text, "{head}: not measured"),
            (known, 0) => writeln!(text, "{head}: holds in {passed} of {known}"),
            (known, missing) => {
                writeln!(text, "{head}: holds in {passed} of {known}, {missing} not measured")
            }
        };
        for finding in of_claim {
            let is_short = finding.judgement.is_some_and(|judgement| !judgement.has_passed());
            if let Some(reached) = finding.reached.filter(|_| is_short) {
                let row =
                    findings.rows().nth(finding.row).map(|row| label(findings, row)).unwrap_or_default();
                let _ = writeln!(text, "  {row}: {}", number(claim.unit, reached.median));
            }
        }
    }
    match findings.broken() {
        0 => {}
        broken => {
            let _ = writeln!(text, "{broken} runs of manyway broke down");
        }
    }
    text
}

fn bound(bound: Bound, unit: Unit) -> String {
    match bound {
        Bound::AtLeast(limit) => format!("at least {}", number(unit, limit)),
        Bound::AtMost(limit) => format!("at most {}", number(unit, limit)),
    }
}

/// A row as text.
fn label(findings: &Findings<'_>, row: &Row) -> String {
    let values = findings.experiment.values.iter().zip(&row.values);
    let mut words: Vec<String> = values.map(|(name, value)| format!("{name} {value}")).collect();
    words.extend(row.phase.map(|phase| format!("{} ({})", span(findings, &phase), phase.name)));
    words.join(", ")
}

fn number(unit: Unit, value: f64) -> String {
    match unit {
        _ if value.is_infinite() => "never".to_owned(),
        Unit::Megabits if value < 1.0 => format!("{value:.4}"),
        Unit::Megabits => format!("{value:.2}"),
        Unit::Megabytes => format!("{value:.2}"),
        Unit::Kilobytes => format!("{value:.1} kB"),
        Unit::Seconds if value < 1.0 => format!("{:.0} ms", value * 1e3),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Times => format!("{value:.2}"),
        Unit::Number => format!("{value:.0}"),
    }
}

/// Everything as a document: rows with the spread of every column, and the claims.
pub fn document(findings: &Findings<'_>) -> Value {
    let experiment = findings.experiment;
    let rows = findings.rows().enumerate().map(|(place, row)| {
        // A list, since some heads occur twice, each beside what it belongs to.
        let figures = experiment.columns.iter().map(
            |column| json!({ "column": column.head, "value": findings.number(place, &column.quantity) }),
        );
        let figures: Vec<Value> = figures.collect();
        let values: Map<String, Value> = experiment
            .values
            .iter()
            .zip(&row.values)
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let phase = row.phase.map(|phase| json!({ "name": phase.name, "from": phase.from, "to": phase.to }));
        json!({ "values": values, "phase": phase, "figures": figures })
    });
    let claims = findings.judged().into_iter().map(|finding| {
        let (kind, limit) = match finding.claim.bound {
            Bound::AtLeast(limit) => ("at-least", limit),
            Bound::AtMost(limit) => ("at-most", limit),
        };
        json!({
            "claim": finding.claim.what,
            "row": finding.row,
            "bound": kind,
            "limit": limit,
            "reached": finding.reached,
            "judgement": finding.judgement,
        })
    });
    json!({
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "found": experiment.found,
        "chosen": experiment.chosen,
        "rows": rows.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "broken": findings.broken(),
        "holds": findings.hold(),
        "notes": remarks(findings.results),
        "end": findings.results.end.name(),
    })
}

/// The document's figures: over a value, one for each value before that, and over time. If there is none, the curves over
/// time that every report has are the figure.
///
/// # Errors
/// The drawing library fails.
pub fn pictures(findings: &Findings<'_>) -> Result<Vec<Picture>, LabError> {
    let mut pictures =
        findings.experiment.curves.as_ref().map_or(Ok(Vec::new()), |curves| over(findings, curves))?;
    for trace in findings.experiment.traces {
        pictures.extend(trace::draw(findings, trace)?);
    }
    Ok(pictures)
}

/// The figures over a value.
fn over(findings: &Findings<'_>, curves: &Curves) -> Result<Vec<Picture>, LabError> {
    let mut groups: Vec<Vec<f64>> = Vec::new();
    for row in findings.rows() {
        let before: Vec<f64> = row.values.iter().take(curves.over).copied().collect();
        if !groups.contains(&before) {
            groups.push(before);
        }
    }
    let draw = |group: &Vec<f64>| {
        let plot = plot(findings, curves, group);
        let file =
            group.iter().fold(findings.experiment.name.to_owned(), |name, value| format!("{name}-{value}"));
        let svg = plot.to_svg().map_err(|error| LabError::System(error.to_string()))?;
        Ok(Picture { file: format!("{file}-figure"), svg })
    };
    groups.iter().map(draw).collect()
}

fn plot(findings: &Findings<'_>, curves: &Curves, group: &[f64]) -> CurvePlot {
    let experiment = findings.experiment;
    let is_of_group = |row: &Row| row.values.iter().take(curves.over).eq(group);
    let curve = |(name, quantity): &(&str, Quantity)| {
        let points =
            findings.rows().enumerate().filter(|(_, row)| is_of_group(row)).filter_map(|(place, row)| {
                Some((*row.values.get(curves.over)?, findings.number(place, quantity)?.median))
            });
        Curve { name: (*name).to_owned(), points: points.filter(|(_, y)| y.is_finite()).collect() }
    };
    let group: Vec<String> =
        experiment.values.iter().zip(group).map(|(name, value)| format!(", {name} {value}")).collect();
    CurvePlot {
        title: format!("{}: {}{}", experiment.name, experiment.title, group.concat()),
        horizontal: experiment.values.get(curves.over).copied().unwrap_or_default().to_owned(),
        vertical: curves.unit.to_owned(),
        curves: curves.series.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect(),
    }
}
