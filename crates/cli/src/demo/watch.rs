//! The paths during a transfer, as the user sees them.

use std::net::IpAddr;
use std::time::Instant;

use manyway::{ConnectionInfo, PathEvent, PathStatistics};

use super::emulator::LinkHandle;
use crate::output::book::{Observed, PathBook, PathRow};
use crate::output::path::{PathLabel, event_words, state_words};

/// Watches the paths over the links.
#[derive(Debug)]
pub(super) struct Watch {
    links: Vec<LinkHandle>,
    book: PathBook,
}

impl Watch {
    pub(super) fn new(links: &[LinkHandle]) -> Self {
        Self { links: links.to_vec(), book: PathBook::default() }
    }

    /// Records the paths, each by its link.
    pub(super) fn note(&mut self, info: &ConnectionInfo) {
        let Self { links, book } = self;
        let observed = info.paths.iter().map(|path| {
            let link = link_of(links, path.statistics.tuple.local.address.ip());
            Observed::of(path, link.unwrap_or_else(|| PathLabel::of(path).name()))
        });
        book.note(CONNECTION, Instant::now(), observed);
    }

    /// One row for each path.
    pub(super) fn rows(&self) -> Vec<PathRow> {
        self.book.rows(Instant::now())
    }

    /// Messages about the paths that work when the transfer begins: no later event reports them.
    pub(super) fn beginnings(&self, info: &ConnectionInfo) -> Vec<String> {
        let working = info.paths.iter().filter(|path| path.statistics.state.carries_data());
        let words = working.filter_map(|path| {
            let figures = &path.statistics;
            let name = self.book.name(CONNECTION, figures.id)?;
            Some(state_words(&name, figures.state, &figures.reason))
        });
        words.collect()
    }

    /// An address of the server that bypasses all links but is used by the connection.
    pub(super) fn way_around(&self, info: &ConnectionInfo) -> Option<String> {
        let fronts: Vec<_> = self.links.iter().map(LinkHandle::front).collect();
        let strays = info.paths.iter().filter(|path| path.statistics.state.carries_data());
        strays
            .map(|path| path.statistics.tuple.remote)
            .find(|remote| !fronts.contains(remote))
            .map(|remote| remote.to_string())
    }

    /// The text of a path event.
    pub(super) fn message(&self, event: &PathEvent) -> String {
        // A path that came since the last look has the name of its link.
        let name = self.book.name(CONNECTION, event.path);
        let name = name.or_else(|| link_of(&self.links, event.tuple.local.address.ip()));
        event_words(event, name.as_deref())
    }

    /// Whether the connection gives data to the path over a link.
    pub(super) fn is_used(&self, info: &ConnectionInfo, link: usize) -> bool {
        let client = self.links.get(link).map(LinkHandle::client);
        client.and_then(|client| self.path(info, client)).is_some_and(|path| path.state.carries_data())
    }

    /// Whether an event is about a path over a link.
    pub(super) fn is_over(&self, event: &PathEvent, link: usize) -> bool {
        self.links.get(link).is_some_and(|link| link.client() == event.tuple.local.address.ip())
    }

    fn path<'a>(&self, info: &'a ConnectionInfo, local: IpAddr) -> Option<&'a PathStatistics> {
        let mut paths = info.paths.iter().map(|path| &path.statistics);
        paths.rfind(|path| path.tuple.local.address.ip() == local)
    }
}

/// The name of the link with this local address.
fn link_of(links: &[LinkHandle], local: IpAddr) -> Option<String> {
    links.iter().position(|link| link.client() == local).map(link_name)
}

/// The name of a link, counted from zero.
pub(super) fn link_name(index: usize) -> String {
    format!("link {}", index + 1)
}

/// The only connection, in the book of paths.
const CONNECTION: u32 = 0;
