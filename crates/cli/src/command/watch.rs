//! Watches the paths of a connection while a command runs, and shows them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use manyway::{ByteCount, Connection, ConnectionInfo, Event, PathEvent, PathId, PathReport, PathState};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use super::direction::Direction;
use crate::output::book::{Observed, PathBook, PathRow};
use crate::output::known::KnownPaths;
use crate::output::path::{PathLabel, news_words, path_of, why_of, why_words};
use crate::output::progress::ProgressView;
use crate::output::rate::Pathless;

/// How often the figures are read.
const EVERY: Duration = Duration::from_millis(250);

/// The paths of a command over all its connections; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Paths(Arc<Mutex<PathBook>>);

impl Paths {
    /// Every path ever seen, in the order of appearance.
    pub fn rows(&self) -> Vec<PathRow> {
        self.book().rows(Instant::now())
    }

    /// Adds another connection.
    pub fn connection(&self) -> PathsOf {
        PathsOf { connection: self.book().open(), paths: self.clone() }
    }

    fn book(&self) -> MutexGuard<'_, PathBook> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The paths of one connection among them; they are marked closed when this is dropped.
#[derive(Debug)]
pub struct PathsOf {
    connection: u32,
    paths: Paths,
}

impl PathsOf {
    /// Records the current paths, and why each is used or not as far as `report` tells.
    pub fn note(&self, info: &ConnectionInfo, report: &[PathReport]) {
        let paths = info.paths.iter().map(|path| Observed {
            why: why_of(report, path.statistics.id).map(why_words),
            ..Observed::of(path, PathLabel::of(path).name())
        });
        self.paths.book().note(self.connection, Instant::now(), paths);
    }

    fn name(&self, id: PathId) -> Option<String> {
        self.paths.book().name(self.connection, id)
    }

    /// Records an event; returns whether it is news that a path works.
    fn is_news(&self, event: &PathEvent) -> bool {
        let mut book = self.paths.book();
        book.note_state(self.connection, event.path, (event.state, &event.reason));
        book.has_failed(self.connection, event.path)
    }
}

impl Drop for PathsOf {
    fn drop(&mut self) {
        self.paths.book().close(self.connection);
    }
}

/// Shows the paths until it is dropped.
#[derive(Debug)]
pub struct PathWatch {
    task: JoinHandle<()>,
    connection: Connection,
    paths: Arc<PathsOf>,
}

impl PathWatch {
    /// Starts to show the paths of `connection` in `view`, and to note them in `paths`; its data has this direction.
    /// Times of messages count from `started`.
    pub fn start(
        connection: &Connection,
        view: Arc<ProgressView>,
        paths: &Paths,
        (direction, started): (Direction, Instant),
    ) -> Self {
        let mut events = connection.events();
        let watched = connection.clone();
        let (connection, all) = (connection.clone(), paths.clone());
        let paths = Arc::new(paths.connection());
        let noted = Arc::clone(&paths);
        let task = tokio::spawn(async move {
            let (mut pathless, mut known) = (Pathless::default(), KnownPaths::default());
            let mut tick = tokio::time::interval(EVERY);
            let say = |event: &Event, paths: &PathsOf| {
                if let Some(text) = describe(event, direction, paths) {
                    view.message(&format!("{} {text}", moment(started.elapsed())));
                }
            };
            loop {
                tokio::select! {
                    _ = tick.tick() => match connection.info().await {
                        Ok(info) => {
                            paths.note(&info, &connection.report().await.unwrap_or_default());
                            for figures in known.beginnings(&info) {
                                say(&Event::Path(figures.event()), &paths);
                            }
                            let works = info.paths.iter().any(|path| path.statistics.state.carries_data());
                            view.set_pathless(pathless.note(Instant::now(), works, no_path_timeout()));
                            view.set_waiting(info.unacknowledged.get());
                            view.set_paths(&all.rows());
                        }
                        Err(_) => return,
                    },
                    event = events.recv() => match event {
                        Ok(event) if known.is_beginning(&event) => {}
                        Ok(event) => {
                            if let Some(path) = path_of(&event)
                                && paths.name(path).is_none()
                                && let Ok(info) = connection.info().await
                            {
                                // A path that came since the last look.
                                paths.note(&info, &[]);
                            }
                            say(&event, &paths);
                        }
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => return,
                    },
                }
            }
        });
        Self { task, connection: watched, paths: noted }
    }

    /// Records the last figures without showing them, also those of a connection that has ended. Returns the bytes
    /// that the peer has not acknowledged, if they are known.
    pub async fn finish(&self) -> Option<ByteCount> {
        self.task.abort();
        let info = self.connection.info().await.ok().or_else(|| self.connection.info_at_end());
        if let Some(info) = &info {
            self.paths.note(info, &self.connection.report().await.unwrap_or_default());
        }
        info.map(|info| info.unacknowledged).or_else(|| self.connection.unacknowledged_at_end())
    }
}

impl Drop for PathWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A time of a transfer, as printed before each message.
pub fn moment(time: Duration) -> String {
    format!("{:>7.2} s ", time.as_secs_f64())
}

/// The text for a change that concerns the user: a working path is news if it did not work before. The sender decides
/// which path is primary.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's list is open")]
fn describe(event: &Event, direction: Direction, paths: &PathsOf) -> Option<String> {
    let path = path_of(event)?;
    let is_worth_it = match event {
        Event::Path(change) => paths.is_news(change) || change.state == PathState::Parked,
        Event::PrimaryPath(_) => direction.sends(),
        // The code that asks the user about it reports it.
        _ => false,
    };
    if is_worth_it { news_words(event, paths.name(path).as_deref()) } else { None }
}

/// Timeout of a connection without any path: no option changes it.
fn no_path_timeout() -> Duration {
    manyway::ConnectionConfig::default().no_path_timeout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_does_not_report_its_primary_path() {
        let (paths, event) = (Paths::default().connection(), Event::PrimaryPath(PathId(1)));
        let text = |direction| describe(&event, direction, &paths);
        assert_eq!(text(Direction::In), None);
        assert_eq!(text(Direction::Out).as_deref(), Some("path 1 primary: new data goes on it"));
        assert!(text(Direction::Both).is_some());
    }
}
