//! Datagrams that come to a port of the server: each flow has a socket of its own here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manyway_egress::{Destination, EgressError, FlowReceiver, FlowSender, Host, Reason, accept_flow};
use manyway_transfer::MessageHalves;
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::flows::IDLE;
use super::super::listening::MAX_DATAGRAM;
use super::rules::{Forwarded, PATIENCE, forwarded};
use crate::args::Protocol;

/// Carries a flow that the server opened.
pub(super) async fn attend(halves: MessageHalves, rules: &[Forwarded]) -> Result<(), EgressError> {
    let incoming = accept_flow(halves).await?;
    let Some(Forwarded { rule, treatment }) = forwarded(rules, incoming.number, Protocol::Udp) else {
        return Ok(incoming.refuse(Reason::Other).await?);
    };
    match timeout(PATIENCE, connected(&rule.destination)).await {
        Ok(Ok(socket)) => carry(&socket, incoming.accept(*treatment).await?).await,
        Ok(Err(_)) => Ok(incoming.refuse(Reason::HostUnreachable).await?),
        Err(_) => Ok(incoming.refuse(Reason::TimedOut).await?),
    }
}

/// A socket that sends to the destination, and takes nothing from others.
async fn connected(destination: &Destination) -> io::Result<UdpSocket> {
    let port = destination.port();
    let address = match destination.host() {
        Host::Ip(ip) => SocketAddr::new(*ip, port),
        Host::Name(name) => {
            lookup_host((name.as_str(), port)).await?.next().ok_or(io::ErrorKind::NotFound)?
        }
        Host::Resolver => return Err(io::ErrorKind::Unsupported.into()),
    };
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Carries both directions until the server ends the flow, or it is idle.
async fn carry(
    socket: &UdpSocket,
    (mut sender, mut receiver): (FlowSender, FlowReceiver),
) -> Result<(), EgressError> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut last = Instant::now();
    loop {
        tokio::select! {
            datagram = receiver.receive() => {
                let Some(datagram) = datagram? else { return Ok(()) };
                last = Instant::now();
                // What the system has no room for is lost. An error may be about an earlier datagram.
                let _ = socket.send(&datagram.payload).await;
            }
            // While nothing listens there, each datagram may bring an error.
            received = socket.recv(&mut buffer) => if let Ok(length) = received {
                last = Instant::now();
                sender.send(None, buffer.get(..length).unwrap_or_default())?;
            },
            () = sleep_until(last + IDLE) => return Ok(()),
        }
    }
}
