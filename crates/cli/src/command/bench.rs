//! `manyway bench`: throughput, by interval and by path.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use manyway::{ByteCount, Connection, ConnectionInfo, PathId, Rate};
use manyway_transfer::{BenchSummary, Interval, IntervalMerger, bench};
use serde_json::json;
use tokio::task::JoinSet;

use super::error::CommandError;
use super::network::connect;
use super::session::NetSession;
use super::signal::{close, until_interrupted_over};
use super::watch::path_name;
use crate::args::{BenchArgs, GlobalArgs};
use crate::output::{json, units};

/// Measures and prints.
///
/// # Errors
/// If the server is not reached or refuses, or the connection breaks.
pub async fn run(global: &GlobalArgs, arguments: &BenchArgs) -> Result<(), CommandError> {
    let (endpoint, connection) = connect(global, &arguments.ticket).await?;
    super::advice::print(global, &endpoint);
    until_interrupted_over(&endpoint, measure(global, arguments, &connection)).await?;
    close(&endpoint, "done").await;
    Ok(())
}

async fn measure(
    global: &GlobalArgs,
    arguments: &BenchArgs,
    connection: &Connection,
) -> Result<(), CommandError> {
    let plan = arguments.plan();
    let session = NetSession(connection.clone());
    let mut merger = IntervalMerger::new(plan.streams);
    let (sender, mut intervals) = tokio::sync::mpsc::unbounded_channel();
    // A set, since it ends its task when it is dropped.
    let mut run = JoinSet::new();
    run.spawn(async move {
        bench(&session, plan, |report| {
            // The receiver lives as long as the run.
            let _ = sender.send(report);
        })
        .await
    });
    let mut printer = Printer::new(global, arguments.reverse);
    printer.head()?;
    while let Some(report) = intervals.recv().await {
        if let Some(interval) = merger.push(report) {
            printer.interval(&interval, paths_of(connection).await)?;
        }
    }
    let last: Vec<_> = merger.finish().filter(|interval| interval.bytes > 0).collect();
    for interval in last {
        printer.interval(&interval, paths_of(connection).await)?;
    }
    let Some(summaries) = run.join_next().await else { return Ok(()) };
    let summaries = summaries
        .map_err(|error| CommandError::new(crate::exit_code::ExitCode::Failed, error))?
        .map_err(|error| CommandError::of_transfer(&error, connection.close_reason()))?;
    printer.summary(&summaries, connection.info().await.ok().as_ref())
}

/// Bytes that went over each path so far in the direction of the data.
type PathBytes = Vec<(PathId, String, u64, u64)>;

async fn paths_of(connection: &Connection) -> PathBytes {
    let info = connection.info().await;
    info.map(|info| {
        let bytes = |path: &manyway::PathInfo| {
            let figures = &path.statistics;
            (figures.id, path_name(path), figures.bytes_sent.get(), figures.bytes_received.get())
        };
        info.paths.iter().map(bytes).collect()
    })
    .unwrap_or_default()
}

struct Printer<'a> {
    global: &'a GlobalArgs,
    reverse: bool,
    before: BTreeMap<PathId, u64>,
}

impl<'a> Printer<'a> {
    fn new(global: &'a GlobalArgs, reverse: bool) -> Self {
        Self { global, reverse, before: BTreeMap::new() }
    }

    fn head(&self) -> Result<(), CommandError> {
        if !self.global.json && !self.global.quiet {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{:<17} {:>10} {:>14}  by path", "interval", "received", "rate")?;
        }
        Ok(())
    }

    fn interval(&mut self, interval: &Interval, paths: PathBytes) -> Result<(), CommandError> {
        let span = interval.end.saturating_sub(interval.start);
        let rates: Vec<_> = paths
            .into_iter()
            .map(|(id, name, sent, received)| {
                let bytes = if self.reverse { received } else { sent };
                let before = self.before.insert(id, bytes).unwrap_or(0);
                (name, ByteCount(bytes.saturating_sub(before)).per(span))
            })
            .collect();
        let rate = ByteCount(interval.bytes).per(span);
        if self.global.json {
            let paths: Vec<_> = rates
                .iter()
                .map(|(name, rate)| json!({ "path": name, "bits_per_second": rate.bits_per_second() }))
                .collect();
            json::print(&json!({
                "interval": interval.index, "start": interval.start.as_secs_f64(), "end": interval.end.as_secs_f64(),
                "bytes": interval.bytes, "bits_per_second": rate.bits_per_second(), "paths": paths,
            }))?;
        } else if !self.global.quiet {
            let by_path: Vec<_> = rates.iter().map(|(name, rate)| format!("{name}: {rate}")).collect();
            let mut out = std::io::stdout().lock();
            let time = format!("{:.2}-{:.2} s", interval.start.as_secs_f64(), interval.end.as_secs_f64());
            let bytes = units::size(interval.bytes);
            writeln!(out, "{time:<17} {bytes:>10} {:>14}  {}", rate.to_string(), by_path.join(", "))?;
        }
        Ok(())
    }

    fn summary(&self, streams: &[BenchSummary], info: Option<&ConnectionInfo>) -> Result<(), CommandError> {
        let bytes: u64 = streams.iter().map(|stream| stream.bytes).sum();
        let elapsed = streams.iter().map(|stream| stream.elapsed).max().unwrap_or_default();
        let silence = streams.iter().map(|stream| stream.worst_silence).min().unwrap_or_default();
        let rate: Rate = ByteCount(bytes).per(elapsed.max(Duration::from_nanos(1)));
        let lost: u64 =
            info.map_or(0, |info| info.paths.iter().map(|path| path.statistics.packets_lost).sum());
        if self.global.json {
            json::print(&json!({
                "summary": true, "bytes": bytes, "seconds": elapsed.as_secs_f64(),
                "bits_per_second": rate.bits_per_second(), "worst_silence": silence.as_secs_f64(),
                "packets_lost": lost,
            }))?;
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "received {} in {}: {rate}, longest silence {}, {lost} packets lost by this end",
            units::size(bytes),
            units::duration(elapsed),
            units::duration(silence)
        )?;
        Ok(())
    }
}
