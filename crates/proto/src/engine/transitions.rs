//! Every change of a path's state goes through here, and notifies everything that depends on it.

use manyway_wire::PathId;

use super::Engine;
use super::notices::Notice;
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
        if matches!(state, PathState::Backup | PathState::Suspect | PathState::Dead | PathState::Closed)
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
            self.manager.on_no_path();
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
}
