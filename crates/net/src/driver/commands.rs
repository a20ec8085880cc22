//! Commands of the handles to the driver.

use std::net::SocketAddr;
use std::sync::Weak;

use manyway_proto::{Class, ClientConfig, ConnectionHandle, Instant, PathId, StreamId};
use tokio::sync::oneshot;
use tokio::time::Instant as TokioInstant;

use super::Driver;
use super::closing::Closing;
use super::connections::{ConnectReply, Peer};
use super::pings::PingReply;
use crate::HostPort;
use crate::Locals;
use crate::connection::{ConnectionInfo, Link, PathInfo};
use crate::error::ConnectError;
use crate::report::{Facts, PathReport};
use crate::stream::{ReceiveStream, SendStream};

/// A command of an application.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        config: Box<ClientConfig>,
        hosts: Vec<HostPort>,
        remotes: Vec<SocketAddr>,
        reply: ConnectReply,
    },
    Open {
        link: Weak<Link>,
        reply: oneshot::Sender<(SendStream, ReceiveStream)>,
    },
    /// A stream whose send queue was empty has data, or its end.
    Written {
        handle: ConnectionHandle,
        stream: StreamId,
    },
    /// A stream whose receive queue was full has room.
    Drained {
        handle: ConnectionHandle,
        stream: StreamId,
    },
    Stop {
        handle: ConnectionHandle,
        stream: StreamId,
        code: u64,
    },
    Priority {
        handle: ConnectionHandle,
        stream: StreamId,
        priority: i8,
    },
    Class {
        handle: ConnectionHandle,
        stream: StreamId,
        class: Class,
    },
    Info {
        handle: ConnectionHandle,
        reply: oneshot::Sender<ConnectionInfo>,
    },
    Ping {
        handle: ConnectionHandle,
        path: PathId,
        reply: PingReply,
    },
    Report {
        handle: ConnectionHandle,
        reply: oneshot::Sender<Vec<PathReport>>,
    },
    SetCongestion {
        handle: ConnectionHandle,
        name: String,
        reply: oneshot::Sender<bool>,
    },
    ClosePath {
        handle: ConnectionHandle,
        path: PathId,
    },
    SetPrimary {
        handle: ConnectionHandle,
        path: Option<PathId>,
    },
    AllowCostly {
        handle: ConnectionHandle,
        path: PathId,
    },
    Close {
        handle: ConnectionHandle,
        code: u64,
        reason: String,
    },
    /// Ends a connection whose peer's rights have ended.
    Revoke {
        handle: ConnectionHandle,
        reason: String,
    },
    Shutdown {
        code: u64,
        reason: String,
        /// The instant after which connections are aborted.
        until: TokioInstant,
        reply: oneshot::Sender<()>,
    },
}

impl Driver {
    pub(super) fn execute(&mut self, now: Instant, command: Command) {
        let Self { endpoint, connections, .. } = self;
        match command {
            Command::Connect { config, hosts, remotes, reply } => {
                self.connect(now, &config, Peer::new(hosts, remotes), reply);
            }
            Command::Open { link, reply } => connections.open_stream(endpoint, link, reply),
            Command::Written { handle, stream } => connections.write(endpoint, now, handle, stream),
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
            Command::Shutdown { code, reason, until, reply } => {
                self.start_closing(now, Closing::new(code, reason, until, Some(reply)));
            }
        }
    }

    fn connect(&mut self, now: Instant, config: &ClientConfig, mut peer: Peer, reply: ConnectReply) {
        if self.closing.is_some() {
            let _ = reply.send(Err(ConnectError::EndpointClosed));
            return;
        }
        peer.remotes = self.watcher.snapshot().with_scopes(&peer.remotes);
        let (locals, excluded) = self.local_candidates(&peer.remotes);
        if locals.is_empty() {
            let _ = reply.send(Err(self
                .sockets
                .take_failure()
                .map_or(ConnectError::NoInterface(excluded), ConnectError::Socket)));
            return;
        }
        peer.remotes.retain(|remote| self.allows(remote));
        match self.endpoint.connect(now, config, &locals, &peer.remotes) {
            Ok(handle) => {
                self.connections.add_client(handle, peer, reply);
                self.tell_terms(handle, &locals);
            }
            Err(error) => {
                let _ = reply.send(Err(ConnectError::Start(error)));
            }
        }
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
        let statistics = connection.statistics();
        let unacknowledged = entry.unacknowledged(connection.unacknowledged());
        let paths = statistics
            .paths
            .iter()
            .map(|path| PathInfo {
                interface: self.interface_name(path.tuple.local.interface),
                statistics: *path,
            })
            .collect();
        Some(ConnectionInfo { paths, statistics, unacknowledged })
    }
}
