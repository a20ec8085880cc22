//! Sockets as any program has them: TCP connections for bulk and for messages, UDP for messages with a lifetime.
//!
//! Whether anything of Manyway carries them the agent does not know: that is the point.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

use super::places::{Place, Places};
use crate::agent::document::{Assignment, Load, SocketsSpec};
use crate::agent::lane::Lane;

/// The sockets of an end.
pub(in crate::agent) struct Sockets {
    spec: SocketsSpec,
    /// At the server: of TCP, and of each exchange of datagrams.
    listener: Option<TcpListener>,
    datagrams: Vec<Option<UdpSocket>>,
}

impl Sockets {
    pub(super) fn listen(assignment: &Assignment, spec: &SocketsSpec) -> Result<Self, String> {
        let mut sockets = Self { spec: *spec, listener: None, datagrams: Vec::new() };
        if assignment.end.is_client() {
            return Ok(sockets);
        }
        let failed = |error: io::Error| format!("listening at {}: {error}", spec.listen);
        let listener = std::net::TcpListener::bind(spec.listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        sockets.listener = Some(TcpListener::from_std(listener).map_err(failed)?);
        for (number, exchange) in (0..).zip(&assignment.exchanges) {
            let socket = is_of_datagrams(exchange.load).then(|| datagrams(above(spec.listen, number)));
            sockets.datagrams.push(socket.transpose().map_err(failed)?);
        }
        Ok(sockets)
    }

    pub(super) async fn connect(&mut self, assignment: &Assignment) -> Result<Vec<Vec<Lane>>, String> {
        let load = |exchange: usize| assignment.exchanges.get(exchange).map(|exchange| exchange.load);
        let places = Place::all(assignment, |exchange| match load(exchange) {
            Some(Load::Bulk { .. }) => self.spec.flows.into(),
            Some(Load::Messages { .. }) | None => 1,
        });
        let mut lanes = Places::default();
        for place in places {
            // Both ends take the places in the same order, so one waits for the kind of socket that the other opens.
            if load(place.exchange.into()).is_some_and(is_of_datagrams) {
                let socket = self.meet_by_datagrams(place).await;
                lanes.add(place, Lane::of_datagrams(socket.map_err(|error| format!("UDP: {error}"))?));
                continue;
            }
            let lane = |socket: TcpStream| {
                // Without it messages are late, which the figures show.
                let _ = socket.set_nodelay(true);
                let (read, write) = socket.into_split();
                Lane::of_bytes(read, write)
            };
            match &self.listener {
                None => {
                    let socket = self.open().await.map_err(|e| format!("{}: {e}", self.spec.connect))?;
                    lanes.introduce(place, lane(socket)).await?;
                }
                Some(listener) => {
                    let accepted = listener.accept().await;
                    let (socket, _) = accepted.map_err(|error| format!("accepting: {error}"))?;
                    lanes.welcome(lane(socket)).await?;
                }
            }
        }
        Ok(lanes.into_lanes(assignment))
    }

    async fn open(&self) -> io::Result<TcpStream> {
        match self.spec.proxy {
            None => TcpStream::connect(self.spec.connect).await,
            Some(proxy) => by_socks(TcpStream::connect(proxy).await?, self.spec.connect).await,
        }
    }

    /// The client says a word until it is answered; the server learns from it where the client is.
    async fn meet_by_datagrams(&mut self, place: Place) -> io::Result<UdpSocket> {
        let number = place.exchange;
        if self.listener.is_none() {
            let to = above(self.spec.connect, number);
            let any: IpAddr =
                if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = datagrams(SocketAddr::new(any, 0))?;
            socket.connect(to).await?;
            for _ in 0..ATTEMPTS {
                // Lost ones are said again.
                let _ = socket.send(&[number]).await;
                if matches!(timeout(ANSWER, socket.recv(&mut [0])).await, Ok(Ok(_))) {
                    return Ok(socket);
                }
            }
            return Err(io::ErrorKind::TimedOut.into());
        }
        let socket = self.datagrams.get_mut(usize::from(number)).and_then(Option::take);
        let socket = socket.ok_or(io::ErrorKind::NotFound)?;
        let (_, client) = socket.recv_from(&mut [0]).await?;
        socket.connect(client).await?;
        for _ in 0..COPIES {
            socket.send(&[number]).await?;
        }
        Ok(socket)
    }
}

/// Messages with a lifetime are what programs send by UDP.
fn is_of_datagrams(load: Load) -> bool {
    matches!(load, Load::Messages { lifetime: Some(_), .. })
}

/// A socket with room for a burst.
fn datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let room = socket2::SockRef::from(&socket);
    room.set_recv_buffer_size(BUFFER)?;
    room.set_send_buffer_size(BUFFER)?;
    UdpSocket::from_std(socket)
}

/// The port of the datagrams of an exchange.
fn above(address: SocketAddr, exchange: u8) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().saturating_add(exchange.into()))
}

/// Asks a proxy without a password to connect (RFC 1928).
async fn by_socks(mut socket: TcpStream, to: SocketAddr) -> io::Result<TcpStream> {
    let (kind, address) = match to.ip() {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (4, address.octets().to_vec()),
    };
    socket.write_all(&[5, 1, 0]).await?;
    let mut chosen = [0; 2];
    socket.read_exact(&mut chosen).await?;
    socket.write_all(&[&[5, 1, 0, kind], &address[..], &to.port().to_be_bytes()].concat()).await?;
    // The proxy listens on IPv4, so its reply has such an address.
    let mut reply = [0; 10];
    socket.read_exact(&mut reply).await?;
    if chosen == [5, 0] && reply[..2] == [5, 0] {
        return Ok(socket);
    }
    Err(io::Error::other(format!("the proxy answers {chosen:?} and {:?}", &reply[..2])))
}

/// Bytes of socket buffers.
const BUFFER: usize = 4 << 20;
/// How often the client says where it is, how long it waits each time, and how often the server answers.
const ATTEMPTS: u32 = 50;
const ANSWER: Duration = Duration::from_millis(200);
const COPIES: u32 = 3;
