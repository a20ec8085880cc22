//! Where an application wants a stream to be sent.

use manyway_wire::PathId;

use super::View;

/// The place to which an application binds a stream ([`Connection::bind_stream`](crate::Connection::bind_stream)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// This path, while it is open.
    Path(PathId),
    /// The paths from this interface, by its index in the system, also those that open later.
    Interface(u32),
}

impl Binding {
    /// The open path that it names; of several one that may carry data, and of these the oldest.
    pub(super) fn path(self, view: &View<'_>) -> Option<PathId> {
        match self {
            Self::Path(id) => view.path(id).map(|path| path.id),
            Self::Interface(interface) => {
                let on_it = |path: &PathId| view.path(*path).is_some_and(|path| path.interface == interface);
                let in_use = view.in_use().map(|path| path.id).filter(on_it).min();
                in_use.or_else(|| view.paths.iter().map(|path| path.id).filter(on_it).min())
            }
        }
    }
}
