//! What an application asks of rendezvous servers before it has a connection.

use std::net::SocketAddr;

use manyway_proto::FourTuple;

use super::Driver;
use crate::link::Errand;

/// Most datagrams of one errand, or for one server.
const MOST_DATAGRAMS: usize = 16;

impl Driver {
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::Observe { servers, answers } => {
                self.observed = Some(answers);
                for tuple in self.tuples(&servers) {
                    self.endpoint.observe(tuple);
                }
            }
            Errand::BindRelay { server, key, turn } => {
                let tuples = self.tuples(&[server]);
                if let Some(tuple) = turn.checked_rem(tuples.len()).and_then(|at| tuples.get(at)) {
                    self.endpoint.bind_relay(*tuple, key);
                }
            }
            // Without TCP there is no use for them.
            Errand::ServeStream(_) | Errand::DialStream(_) if !self.tcp.dialler.uses_tcp() => {}
            Errand::ServeStream(stream) => self.tcp.streams.adopt(self.clock.now(), *stream),
            Errand::DialStream(stream) => self.tcp.relayed.keep(*stream),
            Errand::Knock { remotes } => {
                for tuple in self.tuples(&remotes) {
                    self.endpoint.knock(tuple);
                }
            }
        }
    }

    /// Each remote address with each socket of its family.
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
        while let Some(observed) = self.endpoint.poll_observed() {
            if let Some(answers) = &self.observed {
                // It asks again for what it did not take.
                let _ = answers.try_send(observed);
            }
        }
    }
}
