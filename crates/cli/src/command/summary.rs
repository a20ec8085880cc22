//! What a transfer did, in one line and a table, or as JSON.

use std::time::Duration;

use manyway::{ByteCount, ConnectionInfo};
use manyway_transfer::Reason;
use serde_json::{Map, Value, json};

use super::error::CommandError;
use super::tally::Counts;
use super::watch::path_name;
use crate::args::GlobalArgs;
use crate::exit_code::ExitCode;
use crate::output::table::{Align, Table};
use crate::output::{json, units};

/// The end of `send` or `get`.
#[derive(Debug)]
pub struct Summary {
    verb: &'static str,
    counts: Counts,
    elapsed: Duration,
    paths: Vec<PathSummary>,
}

#[derive(Debug)]
struct PathSummary {
    name: String,
    state: String,
    rtt: Duration,
    sent: u64,
    received: u64,
    lost: u64,
}

impl Summary {
    /// Collects the figures.
    pub fn new(verb: &'static str, counts: Counts, elapsed: Duration, info: Option<&ConnectionInfo>) -> Self {
        let paths = info.map(|info| info.paths.as_slice()).unwrap_or_default();
        let paths = paths
            .iter()
            .map(|path| PathSummary {
                name: path_name(path),
                state: path.statistics.state.to_string(),
                rtt: path.statistics.smoothed_rtt,
                sent: path.statistics.bytes_sent.get(),
                received: path.statistics.bytes_received.get(),
                lost: path.statistics.packets_lost,
            })
            .collect();
        Self { verb, counts, elapsed, paths }
    }

    /// Prints the end of a transfer that ran to its end to standard output.
    ///
    /// # Errors
    /// If files failed: for programs the error is the document, with all figures. Or if standard output is full.
    pub fn conclude(&self, global: &GlobalArgs) -> Result<ExitCode, CommandError> {
        let code = ExitCode::of_report(&self.counts.report);
        let printed = match (global.json, global.quiet) {
            (true, _) if code != ExitCode::Ok => Ok(()),
            (true, _) => json::print(&Value::from(self.to_json())).map_err(CommandError::from),
            (false, true) => Ok(()),
            (false, false) => self.print_text(),
        };
        let code = code.after_printing(printed)?;
        if code == ExitCode::Ok {
            return Ok(code);
        }
        Err(CommandError::new(code, self.failures()).with_facts(self.to_json()))
    }

    /// How many files failed, and why the first one did.
    fn failures(&self) -> String {
        let report = &self.counts.report;
        let count = report.failures;
        let all = count + report.verified;
        let first = report.failed.first().map(|failed| {
            format!("; {}: {}{}", failed.name, failed.failure, next_step(failed.failure.reason))
        });
        format!("{count} of {} failed{}", units::entries(all), first.unwrap_or_default())
    }

    fn print_text(&self) -> Result<(), CommandError> {
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let report = &self.counts.report;
        // What moved but was not verified says nothing about the files of this line.
        let rate = Some(ByteCount(self.counts.moved)).filter(|moved| moved.get() > 0 && report.verified > 0);
        writeln!(
            out,
            "{} {}, {} in {}{}, verified{}",
            self.verb,
            units::entries(report.verified),
            units::size(report.bytes),
            units::duration(self.elapsed),
            rate.map(|moved| format!(": {}", moved.per(self.elapsed))).unwrap_or_default(),
            self.unmoved(),
        )?;
        let mut table = Table::new([
            ("path", Align::Left),
            ("state", Align::Left),
            ("rtt", Align::Right),
            ("sent", Align::Right),
            ("received", Align::Right),
            ("lost", Align::Right),
        ]);
        for path in &self.paths {
            table.row([
                path.name.clone(),
                path.state.clone(),
                units::duration(path.rtt),
                units::size(path.sent),
                units::size(path.received),
                path.lost.to_string(),
            ]);
        }
        if !self.paths.is_empty() {
            write!(out, "{table}")?;
        }
        self.print_failures(out)
    }

    fn print_failures(&self, mut out: impl std::io::Write) -> Result<(), CommandError> {
        for failed in &self.counts.report.failed {
            let next = next_step(failed.failure.reason);
            writeln!(out, "failed: {}: {}{next}", failed.name, failed.failure)?;
        }
        Ok(())
    }

    /// What of the bytes did not travel, and why.
    fn unmoved(&self) -> String {
        let mut text = String::new();
        if self.counts.resumed > 0 {
            text += &format!("; {} were there already", units::size(self.counts.resumed));
        }
        if self.counts.report.holes > 0 {
            text += &format!("; {} are holes", units::size(self.counts.report.holes));
        }
        text
    }

    /// Gives what is known of a transfer that did not come to its end to the error that ended it.
    pub fn explain(&self, error: CommandError) -> CommandError {
        // Of a transfer that never began there is nothing to tell.
        if self.counts.attempts == 0 {
            return error;
        }
        let mut facts = self.to_json();
        facts.insert("complete".to_owned(), false.into());
        error.with_facts(facts)
    }

    fn to_json(&self) -> Map<String, Value> {
        let paths: Vec<_> = self
            .paths
            .iter()
            .map(|path| {
                json!({
                    "path": path.name, "state": path.state, "rtt": path.rtt.as_secs_f64(),
                    "bytes_sent": path.sent, "bytes_received": path.received, "packets_lost": path.lost,
                })
            })
            .collect();
        let report = &self.counts.report;
        let failed: Vec<_> = report
            .failed
            .iter()
            .map(|failed| json!({ "name": failed.name, "reason": failed.failure.to_string() }))
            .collect();
        let document = json!({
            "complete": report.is_complete(),
            "files": self.counts.totals.files, "bytes_total": self.counts.totals.bytes,
            "verified": report.verified, "bytes": report.bytes,
            "bytes_sent": self.counts.moved, "bytes_resumed": self.counts.resumed, "bytes_of_holes": report.holes,
            "attempts": self.counts.attempts, "seconds": self.elapsed.as_secs_f64(),
            "bits_per_second": ByteCount(self.counts.moved).per(self.elapsed).bits_per_second(),
            "failures": report.failures, "failed": failed, "paths": paths,
        });
        if let Value::Object(fields) = document { fields } else { Map::new() }
    }
}

/// What a user can do about a file that failed.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others say all there is to say")]
fn next_step(reason: Reason) -> &'static str {
    match reason {
        Reason::DiskFull => "; make room and run the same command again, what has arrived is kept",
        Reason::Busy | Reason::Changed => "; run the same command again, what has arrived is kept",
        Reason::PermissionDenied => "; let the user who runs manyway there read or write it",
        _ => "",
    }
}
