//! `cargo run --release -p xtask -- scale`: the cost of many connections at a server.

mod idle;
mod packets;

use std::process::ExitCode;

use crate::output::tell;

const USAGE: &str = "usage: cargo run --release -p xtask -- scale [CONNECTIONS …]

  Measures the time that a server takes for a packet, and the memory that it takes for an idle connection, beside so
  many connections (10 1000 10000). Memory is measured over the loopback interface, in a process of its own.
";

/// Runs the measurements, or the server of one.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let arguments: Vec<String> = arguments.collect();
    if arguments.first().is_some_and(|first| first == idle::SERVE) {
        return done(idle::serve());
    }
    let counts: Result<Vec<usize>, _> = arguments.iter().map(|text| text.parse()).collect();
    let Ok(mut counts) = counts else {
        tell(USAGE);
        return ExitCode::from(2);
    };
    if counts.is_empty() {
        counts = vec![10, 1000, 10_000];
    }
    done(packets::measure(&counts).and_then(|()| idle::measure(&counts)))
}

fn done(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}
