//! Figures over time, as those of the documents.

use manyway_chart::{BytesPlot, BytesSeries, Curve, CurvePlot, FigureError};

use super::{Column, Findings, Quantity, Trace};
use crate::campaign::Case;
use crate::error::LabError;
use crate::measures::{count, counted};
use crate::outcome::{Arrivals, Control, Outcome, RouteTotals};
use crate::report::{Picture, file_name};
use crate::scenario::Side;

/// Draws a figure for each scenario in which its contenders ran.
///
/// # Errors
/// The drawing library fails.
pub(super) fn draw(findings: &Findings<'_>, trace: &Trace) -> Result<Vec<Picture>, LabError> {
    let cases = findings.results.plan.cases.iter().enumerate();
    let pictures = cases.map(|place| match trace {
        Trace::Sequence(name) => sequence(findings, place, name),
        Trace::Control(names) => control(findings, place, names),
    });
    let pictures: Result<Vec<Vec<Picture>>, FigureError> = pictures.collect();
    pictures.map(|pictures| pictures.concat()).map_err(|error| LabError::System(error.to_string()))
}

/// The run of a contender nearest to its median.
fn course<'a>(findings: &Findings<'a>, case: usize, name: &str) -> Option<&'a Outcome> {
    findings.results.middle(case, name)?.course.as_ref()
}

/// Bytes of each flow and of the whole since the start.
fn sequence(
    findings: &Findings<'_>,
    (place, case): (usize, &Case),
    name: &str,
) -> Result<Vec<Picture>, FigureError> {
    let Some(outcome) = course(findings, place, name) else { return Ok(Vec::new()) };
    let flows = counted(&case.scenario, outcome);
    let receiver = flows.first().map_or(Side::Server, |one| one.flow.receiver);
    let towards = |route: &RouteTotals| match receiver {
        Side::Server => route.up.bins().to_vec(),
        Side::Client => route.down.bins().to_vec(),
    };
    let mut series = vec![BytesSeries {
        name: "the whole".to_owned(),
        bins: Arrivals::summed(flows.iter().map(|one| &one.flow.arrivals)),
    }];
    let routes = case.scenario.routes.iter().zip(&outcome.routes);
    series.extend(
        routes.map(|(route, totals)| BytesSeries { name: route.name.clone(), bins: towards(totals) }),
    );
    // As long as the longest, so that a flow that ends stays flat.
    let longest = series.iter().map(|one| one.bins.len()).max().unwrap_or(0);
    let together = longest.div_ceil(MOST_POINTS).max(1);
    for one in &mut series {
        one.bins.resize(longest, 0);
        one.bins = one.bins.chunks(together).map(|bins| bins.iter().sum()).collect();
    }
    let plot = BytesPlot {
        title: format!("{}: {name}: sequence number of each flow and of the whole", case.label()),
        bin: Arrivals::BIN.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX)),
        series,
    };
    let file = format!("{}-{}-sequence", file_name(&case.label()), file_name(name));
    Ok(vec![Picture { file, svg: plot.to_svg()? }])
}

/// A panel for the rate, the windows and the connections, with a curve for each contender.
fn control(
    findings: &Findings<'_>,
    (place, case): (usize, &Case),
    names: &[&str],
) -> Result<Vec<Picture>, FigureError> {
    let mut pictures = Vec::new();
    for (what, unit, value) in PANELS {
        let curve = |name: &&str| {
            let steps = &course(findings, place, name)?.control;
            let together = steps.len().div_ceil(MOST_POINTS).max(1);
            // The last of some, since the number of connections has no mean.
            let points = steps.chunks(together).filter_map(|some| some.last());
            let points = points.map(|step| (step.at.as_secs_f64(), value(step)));
            Some(Curve { name: (*name).to_owned(), points: points.collect() })
        };
        let curves: Vec<Curve> =
            names.iter().filter_map(curve).filter(|curve| !curve.points.is_empty()).collect();
        if curves.is_empty() {
            continue;
        }
        let theirs = if what == RATE { documents(findings, case) } else { Vec::new() };
        let plot = CurvePlot {
            title: format!("{}: {what}", case.label()),
            horizontal: "time (s)".to_owned(),
            vertical: unit.to_owned(),
            curves: curves.into_iter().chain(theirs).collect(),
        };
        let file = format!("{}-{}", file_name(&case.label()), file_name(what));
        pictures.push(Picture { file, svg: plot.to_svg()? });
    }
    Ok(pictures)
}

/// The document's rates in the phases of a scenario, as far as it tells them.
fn documents(findings: &Findings<'_>, case: &Case) -> Vec<Curve> {
    let duration = case.scenario.duration.as_secs_f64();
    let of_column = |column: &Column| {
        let Quantity::Document(place) = column.quantity else { return None };
        let points = findings.rows().filter_map(|row| {
            let phase = row.phase?;
            let rate = row.document.get(place).filter(|rate| rate.is_finite())?;
            // Megabits in the table, kilobits in the figure.
            Some([phase.from, phase.to].map(|share| (share * duration, rate * 1e3)))
        });
        let name = format!("document: {}", column.head.trim_start_matches("document: "));
        Some(Curve { name, points: points.flatten().collect() })
    };
    let curves = findings.experiment.columns.iter().filter_map(of_column);
    curves.filter(|curve| !curve.points.is_empty()).collect()
}

const RATE: &str = "rate";

/// A panel: what it shows, its unit, and the number of a step.
type Panel = (&'static str, &'static str, fn(&Control) -> f64);

const PANELS: [Panel; 3] = [
    (RATE, "rate (kbit/s)", |step| count(step.rate) / 1e3),
    ("window sum", "sum of all receive windows (kB)", |step| count(step.window) / 1e3),
    ("connections", "number of connections", |step| f64::from(step.connections)),
];

/// Most points of a curve.
const MOST_POINTS: usize = 400;
