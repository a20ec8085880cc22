//! Measures the performance of this program against its goals.
//!
//! Each figure is the median of several runs, with the least and the greatest value. A figure that this machine or this
//! user cannot measure says why.

mod emulated;
mod options;
mod report;
mod simulated;
mod veth;

use std::process::ExitCode;
use std::time::Duration;

use crate::output::tell;
use options::Options;
use report::{Goal, Line, Measured, Report};

/// A figure that can be measured.
struct Figure {
    /// Its name on the command line.
    name: &'static str,
    /// Its description, for people.
    what: &'static str,
    /// Its goal.
    goal: Goal,
    /// The command or scenario that measures it.
    how: fn(Duration) -> String,
    /// Its measurement; figures with the same one share its runs.
    source: Source,
    /// Index of its value in the measurement.
    value: usize,
}

/// A measurement: one run gives one or more values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A bench over emulated links: the share of the links' sum that arrives.
    Share(&'static [&'static str]),
    /// A black hole: longest stall in milliseconds, and seconds until the restored link carries data.
    BlackHole,
    /// A bench over a veth pair: Gbit/s.
    Veth,
    /// The simulator: seconds of real time.
    Simulator,
}

const FIGURES: [Figure; 7] = [
    Figure {
        name: "two-equal",
        what: "two links of 50 Mbit/s, share of the sum",
        goal: Goal::AtLeast(0.90, ""),
        how: |time| emulated::scenario(TWO_EQUAL, time),
        source: Source::Share(TWO_EQUAL),
        value: 0,
    },
    Figure {
        name: "one-alone",
        what: "one link of 50 Mbit/s, share of it",
        goal: Goal::AtLeast(0.93, ""),
        how: |time| emulated::scenario(ONE_ALONE, time),
        source: Source::Share(ONE_ALONE),
        value: 0,
    },
    Figure {
        name: "unequal",
        what: "80 and 10 Mbit/s, share of the sum",
        goal: Goal::AtLeast(0.88, ""),
        how: |time| emulated::scenario(UNEQUAL, time),
        source: Source::Share(UNEQUAL),
        value: 0,
    },
    Figure {
        name: "black-hole-silence",
        what: "longest stall at the receiver while one of two links is a black hole",
        goal: Goal::AtMost(300.0, "ms"),
        how: |_| emulated::black_hole_scenario(),
        source: Source::BlackHole,
        value: 0,
    },
    Figure {
        name: "black-hole-return",
        what: "time until the restored link carries data",
        goal: Goal::AtMost(3.0, "s"),
        how: |_| emulated::black_hole_scenario(),
        source: Source::BlackHole,
        value: 1,
    },
    Figure {
        name: "veth",
        what: "one connection over veth, MTU 1500, one path",
        goal: Goal::AtLeast(3.0, "Gbit/s"),
        how: veth::scenario,
        source: Source::Veth,
        value: 0,
    },
    Figure {
        name: "simulator",
        what: "real time for 10 simulated seconds over two paths of 50 Mbit/s",
        goal: Goal::AtMost(2.0, "s"),
        how: |_| simulated::SCENARIO.to_owned(),
        source: Source::Simulator,
        value: 0,
    },
];

const TWO_EQUAL: &[&str] = &["50Mbit,10ms", "50Mbit,10ms"];
const ONE_ALONE: &[&str] = &["50Mbit,10ms"];
const UNEQUAL: &[&str] = &["80Mbit,10ms", "10Mbit,10ms"];

/// The results of each run of a measurement, or why it is impossible.
type Runs = Result<Vec<Vec<f64>>, String>;

/// Measures the requested figures and prints them. Status 0 if every goal is reached, 6 if not, 2 for a wrong command
/// line.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let names: Vec<_> = FIGURES.iter().map(|figure| figure.name).collect();
    let options = match Options::parse(arguments, &names) {
        Ok(options) => options,
        Err(text) => {
            tell(&format!("{text}\n"));
            return ExitCode::from(2);
        }
    };
    if cfg!(debug_assertions) {
        tell("this is not a release build: cargo run --release -p xtask -- figures\n");
    }
    let mut report = Report::default();
    let mut measured: Vec<(Source, Runs)> = Vec::new();
    for figure in FIGURES.iter().filter(|figure| options.wants(figure.name)) {
        if !measured.iter().any(|(source, _)| *source == figure.source) {
            let runs = (0..options.runs).map(|run| {
                tell(&format!("{}: run {} of {}\n", figure.name, run + 1, options.runs));
                once(figure.source, options.time)
            });
            measured.push((figure.source, runs.collect()));
        }
        let Some((_, runs)) = measured.iter().find(|(source, _)| *source == figure.source) else { continue };
        let outcome = match runs {
            Ok(runs) => Measured::new(runs.iter().filter_map(|run| run.get(figure.value).copied()).collect()),
            Err(reason) => Measured::Impossible(reason.clone()),
        };
        let Figure { name, what, goal, how, .. } = *figure;
        report.add(Line { name, what, goal, how: how(options.time), measured: outcome });
    }
    let printed = if options.json { report.print_json() } else { report.print_table() };
    match printed {
        Ok(()) if report.is_good() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(6),
        Err(_) => ExitCode::FAILURE,
    }
}

fn once(source: Source, time: Duration) -> Result<Vec<f64>, String> {
    match source {
        Source::Share(links) => emulated::share(links, time).map(|share| vec![share]),
        Source::BlackHole => emulated::black_hole(),
        Source::Veth => veth::gigabits(time).map(|rate| vec![rate]),
        Source::Simulator => simulated::seconds().map(|time| vec![time]),
    }
}
