//! A model of TCP over the links of a [`Network`](crate::Network), and TCP as a carrier of paths.
//!
//! * `sender`, `receiver`: the two halves of a connection, which know byte numbers only, with `rtt`, `prr`, `duplicates` and `cubic`;
//! * `segment`: what they say to each other;
//! * `socket`: both halves with the data of a path;
//! * `dialling`: which connections a client has that uses TCP alone.

mod cubic;
mod dialling;
mod duplicates;
mod prr;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod socket;

use std::net::SocketAddr;

use manyway_proto::{Connection, ConnectionError, Ecn, FourTuple, Instant, LocalAddress, Records, Transmit};

use crate::endpoint::EndpointPeer;
use crate::invariants::PathFigures;
use crate::link::LinkConfig;
use crate::pair::Peer;
use crate::traffic::Streams;
use crate::world::Node;

pub(crate) use cubic::LinuxCubic;
use dialling::Dialler;
pub use dialling::TcpPlan;
pub(crate) use receiver::Receiver;
pub(crate) use segment::{Header, Kind, NO_LIMIT};
pub(crate) use sender::{Sender, SlowStart};
pub use socket::TcpCongestion;
use socket::{SEGMENT, Socket};

/// The port at which a server accepts TCP connections.
pub const TCP_SERVER_PORT: u16 = 443;
/// The ports of a client's TCP connections, in turn.
const FIRST_CLIENT_PORT: u16 = 50_000;
const CLIENT_PORTS: u16 = 15_000;

/// A protocol machine whose paths go over UDP and over TCP connections of a modelled system below it.
///
/// The model sends TCP segments as datagrams between ports of their own, so that the links delay and lose them like any
/// other packet: a loss shows as a delay by retransmission. The send buffer is bounded, and blocks the path.
#[derive(Debug)]
pub struct TcpPeer {
    peer: EndpointPeer,
    sockets: Vec<Socket>,
    /// The place of the next connection's port.
    next_port: u16,
    congestion: TcpCongestion,
    /// Payload of a full segment.
    segment: u16,
    reports: bool,
    dialler: Option<Dialler>,
}

impl TcpPeer {
    /// Adds a model of TCP below a machine.
    pub fn new(peer: EndpointPeer) -> Self {
        let congestion = TcpCongestion::default();
        Self {
            peer,
            sockets: Vec::new(),
            next_port: 0,
            congestion,
            segment: SEGMENT,
            reports: true,
            dialler: None,
        }
    }

    /// Sets the congestion control of the system's TCP. Default Reno.
    #[must_use]
    pub fn with_congestion(mut self, congestion: TcpCongestion) -> Self {
        self.congestion = congestion;
        self
    }

    /// Sets the IPv4 packets of full segments, from 100 bytes. Default 1452 bytes.
    #[must_use]
    pub fn with_packets(mut self, bytes: u16) -> Self {
        let headers = usize::from(LinkConfig::IPV4_UDP) + Header::LENGTH;
        self.segment = bytes.saturating_sub(u16::try_from(headers).unwrap_or(u16::MAX)).max(1);
        self
    }

    /// Makes a client use TCP alone, over these connections: [`Peer::connect`] opens the first one, and the others follow
    /// after the handshake.
    pub fn set_plan(&mut self, plan: TcpPlan) {
        self.dialler = Some(Dialler::new(plan));
    }

    /// The connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        self.peer.connection()
    }

    /// Sets the receive windows that target rates want.
    pub fn set_windows(&mut self, now: Instant) {
        let Some(connection) = self.peer.connection() else { return };
        let windows = connection.carrier_windows();
        for socket in &mut self.sockets {
            let window = windows.iter().find(|(tuple, _)| *tuple == socket.tuple).map(|(_, window)| *window);
            socket.set_window(now, window);
        }
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

    /// Connects from an address of this host to the TCP port of a server; each connection has the next port.
    pub fn open(&mut self, now: Instant, from: LocalAddress, to: SocketAddr) -> FourTuple {
        let local = with_port(from, FIRST_CLIENT_PORT + self.next_port);
        self.next_port = (self.next_port + 1) % CLIENT_PORTS;
        let tuple = FourTuple::tcp(local, SocketAddr::new(to.ip(), TCP_SERVER_PORT));
        self.sockets.retain(|socket| !socket.is_over());
        self.sockets.push(Socket::new(now, tuple, (self.congestion, self.segment)));
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
        let Self { peer, sockets, reports, .. } = self;
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
            self.sockets.retain(|socket| !socket.is_forgotten(now));
            is_server.then(|| self.sockets.push(Socket::new(now, tuple, (self.congestion, self.segment))))?;
            self.sockets.len().checked_sub(1)
        })
    }

    /// Opens and ends connections as the plan and the machine want.
    fn dial(&mut self, now: Instant) {
        let Self { peer, sockets, dialler: Some(dialler), .. } = self else { return };
        let Some(connection) = peer.connection().filter(|connection| connection.is_established()) else {
            dialler.stop();
            return;
        };
        let steps = dialler.advance(now, connection);
        for tuple in &steps.ended {
            if let Some(socket) =
                sockets.iter_mut().find(|socket| socket.tuple == *tuple && !socket.is_closed())
            {
                socket.reset();
            }
        }
        for (local, remote) in steps.missing {
            let tuple = self.open(now, local, remote);
            let opened = self.peer.connection().and_then(|connection| connection.open_path(now, tuple));
            match (opened, &mut self.dialler) {
                (Some(_), Some(dialler)) => dialler.on_open(now, tuple),
                _ => self.reset(now, tuple),
            }
        }
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
        let dialler = self.dialler.as_ref().and_then(Dialler::deadline);
        sockets.into_iter().chain(dialler).chain(self.peer.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.sockets.iter_mut().for_each(|socket| socket.on_timeout(now));
        self.peer.handle_timeout(now);
        if self.dialler.as_ref().and_then(Dialler::deadline).is_some_and(|at| at <= now) {
            self.dial(now);
        }
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
        let Some((local, remote)) = self.dialler.as_ref().and_then(Dialler::first) else {
            return self.peer.connect(now, locals, remotes);
        };
        let tuple = self.open(now, local, remote);
        if let Some(dialler) = &mut self.dialler {
            dialler.on_open(now, tuple);
        }
        self.peer.connect_over(now, tuple)
    }

    fn absorb_events(&mut self, now: Instant) {
        let before = self.peer.events().len();
        self.peer.absorb_events(now);
        if self.peer.events().len() != before {
            self.set_windows(now);
            self.dial(now);
        }
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        self.peer.streams()
    }

    fn ended(&self) -> Option<&ConnectionError> {
        self.peer.ended()
    }

    fn figures(&self, now: Instant, out: &mut Vec<PathFigures>) {
        self.peer.figures(now, out);
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        // The machine would open paths over UDP from them.
        if self.dialler.is_none() {
            self.peer.set_addresses(now, locals);
        }
    }
}
