//! Next hops that do not answer while clients connect.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, Instant};

use super::Driver;

impl Driver {
    /// Tells connection attempts whose next hop does not answer. A socket that is bound to an interface gets no ICMP error
    /// for that over IPv4: the kernel sends it over the loopback interface.
    pub(super) fn poll_neighbours(&mut self, now: Instant, context: &mut Context<'_>) {
        // The watch begins before the first packet is sent, so that what failed before does not count.
        self.neighbours.set_wanted(!self.connections.attempts.is_empty());
        while let Poll::Ready(lost) = self.neighbours.poll_lost(context) {
            let snapshot = self.watcher.snapshot();
            let is_behind =
                |remote: &SocketAddr| snapshot.next_hop(lost.interface, remote.ip()) == Some(lost.address);
            let remotes: BTreeSet<_> = self.connections.attempts.remotes().filter(is_behind).collect();
            if remotes.is_empty() {
                continue;
            }
            tracing::debug!(address = %lost.address, interface = lost.interface, "a next hop does not answer");
            let (_, sockets) = self.sockets.split();
            let locals = sockets.map(|socket| socket.udp.local());
            for local in locals.filter(|local| local.interface == lost.interface) {
                let pairs = remotes.iter().map(|remote| FourTuple::udp(local, *remote));
                pairs.for_each(|pair| self.endpoint.on_neighbour_lost(now, pair));
            }
        }
    }
}
