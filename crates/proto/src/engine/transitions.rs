//! Every change of a path's state goes through here, and notifies everything that depends on it.

use manyway_wire::PathId;
use smallvec::SmallVec;
use std::time::Duration;

use super::Engine;
use super::notices::Notice;
use crate::congestion::{Bottleneck, Subflow};
use crate::event::{Event, PathEvent};
use crate::observe::Fact;
use crate::path::{Path, PathReason, PathState};
use crate::{Instant, scheduler};

impl Engine {
    /// Changes the state of a path and notifies its dependants; has no effect if the table does not allow it.
    pub(crate) fn advance_path(
        &mut self,
        now: Instant,
        id: PathId,
        state: PathState,
        reason: PathReason,
    ) -> bool {
        let Some(path) = self.paths.get_mut(id) else { return false };
        if !path.advance(now, state, reason) {
            return false;
        }
        path.recovery.set_suspect(state == PathState::Suspect);
        let event = PathEvent { path: id, tuple: path.tuple(), role: path.role(), state, reason };
        self.announce_path(now, event);
        true
    }

    /// The path stays in its state, for another reason.
    pub(crate) fn change_reason(&mut self, now: Instant, id: PathId, reason: PathReason) {
        let Some(path) = self.paths.get_mut(id) else { return };
        path.set_reason(reason);
        let event =
            PathEvent { path: id, tuple: path.tuple(), role: path.role(), state: path.state(), reason };
        self.announce_path(now, event);
    }

    pub(super) fn announce_path(&mut self, now: Instant, event: PathEvent) {
        self.observe(now, &Fact::Path(event));
        let PathEvent { path, state, .. } = event;
        self.sending.scheduler.on_event(&scheduler::Event::Path { path, state });
        if matches!(state, PathState::Suspect | PathState::Dead | PathState::Closed)
            && let Some(guard) = &mut self.sending.guard
        {
            guard.forget(path);
        }
        self.events.push(Event::Path(event));
        self.manager.reconsider();
        self.weigh_paths(now);
    }

    /// Updates whether any path is live, and which paths have live ones beside them, after any change of a path.
    pub(super) fn weigh_paths(&mut self, now: Instant) {
        let live = self.paths.iter().any(Path::is_live);
        let was_pathless = self.clock.pathless_since.is_some();
        if live {
            self.clock.pathless_since = None;
        } else if !was_pathless && !self.phase.is_handshaking() {
            self.clock.pathless_since = Some(now);
            self.manager.on_stuck();
        }
        let is_pathless = self.clock.pathless_since.is_some();
        if is_pathless != was_pathless {
            self.notices.push(Notice::Pathless(is_pathless));
        }
        let live_paths = self.paths.iter().filter(|path| path.is_live()).count();
        for path in self.paths.iter_mut() {
            let others = live_paths - usize::from(path.is_live());
            path.recovery.set_other_path_alive(others > 0);
        }
    }

    /// The other live paths, for the controller of a path.
    pub(crate) fn subflows(&mut self, now: Instant, id: PathId) -> SmallVec<[Subflow; 8]> {
        self.paths.judge_bottlenecks(now);
        let others = self.paths.iter().filter(|path| path.id != id && path.is_live());
        let subflow = |path: &Path| {
            // The window of an idle path takes no capacity from others.
            let bottleneck =
                if rests(path, now) { Bottleneck::Other } else { self.paths.bottleneck_of([id, path.id]) };
            path.recovery.as_subflow().with_bottleneck(bottleneck)
        };
        others.map(subflow).collect()
    }
}

/// Whether a path that carried stream data is idle: no stream data for a while, and nothing in flight.
fn rests(path: &Path, now: Instant) -> bool {
    path.last_data().is_some_and(|at| now - at > RESTS_AFTER) && path.recovery.packets_in_flight() == 0
}

/// A path without stream data for this long competes with no other.
const RESTS_AFTER: Duration = Duration::from_secs(1);
