//! `manyway-lab flows`: thousands of connections at once.

use std::path::Path;

use manyway_chart::{Align, Table};
use manyway_lab::Stop;
use manyway_lab::flows::{self, EndFigures, FlowsOptions, FlowsReport};
use manyway_lab::measures::Spread;
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use manyway_units::text;

use crate::args::{FlowsArgs, GlobalArgs};
use crate::command::campaign::{end_on_signal, of_lab};

/// Measures and prints.
pub(super) fn run(
    global: &GlobalArgs,
    arguments: &FlowsArgs,
    program: &Path,
) -> Result<ExitCode, CommandError> {
    let stop = Stop::default();
    let mut options = FlowsOptions::default();
    (options.flows, options.rate, options.rounds) = (arguments.flows, arguments.rate, arguments.rounds);
    options.stop = stop.clone();
    end_on_signal(stop);
    let say = |sentence: &str| {
        if !global.quiet {
            note(sentence);
        }
    };
    let report = flows::run(program, &options, say).map_err(of_lab)?;
    let printed = if global.json {
        json::print(&report).map_err(CommandError::from)
    } else {
        print_line(text(&report).trim_end())
    };
    ExitCode::Ok.after_printing(printed)
}

fn text(report: &FlowsReport) -> String {
    let mut answers = Table::new([
        ("answers", Align::Left),
        ("median ms", Align::Right),
        ("upper quartile", Align::Right),
        ("longest", Align::Right),
    ]);
    let mut row = |name: String, spread: Spread| {
        let millis = |seconds: f64| format!("{:.1}", seconds * 1e3);
        answers.row([name, millis(spread.median), millis(spread.upper), millis(spread.most)]);
    };
    row("when opened".to_owned(), report.opening);
    for (number, spread) in (1..).zip(&report.rounds) {
        row(format!("round {number}"), *spread);
    }
    let mut costs = Table::new([
        ("processes", Align::Left),
        ("idle", Align::Right),
        ("open", Align::Right),
        ("a connection", Align::Right),
        ("processor time", Align::Right),
    ]);
    let mut row = |name: String, end: EndFigures| {
        costs.row([
            name,
            text::volume(end.idle_bytes),
            text::volume(end.open_bytes),
            text::volume(end.bytes_of_a_flow(report.flows)),
            format!("{:.2} s", end.cpu),
        ]);
    };
    row("server".to_owned(), report.server);
    row(format!("{} clients", report.clients), report.client);
    let FlowsReport { flows, rate, .. } = report;
    format!("{flows} connections, all answered; {rate:.0} opened a second\n\n{answers}\n{costs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_answers_and_what_a_connection_costs() {
        let spread = Spread::of([0.001, 0.002, 0.004]).unwrap();
        let end = EndFigures { idle_bytes: 10 << 20, open_bytes: 30 << 20, cpu: 1.5 };
        let report = FlowsReport {
            flows: 1024,
            clients: 2,
            rate: 1999.6,
            opening: spread,
            rounds: vec![spread],
            server: end,
            client: end,
        };
        insta::assert_snapshot!(text(&report));
    }
}
