//! Pings that keep the figures of quiet paths fresh.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway::{Connection, ConnectionInfo, PathId};
use manyway_terminal::CommandError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::rows::Pinged;
use crate::command::error::of_connection;
use crate::output::known::KnownPaths;
use crate::output::path::PathLabel;

/// Interval between pings of every path.
pub(super) const EVERY: Duration = Duration::from_millis(200);
/// A ping without an answer for this long is lost.
const WAIT: Duration = Duration::from_secs(2);
/// Number of a path's last pings that count: 20 s of them.
const COUNTED: usize = 100;
/// Number of the last answers whose mean is shown.
const AVERAGED: usize = 5;

/// The pings of all paths of a connection.
#[derive(Debug)]
pub(super) struct Pings<'a> {
    connection: &'a Connection,
    waiting: JoinSet<(PathId, Option<Duration>)>,
    paths: BTreeMap<PathId, Recent>,
    known: KnownPaths,
}

#[derive(Debug, Default)]
struct Recent {
    /// The results of the last pings, `None` for lost.
    fates: VecDeque<Option<Duration>>,
    /// Time of the last answer or, before the first one, of the first ping.
    heard: Option<Instant>,
}

impl<'a> Pings<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, waiting: JoinSet::new(), paths: BTreeMap::new(), known: KnownPaths::default() }
    }

    /// Sends a ping on every path.
    pub(super) async fn ask(&mut self) -> Result<(), CommandError> {
        let info = self.look().await?;
        self.paths.retain(|id, _| info.paths.iter().any(|path| path.statistics.id == *id));
        for path in info.paths {
            let id = path.statistics.id;
            let recent = self.paths.entry(id).or_default();
            recent.heard.get_or_insert_with(Instant::now);
            let path = self.connection.path(id);
            self.waiting.spawn(async move {
                let answer = tokio::time::timeout(WAIT, path.ping()).await;
                (id, answer.ok().and_then(Result::ok).flatten())
            });
        }
        Ok(())
    }

    /// Records the current paths.
    pub(super) async fn look(&mut self) -> Result<ConnectionInfo, CommandError> {
        let info = self.connection.info().await.map_err(of_connection)?;
        self.known.note(&info);
        Ok(info)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for the result of the next ping.
    pub(super) async fn take(&mut self) {
        if let Some(Ok((id, fate))) = self.waiting.join_next().await
            && let Some(path) = self.paths.get_mut(&id)
        {
            path.take(fate);
        }
    }

    /// The figures of a path.
    pub(super) fn of(&self, id: PathId) -> Pinged {
        self.paths.get(&id).map_or_else(Pinged::default, Recent::pinged)
    }

    /// The label of a path that ever had a ping.
    pub(super) fn label(&self, id: PathId) -> Option<&PathLabel> {
        self.known.label(id)
    }

    /// Its name.
    pub(super) fn name(&self, id: PathId) -> Option<String> {
        self.known.name(id)
    }
}

impl Recent {
    fn take(&mut self, fate: Option<Duration>) {
        if self.fates.len() >= COUNTED {
            self.fates.pop_front();
        }
        self.fates.push_back(fate);
        if fate.is_some() {
            self.heard = Some(Instant::now());
        }
    }

    fn pinged(&self) -> Pinged {
        let answers: Vec<_> = self.fates.iter().rev().filter_map(|fate| *fate).take(AVERAGED).collect();
        let sum: Duration = answers.iter().sum();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Pinged {
            rtt: u32::try_from(answers.len()).ok().and_then(|answers| sum.checked_div(answers)),
            lost: count(self.fates.iter().filter(|fate| fate.is_none()).count()),
            asked: count(self.fates.len()),
            silent: self.heard.map(|heard| heard.elapsed()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_mean_is_that_of_the_last_answers_and_old_losses_are_dropped() {
        let mut recent = Recent::default();
        recent.take(None);
        for millis in [90, 10, 10, 10, 20, 20] {
            recent.take(Some(Duration::from_millis(millis)));
        }
        let pinged = recent.pinged();
        assert_eq!((pinged.rtt, pinged.lost, pinged.asked), (Some(Duration::from_millis(14)), 1, 7));
        for _ in 0..COUNTED {
            recent.take(Some(Duration::from_millis(1)));
        }
        assert_eq!((recent.pinged().lost, recent.pinged().silent), (0, Duration::ZERO));
        tokio::time::advance(Duration::from_secs(3)).await;
        recent.take(None);
        assert_eq!(recent.pinged().silent, Duration::from_secs(3));
        assert_eq!(Recent::default().pinged(), Pinged::default());
    }
}
