//! What a command or a machine sends, over the bond: TCP, UDP, with it DNS, and ICMP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use manyway_capture::packet::{Datagram, Packet, Unreachable};
use manyway_capture::{RESOLVER, RESOLVER_V6, Tun};
use manyway_egress::{Destination, Host, Refusal};
use tokio::net::TcpStream;

use super::bond::EgressBond;
use super::flows::{FlowSink, Flows};
use super::listening::{carry, reset};

/// Carries a TCP connection to its end. One whose destination refuses is reset: the kernel has accepted it already.
pub(super) async fn relay(bond: Arc<EgressBond>, socket: TcpStream, destination: SocketAddr) {
    let Some(destination) = known(destination) else { return reset(socket) };
    match bond.connect(&destination).await {
        Ok(opened) => carry(socket, opened).await,
        Err(_) => reset(socket),
    }
}

/// Serves the packets of a device, and never ends.
///
/// Datagrams go over the bond. The server carries no echo requests, which are answered by ICMP that a rule forbids them, so
/// that programs need not wait for an answer.
pub(super) async fn datagrams(tun: &Arc<Tun>, bond: &Arc<EgressBond>) -> Infallible {
    let flows = Flows::new(Arc::clone(bond), TunSink(Arc::clone(tun)));
    let Err(error) = pass_all(tun, &flows).await;
    tracing::warn!(reason = %error, "the TUN device is gone");
    std::future::pending().await
}

async fn pass_all(tun: &Tun, flows: &Flows) -> io::Result<Infallible> {
    let mut buffer = vec![0; tun.mtu().into()];
    loop {
        let length = tun.receive(&mut buffer).await?;
        let packet = buffer.get(..length).unwrap_or_default();
        match Packet::parse(packet) {
            Ok(Packet::Datagram(datagram)) => {
                if let Some(destination) = known(datagram.destination) {
                    flows.pass(datagram.source, destination, Bytes::copy_from_slice(datagram.payload));
                }
            }
            Ok(Packet::Echo(_)) => forbid(tun, packet),
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

/// Answers a packet with ICMP that a rule forbids it.
fn forbid(tun: &Tun, packet: &[u8]) {
    let mut answer = Vec::new();
    if Unreachable::Prohibited.compose(packet, &mut answer) {
        // A program that does not hear of it waits for an answer.
        let _ = tun.try_send(&answer);
    }
}

/// Gives programs what comes back for their sockets.
struct TunSink(Arc<Tun>);

impl FlowSink for TunSink {
    fn deliver(&self, program: SocketAddr, source: &Destination, payload: &[u8]) {
        let Some(source) = address_of(source, program) else { return };
        let mut packet = Vec::new();
        if (Datagram { source, destination: program, payload }).compose(&mut packet).is_ok() {
            // What finds no room is lost, as on any network.
            let _ = self.0.try_send(&packet);
        }
    }

    fn refuse(&self, program: SocketAddr, destination: &Destination, _: &Refusal) {
        let Some(destination) = address_of(destination, program) else { return };
        // ICMP quotes the packet that it is about.
        let mut packet = Vec::new();
        if (Datagram { source: program, destination, payload: &[] }).compose(&mut packet).is_ok() {
            forbid(&self.0, &packet);
        }
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
