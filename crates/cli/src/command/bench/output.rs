//! What a run prints while it goes on: rows and events, for people or for programs.

use std::io::Write as _;

use manyway::{ByteCount, Event, Rate};
use manyway_transfer::{BenchDirection, BenchFlow};
use serde_json::{Value, json};

use super::rates::PathRate;
use super::rows::Row;
use crate::command::error::CommandError;
use crate::output::json;
use crate::output::path::{news_json, news_words};
use crate::output::table::{Align, Columns};
use crate::output::terminal::fit;
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
    pub(super) intervals: Vec<Value>,
    /// Those that are not printed yet.
    pub(super) events: Vec<Value>,
}

impl Output {
    pub(super) fn new(mode: Mode, flow: BenchFlow) -> Self {
        Self { mode, flow, names: Vec::new(), intervals: Vec::new(), events: Vec::new() }
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
                for line in self.lines(row, paths) {
                    writeln!(out, "{}", fit(&line))?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Something happened to a path; `seconds` since the run began.
    pub(super) fn event(
        &mut self,
        event: &Event,
        name: Option<&str>,
        seconds: f64,
    ) -> Result<(), CommandError> {
        match self.mode {
            Mode::Quiet => {}
            Mode::Lines | Mode::Document => self.events.extend(news_json(event, name, seconds)),
            Mode::Table => {
                let Some(words) = news_words(event, name) else { return Ok(()) };
                let mut out = std::io::stdout().lock();
                writeln!(out, "{seconds:>7.2} s  {words}")?;
                out.flush()?;
            }
        }
        Ok(())
    }

    /// Gives what happened since the last line to this one: each line is an interval, or the summary.
    pub(super) fn attach_events(&mut self, value: &mut Value) {
        if let Some(value) = value.as_object_mut() {
            value.insert("events".to_owned(), std::mem::take(&mut self.events).into());
        }
    }

    /// The lines of the table for a row: first a head, where the paths are others than before.
    fn lines(&mut self, row: &Row, paths: &[PathRate]) -> Vec<String> {
        let names: Vec<_> = paths.iter().map(|path| path.label.name()).collect();
        let is_first = self.names.is_empty();
        let is_new = self.names != names || is_first;
        self.names = names;
        let columns = self.columns();
        let mut cells = vec![
            format!("{:.2}-{:.2}", row.start.as_secs_f64(), row.end.as_secs_f64()),
            size(row.bytes),
            megabits(rate_of(row)),
        ];
        if self.flow == BenchFlow::Both {
            cells.insert(0, direction_word(row.direction).to_owned());
        }
        cells.extend(paths.iter().map(|path| megabits(path.rate)));
        cells.push(megabits(paths.iter().map(|path| path.rate).sum()));
        cells.push(
            match (row.omitted, row.stalled) {
                (_, true) => "no figures from the server yet",
                (true, false) => "omitted",
                (false, false) => "",
            }
            .to_owned(),
        );
        let legend = is_first.then(|| LEGEND.to_owned());
        let head = is_new.then(|| columns.head());
        legend.into_iter().chain(head).chain([columns.row(cells)]).collect()
    }

    fn columns(&self) -> Columns {
        let mut columns = vec![
            ("seconds".to_owned(), Align::Right, 13),
            ("received".to_owned(), Align::Right, 10),
            ("Mbit/s".to_owned(), Align::Right, 9),
        ];
        if self.flow == BenchFlow::Both {
            columns.insert(0, (String::new(), Align::Left, 4));
        }
        columns.extend(self.names.iter().map(|name| (name.clone(), Align::Right, 9)));
        columns.push(("all".to_owned(), Align::Right, 9));
        columns.push((String::new(), Align::Left, 0));
        Columns::new(columns)
    }
}

/// What the columns count, so that they add up.
const LEGEND: &str = "Mbit/s is payload; interfaces, and all of them together, count headers and repeats too";

pub(super) fn direction_word(direction: BenchDirection) -> &'static str {
    match direction {
        BenchDirection::Upload => "up",
        BenchDirection::Download => "down",
    }
}

fn rate_of(row: &Row) -> Rate {
    if row.span().is_zero() { Rate::ZERO } else { ByteCount(row.bytes).per(row.span()) }
}

fn row_json(row: &Row, paths: &[PathRate]) -> Value {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.label.json(json!({ "bits_per_second": path.rate.bits_per_second() })))
        .collect();
    json!({
        "direction": direction_word(row.direction), "omitted": row.omitted, "stalled": row.stalled,
        "start": row.start.as_secs_f64(), "end": row.end.as_secs_f64(), "bytes": row.bytes,
        "bits_per_second": rate_of(row).bits_per_second(), "paths": paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::path::PathLabel;
    use manyway::PathId;
    use std::time::Duration;

    fn row(second: u64, bytes: u64) -> Row {
        let (start, end) = (Duration::from_secs(second), Duration::from_secs(second + 1));
        let direction = BenchDirection::Upload;
        Row { direction, omitted: false, start, end, bytes, stalled: false }
    }

    fn path(id: u32, interface: &str, megabits: u64) -> PathRate {
        let label = PathLabel {
            id: PathId(id),
            interface: Some(interface.to_owned()),
            local: "192.0.2.7".parse().unwrap(),
            remote: "192.0.2.1:4455".parse().unwrap(),
        };
        PathRate { label, rate: Rate::from_bits_per_second(megabits * 1_000_000) }
    }

    #[test]
    fn rows_stand_under_a_head_that_comes_again_when_the_paths_change() {
        let mut output = Output::new(Mode::Table, BenchFlow::Upload);
        let two = [path(0, "eth0", 11), path(1, "wlan0", 6)];
        let mut lines = output.lines(&Row { omitted: true, ..row(0, 1_000_000) }, &two);
        lines.extend(output.lines(&row(0, 2_000_000), &two));
        lines.extend(output.lines(&Row { stalled: true, ..row(1, 0) }, &two));
        lines.extend(output.lines(&row(2, 125_000_000), &two[..1]));
        insta::assert_snapshot!(lines.join("\n"), @r"
    Mbit/s is payload; interfaces, and all of them together, count headers and repeats too
          seconds    received     Mbit/s       eth0      wlan0        all
        0.00-1.00   976.5 KiB       8.00      11.00       6.00      17.00  omitted
        0.00-1.00     1.9 MiB      16.00      11.00       6.00      17.00
        1.00-2.00         0 B       0.00      11.00       6.00      17.00  no figures from the server yet
          seconds    received     Mbit/s       eth0        all
        2.00-3.00   119.2 MiB    1000.00      11.00      11.00
        ");
    }

    #[test]
    fn both_directions_have_rows_of_their_own() {
        let mut output = Output::new(Mode::Table, BenchFlow::Both);
        let paths = [path(0, "eth0", 11)];
        let mut lines = output.lines(&row(0, 2_000_000), &paths);
        lines.extend(output.lines(&Row { direction: BenchDirection::Download, ..row(0, 70_000) }, &paths));
        insta::assert_snapshot!(lines.join("\n"), @r"
        Mbit/s is payload; interfaces, and all of them together, count headers and repeats too
                    seconds    received     Mbit/s       eth0        all
        up        0.00-1.00     1.9 MiB      16.00      11.00      11.00
        down      0.00-1.00    68.3 KiB       0.56      11.00      11.00
        ");
    }

    #[test]
    fn a_row_for_programs_names_its_units() {
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
