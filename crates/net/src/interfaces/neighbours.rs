//! Hosts and routers of local networks that do not answer.

use std::task::{Context, Poll};

#[cfg(all(target_os = "linux", not(manyway_portable)))]
use super::netlink::NeighbourSource;
use super::snapshot::Neighbour;

/// Reports neighbours whose link address is not found, by ARP or IPv6 neighbour discovery, as long as that is wanted. Where
/// the system does not tell, nothing is reported.
#[derive(Debug, Default)]
pub(crate) struct NeighbourWatch {
    #[cfg(all(target_os = "linux", not(manyway_portable)))]
    is_wanted: bool,
    #[cfg(all(target_os = "linux", not(manyway_portable)))]
    source: Option<NeighbourSource>,
}

#[cfg(all(target_os = "linux", not(manyway_portable)))]
impl NeighbourWatch {
    /// Begins or ends reports. What fails before the beginning is never reported.
    pub(crate) fn set_wanted(&mut self, is_wanted: bool) {
        if is_wanted == self.is_wanted {
            return;
        }
        self.is_wanted = is_wanted;
        self.source = is_wanted.then(NeighbourSource::new).and_then(|opened| {
            opened.inspect_err(|error| tracing::debug!(%error, "neighbours are not watched")).ok()
        });
    }

    /// Waits for the next report.
    pub(crate) fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<Neighbour> {
        let Some(source) = &mut self.source else { return Poll::Pending };
        match source.poll_lost(context) {
            Poll::Ready(Ok(lost)) => Poll::Ready(lost),
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, "neighbours are not watched any more");
                self.source = None;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(not(all(target_os = "linux", not(manyway_portable))))]
impl NeighbourWatch {
    /// Has no effect.
    pub(crate) fn set_wanted(&mut self, _is_wanted: bool) {}

    /// Never ready.
    pub(crate) fn poll_lost(&mut self, _context: &mut Context<'_>) -> Poll<Neighbour> {
        Poll::Pending
    }
}
