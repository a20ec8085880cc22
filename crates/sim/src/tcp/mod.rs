//! A model of TCP over the links of a [`Network`](crate::Network), and TCP as a carrier of paths.
//!
//! * `sender`, `receiver`: the two halves of a connection, which know byte numbers only, with `rtt`, `prr` and `cubic`;
//! * `segment`: what they say to each other;
//! * `socket`: both halves with the data of a path.

mod cubic;
mod prr;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod socket;

use std::net::SocketAddr;

use manyway_proto::{ConnectionError, Ecn, FourTuple, Instant, LocalAddress, Records, Transmit};

use crate::endpoint::EndpointPeer;
use crate::invariants::PathFigures;
use crate::pair::Peer;
use crate::traffic::Streams;
use crate::world::Node;

pub(crate) use cubic::LinuxCubic;
pub(crate) use receiver::Receiver;
pub(crate) use segment::{Header, Kind};
pub(crate) use sender::{Sender, SlowStart};
use socket::Socket;

/// The port at which a server accepts TCP connections.
pub const TCP_SERVER_PORT: u16 = 443;
/// The first port of a client's TCP connections.
const FIRST_CLIENT_PORT: u16 = 50_000;

/// A protocol machine whose paths go over UDP and over TCP connections of a modelled system below it.
///
/// The model sends TCP segments as datagrams between ports of their own, so that the links delay and lose them like any
/// other packet: a loss shows as a delay by retransmission. The send buffer is bounded, and blocks the path.
#[derive(Debug)]
pub struct TcpPeer {
    peer: EndpointPeer,
    sockets: Vec<Socket>,
    reports: bool,
}

impl TcpPeer {
    /// Adds a model of TCP below a machine.
    pub fn new(peer: EndpointPeer) -> Self {
        Self { peer, sockets: Vec::new(), reports: true }
    }

    /// Stops reporting figures, as a system without `TCP_INFO`: only a full send buffer holds the machine back then.
    #[must_use]
    pub fn without_figures(mut self) -> Self {
        self.reports = false;
        self
    }

    /// The machine.
    pub fn peer(&mut self) -> &mut EndpointPeer {
        &mut self.peer
    }

    /// Connects from an address of this host to the TCP port of a server; the connection's number among those of this
    /// host makes its port.
    pub fn open(&mut self, now: Instant, from: LocalAddress, to: SocketAddr) -> FourTuple {
        let number = u16::try_from(self.sockets.len()).unwrap_or_default();
        let local = with_port(from, FIRST_CLIENT_PORT + number);
        let tuple = FourTuple::tcp(local, SocketAddr::new(to.ip(), TCP_SERVER_PORT));
        self.sockets.push(Socket::new(now, tuple));
        tuple
    }

    /// Ends a TCP connection at once, as a reset does.
    pub fn reset(&mut self, now: Instant, tuple: FourTuple) {
        if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.tuple == tuple) {
            socket.reset();
            self.peer.endpoint().on_carrier_closed(now, tuple);
        }
    }

    /// Passes news of a connection on to the machine.
    fn report(&mut self, now: Instant, at: usize) {
        let Self { peer, sockets, reports } = self;
        let Some(socket) = sockets.get_mut(at) else { return };
        let tuple = socket.tuple;
        if socket.is_closed() {
            return peer.endpoint().on_carrier_closed(now, tuple);
        }
        if let Some(figures) = socket.figures().filter(|_| *reports)
            && let Some(connection) = peer.connection()
        {
            connection.on_carrier_figures(now, tuple, figures);
        }
        let is_full = socket.is_full();
        if is_full != socket.is_blocked {
            socket.is_blocked = is_full;
            if is_full {
                peer.endpoint().on_blocked(now, tuple);
            } else {
                peer.endpoint().on_writable(tuple);
            }
        }
    }

    /// The connection of a segment; a server accepts new ones.
    fn find(&mut self, now: Instant, tuple: FourTuple) -> Option<usize> {
        let tuple = FourTuple::tcp(tuple.local, tuple.remote);
        let known = self.sockets.iter().position(|socket| socket.tuple == tuple);
        let is_server = tuple.local.address.port() == TCP_SERVER_PORT;
        known.or_else(|| {
            is_server.then(|| self.sockets.push(Socket::new(now, tuple)))?;
            self.sockets.len().checked_sub(1)
        })
    }

    fn poll_segment(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for at in 0..self.sockets.len() {
            let socket = self.sockets.get_mut(at)?;
            if socket.poll_segment(now, buffer) {
                let tuple = FourTuple::udp(socket.tuple.local, socket.tuple.remote);
                self.report(now, at);
                let length = buffer.len();
                return Some(Transmit { tuple, length, segment: length, ecn: Ecn::NotEct });
            }
        }
        None
    }
}

fn with_port(local: LocalAddress, port: u16) -> LocalAddress {
    LocalAddress { address: SocketAddr::new(local.address.ip(), port), ..local }
}

impl Node for TcpPeer {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        let port = tuple.local.address.port();
        if port != TCP_SERVER_PORT && port < FIRST_CLIENT_PORT {
            return self.peer.handle_datagram(now, tuple, ecn, datagram);
        }
        let Some(at) = self.find(now, tuple) else { return };
        let Some(socket) = self.sockets.get_mut(at).filter(|socket| !socket.is_closed()) else { return };
        socket.on_segment(now, datagram);
        while let Some(record) = socket.records.next_record() {
            self.peer.handle_datagram(now, socket.tuple, Ecn::NotEct, record);
        }
        self.report(now, at);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if let Some(transmit) = self.poll_segment(now, buffer) {
                return Some(transmit);
            }
            let transmit = self.peer.poll_transmit(now, buffer)?;
            if transmit.tuple.is_datagram() {
                return Some(transmit);
            }
            let at = self.sockets.iter().position(|socket| socket.tuple == transmit.tuple);
            if let Some(socket) = at.and_then(|at| self.sockets.get_mut(at)) {
                let prefix = Records::prefix(buffer.len());
                debug_assert!(prefix.is_some(), "a record has at most 65 535 bytes");
                if let Some(prefix) = prefix {
                    socket.write(&prefix);
                    socket.write(buffer);
                }
            }
            buffer.clear();
            at.into_iter().for_each(|at| self.report(now, at));
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let sockets = self.sockets.iter().filter_map(Socket::deadline).min();
        sockets.into_iter().chain(self.peer.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sockets.iter_mut().for_each(|socket| socket.on_timeout(now));
        self.peer.handle_timeout(now);
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        self.peer.handle_send_error(now, local);
    }
}

impl Peer for TcpPeer {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        self.peer.connect(now, locals, remotes)
    }

    fn absorb_events(&mut self, now: Instant) {
        self.peer.absorb_events(now);
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        self.peer.streams()
    }

    fn ended(&self) -> Option<&ConnectionError> {
        self.peer.ended()
    }

    fn figures(&mut self, now: Instant, out: &mut Vec<PathFigures>) {
        self.peer.figures(now, out);
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        self.peer.set_addresses(now, locals);
    }
}
