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

    /// One row for each path, named by its link.
    pub(super) fn rows(&mut self, info: &ConnectionInfo) -> Vec<PathRow> {
        let Self { links, book } = self;
        let now = Instant::now();
        let observed = info.paths.iter().map(|path| {
            let local = path.statistics.tuple.local.address.ip();
            let link = links.iter().enumerate().find(|(_, link)| link.client() == local);
            let named = link.map(|(index, link)| format!("{} ({})", link_name(index), link.spec().rate));
            Observed::of(path, named.unwrap_or_else(|| PathLabel::of(path).name()))
        });
        book.note(0, now, observed);
        book.rows(now)
    }

    /// Messages about the paths that work when the transfer begins: no later event reports them.
    pub(super) fn beginnings(&self, info: &ConnectionInfo) -> Vec<String> {
        let working = info.paths.iter().filter(|path| path.statistics.state.carries_data());
        let words = working.filter_map(|path| {
            let local = path.statistics.tuple.local.address.ip();
            let link = self.links.iter().position(|link| link.client() == local)?;
            Some(state_words(&link_name(link), path.statistics.state, &path.statistics.reason))
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
        let local = event.tuple.local.address.ip();
        let name = self.links.iter().position(|link| link.client() == local).map(link_name);
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

/// The name of a link, counted from zero.
pub(super) fn link_name(index: usize) -> String {
    format!("link {}", index + 1)
}
