//! `manyway bench`: throughput, by interval and by path.

mod compare;
mod messages;
mod output;
mod rates;
mod rows;
mod summary;
mod target;

use std::time::Duration;

use manyway::interfaces::InterfaceRule;
use manyway::{CarrierChoice, ConnectionInfo, Event, Rate, RateAlgorithm, Role, TargetRate, Wire};
use manyway_terminal::screen::output_width;
use manyway_terminal::{Colour, CommandError, ExitCode, json, note};
use manyway_transfer::{BenchFailure, BenchOutcome, BenchPlan, StreamInterval, TransferError, bench_until};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::direction::Direction;
use super::error::{of_connection, of_measurement};
use super::network::connect_on;
use super::signal::{close, close_soon, interrupted};
use crate::args::{BenchArgs, GlobalArgs};
use crate::caps::InterfaceWish;
use crate::command::holding::HoldingSession;
use crate::output::book::rtt_of;
use crate::output::known::KnownPaths;
use crate::output::path::{PathLabel, path_of};
use compare::{Comparison, Single};
use output::{Mode, Output};
use rates::Paths;
use rows::{Row, RowClock};
use summary::{DuplicateBytes, PathSum, Summary, Sums};
use target::TargetTally;

/// Measures and prints; [`ExitCode::Gain`] if the bond gains less than was asked for.
///
/// # Errors
/// If the server is not reached or refuses, the connection breaks, or standard output is full.
pub async fn run(global: &GlobalArgs, arguments: &BenchArgs) -> Result<ExitCode, CommandError> {
    let mut global = global.clone();
    if let Some(name) = &arguments.control {
        global.congestion = Some(name.clone());
    }
    global.primary.clone_from(&arguments.primary);
    if let Some(plan) = arguments.message_plan().map_err(CommandError::usage)? {
        return messages::run(&global, arguments, plan).await;
    }
    if arguments.is_endless() && arguments.compares() {
        return Err(CommandError::usage(
            "--compare and --min-gain need runs that end by themselves; leave out -t 0",
        ));
    }
    let mode = match (arguments.document, global.json, global.quiet || arguments.interval.is_zero()) {
        (true, ..) => Mode::Document,
        (false, _, true) => Mode::Quiet,
        (false, true, false) => Mode::Lines,
        (false, false, false) => Mode::Table,
    };
    let target = arguments.target(global.connections).map_err(CommandError::usage)?;
    if let Some(target) = &target
        && global.carrier != CarrierChoice::Udp
    {
        // As many as the controller begins with.
        let is_basic = target.algorithm == RateAlgorithm::Basic;
        global.connections = Some(if is_basic { target.connections } else { 1 });
    }
    let plan = arguments.plan();
    Direction::from(plan.flow).tell_what_decides(&global);
    let (endpoint, connection) = match connect_on(&global, &arguments.ticket, arguments.port).await {
        Ok(connected) => connected,
        Err(error) if arguments.document => {
            let ending = Ending { summary: None, start: None, end: Some(error) };
            return finish(&global, arguments, ending, Output::new(mode, plan.flow));
        }
        Err(error) => return Err(error),
    };
    let mut run = Run::new(HoldingSession::new(&connection, target), &plan, mode);
    let (mut summary, end) = run.until_enough().await;
    let mut end = end.filter(|error| summary.is_none() || !arguments.is_ended_by(error.code));
    let start = run.start.take();
    let members = match end {
        None if arguments.compares() => compare::interfaces(&connection.info().await.map_err(of_connection)?),
        _ => Vec::new(),
    };
    match end {
        None => drop(close(&endpoint, "done").await),
        Some(_) => close_soon(&endpoint, "the measurement ended early").await,
    }
    let mut singles = Vec::new();
    for interface in members {
        match alone(&global, arguments, target, &interface).await {
            Ok(rate) => singles.push(Single { interface, rate }),
            Err(error) if error.code.is_interruption() => {
                end = Some(error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if arguments.compares()
        && end.is_none()
        && let Some(summary) = &mut summary
    {
        summary.comparison = Some(Comparison { bond: summary.rate(), singles });
    }
    finish(&global, arguments, Ending { summary, start, end }, run.output)
}

/// The outcome of a run, if it began, and why it ended early if it did.
struct Ending {
    summary: Option<Summary>,
    start: Option<Value>,
    end: Option<CommandError>,
}

/// Prints the result. For programs, the error of a run that ended early is in the same document.
fn finish(
    global: &GlobalArgs,
    arguments: &BenchArgs,
    ending: Ending,
    mut output: Output,
) -> Result<ExitCode, CommandError> {
    use std::io::Write as _;
    let document = document(global, arguments, &ending, &mut output);
    let Ending { summary, end, .. } = ending;
    let code = verdict(global, arguments, summary.as_ref().and_then(|summary| summary.comparison.as_ref()));
    let printed = match (&document, &end, &summary) {
        (Some(_), Some(_), _) | (None, _, None) => Ok(()),
        (Some(document), None, _) => json::print(&Value::from(document.clone())),
        (None, _, Some(summary)) => {
            let mut out = std::io::stdout().lock();
            let text = summary.text(output_width(), Colour::of_output());
            write!(out, "\n{text}").and_then(|()| out.flush())
        }
    };
    let code = code.after_printing(printed.map_err(CommandError::from))?;
    match end {
        Some(end) => Err(end.with_facts(document.unwrap_or_default())),
        None => Ok(code),
    }
}

fn verdict(global: &GlobalArgs, arguments: &BenchArgs, comparison: Option<&Comparison>) -> ExitCode {
    match (arguments.min_gain, comparison) {
        (Some(least), Some(comparison)) if comparison.gain() < least => {
            if !global.quiet {
                note(&comparison.shortfall(least));
            }
            ExitCode::Gain
        }
        (Some(_) | None, _) => ExitCode::Ok,
    }
}

/// The last document for programs, if the output is for programs.
fn document(
    global: &GlobalArgs,
    arguments: &BenchArgs,
    ending: &Ending,
    output: &mut Output,
) -> Option<Map<String, Value>> {
    let summary = || ending.summary.as_ref().map_or_else(|| json!({}), Summary::json);
    let document = if arguments.document {
        json!({
            "start": {
                "version": env!("CARGO_PKG_VERSION"), "options": options(arguments), "connection": ending.start,
            },
            "intervals": output.intervals, "events": output.events, "end": summary(),
        })
    } else if global.json {
        let mut value = summary();
        if let Some(value) = value.as_object_mut() {
            value.insert("summary".to_owned(), true.into());
        }
        output.attach_events(&mut value);
        value
    } else {
        return None;
    };
    document.as_object().cloned()
}

fn options(arguments: &BenchArgs) -> Value {
    json!({
        "time": arguments.bytes.is_none().then_some(arguments.time.as_secs_f64()),
        "bytes": arguments.bytes, "interval": arguments.interval.as_secs_f64(),
        "parallel": arguments.parallel, "reverse": arguments.reverse, "bidir": arguments.bidir,
        "length": arguments.length, "bitrate": arguments.bitrate.map(Rate::bits_per_second),
        "omit": arguments.omit.as_secs_f64(), "target_rate": arguments.target_rate.map(Rate::bits_per_second),
        "algorithm": arguments.target_rate.map(|_| arguments.algorithm.name()), "control": arguments.control, "port": arguments.port,
    })
}

/// The rate of the same load over one interface alone; `None` if the server is not reached over it.
async fn alone(
    global: &GlobalArgs,
    arguments: &BenchArgs,
    target: Option<TargetRate>,
    interface: &str,
) -> Result<Option<Rate>, CommandError> {
    let mut global = global.clone();
    let pattern = interface.parse().map_err(CommandError::usage)?;
    global.caps = std::mem::take(&mut global.interfaces)
        .iter()
        .filter_map(InterfaceWish::cap_rule)
        .chain(global.caps)
        .collect();
    global.interfaces = vec![InterfaceRule::new(pattern, Role::Primary).into()];
    if !global.quiet && !global.json && !arguments.document {
        note(&compare::begins(interface));
    }
    let (endpoint, connection) = match connect_on(&global, &arguments.ticket, arguments.port).await {
        Ok(connected) => connected,
        Err(error) if error.code == ExitCode::Unreachable => return Ok(None),
        Err(error) => return Err(error),
    };
    let plan = arguments.plan();
    let mut run = Run::new(HoldingSession::new(&connection, target), &plan, Mode::Quiet);
    let (summary, end) = run.until_enough().await;
    close(&endpoint, "done").await;
    end.map_or_else(|| Ok(summary.map(|summary| summary.rate())), Err)
}

/// One run over one connection.
struct Run<'a> {
    session: HoldingSession,
    plan: &'a BenchPlan,
    output: Output,
    clocks: Vec<RowClock>,
    paths: Paths,
    known: KnownPaths,
    target: Option<TargetTally>,
    /// The newest figures of the connection.
    seen: Option<ConnectionInfo>,
    /// The part of the document about the connection.
    start: Option<Value>,
    began: Instant,
}

type Outcome = Result<BenchOutcome, BenchFailure>;

/// The figures of a run, if it began, and why it ended early if it did.
type Ended = (Option<Summary>, Option<CommandError>);

impl<'a> Run<'a> {
    fn new(session: HoldingSession, plan: &'a BenchPlan, mode: Mode) -> Self {
        Self {
            target: session.target().map(TargetTally::new),
            session,
            plan,
            output: Output::new(mode, plan.flow),
            clocks: plan.flow.directions().map(|direction| RowClock::new(direction, plan)).collect(),
            paths: Paths::default(),
            known: KnownPaths::default(),
            seen: None,
            start: None,
            began: Instant::now(),
        }
    }

    /// Measures until the run ends or the user interrupts; what was measured until then counts.
    async fn until_enough(&mut self) -> Ended {
        let (stopper, stopped) = oneshot::channel();
        let work = self.measure(stopped);
        tokio::pin!(work);
        let signal = tokio::select! {
            ended = &mut work => return ended.unwrap_or_else(|error| (None, Some(error))),
            signal = interrupted() => signal,
        };
        // The run may have ended already.
        let _ = stopper.send(());
        let summary = tokio::select! {
            ended = &mut work => ended.ok().and_then(|(summary, _)| summary),
            _ = interrupted() => None,
        };
        (summary, Some(signal.error()))
    }

    /// # Errors
    /// If the connection ended before the run began, or standard output is full.
    async fn measure(&mut self, stopped: oneshot::Receiver<()>) -> Result<Ended, CommandError> {
        let mut events = self.session.connection().events();
        let before = self.look().await?;
        self.start = Some(connection_json(self.session.connection().wire(), &before));
        self.began = Instant::now();
        for figures in self.known.beginnings(&before) {
            let event = Event::Path(figures.event());
            let name = self.known.name(figures.id);
            self.output.event(&event, (self.known.label(figures.id), name.as_deref()), 0.0)?;
        }
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (session, plan) = (self.session.clone(), self.plan.clone());
        // A set, since it aborts its task when it is dropped.
        let mut task = JoinSet::new();
        task.spawn(async move {
            let stop = async {
                if stopped.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            // The receiver lives as long as the run.
            bench_until(&session, &plan, stop, |report| {
                let _ = sender.send(report);
            })
            .await
        });
        self.follow(&mut reports, &mut events).await?;
        let outcome: Outcome = match task.join_next().await {
            Some(outcome) => outcome.map_err(|error| CommandError::new(ExitCode::Failed, error))?,
            None => return Err(CommandError::failed(TransferError::Internal)),
        };
        let (outcome, end) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(BenchFailure { error, partial }) => (*partial, Some(self.why(&error))),
        };
        let elapsed = self.began.elapsed();
        for clock in std::mem::take(&mut self.clocks) {
            for row in clock.finish() {
                self.show(&row).await?;
            }
        }
        // Of a closed connection the last figures count.
        let _ = self.look().await;
        let after = self.seen.as_ref().unwrap_or(&before);
        let report = self.session.connection().report().await.unwrap_or_default();
        let summary = Summary {
            flow: self.plan.flow,
            elapsed,
            outcome: Sums::from(&outcome),
            paths: PathSum::between(&before, self.paths.all(), &report),
            duplicates: DuplicateBytes::between(&before, after),
            refused: after.statistics.packets_refused.saturating_sub(before.statistics.packets_refused),
            target: self.target.take().map(TargetTally::finish),
            comparison: None,
        };
        Ok((Some(summary), end))
    }

    /// Why a run ended early. A server that is silent while no path works is not the cause.
    fn why(&self, error: &TransferError) -> CommandError {
        let works =
            |info: &ConnectionInfo| info.paths.iter().any(|path| path.statistics.state.carries_data());
        let is_cut_off = self.seen.as_ref().is_some_and(|info| !works(info));
        if matches!(error, TransferError::Silent { .. }) && is_cut_off {
            return CommandError::new(ExitCode::Failed, "the server does not answer: no path works");
        }
        of_measurement(error, self.session.connection().close_reason())
    }

    /// Prints rows and events until the run has reported everything.
    async fn follow(
        &mut self,
        reports: &mut mpsc::UnboundedReceiver<StreamInterval>,
        events: &mut broadcast::Receiver<Event>,
    ) -> Result<(), CommandError> {
        let mut heard = true;
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let due = self.clocks.iter().filter_map(RowClock::due).min();
            let due = due.and_then(|due| self.began.checked_add(due));
            let overdue = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = reports.recv() => match report {
                    Some(report) => self.take(report).await?,
                    None => return Ok(()),
                },
                () = overdue => self.show_overdue().await?,
                // Of a path that closes, only the last figures seen remain.
                _ = tick.tick() => drop(self.look().await),
                event = events.recv(), if heard => match event {
                    Ok(event) => self.tell(&event).await?,
                    Err(RecvError::Lagged(_)) => {}
                    // The run notices the end itself.
                    Err(RecvError::Closed) => heard = false,
                },
            }
        }
    }

    async fn take(&mut self, report: StreamInterval) -> Result<(), CommandError> {
        let clock = self.clocks.iter_mut().find(|clock| clock.direction() == report.direction);
        let now = self.began.elapsed();
        match clock.and_then(|clock| clock.push(report, now)) {
            Some(row) => self.show(&row).await,
            None => Ok(()),
        }
    }

    async fn show_overdue(&mut self) -> Result<(), CommandError> {
        let now = self.began.elapsed();
        let rows: Vec<_> = self.clocks.iter_mut().filter_map(|clock| clock.overdue(now)).collect();
        for row in rows {
            self.show(&row).await?;
        }
        Ok(())
    }

    async fn show(&mut self, row: &Row) -> Result<(), CommandError> {
        // A last sliver of an interval is meaningless.
        if self.output.is_table() && row.span() < self.plan.interval / SLIVER && row.end > self.plan.interval
        {
            return Ok(());
        }
        // Of a closed connection the last figures count.
        let _ = self.look().await;
        let (from, to) = row.window(self.plan.omit);
        let paths = self.paths.take(row.direction, (self.began + from, self.began + to), row.span());
        self.output.row(row, &paths)
    }

    async fn look(&mut self) -> Result<ConnectionInfo, CommandError> {
        let info = self.session.connection().info().await.map_err(of_connection)?;
        self.known.note(&info);
        self.paths.note(&info);
        self.seen = Some(info.clone());
        Ok(info)
    }

    async fn tell(&mut self, event: &Event) -> Result<(), CommandError> {
        if let Event::TargetRate(report) = event
            && let Some(target) = &mut self.target
        {
            target.on_report(report);
            return self.output.event(event, (None, None), self.began.elapsed().as_secs_f64());
        }
        // The sender decides which path is primary.
        let is_of_peer = matches!(event, Event::PrimaryPath(_)) && !Direction::from(self.plan.flow).sends();
        let is_known = is_of_peer || self.known.is_beginning(event);
        let Some(path) = path_of(event).filter(|_| !is_known) else { return Ok(()) };
        if !self.known.has(path) {
            // An unknown path; the end of the connection is reported elsewhere.
            let _ = self.look().await;
        }
        let name = self.known.name(path);
        let seconds = self.began.elapsed().as_secs_f64();
        self.output.event(event, (self.known.label(path), name.as_deref()), seconds)
    }
}

/// The connection as the document describes it at the beginning.
fn connection_json(wire: Wire, info: &ConnectionInfo) -> Value {
    let paths: Vec<_> = info
        .paths
        .iter()
        .map(|path| {
            let figures = &path.statistics;
            PathLabel::of(path).json(json!({
                "state": figures.state.word(), "role": figures.role.to_string(),
                "rtt": rtt_of(figures).map(|rtt| rtt.as_secs_f64()), "datagram": figures.datagram,
            }))
        })
        .collect();
    json!({
        "wire": wire.name(), "scheduler": info.statistics.scheduler, "congestion": info.statistics.congestion,
        "paths": paths,
    })
}

/// How often the figures of the paths are read.
const LOOK: Duration = Duration::from_millis(100);
/// A shorter interval than this part of a whole one is not printed for people.
const SLIVER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser as _;

    #[test]
    fn a_gain_that_is_too_small_is_status_6() {
        let cli = Cli::try_parse_from(["manyway", "-q", "bench", "mw1x", "--min-gain", "20%"]).unwrap();
        let Command::Bench(arguments) = &cli.command else { panic!("another command") };
        assert!(arguments.compares());
        let rate = |megabits: u64| Rate::from_bits_per_second(megabits * 1_000_000);
        let single = |megabits| Single { interface: "eth0".to_owned(), rate: Some(rate(megabits)) };
        let with = |megabits| Comparison { bond: rate(100), singles: vec![single(megabits)] };
        assert_eq!(verdict(&cli.global, arguments, Some(&with(80))), ExitCode::Ok);
        assert_eq!(verdict(&cli.global, arguments, Some(&with(90))), ExitCode::Gain);
    }

    #[test]
    fn the_document_names_the_options() {
        let cli = Cli::try_parse_from(["manyway", "bench", "mw1x", "-n", "1M", "-b", "5M", "-R"]).unwrap();
        let Command::Bench(arguments) = &cli.command else { panic!("another command") };
        insta::assert_snapshot!(options(arguments), @r#"
        {"algorithm":null,"bidir":false,"bitrate":5000000,"bytes":1048576,"control":null,"interval":1.0,"length":null,"omit":0.0,"parallel":1,"port":null,"reverse":true,"target_rate":null,"time":null}
        "#);
    }
}
