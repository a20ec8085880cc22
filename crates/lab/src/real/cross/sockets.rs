//! The sockets of the flows, made on their hosts.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use manyway_proto::Rate;
use manyway_sim::CrossKind;
use manyway_sim::pair::Side;
use socket2::{Domain, Protocol, Socket, Type};

use crate::agent::document::Pair;
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::real::assignment::pair;
use crate::real::system;
use crate::scenario::{CrossTraffic, Scenario};

/// A flow and its sockets.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) entry: usize,
    pub(super) number: usize,
    pub(super) traffic: CrossTraffic,
    pub(super) end: Duration,
    pub(super) server: SocketAddr,
    pub(super) sockets: Sockets,
}

#[derive(Debug)]
pub(super) enum Sockets {
    Tcp { client: Socket, listener: TcpListener },
    Udp { client: UdpSocket, server: UdpSocket, rate: Rate },
}

/// The end of a socket before its partner is known.
#[derive(Debug)]
enum Half {
    Tcp(Socket),
    Udp(UdpSocket),
}

/// Makes the sockets of all flows, those of the server first.
pub(super) fn flows(scenario: &Scenario, hosts: &Hosts) -> Result<Vec<Flow>, LabError> {
    let mut wanted = Vec::new();
    for (entry, traffic) in scenario.cross_traffic.iter().enumerate() {
        if let Some(name) = congestion(traffic.kind) {
            system::has(name)
                .map_err(|reason| LabError::Unsupported(format!("the traffic of others: {reason}")))?;
        }
        let pair = pair(scenario, hosts, traffic.route)?;
        let numbers = 0..usize::try_from(traffic.count).unwrap_or(0);
        wanted.extend(numbers.map(|number| (entry, number, *traffic, pair)));
    }
    let make = |side| -> Result<Vec<Half>, LabError> {
        let each = |(_, _, traffic, pair): &(usize, usize, CrossTraffic, Pair)| half(*traffic, *pair, side);
        let made = hosts.inside(side, || wanted.iter().map(each).collect::<io::Result<Vec<_>>>())?;
        made.map_err(|error| LabError::Io { doing: "making sockets for the traffic of others".into(), error })
    };
    let (servers, clients) = (make(Side::Server)?, make(Side::Client)?);
    let mut flows = Vec::new();
    for (((entry, number, traffic, _), server), client) in wanted.into_iter().zip(servers).zip(clients) {
        let (address, sockets) = match (client, server, traffic.kind) {
            (Half::Tcp(client), Half::Tcp(server), _) => {
                let listener = TcpListener::from(server);
                (listener.local_addr(), Sockets::Tcp { client, listener })
            }
            (Half::Udp(client), Half::Udp(server), CrossKind::Udp(rate)) => {
                (server.local_addr(), Sockets::Udp { client, server, rate })
            }
            (Half::Tcp(_) | Half::Udp(_), ..) => continue,
        };
        let doing = || "reading the port of a socket".to_owned();
        let server = address.map_err(|error| LabError::Io { doing: doing(), error })?;
        flows.push(Flow { entry, number, traffic, end: traffic.end(scenario.limit()), server, sockets });
    }
    Ok(flows)
}

/// Makes a socket on a host: the client's, or that at which the server listens.
fn half(traffic: CrossTraffic, pair: Pair, side: Side) -> io::Result<Half> {
    let address = match side {
        Side::Client => pair.client,
        Side::Server => pair.server,
    };
    let Some(congestion) = congestion(traffic.kind) else {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        return Ok(Half::Udp(socket));
    };
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    let headers = if address.is_ipv4() { 40 } else { 60 };
    socket.set_tcp_mss(u32::from(traffic.packet) - headers)?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    if side == Side::Server {
        socket.listen(1)?;
    }
    Ok(Half::Tcp(socket))
}

/// The system's name of the congestion control; `None` for UDP.
const fn congestion(kind: CrossKind) -> Option<&'static str> {
    match kind {
        CrossKind::Cubic => Some("cubic"),
        CrossKind::Reno => Some("reno"),
        CrossKind::Udp(_) => None,
    }
}
