//! Carries out the commands of the handles.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use manyway_proto::{ConnectionHandle, Instant, LocalAddress, Role};
use tokio::time::Instant as TokioInstant;

use super::Driver;
use super::attempts::Attempt;
use super::closing::Closing;
use super::peer::Peer;
use crate::error::ConnectError;
use crate::info::ConnectionInfo;
use crate::link::{Command, ConnectReply, Dial};
use crate::options::Locals;
use crate::report::{Facts, PathReport};

impl Driver {
    pub(super) fn execute(&mut self, now: Instant, command: Command) {
        let Self { endpoint, connections, .. } = self;
        match command {
            Command::Connect { dial, hosts, remotes, reply } => {
                self.connect(now, dial, Peer::new(hosts, remotes), reply);
            }
            Command::Open { link, reply } => connections.open_stream(endpoint, link, reply),
            Command::Written { handle, stream } => connections.write(endpoint, now, handle, stream),
            Command::Accepted { handle } => connections.accept_streams(endpoint, handle, false),
            Command::Drained { handle, stream } => connections.read(endpoint, handle, stream),
            Command::Stop { handle, stream, code } => {
                if let Some(connection) = endpoint.connection(handle) {
                    // The stream may have ended meanwhile; then no stop is needed.
                    let _ = connection.stop(stream, code);
                }
                connections.forget_receiver(handle, stream);
            }
            Command::Priority { handle, stream, priority } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = connection.set_priority(stream, priority);
                }
            }
            Command::Class { handle, stream, class } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = connection.set_class(stream, class);
                }
            }
            Command::TargetRate { handle, stream, target } => {
                if let Some(connection) = endpoint.connection(handle) {
                    // The stream may have ended meanwhile; then there is nothing to hold.
                    let _ = connection.set_target_rate(now, stream, target);
                    connections.note_windows(handle);
                }
            }
            Command::Info { handle, reply } => {
                if let Some(info) = self.info(handle) {
                    let _ = reply.send(info);
                }
            }
            Command::Ping { handle, path, reply } => connections.ping(endpoint, handle, path, reply),
            Command::Report { handle, reply } => {
                if let Some(report) = self.report(now, handle) {
                    let _ = reply.send(report);
                }
            }
            Command::SetCongestion { handle, name, reply } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = reply.send(connection.set_congestion(&name).is_ok());
                }
            }
            Command::ClosePath { handle, path } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = connection.close_path(now, path);
                }
            }
            Command::BindStream { handle, stream, to, reply } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = reply.send(connection.bind_stream(stream, to).is_ok());
                }
            }
            Command::SetPrimary { handle, path } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = connection.set_primary(path);
                }
            }
            Command::AllowCostly { handle, path } => {
                if let Some(connection) = endpoint.connection(handle) {
                    let _ = connection.allow_costly(path);
                }
            }
            Command::Close { handle, code, reason } => {
                connections.close(endpoint, now, handle, (code, &reason));
            }
            Command::Revoke { handle, reason } => {
                if let Some(connection) = endpoint.connection(handle) {
                    connection.revoke(now, &reason);
                }
            }
            Command::Rendezvous(errand) => self.run_errand(errand),
            Command::Shutdown { code, reason, until, reply } => {
                self.start_closing(now, Closing::new(code, reason, until, Some(reply)));
            }
        }
    }

    fn connect(&mut self, now: Instant, dial: Dial, mut peer: Peer, reply: ConnectReply) {
        if self.closing.is_some() {
            let _ = reply.send(Err(ConnectError::EndpointClosed));
            return;
        }
        if matches!(dial, Dial::Mmsp1(_)) {
            self.sockets.use_one_port();
        }
        let uses_tcp = self.tcp.dialler.uses_tcp() && matches!(dial, Dial::Mmsp2(_));
        let uses_udp = self.tcp.dialler.uses_udp() || !uses_tcp;
        peer.remotes = self.watcher.snapshot().with_scopes(&peer.remotes);
        let (wanted, excluded) = self.wanted_locals(&peer.remotes);
        if wanted.is_empty() {
            let _ = reply.send(Err(ConnectError::NoInterface(excluded)));
            return;
        }
        peer.remotes.retain(|remote| self.allows(remote));
        let until = TokioInstant::now() + dial.connection().connect_timeout;
        let started = uses_udp.then(|| self.start_over_udp(now, &dial, wanted, &peer));
        let lacks_sockets = uses_udp && self.sockets.has_failure();
        let (handles, obstacle) = match started {
            Some(Ok(handle)) => (vec![handle], None),
            Some(Err(error)) => (Vec::new(), Some(error)),
            None => (Vec::new(), None),
        };
        let attempt = Attempt {
            dial,
            peer,
            reply,
            handles,
            over_tcp: None,
            until,
            obstacle,
            lacks_sockets,
            failure: None,
            absent: BTreeSet::new(),
            is_absent: false,
            refusal: None,
        };
        let client = self.connections.add_attempt(attempt);
        if uses_tcp {
            self.tcp.dialler.add(client);
        }
    }

    fn start_over_udp(
        &mut self,
        now: Instant,
        dial: &Dial,
        wanted: Vec<(LocalAddress, Role)>,
        peer: &Peer,
    ) -> Result<ConnectionHandle, ConnectError> {
        let locals = self.bind(wanted);
        if locals.is_empty() {
            let failure = self.sockets.take_failure();
            return Err(failure.map_or(ConnectError::NoInterface(Vec::new()), ConnectError::Socket));
        }
        let handle = match dial {
            Dial::Mmsp2(config) => self.endpoint.connect(now, config, &locals, &peer.remotes),
            Dial::Mmsp1(config) => self.endpoint.connect_mmsp1(now, config, &locals, &peer.remotes),
        };
        let handle = handle.map_err(ConnectError::Start)?;
        self.tell_terms(handle, &locals);
        Ok(handle)
    }

    /// Whether the policy allows the family of that address.
    pub(super) fn allows(&self, remote: &SocketAddr) -> bool {
        match &self.locals {
            Locals::Interfaces(policy) => policy.allows(remote.ip()),
            Locals::Fixed(_) => true,
        }
    }

    fn report(&mut self, now: Instant, handle: ConnectionHandle) -> Option<Vec<PathReport>> {
        self.connections.entries.get(&handle)?;
        let connection = self.endpoint.connection(handle)?;
        let (paths, pairs) = (connection.statistics().paths, connection.address_pairs());
        let purposes = connection.purposes(now);
        let mut remotes = connection.remote_addresses();
        remotes.extend(self.connections.peer(handle).iter().flat_map(|peer| peer.remotes.iter().copied()));
        let addresses = match &self.locals {
            Locals::Interfaces(policy) if !remotes.is_empty() => {
                self.watcher.snapshot().addresses(policy, &remotes)
            }
            Locals::Interfaces(_) | Locals::Fixed(_) => Vec::new(),
        };
        let name = |index| self.interface_name(index);
        let facts = Facts { now, paths: &paths, pairs: &pairs, purposes: &purposes, addresses, name: &name };
        Some(facts.report())
    }

    /// `None` once the end was reported, although the protocol machine may keep the connection a while longer.
    fn info(&mut self, handle: ConnectionHandle) -> Option<ConnectionInfo> {
        let entry = self.connections.entries.get(&handle)?;
        let connection = self.endpoint.connection(handle)?;
        Some(entry.info(connection, |index| Some(self.watcher.snapshot().interface(index)?.name.clone())))
    }
}
