//! Watches the paths of a connection while a command runs, and shows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway::{ByteCount, Connection, Event, PathId, PathInfo, PathState, Rate};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::output::path::{news_words, path_of};
use crate::output::progress::{PathLine, ProgressView};

/// How often the figures are read.
const EVERY: Duration = Duration::from_millis(250);

/// Shows the paths until it is dropped.
#[derive(Debug)]
pub struct PathWatch {
    task: JoinHandle<()>,
}

impl PathWatch {
    /// Starts to show the paths of `connection` in `view`.
    pub fn start(connection: &Connection, view: Arc<ProgressView>) -> Self {
        Self::start_with(connection, view, path_name)
    }

    /// As [`Self::start`], with names that `path_name` gives.
    pub fn start_with(
        connection: &Connection,
        view: Arc<ProgressView>,
        path_name: fn(&PathInfo) -> String,
    ) -> Self {
        let mut events = connection.events();
        let connection = connection.clone();
        let task = tokio::spawn(async move {
            let (mut meter, mut names) = (PathMeter::default(), BTreeMap::new());
            let mut tick = tokio::time::interval(EVERY);
            loop {
                tokio::select! {
                    _ = tick.tick() => match connection.info().await {
                        Ok(info) => {
                            names = info.paths.iter().map(|path| (path.statistics.id, path_name(path))).collect();
                            view.set_paths(&meter.lines(&info.paths, path_name));
                        }
                        Err(_) => return,
                    },
                    event = events.recv() => match event {
                        Ok(event) => if let Some(text) = describe(&event, &names) {
                            view.message(&text);
                        },
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return,
                    },
                }
            }
        });
        Self { task }
    }
}

impl Drop for PathWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Rates of paths, from the figures of one moment and the one before.
#[derive(Debug, Default)]
pub struct PathMeter {
    before: BTreeMap<PathId, (Instant, u64)>,
}

impl PathMeter {
    /// One line for each path, in the order of their ids, with the name that `name` gives it.
    pub fn lines(&mut self, paths: &[PathInfo], name: impl Fn(&PathInfo) -> String) -> Vec<PathLine> {
        let now = Instant::now();
        let moved = |path: &PathInfo| path.statistics.bytes_sent.get() + path.statistics.bytes_received.get();
        let all: u64 = paths.iter().map(moved).sum();
        let mut before = BTreeMap::new();
        let lines = paths
            .iter()
            .map(|path| {
                let bytes = moved(path);
                let id = path.statistics.id;
                before.insert(id, (now, bytes));
                let rate = self.before.get(&id).map_or(Rate::ZERO, |(at, old)| {
                    ByteCount(bytes.saturating_sub(*old)).per(now.duration_since(*at))
                });
                let measured = path.statistics.state != PathState::Validating;
                let share = (u128::from(bytes) * 100).checked_div(u128::from(all)).unwrap_or(0);
                PathLine {
                    name: name(path),
                    state: path.statistics.state.to_string(),
                    rtt: measured.then_some(path.statistics.smoothed_rtt),
                    rate,
                    share: u8::try_from(share).unwrap_or(100),
                }
            })
            .collect();
        self.before = before;
        lines
    }
}

/// The interface, or the address where it has none.
pub fn path_name(path: &PathInfo) -> String {
    let local = path.statistics.tuple.local.address.ip().to_canonical();
    path.interface.as_ref().map_or_else(|| local.to_string(), |name| format!("{name} {local}"))
}

/// The words for a change that a user wants to know; `names` are those of the paths that are known.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
fn describe(event: &Event, names: &BTreeMap<PathId, String>) -> Option<String> {
    use manyway::PathState::{Closed, Dead, Parked, Probation, Suspect};
    let is_worth_it = match event {
        Event::Path(path) => matches!(path.state, Parked | Suspect | Dead | Probation | Closed),
        Event::PrimaryPath(_) => true,
        // Whoever asks the user about it tells.
        _ => false,
    };
    let path = path_of(event).filter(|_| is_worth_it)?;
    news_words(event, names.get(&path).map(String::as_str))
}
