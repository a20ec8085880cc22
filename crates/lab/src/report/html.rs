//! One self-contained page: no script, no other file.

use std::fmt::Write as _;
use std::time::Duration;

use manyway_chart::{
    Align, Bar, BarChart, BytesPlot, BytesSeries, Extent, FigureError, Mark, MarkKind, PathSeries, RatePlot,
    Values,
};
use manyway_proto::{ByteCount, Rate};
use manyway_units::text;

use super::table::{self, Grid};
use super::{Lead, Origin, cross, describe, result};
use crate::campaign::{Case, End, Results, Run, Timing};
use crate::error::LabError;
use crate::measures::{Fault, Recovery, Spread, counted};
use crate::outcome::{Arrivals, Outcome};
use crate::scenario::{Scenario, Side};

/// A figure and its place.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) case: usize,
    /// Its file name, without the extension.
    pub(super) file: String,
    pub(super) svg: String,
}

/// Draws every figure: for each case bars, bytes over time, and for each contender the rates of its median run.
pub(super) fn figures(results: &Results) -> Result<Vec<Figure>, LabError> {
    let mut figures = Vec::new();
    for (place, case) in results.plan.cases.iter().enumerate() {
        draw(results, place, case, &mut figures).map_err(|error| LabError::System(error.to_string()))?;
    }
    Ok(figures)
}

fn draw(results: &Results, place: usize, case: &Case, figures: &mut Vec<Figure>) -> Result<(), FigureError> {
    let rows: Vec<_> = table::rows(results).into_iter().filter(|row| row.case == place).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let label = case.label();
    let base = file_name(&label);
    let mut add =
        |what: &str, svg: String| figures.push(Figure { case: place, file: format!("{base}-{what}"), svg });
    let values = |Spread { median, least, most, .. }| Values { median, least, most };
    let bar = |row: &table::Row| Bar {
        name: row.name.clone(),
        value: results.goodput(place, &row.name).map(values),
    };
    let bars = BarChart {
        title: format!("{label}: median, least and greatest of all repetitions"),
        unit: "goodput (Mbit/s)".to_owned(),
        bars: rows.iter().map(bar).collect(),
    };
    add("bars", bars.to_svg()?);
    let middle = |row: &table::Row| {
        let run = results.middle(row.case, &row.name)?;
        Some((row.name.clone(), run, run.course.as_ref()?))
    };
    let runs: Vec<(String, &Run, &Outcome)> = rows.iter().filter_map(middle).collect();
    if runs.is_empty() {
        return Ok(());
    }
    let bytes = BytesPlot {
        title: format!("{label}: data received over time"),
        bin: Arrivals::BIN * 10,
        series: runs.iter().map(|(name, _, outcome)| arrived(name, &case.scenario, outcome)).collect(),
    };
    add("bytes", bytes.to_svg()?);
    let mut plots = Vec::new();
    for (name, run, outcome) in &runs {
        let plot = rates(format!("{label}: {name}"), &case.scenario, run, outcome);
        plots.push((format!("rates-{}", file_name(name)), plot));
    }
    let extent = plots.iter().map(|(_, plot)| plot.extent()).fold(Extent::default(), Extent::with);
    for (what, plot) in &plots {
        add(what, plot.to_svg_within(extent)?);
    }
    Ok(())
}

fn arrived(name: &str, scenario: &Scenario, outcome: &Outcome) -> BytesSeries {
    let bins = Arrivals::summed(counted(scenario, outcome).iter().map(|one| &one.flow.arrivals));
    BytesSeries { name: name.to_owned(), bins: bins.chunks(10).map(|bins| bins.iter().sum()).collect() }
}

/// The rate of each route towards the receiver, and of the application; of bidirectional traffic, the direction of the
/// first flow.
fn rates(title: String, scenario: &Scenario, run: &Run, outcome: &Outcome) -> RatePlot {
    let flows = counted(scenario, outcome);
    let receiver = flows.first().map_or(Side::Server, |one| one.flow.receiver);
    let towards = |route: &crate::outcome::RouteTotals| match receiver {
        Side::Server => route.up.clone(),
        Side::Client => route.down.clone(),
    };
    let received = flows.iter().filter(|one| one.flow.receiver == receiver);
    let application = Arrivals::summed(received.map(|one| &one.flow.arrivals));
    let routes: Vec<Arrivals> = outcome.routes.iter().map(towards).collect();
    let longest =
        routes.iter().map(|series| series.bins().len()).chain([application.len()]).max().unwrap_or(0);
    let together = longest.div_ceil(MOST_POINTS).max(5);
    let bin = Arrivals::BIN.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX));
    let series = |name: String, bins: &[u64]| PathSeries {
        name,
        rates: bins.chunks(together).map(|bins| rate(bins, bin)).collect(),
    };
    let named = scenario.routes.iter().zip(&routes);
    let paths = named.map(|(route, arrivals)| series(format!("{}, IP packets", route.name), arrivals.bins()));
    let others = scenario.cross_traffic.iter().zip(&outcome.cross);
    let others = others.map(|(traffic, arrivals)| {
        series(format!("others: {} × {}", traffic.count, traffic.name()), arrivals.bins())
    });
    RatePlot {
        title,
        bin,
        paths: paths.chain(others).collect(),
        total: Some(series("application".to_owned(), &application)),
        marks: run.measures.recoveries.iter().take(MOST_MARKS).map(|one| mark(scenario, one)).collect(),
    }
}

fn rate(bins: &[u64], bin: Duration) -> Rate {
    ByteCount(bins.iter().sum()).per(bin)
}

fn mark(scenario: &Scenario, recovery: &Recovery) -> Mark {
    let names = recovery.routes.iter().filter_map(|place| scenario.routes.get(*place));
    let names: Vec<&str> = names.map(|route| route.name.as_str()).collect();
    let (kind, word) = match recovery.fault {
        Fault::Died => (MarkKind::Cut, "dies"),
        Fault::WentDown => (MarkKind::Cut, "goes down"),
        Fault::Returned => (MarkKind::Restored, "is back"),
    };
    Mark { at: recovery.at, kind, label: format!("{} {word}", names.join(", ")) }
}

/// A name without special characters of file systems and shells.
pub(crate) fn file_name(name: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '-' };
    name.chars().map(plain).collect::<String>().trim_matches(['-', '.']).to_owned()
}

/// The whole page.
pub(super) fn page(results: &Results, origin: &Origin, (lead, figures): (&Lead, &[Figure])) -> String {
    let mut page = begin("Manyway in the lab");
    if let Some(sentence) = result::sentence(results) {
        let _ = writeln!(page, "<p><strong>{}</strong></p>", escape(&sentence));
    }
    list(&mut page, &settings(results, origin));
    opening(&mut page, lead);
    page.push_str("<h2>Results</h2>\n");
    let table = Grid::of(results);
    grid(&mut page, &table);
    let others = cross::grid(results);
    if !others.rows.is_empty() {
        grid(&mut page, &others);
    }
    let remarks = table::remarks(results);
    if !remarks.is_empty() {
        page.push_str("<ul>\n");
        for remark in &remarks {
            let _ = writeln!(page, "<li>{}</li>", escape(remark));
        }
        page.push_str("</ul>\n");
    }
    let meanings = result::meanings(results, &table).join(" ");
    let _ = writeln!(page, "<p>{}</p>", escape(&meanings));
    for (place, case) in results.plan.cases.iter().enumerate() {
        section(&mut page, case, figures.iter().filter(|figure| figure.case == place));
    }
    end(&mut page);
    page
}

/// The beginning of a page, up to its title.
pub(super) fn begin(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n"
    )
}

pub(super) fn end(page: &mut String) {
    page.push_str("</body>\n</html>\n");
}

fn settings(results: &Results, origin: &Origin) -> Vec<(&'static str, String)> {
    let (plan, machine) = (&results.plan, &results.machine);
    let memory =
        if machine.memory == 0 { String::new() } else { format!(", {}", text::size(machine.memory)) };
    let budget = plan.budget.map_or_else(|| "none".to_owned(), text::duration);
    let timing = match plan.timing {
        Timing::Real => "real sockets over emulated links",
        Timing::Virtual => "virtual time",
    };
    let mut pairs = vec![
        ("Version", format!("manyway {}", origin.version)),
        ("Command", origin.command_line()),
        ("Date", origin.date.clone()),
        ("Kernel", machine.kernel.clone()),
        ("Processor", format!("{} × {}{memory}", machine.cores, machine.cpu)),
        (
            "Runs",
            format!(
                "{} of {}, {} {}, {timing}",
                results.counted(),
                plan.runs(),
                plan.repetitions,
                if plan.repetitions == 1 { "repetition" } else { "repetitions" }
            ),
        ),
        ("First seed", plan.seed.to_string()),
        ("Budget", budget),
        ("Took", text::duration(results.took)),
    ];
    if !matches!(results.end, End::Complete) {
        pairs.push(("End", results.end.name().to_owned()));
    }
    pairs
}

pub(super) fn list(page: &mut String, pairs: &[(impl AsRef<str>, String)]) {
    page.push_str("<dl>\n");
    for (name, value) in pairs {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escape(name.as_ref()), escape(value));
    }
    page.push_str("</dl>\n");
}

pub(super) fn grid(page: &mut String, grid: &Grid) {
    let class = |align: &Align| if *align == Align::Right { " class=\"number\"" } else { "" };
    page.push_str("<table>\n<thead><tr>");
    for (name, align) in &grid.columns {
        let _ = write!(page, "<th{}>{}</th>", class(align), escape(name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &grid.rows {
        page.push_str("<tr>");
        for (cell, (_, align)) in row.iter().zip(&grid.columns) {
            let _ = write!(page, "<td{}>{}</td>", class(align), escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
}

fn section<'a>(page: &mut String, case: &Case, figures: impl Iterator<Item = &'a Figure>) {
    let _ = writeln!(
        page,
        "<section>\n<h2>{}</h2>\n<p>{}</p>",
        escape(&case.label()),
        escape(&case.scenario.title)
    );
    let source = ("Source", case.scenario.source.clone());
    list(page, &[vec![source], properties(&case.scenario)].concat());
    figures.for_each(|figure| draw_into(page, &figure.svg));
    page.push_str("</section>\n");
}

/// The settings of a scenario.
pub(super) fn properties(scenario: &Scenario) -> Vec<(&'static str, String)> {
    let mut pairs = vec![
        ("Duration", text::duration(scenario.duration)),
        ("Traffic", scenario.traffic.iter().map(describe::traffic).collect::<Vec<_>>().join("; ")),
    ];
    let others = scenario.cross_traffic.iter().map(|traffic| describe::cross(scenario, traffic));
    pairs.extend(others.map(|words| ("Traffic of others", words)));
    for link in &scenario.links {
        let (up, down) = (describe::link(&link.up), describe::link(&link.down));
        let both = if up == down { up } else { format!("up {up}; down {down}") };
        pairs.push(("Link", format!("{}: {both}", link.name)));
    }
    for event in scenario.events.iter().take(MOST_EVENTS) {
        let what = describe::change(scenario, &event.change);
        pairs.push(("Event", format!("after {}: {what}", text::duration(event.at))));
    }
    if scenario.events.len() > MOST_EVENTS {
        pairs.push(("Event", format!("… and {} more", scenario.events.len() - MOST_EVENTS)));
    }
    pairs
}

/// The opening of the report.
fn opening(page: &mut String, lead: &Lead) {
    if lead.title.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>{}</h2>\n<pre>{}</pre>", escape(&lead.title), escape(&lead.text));
    lead.pictures.iter().for_each(|picture| draw_into(page, &picture.svg));
}

pub(super) fn draw_into(page: &mut String, svg: &str) {
    // Within HTML the namespace of SVG is implied.
    let svg = svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
    let _ = writeln!(page, "<figure>{svg}</figure>");
}

/// Escapes text for HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

/// Most points of a curve.
const MOST_POINTS: usize = 200;
/// Vertical lines in a figure.
const MOST_MARKS: usize = 8;
/// Most events of a scenario that are listed.
const MOST_EVENTS: usize = 20;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid #8886; }
.number { text-align: right; }
pre { overflow-x: auto; white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
.panel { display: grid; grid-template-columns: minmax(14rem, 1fr) 2fr; gap: 1rem; align-items: start; }
figure { margin: 1rem 0; background: #fff; } svg { max-width: 100%; height: auto; display: block; }
@media print { body { max-width: none; margin: 0; } section { break-before: page; } figure { break-inside: avoid; } }
@media (max-width: 50rem) { .panel { display: block; } }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_file_names_are_plain() {
        assert_eq!(escape("<a href='x'>\"&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;");
        assert_eq!(file_name("../two 50 (reversed)"), "two-50--reversed");
        assert_eq!(file_name("manyway:congestion=cubic"), "manyway-congestion-cubic");
    }

    #[test]
    fn the_curve_of_the_application_is_that_of_all_its_flows() {
        let arrivals = |bins: &[u64]| {
            let mut arrivals = Arrivals::default();
            for (at, bytes) in (0_u32..).zip(bins) {
                arrivals.record(Arrivals::BIN * at, *bytes);
            }
            arrivals
        };
        let flows = [arrivals(&[1, 2, 3]), arrivals(&[10]), Arrivals::default()];
        assert_eq!(Arrivals::summed(flows.iter()), [11, 2, 3]);
    }
}
