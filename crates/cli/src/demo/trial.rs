//! One transfer of a file over emulated links, observed at both ends.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::{ConnectionConfig, ConnectionInfo, Event};
use manyway_proto::{ByteCount, Rate};
use manyway_terminal::{CommandError, ExitCode};
use manyway_transfer::{NoProgress, put};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{MissedTickBehavior, interval, interval_at};

use super::cutter::{CutEvent, CutReport, Cutter};
use super::emulator::{Direction, LinkHandle, SERIES_BIN};
use super::link_spec::LinkSpec;
use super::source::Source;
use super::stage::Stage;
use super::table::LinkReport;
use super::watch::{Watch, link_name};
use crate::command::error::of_transfer;
use crate::command::session::NetSession;
use crate::command::watch::moment;
use crate::output::progress::ProgressView;
use crate::output::units;

/// The settings of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// What to send.
    pub source: &'a Source,
    /// Over which links.
    pub links: &'a [LinkSpec],
    /// The link to cut at one quarter and restore at one half or 8 s later; counted from zero.
    pub cut: Option<usize>,
    /// The settings of both ends.
    pub config: &'a ConnectionConfig,
}

/// The results.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// From the first request until the receiver had verified the file.
    pub time: Duration,
    /// The longest time between two arrivals at the receiving application.
    pub longest_stall: Duration,
    /// The result of the cut; `None` if there was none.
    pub cut: Option<CutReport>,
    /// The figures of each link.
    pub links: Vec<LinkReport>,
    /// Delivered bytes of each link, in bins of [`SERIES_BIN`]; the transfer began in the first.
    pub series: Vec<Vec<u64>>,
}

impl Trial<'_> {
    /// Runs the transfer into `directory`.
    ///
    /// # Errors
    /// The links cannot be set up, the connection breaks, or the receiver rejects the file.
    pub async fn run(&self, directory: &Path, view: &Arc<ProgressView>) -> Result<Outcome, CommandError> {
        let progress: Arc<ProgressView> = Arc::clone(view);
        let stage = Stage::set_up(self.links, self.config, directory, progress).await?;
        view.set_total(self.source.bytes);
        let started = Instant::now();
        let mut conductor = Conductor::new(self, &stage, view, started);
        conductor.begin().await;
        let session = NetSession(stage.connection().clone());
        let report = tokio::select! {
            report = put(&session, vec![self.source.path.clone()], Arc::new(NoProgress)) => report,
            error = conductor.run() => return Err(error),
        };
        let time = started.elapsed();
        let report = report.map_err(|error| of_transfer(&error, session.0.close_reason()))?;
        if let Some(failed) = report.failed.first() {
            let text = format!("{}: {}", failed.name, failed.failure);
            return Err(CommandError::new(ExitCode::Failed, text));
        }
        conductor.look().await?;
        let before = started.saturating_duration_since(stage.started());
        let outcome = Outcome {
            time,
            longest_stall: stage.meter().arrivals().longest_stall,
            cut: conductor.cutter.as_ref().and_then(Cutter::report),
            links: stage.links().iter().map(link_report).collect(),
            series: stage.links().iter().map(|link| series(link, before)).collect(),
        };
        stage.close().await;
        Ok(outcome)
    }
}

impl Outcome {
    /// The capacity of `links` during the transfer, without the cut.
    pub fn possible(&self, links: &[LinkSpec]) -> Rate {
        let mut bytes = ByteCount::ZERO;
        for (index, link) in links.iter().enumerate() {
            let cut = self.cut.filter(|cut| cut.link == index);
            let outage = cut.map_or(Duration::ZERO, |cut| cut.outage(self.time));
            bytes += link.rate * self.time.saturating_sub(outage);
        }
        bytes.per(self.time)
    }
}

/// Cuts and restores, watches the paths, and reports to the user.
struct Conductor<'a> {
    stage: &'a Stage,
    view: &'a ProgressView,
    started: Instant,
    watch: Watch,
    events: Receiver<Event>,
    cutter: Option<Cutter>,
    /// Whether the connection uses the link that was cut.
    is_used: bool,
}

impl<'a> Conductor<'a> {
    fn new(trial: &Trial<'_>, stage: &'a Stage, view: &'a ProgressView, started: Instant) -> Self {
        let cut = trial.cut.and_then(|index| Some((index, stage.links().get(index)?.clone())));
        Self {
            stage,
            view,
            started,
            watch: Watch::new(stage.links()),
            events: stage.connection().events(),
            cutter: cut.map(|(index, link)| Cutter::new(index, link, trial.source.bytes)),
            is_used: true,
        }
    }

    /// Reports the paths that work from the start.
    async fn begin(&mut self) {
        if let Ok(info) = self.stage.connection().info().await {
            self.watch.note(&info);
            self.watch.beginnings(&info).iter().for_each(|text| self.say(text));
        }
    }

    /// Runs until it is cancelled; ends only with an error.
    async fn run(&mut self) -> CommandError {
        let mut step = interval(STEP);
        let mut look = interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        for timer in [&mut step, &mut look] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                _ = step.tick() => {
                    if let Err(error) = self.step().await {
                        return error;
                    }
                }
                _ = look.tick() => {
                    if let Err(error) = self.look().await {
                        return error;
                    }
                }
                event = next_event(&mut self.events) => self.tell(&event),
            }
        }
    }

    async fn step(&mut self) -> Result<(), CommandError> {
        let Some(cutter) = &mut self.cutter else { return Ok(()) };
        let received = self.stage.meter().arrivals().bytes;
        let event = cutter.step(self.started.elapsed(), received, self.is_used);
        let Some(event) = event else { return Ok(()) };
        let name = cutter.report().map_or_else(String::new, |report| link_name(report.link));
        self.say(&cut_words(event, &name));
        // The state of the path before the cut says nothing about now.
        self.look().await
    }

    async fn look(&mut self) -> Result<(), CommandError> {
        let Ok(info) = self.stage.connection().info().await else { return Ok(()) };
        self.note(&info);
        if let Some(address) = self.watch.way_around(&info) {
            let text = format!("the connection goes to {address}, around the links: this is a bug");
            return Err(CommandError::new(ExitCode::Failed, text));
        }
        self.watch.note(&info);
        self.view.set_paths(&self.watch.rows());
        Ok(())
    }

    fn note(&mut self, info: &ConnectionInfo) {
        if let Some(report) = self.cutter.as_ref().and_then(Cutter::report) {
            self.is_used = self.watch.is_used(info, report.link);
        }
    }

    fn tell(&mut self, event: &Event) {
        if let Event::Path(event) = event {
            self.say(&self.watch.message(event));
            let link = self.cutter.as_ref().and_then(Cutter::report).map(|report| report.link);
            if link.is_some_and(|link| self.watch.is_over(event, link)) {
                self.is_used = event.state.carries_data();
            }
        }
    }

    fn say(&self, text: &str) {
        self.view.message(&event_line(self.started.elapsed(), text));
    }
}

/// The text of a step of the cutter.
pub(crate) fn cut_words(event: CutEvent, link: &str) -> String {
    match event {
        CutEvent::Cut => format!("{link} cut: drops all packets, without any error"),
        CutEvent::Restored => format!("{link} restored (Manyway is not notified)"),
        CutEvent::Carries(after) => format!("{link} carries data again after {}", units::duration(after)),
    }
}

/// An event at a time of the transfer.
pub(crate) fn event_line(time: Duration, text: &str) -> String {
    format!("{} {text}", moment(time))
}

/// The next event; pends for ever once there are no more.
async fn next_event(events: &mut Receiver<Event>) -> Event {
    loop {
        match events.recv().await {
            Ok(event) => return event,
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending::<()>().await,
        }
    }
}

fn link_report(link: &LinkHandle) -> LinkReport {
    let counters = link.figures(Direction::Up).counters;
    LinkReport {
        name: link.spec().to_string(),
        delivered: counters.delivered.bytes.get(),
        lost: counters.lost.packets + counters.queue_full.packets + counters.queue_law.packets,
    }
}

/// The deliveries of a link, without the time before the transfer.
fn series(link: &LinkHandle, before: Duration) -> Vec<u64> {
    let skip = usize::try_from(before.as_nanos() / SERIES_BIN.as_nanos()).unwrap_or(usize::MAX);
    link.figures(Direction::Up).delivered.into_iter().skip(skip).collect()
}

/// Precision of cutting and restoring.
const STEP: Duration = Duration::from_millis(5);
/// Interval of looking at the paths.
const LOOK: Duration = Duration::from_millis(150);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_possible_leaves_out_the_cut() {
        let links: Vec<LinkSpec> = vec!["30M,1ms".parse().unwrap(), "10M,1ms".parse().unwrap()];
        let second = Duration::from_secs(1);
        let mut outcome = Outcome {
            time: 10 * second,
            longest_stall: second,
            cut: None,
            links: Vec::new(),
            series: Vec::new(),
        };
        assert_eq!(outcome.possible(&links).bits_per_second(), 40_000_000);
        outcome.cut =
            Some(CutReport { link: 0, at: second, restored_at: Some(6 * second), carries_after: None });
        assert_eq!(outcome.possible(&links).bits_per_second(), 25_000_000);
    }
}
