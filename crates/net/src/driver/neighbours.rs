//! Next hops that do not answer while clients connect.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, Instant, LocalAddress};

use super::Driver;
use super::peer::ClientId;

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
        let snapshot = self.watcher.snapshot();
        let lost_hop = |local: &LocalAddress, remote: &SocketAddr| {
            let hop = snapshot.next_hop(local.interface, remote.ip());
            hop.filter(|hop| lost.contains(&(local.interface, *hop)))
        };
        let is_direct = self.tcp.streams.settings().via.is_none();
        let ended = self.tcp.end_attempts(|local, remote| is_direct && lost_hop(local, remote).is_some());
        let (_, sockets) = self.sockets.split();
        let locals: Vec<_> = sockets.map(|socket| socket.udp.local()).collect();
        let remotes: BTreeSet<_> = self.connections.attempts.remotes().collect();
        for (local, remote) in
            locals.iter().flat_map(|local| remotes.iter().map(move |remote| (local, remote)))
        {
            if let Some(hop) = lost_hop(local, remote) {
                tracing::debug!(%hop, interface = local.interface, "a next hop does not answer");
                self.endpoint.on_neighbour_lost(now, FourTuple::udp(*local, *remote));
            }
        }
        for (client, local, remote) in ended {
            self.note_absent(client, local, remote);
        }
        reports == MOST_REPORTS
    }

    /// Whether a client that connects knows that a host does not answer on the local network.
    pub(super) fn is_absent(&mut self, client: ClientId, local: LocalAddress, host: IpAddr) -> bool {
        let attempt = self.connections.attempts.get(client);
        attempt.is_some_and(|attempt| attempt.absent.contains(&(local, host)))
    }

    /// A host does not answer on the local network: no other of its ports would either.
    fn note_absent(&mut self, client: ClientId, local: LocalAddress, remote: SocketAddr) {
        let Some(attempt) = self.connections.attempts.get(client) else { return };
        attempt.absent.insert((local, remote.ip()));
        let remotes = attempt.peer.remotes.clone();
        let (locals, _) = self.wanted_locals(&remotes);
        let pairs = locals.iter().flat_map(|(local, _)| remotes.iter().map(move |remote| (*local, *remote)));
        let mut pairs = pairs.filter(|(local, remote)| local.address.is_ipv4() == remote.is_ipv4());
        if let Some(attempt) = self.connections.attempts.get(client) {
            // The attempt may end before the result of this connection is there.
            attempt.refusal.get_or_insert_with(|| (remote, ErrorKind::HostUnreachable.into()));
            attempt.is_absent = pairs.all(|(local, remote)| attempt.absent.contains(&(local, remote.ip())));
        }
    }
}
