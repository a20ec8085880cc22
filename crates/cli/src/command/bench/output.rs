//! The output of a run in progress: rows and events, for people or for programs.

use std::io::Write as _;

use manyway::{ByteCount, Event, Rate};
use manyway_chart::{Align, Columns};
use manyway_terminal::screen::output_width;
use manyway_terminal::{CommandError, json, text_width, wrap_strictly};
use manyway_transfer::{BenchDirection, BenchFlow};
use serde_json::{Value, json};

use super::rates::PathRate;
use super::rows::Row;
use crate::output::path::{PathLabel, news_json, news_words};
use crate::output::units::{megabits, size};

/// Where the rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A table.
    Table,
    /// A JSON value for each row.
    Lines,
    /// Kept for the document at the end.
    Document,
    /// Nowhere.
    Quiet,
}

/// Prints or keeps what happens.
#[derive(Debug)]
pub(super) struct Output {
    mode: Mode,
    flow: BenchFlow,
    /// The names of the paths that have a column.
    names: Vec<String>,
    /// The legend was printed.
    is_explained: bool,
    /// The last row came without figures of the server.
    is_without_figures: bool,
    pub(super) intervals: Vec<Value>,
    /// Those not printed yet.
    pub(super) events: Vec<Value>,
}

impl Output {
    pub(super) fn new(mode: Mode, flow: BenchFlow) -> Self {
        Self {
            mode,
            flow,
            names: Vec::new(),
            is_explained: false,
            is_without_figures: false,
            intervals: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn is_table(&self) -> bool {
        self.mode == Mode::Table
    }

    pub(super) fn row(&mut self, row: &Row, paths: &[PathRate]) -> Result<(), CommandError> {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines => {
                let mut value = row_json(row, paths);
                self.attach_events(&mut value);
                json::print(&value)?;
            }
            Mode::Document => self.intervals.push(row_json(row, paths)),
            Mode::Table => {
                let mut out = std::io::stdout().lock();
                for line in self.lines(row, paths, output_width()) {
                    writeln!(out, "{line}")?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Records an event of a path; `seconds` since the run began.
    pub(super) fn event(
        &mut self,
        event: &Event,
        (label, name): (Option<&PathLabel>, Option<&str>),
        seconds: f64,
    ) -> Result<(), CommandError> {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines | Mode::Document => {
                let interface = label.and_then(|label| label.interface.as_deref());
                self.events.extend(news_json(event, interface, seconds));
            }
            Mode::Table => {
                let Some(words) = news_words(event, name) else { return Ok(()) };
                let mut out = std::io::stdout().lock();
                writeln!(out, "{seconds:>7.2} s  {words}")?;
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Attaches the events since the last line to this one: each line is an interval, or the summary.
    pub(super) fn attach_events(&mut self, value: &mut Value) {
        if let Some(value) = value.as_object_mut() {
            value.insert("events".to_owned(), std::mem::take(&mut self.events).into());
        }
    }

    /// The lines of the table for a row: first a head, where the columns have changed.
    fn lines(&mut self, row: &Row, paths: &[PathRate], width: usize) -> Vec<String> {
        let remark = if row.omitted { "omitted" } else { "" };
        let seconds = format!("{:.2}-{:.2}", row.start.as_secs_f64(), row.end.as_secs_f64());
        let taken = remark.len() + seconds.len().saturating_sub(SECONDS);
        let shown = self.paths_that_fit(paths, width.saturating_sub(taken));
        let (shown, others) = paths.split_at(shown);
        let mut names: Vec<_> = shown.iter().map(|path| path.name.clone()).collect();
        let shows_others = !shown.is_empty() && !others.is_empty();
        names.extend(shows_others.then(|| "others".to_owned()));
        let is_first = !std::mem::replace(&mut self.is_explained, true);
        let is_new = self.names != names || is_first;
        self.names = names;
        let sum = |paths: &[PathRate]| megabits(paths.iter().map(|path| path.rate).sum());
        let mut cells = self.flow_cell(direction_word(row.direction));
        cells.extend([
            seconds,
            row.bytes.map_or_else(unknown, size),
            rate_of(row).map_or_else(unknown, megabits),
            sum(paths),
        ]);
        cells.extend(shown.iter().map(|path| megabits(path.rate)));
        cells.extend(shows_others.then(|| sum(others)));
        cells.push(remark.to_owned());
        let legend = if is_first { wrap_strictly(LEGEND, width) } else { Vec::new() };
        let loses_figures = row.bytes.is_none() && !self.is_without_figures;
        self.is_without_figures = row.bytes.is_none();
        let note = loses_figures.then(|| NO_FIGURES.to_owned());
        let columns = self.columns();
        let head = is_new.then(|| columns.head());
        legend.into_iter().chain(head).chain(note).chain([columns.row(cells)]).collect()
    }

    /// How many paths have a column of their own, if the others share one.
    fn paths_that_fit(&self, paths: &[PathRate], width: usize) -> usize {
        let mut room = width.saturating_sub(if self.flow == BenchFlow::Both { FIXED + FLOW } else { FIXED });
        let column = |name: &str| text_width(name).max(RATE) + GAP;
        let wanted: Vec<_> = paths.iter().map(|path| column(&path.name)).collect();
        if wanted.iter().sum::<usize>() <= room {
            return paths.len();
        }
        room = room.saturating_sub(column("others"));
        let fits = |wanted: &&usize| {
            let fits = **wanted <= room;
            room = room.saturating_sub(**wanted);
            fits
        };
        wanted.iter().take_while(fits).count()
    }

    /// The first cell of a bidirectional run.
    fn flow_cell(&self, word: &str) -> Vec<String> {
        if self.flow == BenchFlow::Both { vec![word.to_owned()] } else { Vec::new() }
    }

    fn columns(&self) -> Columns {
        let flow = self.flow_cell("").into_iter().map(|name| (name, Align::Left, FLOW - GAP));
        let fixed = [("seconds", SECONDS), ("received", 10), ("Mbit/s", RATE), ("all", RATE)];
        let fixed = fixed.map(|(name, width)| (name.to_owned(), Align::Right, width));
        let names = self.names.iter().map(|name| (name.clone(), Align::Right, RATE));
        Columns::new(flow.chain(fixed).chain(names).chain([(String::new(), Align::Left, 0)]))
    }
}

/// The width of times in the first quarter of an hour.
const SECONDS: usize = 13;
/// The width of a rate.
const RATE: usize = 8;
/// Between two columns.
const GAP: usize = 2;
/// The width of the column that names the direction.
const FLOW: usize = 6;
/// The width of the columns that every table has, and of the gap before a remark.
const FIXED: usize = SECONDS + 10 + 2 * RATE + 4 * GAP;

/// What the columns count, so that they add up.
const LEGEND: &str = "Mbit/s counts payload; all and each interface count headers and repeats too";
/// Printed before the first row without figures.
const NO_FIGURES: &str = "no figures from the server for this interval yet";

fn unknown() -> String {
    "-".to_owned()
}

pub(super) fn direction_word(direction: BenchDirection) -> &'static str {
    match direction {
        BenchDirection::Upload => "up",
        BenchDirection::Download => "down",
    }
}

/// `None` if the bytes or the time are not known.
fn rate_of(row: &Row) -> Option<Rate> {
    if row.span().is_zero() { None } else { Some(ByteCount(row.bytes?).per(row.span())) }
}

fn row_json(row: &Row, paths: &[PathRate]) -> Value {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.label.json(json!({ "bits_per_second": path.rate.bits_per_second() })))
        .collect();
    json!({
        "direction": direction_word(row.direction), "omitted": row.omitted, "stalled": row.bytes.is_none(),
        "start": row.start.as_secs_f64(), "end": row.end.as_secs_f64(), "bytes": row.bytes,
        "bits_per_second": rate_of(row).map(Rate::bits_per_second), "paths": paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fits::assert_fits;
    use manyway::{Carrier, PathId};
    use std::time::Duration;

    fn row(second: u64, bytes: u64) -> Row {
        let (start, end) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        let direction = BenchDirection::Upload;
        Row { direction, omitted: false, start, end, lag: Duration::ZERO, bytes: Some(bytes) }
    }

    fn path(id: u32, interface: &str, megabits: u64) -> PathRate {
        let label = PathLabel {
            id: PathId(id),
            interface: Some(interface.to_owned()),
            local: "192.0.2.7".parse().unwrap(),
            remote: "192.0.2.1:4455".parse().unwrap(),
            carrier: Carrier::Udp,
        };
        PathRate { label, name: interface.to_owned(), rate: Rate::from_bits_per_second(megabits * 1_000_000) }
    }

    #[test]
    fn rows_have_a_head_that_is_repeated_when_the_paths_change() {
        let mut output = Output::new(Mode::Table, BenchFlow::Upload);
        let two = [path(0, "eth0", 11), path(1, "wlan0", 6)];
        let mut lines = output.lines(&Row { omitted: true, ..row(0, 1_000_000) }, &two, 80);
        lines.extend(output.lines(&row(0, 2_000_000), &two, 80));
        lines.extend(output.lines(&Row { bytes: None, ..row(1, 0) }, &two, 80));
        lines.extend(output.lines(&Row { bytes: None, ..row(2, 0) }, &two, 80));
        lines.extend(output.lines(&row(3, 125_000_000), &two[..1], 80));
        insta::assert_snapshot!(lines.join("\n"), @r"
    Mbit/s counts payload; all and each interface count headers and repeats too
          seconds    received    Mbit/s       all      eth0     wlan0
        0.00-1.00   976.5 KiB      8.00     17.00     11.00      6.00  omitted
        0.00-1.00     1.9 MiB     16.00     17.00     11.00      6.00
    no figures from the server for this interval yet
        1.00-2.00           -         -     17.00     11.00      6.00
        2.00-3.00           -         -     17.00     11.00      6.00
          seconds    received    Mbit/s       all      eth0
        3.00-4.00   119.2 MiB   1000.00     11.00     11.00
        ");
    }

    #[test]
    fn a_narrow_terminal_shows_legend_and_head_once() {
        let mut output = Output::new(Mode::Table, BenchFlow::Both);
        let paths = [path(0, "2001:db8:1234:5678:9abc:def0:1234:5678", 11)];
        let mut lines = output.lines(&row(0, 2_000_000), &paths, 60);
        lines.extend(output.lines(&row(1, 2_000_000), &paths, 60));
        assert_fits(&lines.join("\n"), 60);
        insta::assert_snapshot!(lines.join("\n"), @r"
        Mbit/s counts payload; all and each interface count headers
        and repeats too
                    seconds    received    Mbit/s       all
        up        0.00-1.00     1.9 MiB     16.00     11.00
        up        1.00-2.00     1.9 MiB     16.00     11.00
        ");
    }

    #[test]
    fn both_directions_have_rows_of_their_own() {
        let mut output = Output::new(Mode::Table, BenchFlow::Both);
        let paths = [path(0, "eth0", 11)];
        let mut lines = output.lines(&row(0, 2_000_000), &paths, 80);
        let down = Row { direction: BenchDirection::Download, ..row(0, 70_000) };
        lines.extend(output.lines(&down, &paths, 80));
        insta::assert_snapshot!(lines.join("\n"), @r"
        Mbit/s counts payload; all and each interface count headers and repeats too
                    seconds    received    Mbit/s       all      eth0
        up        0.00-1.00     1.9 MiB     16.00     11.00     11.00
        down      0.00-1.00    68.3 KiB      0.56     11.00     11.00
        ");
    }

    #[test]
    fn paths_without_a_column_share_one_and_no_line_is_too_long() {
        let names = ["eth0", "wlan0", "wwan0", "203.0.113.201", "enx00e04c680001"];
        let paths: Vec<_> = (1..).zip(names).map(|(id, name)| path(id, name, 11)).collect();
        let mut shown = Vec::new();
        for width in [80, 120] {
            let mut output = Output::new(Mode::Table, BenchFlow::Both);
            let lines = output.lines(&Row { omitted: true, ..row(100, 2_000_000) }, &paths, width);
            assert_fits(&lines.join("\n"), width);
            shown.extend(lines.into_iter().skip(1));
        }
        insta::assert_snapshot!(shown.join("\n"), @r"
                    seconds    received    Mbit/s       all      eth0    others
        up    100.00-101.00     1.9 MiB     16.00     55.00     11.00     44.00  omitted
                    seconds    received    Mbit/s       all      eth0     wlan0     wwan0  203.0.113.201    others
        up    100.00-101.00     1.9 MiB     16.00     55.00     11.00     11.00     11.00          11.00     11.00  omitted
        ");
    }

    #[test]
    fn a_row_for_programs_has_its_units() {
        let json = row_json(&row(3, 2_000_000), &[path(0, "eth0", 11)]);
        insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
        {
          "bits_per_second": 16000000,
          "bytes": 2000000,
          "direction": "up",
          "end": 4.0,
          "omitted": false,
          "paths": [
            {
              "bits_per_second": 11000000,
              "carrier": "udp",
              "interface": "eth0",
              "local": "192.0.2.7",
              "path": 0,
              "remote": "192.0.2.1:4455"
            }
          ],
          "stalled": false,
          "start": 3.0
        }
        "#);
    }
}
