//! What the application wants of the scheduler, and what the scheduler has to say.

use manyway_wire::PathId;

use super::Connection;
use crate::event::Event;
use crate::path::Path;
use crate::scheduler::{
    self, Notice, PathTerms, PathView, Purpose, View, in_use_for_urgent, purpose_of, with_purpose,
};
use crate::stream::priority::Pick;
use crate::{Instant, LocalAddress, Misuse};

impl Connection {
    /// Makes a path the primary one, or with `None` leaves the choice to the scheduler again. Only the scheduler
    /// `primary` has one; the others go on as before. A path that does not work is primary as soon as it does.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn set_primary(&mut self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_path(path)?;
        self.sending.scheduler.on_event(&scheduler::Event::PrimaryWished { path });
        Ok(())
    }

    /// Allows that a path is used although it costs more than the last primary that needed no leave: the answer to
    /// [`Event::CostlyPathNeeded`]. It holds for as long as the path is open: with another address it is another path.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn allow_costly(&mut self, path: PathId) -> Result<(), Misuse> {
        self.check_path(Some(path))?;
        self.sending.scheduler.on_event(&scheduler::Event::CostlyAllowed { path });
        Ok(())
    }

    /// Says what it costs to use the interface of an own address, or that address if it belongs to none: for paths that
    /// are open, and those to come. Default: nothing, without a limit. An interface without any quota left is as gone from
    /// the next call of [`set_local_addresses`](Self::set_local_addresses) on.
    pub fn set_terms(&mut self, local: LocalAddress, terms: PathTerms) {
        self.manager.set_terms(local, terms);
    }

    fn check_path(&self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_usable()?;
        match path {
            Some(path) if self.paths.get(path).is_none() => Err(Misuse::UnknownPath { path }),
            Some(_) | None => Ok(()),
        }
    }

    /// What the scheduler of this end has each path for that is in use; for people who ask why it carries data or none.
    pub fn purposes(&self, now: Instant) -> Vec<(PathId, Purpose)> {
        let figures = |path: &Path| {
            let view = path.view(now);
            let terms = self.manager.terms_of(&path.tuple().local);
            PathView { sendable: view.window - view.in_flight, terms, ..view }
        };
        let paths: Vec<PathView> = self.paths.iter().map(figures).collect();
        let scheduler = &*self.sending.scheduler;
        let mut view = View::new(now, &paths);
        let urgent_has_path = in_use_for_urgent(scheduler, &view).next().is_some();
        let outlook = self.streams.outlook(if urgent_has_path { Pick::Patient } else { Pick::All });
        (view.backlog, view.repeats, view.next) = (outlook.backlog, outlook.repeats, outlook.next);
        with_purpose(scheduler, &view).map(|path| (path.id, purpose_of(scheduler, path, &view))).collect()
    }

    /// Makes events of what the scheduler has to say; true if there were any.
    pub(crate) fn forward_notices(&mut self) -> bool {
        let mut any = false;
        while let Some(notice) = self.sending.scheduler.poll_notice() {
            any = true;
            self.events.push(match notice {
                Notice::PrimaryIs(path) => Event::PrimaryPath(path),
                Notice::AsksForCostly(path) => Event::CostlyPathNeeded(path),
            });
        }
        any
    }
}
