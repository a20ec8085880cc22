//! The sockets of a driver: those that listen, and one for each address that clients use.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, LocalAddress, LocalCandidate, Role, Transmit};

use crate::interfaces::Snapshot;
use crate::udp::{BindError, BindOptions, DeviceBinding, SendFailure, UdpSocket};

/// Batches that wait for a full socket; with more, nothing new is built.
const MAX_PENDING: usize = 4;

/// A socket and what it could not send yet.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) udp: UdpSocket,
    pending: VecDeque<(Transmit, Vec<u8>)>,
    listens: bool,
}

#[derive(Debug, Default)]
pub(super) struct Sockets {
    sockets: Vec<Socket>,
    failure: Option<BindError>,
}

impl Sockets {
    pub(super) fn listen(&mut self, address: SocketAddr) -> Result<(), BindError> {
        self.bind(LocalAddress { interface: 0, address }, true).map(|_| ())
    }

    fn bind(&mut self, local: LocalAddress, listens: bool) -> Result<LocalAddress, BindError> {
        let udp = UdpSocket::bind(&BindOptions::new(local))?;
        let bound = udp.local();
        let capabilities = udp.capabilities();
        tracing::debug!(local = %bound, ?capabilities, "socket");
        if let DeviceBinding::Refused { reason } = &capabilities.device {
            tracing::warn!(local = %bound, %reason, "not bound to its interface: the system's routes decide");
        }
        self.sockets.push(Socket { udp, pending: VecDeque::new(), listens });
        Ok(bound)
    }

    pub(super) fn listening(&self) -> Vec<LocalAddress> {
        self.sockets.iter().filter(|socket| socket.listens).map(|socket| socket.udp.local()).collect()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Socket> {
        self.sockets.iter_mut()
    }

    /// Finds or binds a socket for each wanted address; those that can not be bound are left out.
    pub(super) fn candidates(&mut self, wanted: Vec<(LocalAddress, Role)>) -> Vec<LocalCandidate> {
        let mut found = Vec::new();
        for (local, role) in wanted {
            match self.find_or_bind(local) {
                Ok(address) => found.push(LocalCandidate { address, role }),
                Err(error) => {
                    tracing::warn!(%local, %error, "address not used");
                    self.failure = Some(error);
                }
            }
        }
        found
    }

    fn find_or_bind(&mut self, local: LocalAddress) -> Result<LocalAddress, BindError> {
        let known = self.sockets.iter().filter(|socket| !socket.listens).map(|socket| socket.udp.local());
        let fits = |known: &LocalAddress| {
            known.interface == local.interface
                && known.address.ip() == local.address.ip()
                && (local.address.port() == 0 || known.address.port() == local.address.port())
        };
        if let Some(known) = known.into_iter().find(fits) {
            return Ok(known);
        }
        self.bind(local, false)
    }

    pub(super) fn take_failure(&mut self) -> Option<BindError> {
        self.failure.take()
    }

    /// Closes sockets whose address this host does not have any more.
    pub(super) fn drop_gone(&mut self, snapshot: &Snapshot) {
        self.sockets.retain(|socket| {
            let local = socket.udp.local();
            let ip = local.address.ip();
            socket.listens || ip.is_unspecified() || ip.is_loopback() || snapshot.is_own(ip)
        });
    }

    /// Sends what waited for full sockets; false if one of them is still full.
    pub(super) fn flush(&mut self, context: &mut Context<'_>) -> bool {
        for socket in &mut self.sockets {
            while let Some((transmit, bytes)) = socket.pending.pop_front() {
                socket.send(context, &transmit, &bytes);
                if socket.is_waiting(&transmit) {
                    break;
                }
            }
        }
        !self.is_blocked()
    }

    /// Sends a batch; keeps it if the socket is full. Returns the addresses if the system refuses them.
    pub(super) fn send(
        &mut self,
        context: &mut Context<'_>,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> Option<FourTuple> {
        let local = transmit.tuple.local;
        let exact = self.sockets.iter().position(|socket| socket.udp.local() == local);
        let index = exact.or_else(|| self.sockets.iter().position(|socket| socket.serves(&local)));
        let Some(socket) = index.and_then(|index| self.sockets.get_mut(index)) else {
            // The socket closed with its address; the path follows when the connection is told.
            return Some(transmit.tuple);
        };
        if !socket.pending.is_empty() {
            socket.pending.push_back((*transmit, bytes.to_vec()));
            return None;
        }
        socket.send(context, transmit, bytes)
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.sockets.iter().any(|socket| socket.pending.len() >= MAX_PENDING)
    }
}

impl Socket {
    /// A wildcard socket sends from every address of its port and family.
    fn serves(&self, local: &LocalAddress) -> bool {
        let own = self.udp.local();
        self.udp.is_wildcard()
            && own.address.port() == local.address.port()
            && own.address.is_ipv4() == local.address.is_ipv4()
    }

    fn is_waiting(&self, transmit: &Transmit) -> bool {
        self.pending.front().is_some_and(|(waiting, _)| waiting.tuple == transmit.tuple)
    }

    fn send(&mut self, context: &mut Context<'_>, transmit: &Transmit, bytes: &[u8]) -> Option<FourTuple> {
        let (mut transmit, mut bytes) = (*transmit, bytes);
        loop {
            let error = match self.udp.try_send(&transmit, bytes) {
                Ok(()) => return None,
                Err(error) => error,
            };
            match error.failure {
                SendFailure::WouldBlock => {
                    transmit = error.rest(&transmit);
                    bytes = bytes.get(error.sent..).unwrap_or_default();
                    // Ready again already: the readiness was stale.
                    if let Poll::Ready(Ok(())) = self.udp.poll_writable(context) {
                        continue;
                    }
                    self.pending.push_front((transmit, bytes.to_vec()));
                    return None;
                }
                SendFailure::Unreachable => return Some(transmit.tuple),
                // As if lost on the way: recovery knows what to do.
                SendFailure::TooLarge | SendFailure::Refused | SendFailure::Dropped => return None,
                SendFailure::Denied | SendFailure::Other => {
                    tracing::debug!(tuple = %transmit.tuple, %error, "send");
                    return None;
                }
            }
        }
    }
}
