//! Reports of the scheduler: the purpose of each path, and its notices.

use manyway_wire::PathId;

use super::Engine;
use crate::Instant;
use crate::event::Event;
use crate::path::Path;
use crate::scheduler::{Notice, PathView, Purpose, View, in_use_for_urgent, purpose_of, with_purpose};
use crate::stream::priority::ClassFilter;
use crate::wire::Wire;

/// The purpose of each used path in the view of this end's scheduler: it explains why a path carries data or none.
pub(crate) fn purposes(engine: &Engine, wire: &Wire, now: Instant) -> Vec<(PathId, Purpose)> {
    let figures = |path: &Path| {
        let view = path.view(now, engine.manager.terms_of(&path.tuple().local));
        PathView { sendable: view.window - view.in_flight, ..view }
    };
    let paths: Vec<PathView> = engine.paths.iter().map(figures).collect();
    let scheduler = &*engine.sending.scheduler;
    let mut view = View::new(now, &paths);
    let urgent_has_path = in_use_for_urgent(scheduler, &view).next().is_some();
    let filter = if urgent_has_path { ClassFilter::NotUrgent } else { ClassFilter::All };
    let backlog = wire.backlog_of(filter);
    (view.backlog, view.retransmissions, view.next) =
        (backlog.backlog, backlog.retransmissions, backlog.next);
    with_purpose(scheduler, &view).map(|path| (path.id, purpose_of(scheduler, path, &view))).collect()
}

impl Engine {
    /// Turns reports of the scheduler into events; true if there were any.
    pub(crate) fn forward_notices(&mut self) -> bool {
        let mut any = false;
        while let Some(notice) = self.sending.scheduler.poll_notice() {
            any = true;
            self.events.push(match notice {
                Notice::PrimaryIs(path) => Event::PrimaryPath(path),
                Notice::CostlyPathNeeded(path) => Event::CostlyPathNeeded(path),
            });
        }
        any
    }
}
