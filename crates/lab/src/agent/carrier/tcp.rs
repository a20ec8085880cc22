//! Kernel TCP connections, independent or multipath: for bulk one on each address pair, for messages one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::multipath;
use super::places::{Place, Places};
use crate::agent::document::{Assignment, End, Load, TcpSpec};
use crate::agent::lane::Lane;

/// The connections of an end.
pub(in crate::agent) struct Tcp {
    spec: TcpSpec,
    end: End,
    listener: Option<TcpListener>,
    /// Number of connections.
    connections: usize,
}

impl Tcp {
    pub(super) fn listen(end: End, spec: &TcpSpec) -> Result<(Self, u16), String> {
        if let Some(multipath) = &spec.multipath {
            multipath::prepare(end, multipath, &spec.congestion)?;
        }
        let mut tcp = Self { spec: spec.clone(), end, listener: None, connections: 0 };
        if end.is_client() {
            return Ok((tcp, 0));
        }
        let all_v4 = spec.pairs.iter().all(|pair| pair.server.is_ipv4());
        let address: IpAddr =
            if all_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let listener = tcp.listener(address).map_err(|error| format!("listening for TCP: {error}"))?;
        let port = listener.local_addr().map_or(0, |address| address.port());
        tcp.listener = Some(listener);
        Ok((tcp, port))
    }

    pub(super) async fn connect(
        &mut self,
        assignment: &Assignment,
        port: u16,
    ) -> Result<Vec<Vec<Lane>>, String> {
        let load = |exchange: usize| assignment.exchanges.get(exchange).map(|exchange| exchange.load);
        let places = Place::all(assignment, |exchange| match load(exchange) {
            Some(Load::Bulk { .. }) => self.spec.pairs.len(),
            Some(Load::Messages { .. }) | None => 1,
        });
        self.connections = places.len();
        let mut lanes = Places::default();
        for place in places {
            match &self.listener {
                None => {
                    let pair = self.spec.pairs.get(usize::from(place.lane)).ok_or("there is no such pair")?;
                    let remote = SocketAddr::new(pair.server, port);
                    let stream = self.open(pair.client, remote).await.map_err(|error| {
                        format!("connecting from {} to {}: {error}", pair.client, pair.server)
                    })?;
                    hurry(&stream, load(usize::from(place.exchange)));
                    lanes.introduce(place, lane(stream)).await?;
                }
                Some(listener) => {
                    let (stream, _) =
                        listener.accept().await.map_err(|error| format!("accepting: {error}"))?;
                    self.check(&stream).map_err(|error| format!("accepting: {error}"))?;
                    // Harmless for bulk: its writes are longer than any packet.
                    hurry(&stream, Some(LATENCY));
                    lanes.welcome(lane(stream)).await?;
                }
            }
        }
        Ok(lanes.into_lanes(assignment))
    }

    /// Waits until every subflow exists, with the requested congestion control.
    pub(super) async fn settle(&self) -> Vec<String> {
        let Some(multipath) = &self.spec.multipath else { return Vec::new() };
        let mut remarks = multipath::settle(self.end, multipath, self.connections).await;
        let review = timeout(REVIEW, multipath::review(&self.spec.congestion)).await;
        remarks.extend(review.unwrap_or_else(|_| vec!["`ss` did not answer".to_owned()]));
        remarks
    }

    fn socket(&self, address: IpAddr) -> io::Result<Socket> {
        let protocol = if self.spec.multipath.is_some() { Protocol::MPTCP } else { Protocol::TCP };
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::STREAM, Some(protocol))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_congestion(self.spec.congestion.as_bytes())?;
        Ok(socket)
    }

    fn listener(&self, address: IpAddr) -> io::Result<TcpListener> {
        let socket = self.socket(address)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&SocketAddr::new(address, 0).into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(StdListener::from(socket))
    }

    async fn open(&self, local: IpAddr, remote: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.socket(local)?;
        socket.bind(&SocketAddr::new(local, 0).into())?;
        let socket = TcpSocket::from_std_stream(StdStream::from(socket));
        let stream = socket.connect(remote).await?;
        self.check(&stream)?;
        Ok(stream)
    }

    /// Checks that the congestion control is the requested one.
    fn check(&self, stream: &TcpStream) -> io::Result<()> {
        let name = SockRef::from(stream).tcp_congestion()?;
        let name = String::from_utf8_lossy(&name);
        let name = name.trim_end_matches('\0');
        if name == self.spec.congestion {
            return Ok(());
        }
        Err(io::Error::other(format!("the system took {name} instead of {}", self.spec.congestion)))
    }
}

/// Disables Nagle's algorithm.
fn hurry(stream: &TcpStream, load: Option<Load>) {
    if matches!(load, Some(Load::Messages { .. })) {
        // Without it messages are late, which the figures show.
        let _ = stream.set_nodelay(true);
    }
}

fn lane(stream: TcpStream) -> Lane {
    let (read, write) = stream.into_split();
    Lane::of_bytes(read, write)
}

/// Stands for all loads with a measured latency.
const LATENCY: Load = Load::Messages { size: 0, interval: Duration::ZERO, lifetime: None };
const BACKLOG: i32 = 128;
/// Time for inspecting the sockets.
const REVIEW: Duration = Duration::from_secs(2);
