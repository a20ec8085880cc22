//! The paths in turn (CMT 2.6.1).

use manyway_wire::PathId;

use super::choice::{purpose_alike, turn};
use super::{Decision, PathView, Purpose, Scheduler, Source, View};

/// Sends one burst of a few datagrams on each path that can send, in the order of their ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let after_last = view.candidates().find(|path| self.last.is_none_or(|last| path.id > last));
        match after_last.or_else(|| view.candidates().next()) {
            Some(path) => {
                self.last = Some(path.id);
                Decision::send(path.id, path.sendable.min(turn(path)), Source::Next)
            }
            None => Decision::WAIT,
        }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_alike(path, view)
    }
}
