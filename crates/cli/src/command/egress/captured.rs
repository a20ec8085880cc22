//! What a command or a machine sends, over the bond: TCP, UDP, with it DNS, and ICMP.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use manyway_capture::packet::{Datagram, Echo, Packet, Uncomposable, Unreachable, dscp};
use manyway_capture::{Attempt, Connection, RESOLVER, RESOLVER_V6, Stack, Tun};
use manyway_egress::{Destination, EgressError, FlowKind, Host, LocalConnection, Reason};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use super::bond::EgressBond;
use super::flows::{FlowSink, Flows, Outgoing};
use super::listening::{carry, carry_connection, reset};

/// A TCP connection that a program opens.
pub(super) enum Incoming {
    /// The kernel has accepted it already.
    Accepted(TcpStream, SocketAddr),
    /// Nothing was answered yet.
    Asked(Attempt),
}

impl Incoming {
    /// Where the program connects to.
    pub(super) fn destination(&self) -> SocketAddr {
        match self {
            Self::Accepted(_, destination) => *destination,
            Self::Asked(attempt) => attempt.destination(),
        }
    }

    /// Refuses it, as far as it was not accepted: that is reset.
    pub(super) fn refuse(self, why: Unreachable) {
        match self {
            Self::Accepted(socket, _) => reset(socket),
            Self::Asked(attempt) => attempt.refuse(why),
        }
    }
}

/// A connection that ends in this process.
struct Ended(Connection);

impl LocalConnection for Ended {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read(context, buffer)
    }

    fn poll_write(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, data)
    }

    fn finish(&self) -> io::Result<()> {
        self.0.finish();
        Ok(())
    }

    fn until_reset(&self) -> impl Future<Output = io::Error> + Send {
        self.0.until_reset()
    }

    fn reset(&self) {
        self.0.reset();
    }
}

/// Carries a TCP connection to its end.
pub(super) async fn relay(bond: Arc<EgressBond>, incoming: Incoming, destination: SocketAddr) {
    let Some(destination) = known(destination) else { return incoming.refuse(Unreachable::Prohibited) };
    match (bond.connect(&destination).await, incoming) {
        (Ok(opened), Incoming::Accepted(socket, _)) => carry(socket, opened).await,
        (Ok(opened), Incoming::Asked(attempt)) => carry_connection(Ended(attempt.accept()), opened).await,
        (Err(EgressError::Refused(refusal)), incoming) if refusal.reason != Reason::Other => {
            incoming.refuse(unreachable(refusal.reason));
        }
        (Err(_), incoming) => incoming.refuse(Unreachable::Host),
    }
}

/// Serves the packets of a device, and never ends: datagrams and echo requests go over the bond, and TCP to a stack.
pub(super) async fn packets(tun: &Arc<Tun>, bond: &Arc<EgressBond>, stack: Option<&Stack>) -> Infallible {
    let flows = |kind| Flows::new(Arc::clone(bond), kind, TunSink { tun: Arc::clone(tun), kind });
    let Err(error) = pass_all(tun, (&flows(FlowKind::Udp), &flows(FlowKind::Echo)), stack).await;
    tracing::warn!(reason = %error, "the TUN device is gone");
    std::future::pending().await
}

async fn pass_all(
    tun: &Tun,
    (datagrams, echoes): (&Flows, &Flows),
    stack: Option<&Stack>,
) -> io::Result<Infallible> {
    let mut buffer = vec![0; tun.mtu().into()];
    loop {
        let length = tun.receive(&mut buffer).await?;
        let packet = buffer.get(..length).unwrap_or_default();
        match Packet::parse(packet) {
            Ok(Packet::Datagram(Datagram { source, destination, payload })) => {
                if let Some(destination) = known(destination) {
                    let payload = Bytes::copy_from_slice(payload);
                    datagrams.pass(source, Outgoing { destination, payload, dscp: dscp(packet) });
                }
            }
            Ok(Packet::Echo(Echo { source, destination, identifier, sequence, payload })) => {
                if let Some(destination) = known(SocketAddr::new(destination, FlowKind::ECHO_PORT)) {
                    // egress 10.2, 10.4
                    let payload = [&sequence.to_be_bytes(), payload].concat().into();
                    let program = SocketAddr::new(source, identifier);
                    echoes.pass(program, Outgoing { destination, payload, dscp: None });
                }
            }
            Ok(Packet::Other(TCP)) => {
                if let Some(stack) = stack {
                    stack.receive(packet);
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The destination for the server: the device's own resolver is the server's. `None` if it has none like that.
fn known(destination: SocketAddr) -> Option<Destination> {
    let ip = destination.ip();
    // Searches for printers and the like, which would find those of the server's network.
    if ip.is_multicast() {
        return None;
    }
    let host = if ip == RESOLVER || ip == RESOLVER_V6 { Host::Resolver } else { Host::Ip(ip) };
    Destination::new(host, destination.port()).ok()
}

/// Gives programs what comes back for their sockets. The port of a program that sends echo requests is its identifier.
struct TunSink {
    tun: Arc<Tun>,
    kind: FlowKind,
}

impl FlowSink for TunSink {
    fn deliver(&self, program: SocketAddr, source: &Destination, payload: &[u8]) {
        let Some(source) = address_of(source, program) else { return };
        let mut packet = Vec::new();
        let composed = match self.kind {
            FlowKind::Udp => Datagram { source, destination: program, payload }.compose(&mut packet),
            FlowKind::Echo => echo(program, source, payload)
                .ok_or(Uncomposable)
                .and_then(|it| it.compose_reply(&mut packet)),
        };
        if composed.is_ok() {
            // What finds no room is lost, as on any network.
            let _ = self.tun.try_send(&packet);
        }
    }

    fn fail(&self, program: SocketAddr, destination: &Destination, reason: Reason, quote: &[u8]) {
        let Some(destination) = address_of(destination, program) else { return };
        // ICMP quotes the packet that it is about.
        let mut packet = Vec::new();
        let composed = match self.kind {
            FlowKind::Udp => Datagram { source: program, destination, payload: &[] }.compose(&mut packet),
            FlowKind::Echo => {
                echo(program, destination, quote).ok_or(Uncomposable).and_then(|it| it.compose(&mut packet))
            }
        };
        let mut answer = Vec::new();
        if composed.is_ok() && unreachable(reason).compose(&packet, &mut answer) {
            // A program that does not hear of it waits for an answer.
            let _ = self.tun.try_send(&answer);
        }
    }
}

/// An echo request of a program, from its payload in a flow.
fn echo(program: SocketAddr, destination: SocketAddr, payload: &[u8]) -> Option<Echo<'_>> {
    let (sequence, payload) = payload.split_first_chunk()?;
    Some(Echo {
        source: program.ip(),
        destination: destination.ip(),
        identifier: program.port(),
        sequence: u16::from_be_bytes(*sequence),
        payload,
    })
}

/// How ICMP says it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the list is open")]
fn unreachable(reason: Reason) -> Unreachable {
    match reason {
        Reason::Refused => Unreachable::Port,
        Reason::NetworkUnreachable => Unreachable::Network,
        Reason::HostUnreachable | Reason::TimedOut => Unreachable::Host,
        _ => Unreachable::Prohibited,
    }
}

/// The address under which a program knows a destination.
fn address_of(destination: &Destination, program: SocketAddr) -> Option<SocketAddr> {
    let ip = match destination.host() {
        Host::Ip(ip) => *ip,
        Host::Resolver if program.is_ipv6() => RESOLVER_V6.into(),
        Host::Resolver => RESOLVER.into(),
        Host::Name(_) => return None,
    };
    Some(SocketAddr::new(ip, destination.port()))
}

/// The number of TCP in IP packets.
const TCP: u8 = 6;
