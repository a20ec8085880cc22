//! Next hops that do not answer while clients connect.

use std::collections::BTreeSet;
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, Instant};

use super::Driver;

/// Most reports that one turn handles. A scan of a network through this host causes a report for each absent host.
const MOST_REPORTS: usize = 64;

impl Driver {
    /// Tells connection attempts whose next hop does not answer. A socket that is bound to an interface gets no ICMP error
    /// for that over IPv4: the kernel sends it over the loopback interface. Returns true if more is pending.
    pub(super) fn poll_neighbours(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        // The watch begins before the first packet is sent, so that what failed before does not count.
        self.neighbours.set_wanted(!self.connections.attempts.is_empty());
        let mut lost = BTreeSet::new();
        let mut reports = 0;
        while reports < MOST_REPORTS
            && let Poll::Ready(neighbour) = self.neighbours.poll_lost(context)
        {
            reports += 1;
            lost.insert((neighbour.interface, neighbour.address));
        }
        if lost.is_empty() {
            return false;
        }
        let (snapshot, (_, sockets)) = (self.watcher.snapshot(), self.sockets.split());
        let locals: Vec<_> = sockets.map(|socket| socket.udp.local()).collect();
        let remotes: BTreeSet<_> = self.connections.attempts.remotes().collect();
        for (local, remote) in
            locals.iter().flat_map(|local| remotes.iter().map(move |remote| (local, remote)))
        {
            let hop = snapshot.next_hop(local.interface, remote.ip());
            if hop.is_some_and(|hop| lost.contains(&(local.interface, hop))) {
                tracing::debug!(?hop, interface = local.interface, "a next hop does not answer");
                self.endpoint.on_neighbour_lost(now, FourTuple::udp(*local, *remote));
            }
        }
        reports == MOST_REPORTS
    }
}
