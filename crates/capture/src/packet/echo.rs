//! Echo requests of ICMP over both versions of IP.

use std::net::IpAddr;

use etherparse::{IcmpEchoHeader, Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpNumber, PacketBuilder};

use super::checksum;
use super::ip::{Ends, HOP_LIMIT, Invalid, Uncomposable};

/// An echo request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Where it comes from.
    pub source: IpAddr,
    /// Which host it asks.
    pub destination: IpAddr,
    /// Which program asks.
    pub identifier: u16,
    /// Its number.
    pub sequence: u16,
    /// What comes back.
    pub payload: &'a [u8],
}

impl<'a> Echo<'a> {
    /// `None` for another message of ICMP.
    pub(super) fn parse(ends: Ends, message: &'a [u8]) -> Result<Option<Self>, Invalid> {
        let malformed = |_| Invalid::Malformed;
        let (pseudo_header, header, payload) = match ends.0 {
            IpAddr::V4(_) => {
                let icmp = Icmpv4Slice::from_slice(message).map_err(malformed)?;
                let Icmpv4Type::EchoRequest(header) = icmp.icmp_type() else { return Ok(None) };
                (None, header, icmp.payload())
            }
            IpAddr::V6(_) => {
                let icmp = Icmpv6Slice::from_slice(message).map_err(malformed)?;
                let Icmpv6Type::EchoRequest(header) = icmp.icmp_type() else { return Ok(None) };
                (Some((ends, IpNumber::IPV6_ICMP.0)), header, icmp.payload())
            }
        };
        if checksum::over(pseudo_header, message) != 0 {
            return Err(Invalid::Checksum);
        }
        let IcmpEchoHeader { id: identifier, seq: sequence } = header;
        Ok(Some(Self { source: ends.0, destination: ends.1, identifier, sequence, payload }))
    }

    /// Appends the IP packet with the request.
    ///
    /// # Errors
    /// It is too large, or its ends have different address families; then nothing is appended.
    pub fn compose(&self, packet: &mut Vec<u8>) -> Result<(), Uncomposable> {
        let kinds = (Icmpv4Type::EchoRequest(self.header()), Icmpv6Type::EchoRequest(self.header()));
        self.write((self.source, self.destination), kinds, packet)
    }

    /// Appends the IP packet with the reply.
    ///
    /// # Errors
    /// As [`Self::compose`].
    pub fn compose_reply(&self, packet: &mut Vec<u8>) -> Result<(), Uncomposable> {
        let kinds = (Icmpv4Type::EchoReply(self.header()), Icmpv6Type::EchoReply(self.header()));
        self.write((self.destination, self.source), kinds, packet)
    }

    fn header(&self) -> IcmpEchoHeader {
        IcmpEchoHeader { id: self.identifier, seq: self.sequence }
    }

    fn write(
        &self,
        ends: Ends,
        (v4, v6): (Icmpv4Type, Icmpv6Type),
        packet: &mut Vec<u8>,
    ) -> Result<(), Uncomposable> {
        let length = packet.len();
        let written = match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOP_LIMIT)
                .icmpv4(v4)
                .write(packet, self.payload),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT)
                .icmpv6(v6)
                .write(packet, self.payload),
            _ => return Err(Uncomposable),
        };
        written.map_err(|_| {
            packet.truncate(length);
            Uncomposable
        })
    }
}
