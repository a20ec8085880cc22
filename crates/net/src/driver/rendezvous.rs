//! What an application asks of rendezvous servers before it has a connection.

use std::net::SocketAddr;

use manyway_proto::FourTuple;
use tokio::sync::mpsc;

use super::Driver;

/// Most datagrams of one command.
const MOST_DATAGRAMS: usize = 16;

impl Driver {
    /// Asks each server from each socket of its family where it sees that.
    pub(super) fn observe(&mut self, servers: &[SocketAddr], answers: mpsc::Sender<SocketAddr>) {
        self.observed = Some(answers);
        for tuple in self.tuples(servers) {
            self.endpoint.observe(tuple);
        }
    }

    /// Sends a knock from each socket to each address of its family.
    pub(super) fn knock(&mut self, remotes: &[SocketAddr]) {
        for tuple in self.tuples(remotes) {
            self.endpoint.knock(tuple);
        }
    }

    fn tuples(&self, remotes: &[SocketAddr]) -> Vec<FourTuple> {
        let locals = self.sockets.reachable();
        let tuples = remotes.iter().flat_map(|remote| {
            let fitting = locals.iter().filter(|local| local.address.is_ipv4() == remote.is_ipv4());
            fitting.map(|local| FourTuple::udp(*local, *remote))
        });
        tuples.take(MOST_DATAGRAMS).collect()
    }

    /// Tells the application what the servers answered.
    pub(super) fn tell_observed(&mut self) {
        while let Some(seen) = self.endpoint.poll_observed() {
            if let Some(answers) = &self.observed {
                // It asks again for what it did not take.
                let _ = answers.try_send(seen);
            }
        }
    }
}
