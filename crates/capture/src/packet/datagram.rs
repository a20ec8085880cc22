//! UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::{IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, PacketBuilder, UdpHeader, UdpSlice};

use super::checksum;
use super::ip::{Ends, HOP_LIMIT, Invalid, Uncomposable};

/// A UDP datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Where it comes from.
    pub source: SocketAddr,
    /// Where it goes; of the same address family.
    pub destination: SocketAddr,
    /// What it carries, at most 65 507 bytes over IPv4 and 65 527 over IPv6.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(super) fn parse(ends: Ends, message: &'a [u8]) -> Result<Self, Invalid> {
        let udp = UdpSlice::from_slice(message).map_err(|_| Invalid::Malformed)?;
        let has_none = udp.checksum() == 0;
        let is_right = match ends.0 {
            IpAddr::V4(_) if has_none => true,
            IpAddr::V6(_) if has_none => false,
            IpAddr::V4(_) | IpAddr::V6(_) => checksum::over(Some((ends, IpNumber::UDP.0)), udp.slice()) == 0,
        };
        if !is_right {
            return Err(Invalid::Checksum);
        }
        let source = SocketAddr::new(ends.0, udp.source_port());
        let destination = SocketAddr::new(ends.1, udp.destination_port());
        Ok(Self { source, destination, payload: udp.payload() })
    }

    /// Appends the IP packet that carries it.
    ///
    /// # Errors
    /// It is too large, or its ends have different address families; then nothing is appended.
    pub fn compose(&self, packet: &mut Vec<u8>) -> Result<(), Uncomposable> {
        let ip = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) if self.payload.len() <= SMALL => {
                PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT)
            }
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                PacketBuilder::ip(IpHeaders::Ipv4(self.divisible(from, to)?, Ipv4Extensions::default()))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT),
            _ => return Err(Uncomposable),
        };
        let length = packet.len();
        let udp = ip.udp(self.source.port(), self.destination.port());
        udp.write(packet, self.payload).map_err(|_| {
            packet.truncate(length);
            Uncomposable
        })
    }

    /// The header of a packet that routers may fragment. Fragments of several packets are told apart by a number: the
    /// checksum, which only equal ones, whose fragments are equal, or few others have in common.
    fn divisible(&self, from: Ipv4Addr, to: Ipv4Addr) -> Result<Ipv4Header, Uncomposable> {
        let (source, destination) = (from.octets(), to.octets());
        let header = Ipv4Header {
            source,
            destination,
            time_to_live: HOP_LIMIT,
            dont_fragment: false,
            ..Ipv4Header::default()
        };
        let (source, destination) = (self.source.port(), self.destination.port());
        let udp = UdpHeader::with_ipv4_checksum(source, destination, &header, self.payload);
        Ok(Ipv4Header { identification: udp.map_err(|_| Uncomposable)?.checksum, ..header })
    }

    /// The datagram that answers this one with other bytes.
    pub fn answer<'b>(&self, payload: &'b [u8]) -> Datagram<'b> {
        Datagram { source: self.destination, destination: self.source, payload }
    }
}

/// Most bytes that any network carries without fragments: those of the least packet of IPv6.
const SMALL: usize = 1232;
