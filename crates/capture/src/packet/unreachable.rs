//! Errors of ICMP over both versions of IP.

use std::net::IpAddr;

use etherparse::icmpv4::DestUnreachableHeader as V4;
use etherparse::icmpv6::DestUnreachableCode as V6;
use etherparse::{Icmpv4Type, Icmpv6Type, IpNumber, PacketBuilder};

use super::ip::{HOP_LIMIT, is_of_a_host, parse};

/// Why a packet does not reach its destination. A program with a connected socket sees it by its next call; `Network` and
/// `Host` it sees only if it asks for such errors (`IP_RECVERR`), since they may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreachable {
    /// No route leads to it: the program sees "network is unreachable".
    Network,
    /// The host does not answer: "no route to host".
    Host,
    /// Nothing listens at the port: "connection refused".
    Port,
    /// A rule forbids it: "no route to host" over IPv4, "permission denied" over IPv6.
    Prohibited,
    /// It is too large: "message too long". The largest size of a packet, in bytes, comes along.
    TooLarge(u16),
}

impl Unreachable {
    /// Appends the IP packet with the error about `packet`, which comes from the packet's destination, and tells whether
    /// there is one. There is none about packets to many hosts or about errors (RFC 1122, 3.2.2; RFC 4443, 2.4), and
    /// none about what is no packet.
    pub fn compose(self, packet: &[u8], answer: &mut Vec<u8>) -> bool {
        let Ok((ends, protocol, message)) = parse(packet) else { return false };
        let may_be_answered = is_of_a_host(ends.0) && is_of_a_host(ends.1) && !is_error(protocol, message);
        if !may_be_answered {
            return false;
        }
        let length = answer.len();
        let begin = |room: usize| packet.get(..room).unwrap_or(packet);
        let written = match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(to.octets(), from.octets(), HOP_LIMIT)
                .icmpv4(Icmpv4Type::DestinationUnreachable(self.v4()))
                .write(answer, begin(ROOM_V4)),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(to.octets(), from.octets(), HOP_LIMIT)
                .icmpv6(self.v6())
                .write(answer, begin(ROOM_V6)),
            _ => return false,
        };
        if written.is_err() {
            answer.truncate(length);
        }
        written.is_ok()
    }

    fn v4(self) -> V4 {
        match self {
            Self::Network => V4::Network,
            Self::Host => V4::Host,
            Self::Port => V4::Port,
            Self::Prohibited => V4::FilterProhibited,
            Self::TooLarge(next_hop_mtu) => V4::FragmentationNeeded { next_hop_mtu },
        }
    }

    fn v6(self) -> Icmpv6Type {
        Icmpv6Type::DestinationUnreachable(match self {
            Self::Network => V6::NoRoute,
            Self::Host => V6::Address,
            Self::Port => V6::Port,
            Self::Prohibited => V6::Prohibited,
            Self::TooLarge(mtu) => return Icmpv6Type::PacketTooBig { mtu: mtu.into() },
        })
    }
}

/// Whether a message of ICMP is an error, or one of neighbour discovery, of which none is answered.
fn is_error(protocol: IpNumber, message: &[u8]) -> bool {
    let kind = message.first().copied().unwrap_or_default();
    match protocol {
        IpNumber::ICMP => kind != ECHO_V4,
        IpNumber::IPV6_ICMP => kind != ECHO_V6,
        _ => false,
    }
}

const ECHO_V4: u8 = 8;
const ECHO_V6: u8 = 128;
/// Most bytes of the packet in an error: all of it has at most 576 bytes over IPv4 (RFC 1812, 4.3.2.3) and 1280 over
/// IPv6 (RFC 4443, 2.4).
const ROOM_V4: usize = 576 - 20 - 8;
const ROOM_V6: usize = 1280 - 40 - 8;
