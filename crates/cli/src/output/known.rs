//! The paths of one connection under their display names, including closed ones: an event may name them after their
//! end.

use std::collections::BTreeMap;

use manyway::{ConnectionInfo, Event, PathEvent, PathId, PathState, PathStatistics};

use super::names::distinct;
use super::path::PathLabel;

/// Labels by path.
#[derive(Debug, Default)]
pub struct KnownPaths {
    labels: BTreeMap<PathId, PathLabel>,
    open: Vec<PathId>,
    is_begun: bool,
    /// What was reported at the beginning and may come as an event, too.
    told: Vec<PathEvent>,
}

impl KnownPaths {
    /// Records the open paths.
    pub fn note(&mut self, info: &ConnectionInfo) {
        self.open = info.paths.iter().map(|path| path.statistics.id).collect();
        self.labels.extend(info.paths.iter().map(|path| (path.statistics.id, PathLabel::of(path))));
        while self.labels.len() > self.open.len().max(MOST) {
            let Some(oldest) = self.labels.keys().find(|id| !self.open.contains(id)).copied() else { break };
            self.labels.remove(&oldest);
        }
    }

    /// The paths that work when a command begins: no later event reports them. Empty on later calls.
    pub fn beginnings<'a>(&mut self, info: &'a ConnectionInfo) -> Vec<&'a PathStatistics> {
        self.note(info);
        if std::mem::replace(&mut self.is_begun, true) {
            return Vec::new();
        }
        let figures = info.paths.iter().map(|path| &path.statistics);
        let active: Vec<_> = figures.filter(|figures| figures.state == PathState::Active).collect();
        self.told = active.iter().map(|figures| figures.event()).collect();
        active
    }

    /// Whether an event repeats what [`Self::beginnings`] reported.
    pub fn is_beginning(&mut self, event: &Event) -> bool {
        let Event::Path(event) = event else { return false };
        let same = self.told.iter().position(|told| told.path == event.path);
        // Later events are news, even with the same state again.
        same.is_some_and(|same| self.told.swap_remove(same) == *event)
    }

    /// Whether the path was ever recorded.
    pub fn has(&self, id: PathId) -> bool {
        self.labels.contains_key(&id)
    }

    /// The label of a path that was ever recorded.
    pub fn label(&self, id: PathId) -> Option<&PathLabel> {
        self.labels.get(&id)
    }

    /// The name of a path that was ever recorded, among those that are open.
    pub fn name(&self, id: PathId) -> Option<String> {
        let others = self.open.iter().copied().filter(|other| *other != id);
        let mut ids: Vec<_> = others.chain([id]).filter(|id| self.labels.contains_key(id)).collect();
        ids.sort_unstable();
        let traits: Vec<_> = ids.iter().filter_map(|id| Some(self.labels.get(id)?.traits())).collect();
        let place = ids.iter().position(|other| *other == id)?;
        distinct(&traits).into_iter().nth(place)
    }

    /// The labels of the paths that were open at the last look.
    pub fn open(&self) -> Vec<PathLabel> {
        self.open.iter().filter_map(|id| self.labels.get(id)).cloned().collect()
    }
}

/// Most paths that are remembered beside open ones; flapping links make new ones without end.
const MOST: usize = 256;
