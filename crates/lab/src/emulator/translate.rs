//! Network address translation of real packets.

use manyway_proto::Instant;
use manyway_sim::nat::{Nat, NatConfig};

use super::header::{End, Header, Transport};

/// A NAT at an interface. TCP, UDP and echo have port numbers of their own; nothing else passes, including fragments
/// and errors.
#[derive(Debug)]
pub(super) struct Translator {
    tcp: Nat,
    udp: Nat,
    echo: Nat,
}

impl Translator {
    pub(super) fn new(config: NatConfig) -> Self {
        Self { tcp: Nat::new(config), udp: Nat::new(config), echo: Nat::new(config) }
    }

    /// Drops all mappings.
    pub(super) fn rebind(&mut self) {
        for nat in [&mut self.tcp, &mut self.udp, &mut self.echo] {
            nat.rebind();
        }
    }

    /// Translates a packet from the interface; `None` if it cannot pass.
    pub(super) fn outbound(&mut self, now: Instant, packet: &mut [u8]) -> Option<()> {
        let header = Header::read(packet)?;
        let inner = header.end(packet, End::Source)?;
        let peer = peer(&header, packet, End::Destination)?;
        let nat = self.table(header.transport())?;
        if nat.config().outer.is_ipv4() != inner.is_ipv4() {
            return None;
        }
        let outer = nat.outbound(now, inner, peer);
        header.set_end(packet, End::Source, outer)
    }

    /// Translates a packet to the interface; `None` if it is not let in.
    pub(super) fn inbound(&mut self, now: Instant, packet: &mut [u8]) -> Option<()> {
        let header = Header::read(packet)?;
        let outer = header.end(packet, End::Destination)?;
        let peer = peer(&header, packet, End::Source)?;
        let inner = self.table(header.transport())?.inbound(now, peer, outer)?;
        header.set_end(packet, End::Destination, inner)
    }

    fn table(&mut self, transport: Transport) -> Option<&mut Nat> {
        match transport {
            Transport::Tcp => Some(&mut self.tcp),
            Transport::Udp => Some(&mut self.udp),
            Transport::Echo => Some(&mut self.echo),
            Transport::Other => None,
        }
    }
}

/// The end outside the NAT. An echo has one identifier, which belongs to the inner end.
fn peer(header: &Header, packet: &[u8], end: End) -> Option<std::net::SocketAddr> {
    let mut peer = header.end(packet, end)?;
    if header.transport() == Transport::Echo {
        peer.set_port(0);
    }
    Some(peer)
}
