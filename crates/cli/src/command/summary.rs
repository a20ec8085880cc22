//! What a transfer did, in one line and a table, or as JSON.

use std::time::Duration;

use manyway::{ByteCount, ConnectionInfo};
use manyway_transfer::Reason;
use serde_json::{Value, json};

use super::error::CommandError;
use super::tally::Counts;
use super::watch::path_name;
use crate::args::GlobalArgs;
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

    /// Prints it to standard output.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn print(&self, global: &GlobalArgs) -> Result<(), CommandError> {
        if global.json {
            json::print(&self.to_json())?;
        } else if !global.quiet {
            self.print_text()?;
        } else {
            self.print_failures(std::io::stderr().lock())?;
        }
        Ok(())
    }

    fn print_text(&self) -> Result<(), CommandError> {
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let report = &self.counts.report;
        let rate = ByteCount(self.counts.moved).per(self.elapsed);
        writeln!(
            out,
            "{} {} files and directories, {} in {}: {rate}, verified{}",
            self.verb,
            report.verified,
            units::size(report.bytes),
            units::duration(self.elapsed),
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
        write!(out, "{table}")?;
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

    /// Prints what is known of a transfer that did not come to its end: for programs only; people read the error.
    ///
    /// # Errors
    /// If standard output is closed.
    pub fn print_failed(&self, global: &GlobalArgs, error: &CommandError) -> Result<(), CommandError> {
        // Of a transfer that never began there is nothing to tell.
        if !global.json || self.counts.attempts == 0 {
            return Ok(());
        }
        let mut document = self.to_json();
        if let Value::Object(fields) = &mut document {
            fields.insert("complete".to_owned(), false.into());
            fields.insert("reason".to_owned(), error.to_string().into());
        }
        json::print(&document)?;
        Ok(())
    }

    fn to_json(&self) -> Value {
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
        json!({
            "complete": report.is_complete(),
            "files": self.counts.totals.files, "bytes_total": self.counts.totals.bytes,
            "verified": report.verified, "bytes": report.bytes,
            "bytes_sent": self.counts.moved, "bytes_resumed": self.counts.resumed, "bytes_of_holes": report.holes,
            "attempts": self.counts.attempts, "seconds": self.elapsed.as_secs_f64(),
            "bits_per_second": ByteCount(self.counts.moved).per(self.elapsed).bits_per_second(),
            "failures": report.failures, "failed": failed, "paths": paths,
        })
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
