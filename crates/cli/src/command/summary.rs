//! What a transfer did, in one line and a table, or as JSON.

use std::time::Duration;

use manyway::{ByteCount, ConnectionInfo};
use manyway_transfer::Report;
use serde_json::{Value, json};

use super::error::CommandError;
use super::watch::path_name;
use crate::args::GlobalArgs;
use crate::output::table::{Align, Table};
use crate::output::{json, units};

/// The end of `send` or `get`.
#[derive(Debug)]
pub struct Summary {
    verb: &'static str,
    report: Report,
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
    pub fn new(
        verb: &'static str,
        report: &Report,
        elapsed: Duration,
        info: Option<&ConnectionInfo>,
    ) -> Self {
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
        Self { verb, report: report.clone(), elapsed, paths }
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
        }
        Ok(())
    }

    fn print_text(&self) -> Result<(), CommandError> {
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        let rate = ByteCount(self.report.bytes).per(self.elapsed);
        writeln!(
            out,
            "{} {} files and directories, {} in {}: {rate}, verified",
            self.verb,
            self.report.verified,
            units::size(self.report.bytes),
            units::duration(self.elapsed)
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
        for failed in &self.report.failed {
            writeln!(out, "failed: {}: {}", failed.name, failed.failure)?;
        }
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
        let failed: Vec<_> = self
            .report
            .failed
            .iter()
            .map(|failed| json!({ "name": failed.name, "reason": failed.failure.to_string() }))
            .collect();
        json!({
            "verified": self.report.verified, "bytes": self.report.bytes, "seconds": self.elapsed.as_secs_f64(),
            "bits_per_second": ByteCount(self.report.bytes).per(self.elapsed).bits_per_second(),
            "failures": self.report.failures, "failed": failed, "paths": paths,
        })
    }
}
