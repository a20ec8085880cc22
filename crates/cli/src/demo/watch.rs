//! What the user sees of the paths while a transfer runs.

use std::net::IpAddr;
use std::time::Duration;

use manyway::{ConnectionInfo, PathEvent, PathStatistics};

use super::emulator::LinkHandle;
use crate::command::watch::{PathMeter, path_name};
use crate::output::path::event_words;
use crate::output::progress::PathLine;

/// Looks at the paths over the links.
#[derive(Debug)]
pub(super) struct Watch {
    links: Vec<LinkHandle>,
    meter: PathMeter,
}

impl Watch {
    pub(super) fn new(links: &[LinkHandle]) -> Self {
        Self { links: links.to_vec(), meter: PathMeter::default() }
    }

    /// One line for each path, named by its link.
    pub(super) fn lines(&mut self, info: &ConnectionInfo) -> Vec<PathLine> {
        let Self { links, meter } = self;
        meter.lines(&info.paths, |path| {
            let local = path.statistics.tuple.local.address.ip();
            let link = links.iter().enumerate().find(|(_, link)| link.client() == local);
            let named = link.map(|(index, link)| format!("{} ({})", link_name(index), link.spec().rate));
            named.unwrap_or_else(|| path_name(path))
        })
    }

    /// An address of the server that no link leads to but that the connection uses all the same.
    pub(super) fn way_around(&self, info: &ConnectionInfo) -> Option<String> {
        let fronts: Vec<_> = self.links.iter().map(LinkHandle::front).collect();
        let strays = info.paths.iter().filter(|path| path.statistics.state.carries_data());
        strays
            .map(|path| path.statistics.tuple.remote)
            .find(|remote| !fronts.contains(remote))
            .map(|remote| remote.to_string())
    }

    /// What happened to a path, in words.
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

/// A moment of the transfer, as it stands before each message.
pub(super) fn moment(time: Duration) -> String {
    format!("{:>6.2} s ", time.as_secs_f64())
}
