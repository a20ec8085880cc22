//! Clients that connect: each has a handshake over UDP, one over TCP, both, or for a moment none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Context;

use manyway_proto::{ClosedBy, ConnectionError, ConnectionHandle, LocalAddress, Undelivered};
use tokio::time::Instant as TokioInstant;

use super::peer::{ClientId, Peer};
use crate::error::ConnectError;
use crate::ledger::CAP_REACHED;
use crate::link::{ConnectReply, Dial};

/// A client that connects.
pub(super) struct Attempt {
    pub(super) dial: Dial,
    pub(super) peer: Peer,
    pub(super) reply: ConnectReply,
    /// Its handshakes.
    pub(super) handles: Vec<ConnectionHandle>,
    /// The one of them that goes over TCP.
    pub(super) over_tcp: Option<ConnectionHandle>,
    /// When it is given up without any handshake.
    pub(super) until: TokioInstant,
    /// Why it could not begin over UDP.
    pub(super) obstacle: Option<ConnectError>,
    /// Whether an address of this host could not be bound for UDP, which is tried again.
    pub(super) lacks_sockets: bool,
    /// Why its first handshake failed.
    pub(super) failure: Option<ConnectionError>,
    /// The addresses between which TCP found no next hop, and whether those are all.
    pub(super) absent: BTreeSet<(LocalAddress, IpAddr)>,
    pub(super) is_absent: bool,
    /// Why TCP could not be connected, first.
    pub(super) refusal: Option<(SocketAddr, io::Error)>,
}

impl Attempt {
    /// A handshake has failed.
    pub(super) fn on_failed(&mut self, handle: ConnectionHandle, error: ConnectionError) {
        self.handles.retain(|other| *other != handle);
        self.over_tcp = self.over_tcp.filter(|other| *other != handle);
        self.failure = self.failure.take().or(Some(error));
    }

    /// Whether no other carrier would help.
    pub(super) fn is_final(&self) -> bool {
        let no_way = |error: &ConnectionError| {
            matches!(
                error,
                ConnectionError::NoPath
                    | ConnectionError::IdleTimeout
                    | ConnectionError::ConnectTimeout
                    | ConnectionError::Unreachable { .. }
            )
        };
        self.failure.as_ref().is_some_and(|error| !no_way(error))
    }

    /// Whether UDP or TCP has found out that nothing on the local network answers for any address.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_absent || is_cut_off(self.failure.as_ref(), self.lacks_sockets)
    }

    /// Tells the caller that there will be no connection.
    pub(super) fn fail(self) {
        let error = self.obstacle.unwrap_or_else(|| match (self.failure, self.refusal) {
            (Some(ConnectionError::Closed { by: ClosedBy::Us, code, .. }), _) if code != CAP_REACHED => {
                ConnectError::EndpointClosed
            }
            (Some(error), _) => ConnectError::Failed(error),
            (None, Some((remote, source))) => {
                let is_absent = self.absent.iter().any(|(_, host)| *host == remote.ip());
                match undelivered(is_absent, &source) {
                    Some(undelivered) => {
                        ConnectError::Failed(ConnectionError::Unreachable { remote, undelivered })
                    }
                    None => ConnectError::Tcp { remote, source },
                }
            }
            (None, None) => ConnectError::Failed(self.peer.explain(ConnectionError::ConnectTimeout)),
        });
        let _ = self.reply.send(Err(error));
    }
}

/// What UDP would say about the reason of a failed TCP connection.
fn undelivered(is_absent: bool, source: &io::Error) -> Option<Undelivered> {
    let is_unreachable =
        matches!(source.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable);
    let kind = if is_absent { Undelivered::NoNeighbour } else { Undelivered::Unreachable };
    is_unreachable.then_some(kind)
}

/// UDP knows nothing of an address that it could not use: TCP may get through from there.
fn is_cut_off(failure: Option<&ConnectionError>, lacks_sockets: bool) -> bool {
    let lacks_neighbour = |error: &ConnectionError| {
        matches!(error, ConnectionError::Unreachable { undelivered: Undelivered::NoNeighbour, .. })
    };
    !lacks_sockets && failure.is_some_and(lacks_neighbour)
}

/// All clients that connect.
#[derive(Default)]
pub(super) struct Attempts {
    attempts: BTreeMap<ClientId, Attempt>,
    next: ClientId,
}

impl Attempts {
    pub(super) fn add(&mut self, mut attempt: Attempt) -> ClientId {
        let client = self.next;
        self.next = client.next();
        attempt.peer.client = client;
        self.attempts.insert(client, attempt);
        client
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.attempts.keys().copied()
    }

    pub(super) fn handles(&self) -> impl Iterator<Item = ConnectionHandle> {
        self.attempts.values().flat_map(|attempt| attempt.handles.iter().copied())
    }

    /// The addresses of all servers.
    pub(super) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        self.attempts.values().flat_map(|attempt| attempt.peer.remotes.iter().copied())
    }

    pub(super) fn get(&mut self, client: ClientId) -> Option<&mut Attempt> {
        self.attempts.get_mut(&client)
    }

    /// The attempt of which a handshake is a part.
    pub(super) fn of(&mut self, handle: ConnectionHandle) -> Option<&mut Attempt> {
        self.attempts.values_mut().find(|attempt| attempt.handles.contains(&handle))
    }

    pub(super) fn take_of(&mut self, handle: ConnectionHandle) -> Option<Attempt> {
        let client = self.of(handle)?.peer.client;
        self.attempts.remove(&client)
    }

    /// The handshakes whose caller has gone.
    pub(super) fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Vec<ConnectionHandle> {
        let attempts = self.attempts.values_mut();
        let gone = attempts.filter_map(|attempt| {
            attempt.reply.poll_closed(context).is_ready().then(|| attempt.handles.clone())
        });
        gone.flatten().collect()
    }

    /// Fails the attempts that have no handshake and are over: the caller has gone, no other carrier can help, or
    /// `is_over` says so.
    pub(super) fn finish(&mut self, is_over: impl Fn(ClientId, &Attempt) -> bool) {
        let is_done = |client: ClientId, attempt: &Attempt| {
            attempt.handles.is_empty()
                && (attempt.is_final() || attempt.reply.is_closed() || is_over(client, attempt))
        };
        let attempts = self.attempts.iter();
        let over: Vec<_> = attempts.filter(|(client, it)| is_done(**client, it)).map(|(c, _)| *c).collect();
        over.iter().filter_map(|client| self.attempts.remove(client)).for_each(Attempt::fail);
    }

    /// When an attempt without a handshake is given up.
    pub(super) fn deadline(&self) -> Option<TokioInstant> {
        let waiting = self.attempts.values().filter(|attempt| attempt.handles.is_empty());
        waiting.map(|attempt| attempt.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_an_unbound_address_is_not_cut_off() {
        let remote = ([192, 0, 2, 1], 4455).into();
        let of = |undelivered| ConnectionError::Unreachable { remote, undelivered };
        let no_neighbour = of(Undelivered::NoNeighbour);
        assert!(is_cut_off(Some(&no_neighbour), false));
        assert!(!is_cut_off(Some(&no_neighbour), true), "TCP may get through from that address");
        assert!(!is_cut_off(Some(&of(Undelivered::PortClosed)), false), "a host answered");
        assert!(!is_cut_off(None, false));
    }

    #[test]
    fn an_unreachable_host_has_the_same_words_over_tcp_as_over_udp() {
        let of = |kind: io::ErrorKind| undelivered(false, &kind.into());
        assert_eq!(of(io::ErrorKind::HostUnreachable), Some(Undelivered::Unreachable));
        assert_eq!(of(io::ErrorKind::NetworkUnreachable), Some(Undelivered::Unreachable));
        assert_eq!((of(io::ErrorKind::ConnectionRefused), of(io::ErrorKind::TimedOut)), (None, None));
        let absent = undelivered(true, &io::ErrorKind::HostUnreachable.into());
        assert_eq!(absent, Some(Undelivered::NoNeighbour));
    }
}
