//! The paths that a scheduler uses, and the purpose of each at the moment.

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::{PathView, Purpose, Scheduler, View, background};

/// The paths in use for urgent data, as if paths that may not carry it did not work.
pub(crate) fn in_use_for_urgent<'a>(
    scheduler: &dyn Scheduler,
    view: &View<'a>,
) -> impl Iterator<Item = &'a PathView> + Clone {
    view.in_use_of(|path| scheduler.may_use(path, view.paths))
}

/// The paths with a purpose: those in use, and those that replace paths without permission.
pub(crate) fn with_purpose<'a>(
    scheduler: &dyn Scheduler,
    view: &View<'a>,
) -> impl Iterator<Item = &'a PathView> {
    let in_use = view.in_use().chain(in_use_for_urgent(scheduler, view));
    let in_use: SmallVec<[PathId; 16]> = in_use.map(|path| path.id).collect();
    view.paths.iter().filter(move |path| in_use.contains(&path.id))
}

/// The purpose of a path, considering that the next data may not be allowed on it.
pub(crate) fn purpose_of(scheduler: &dyn Scheduler, path: &PathView, view: &View<'_>) -> Purpose {
    let purpose = scheduler.purpose(path, view);
    let is_unpaid = background::is_next(view) && background::is_unpaid(path);
    if purpose.takes_new_data() && is_unpaid { Purpose::NoBackground } else { purpose }
}

#[cfg(test)]
mod tests;
