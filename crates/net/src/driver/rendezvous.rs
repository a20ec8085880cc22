//! What an application asks of rendezvous servers before it has a connection.

use std::net::SocketAddr;

use manyway_proto::{FourTuple, LocalAddress, Role};

use super::Driver;
use crate::link::{Errand, UsableLocals};

/// Most datagrams of one errand, or for one server.
const MOST_DATAGRAMS: usize = 16;

impl Driver {
    pub(super) fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::FindLocals { server, reply } => {
                let _ = reply.send(self.locals_to(server));
            }
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
            Errand::ServeStream(stream) => self.tcp.streams.adopt(self.clock.now(), *stream),
            Errand::DialStream(stream) => self.tcp.relayed.keep(*stream),
            Errand::Knock { remotes } => {
                for tuple in self.tuples(&remotes) {
                    self.endpoint.knock(tuple);
                }
            }
        }
    }

    /// The local addresses that lead to a server, of each interface the one that fits best; or why there is none.
    fn locals_to(&self, server: SocketAddr) -> UsableLocals {
        let (wanted, excluded) = self.wanted_locals(&[server]);
        let mut locals: Vec<(LocalAddress, Role)> = Vec::new();
        for (mut local, role) in wanted {
            // An address without an interface stands for itself.
            let is_known =
                local.interface != 0 && locals.iter().any(|(known, _)| known.interface == local.interface);
            let fits = role != Role::Never && local.address.is_ipv4() == server.is_ipv4();
            if fits && !is_known {
                local.address.set_port(0);
                locals.push((local, role));
            }
        }
        if locals.is_empty() { Err(excluded) } else { Ok(locals) }
    }

    /// Each remote address with each socket of its family; none at a client that uses TCP alone.
    fn tuples(&self, remotes: &[SocketAddr]) -> Vec<FourTuple> {
        let is_server = !self.sockets.listening().is_empty();
        if !is_server && !self.tcp.dialler.uses_udp() {
            return Vec::new();
        }
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
