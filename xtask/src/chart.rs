//! Draws the bar chart of the README from a table of runs that `manyway-lab --csv` wrote.

use std::fmt::Write as _;
use std::{fs, io, path::Path};

/// The runs that the chart shows.
const TABLE: &str = "docs/results/table-2026-11-24.csv";
/// Where the chart stands.
const PICTURE: &str = "docs/pictures/mptcp.svg";

/// Scenario and the words for its links.
const SCENARIOS: [(&str, &str); 7] = [
    ("two-50", "50 + 50 Mbit/s"),
    ("rtt-10-100", "50 + 50 Mbit/s, 10 and 100 ms"),
    ("wifi-lte", "Wi-Fi 30 (1 % loss) + LTE 20 Mbit/s"),
    ("lte-starlink", "LTE 40 + satellite 100 Mbit/s (1 % loss)"),
    ("fiber-lte", "fibre 300 + LTE 30 Mbit/s (0.5 % loss)"),
    ("three-mixed", "100 + 30 + 5 Mbit/s"),
    ("black-hole", "20 + 20 Mbit/s, one silent for 10 s"),
];

/// Contender, its name and the colour of its bars; the colours differ in lightness, too.
const CONTENDERS: [(&str, &str, &str); 3] = [
    ("manyway", "Manyway", "#0b5394"),
    ("mptcp-bbr", "Linux MPTCP, BBR", "#e69f00"),
    ("mptcp-cubic", "Linux MPTCP, CUBIC (its default)", "#b0b0b0"),
];

const WIDTH: u32 = 760;
const LABEL: u32 = 270;
const BAR: u32 = 11;
const GROUP: u32 = 3 * BAR + 16;
const TOP: u32 = 56;
/// Length of the longest bar of a group.
const LONGEST: f64 = 400.0;

/// Writes the chart.
///
/// # Errors
/// The table can't be read or lacks a run, or the picture can't be written.
pub(crate) fn write(root: &Path) -> io::Result<()> {
    let picture = root.join(PICTURE);
    if let Some(folder) = picture.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(picture, draw(&fs::read_to_string(root.join(TABLE))?)?)
}

/// The chart as SVG. Bars of a scenario are drawn to the scale of its longest.
fn draw(table: &str) -> io::Result<String> {
    let runs = Runs::parse(table)?;
    let height = TOP + u32::try_from(SCENARIOS.len()).unwrap_or(u32::MAX) * GROUP + 26;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Goodput of Manyway and of Linux MPTCP over the same links, in Mbit/s</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"22\" font-size=\"15\" font-weight=\"bold\">Goodput over the same links, Mbit/s</text>\n"
    );
    let mut x = 16;
    for (_, name, colour) in CONTENDERS {
        line(
            &mut svg,
            format_args!("<rect x=\"{x}\" y=\"34\" width=\"11\" height=\"11\" fill=\"{colour}\"/>"),
        );
        line(&mut svg, format_args!("<text x=\"{}\" y=\"44\">{name}</text>", x + 16));
        x += 36 + 7 * u32::try_from(name.len()).unwrap_or(0);
    }
    for (row, (scenario, links)) in (0..).zip(SCENARIOS) {
        let top = TOP + 8 + row * GROUP;
        line(
            &mut svg,
            format_args!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{links}</text>",
                LABEL - 10,
                top + 2 * BAR
            ),
        );
        let mut rates = Vec::new();
        for (contender, ..) in CONTENDERS {
            rates.push(runs.median(scenario, contender)? / 1e6);
        }
        let longest = rates.iter().copied().fold(0.0, f64::max);
        for (bar, (rate, (.., colour))) in (0..).zip(rates.iter().zip(CONTENDERS)) {
            let (y, length) = (top + bar * BAR, LONGEST * rate / longest);
            line(
                &mut svg,
                format_args!(
                    "<rect x=\"{LABEL}\" y=\"{y}\" width=\"{length:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                    BAR - 1
                ),
            );
            let decimals = if *rate < 10.0 { 1 } else { 0 };
            line(
                &mut svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{}\" font-size=\"10\">{rate:.decimals$}</text>",
                    f64::from(LABEL) + length + 5.0,
                    y + 9
                ),
            );
        }
    }
    line(
        &mut svg,
        format_args!(
            "<text x=\"16\" y=\"{}\" font-size=\"10\" fill=\"#555555\">Medians of five runs of 15 s on real sockets; \
             the bars of each row have a scale of their own. All 39 scenarios: docs/results.</text>",
            height - 10
        ),
    );
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _: std::fmt::Result = writeln!(svg, "{text}");
}

/// The rows of a table.
struct Runs<'a> {
    rows: Vec<Vec<&'a str>>,
    scenario: usize,
    contender: usize,
    counts: usize,
    rate: usize,
}

impl<'a> Runs<'a> {
    fn parse(table: &'a str) -> io::Result<Self> {
        let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let heads = rows.next().unwrap_or_default();
        let column = |name: &str| {
            heads.iter().position(|head| *head == name).ok_or_else(|| missing(&format!("column {name}")))
        };
        Ok(Self {
            scenario: column("scenario")?,
            contender: column("contender")?,
            counts: column("counts")?,
            rate: column("bits_per_second")?,
            rows: rows.collect(),
        })
    }

    /// The median rate in bit/s of the runs that count.
    fn median(&self, scenario: &str, contender: &str) -> io::Result<f64> {
        let is =
            |row: &[&str], column: usize, value: &str| row.get(column).is_some_and(|cell| *cell == value);
        let mut rates: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| is(row, self.scenario, scenario) && is(row, self.contender, contender))
            .filter(|row| is(row, self.counts, "true"))
            .filter_map(|row| row.get(self.rate)?.parse().ok())
            .collect();
        rates.sort_by(f64::total_cmp);
        rates
            .get(rates.len() / 2)
            .copied()
            .ok_or_else(|| missing(&format!("run of {contender} over {scenario}")))
    }
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{TABLE} has no {what}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{PICTURE, TABLE, draw};

    #[test]
    fn the_chart_of_the_readme_shows_the_figures_of_its_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let drawn = draw(&fs::read_to_string(root.join(TABLE)).unwrap()).unwrap();
        assert!(fs::read_to_string(root.join(PICTURE)).unwrap() == drawn, "run cargo run -p xtask -- chart");
    }

    #[test]
    fn a_table_without_a_needed_run_is_an_error() {
        let error = draw("scenario,contender,counts,bits_per_second\ntwo-50,manyway,false,1\n").unwrap_err();
        assert!(error.to_string().contains("run of manyway over two-50"), "{error}");
    }
}
