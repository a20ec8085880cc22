//! IP packets: datagrams and echo requests that a command sends, and answers to them.
//!
//! ```
//! use manyway_capture::packet::{Datagram, Packet, Unreachable};
//!
//! let query = Datagram {
//!     source: "198.18.0.1:40000".parse()?,
//!     destination: "192.0.2.1:53".parse()?,
//!     payload: b"query",
//! };
//! let mut bytes = Vec::new();
//! query.compose(&mut bytes)?;
//! assert_eq!(Packet::parse(&bytes), Ok(Packet::Datagram(query)));
//! // Nothing is there: the command sees "connection refused".
//! let mut answer = Vec::new();
//! assert!(Unreachable::Port.compose(&bytes, &mut answer));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checksum;
mod datagram;
mod echo;
mod unreachable;

use std::fmt;
use std::net::IpAddr;

use etherparse::{IpNumber, IpSlice};

pub use self::datagram::Datagram;
pub use self::echo::Echo;
pub use self::unreachable::Unreachable;

/// The hop limit of packets that are composed here.
const HOP_LIMIT: u8 = 64;

/// A packet of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'a> {
    /// UDP.
    Datagram(Datagram<'a>),
    /// An echo request (`ping`).
    Echo(Echo<'a>),
    /// Another protocol, by its number, or another message of ICMP.
    Other(u8),
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// It is no IP packet, or cut off.
    Malformed,
    /// A checksum is wrong, or absent where IPv6 demands it.
    Checksum,
    /// It is a fragment of a larger one.
    Fragment,
}

/// A datagram is too large for a packet, or its ends have different address families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncomposable;

impl<'a> Packet<'a> {
    /// Parses an IPv4 or IPv6 packet; extension headers of IPv6 are skipped.
    ///
    /// # Errors
    /// It is to be dropped.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Invalid> {
        let (ends, protocol, payload) = ip(packet)?;
        match (protocol, ends.0) {
            (IpNumber::UDP, _) => Datagram::parse(ends, payload).map(Self::Datagram),
            (IpNumber::ICMP, IpAddr::V4(_)) | (IpNumber::IPV6_ICMP, IpAddr::V6(_)) => {
                let echo = Echo::parse(ends, payload)?;
                Ok(echo.map_or(Self::Other(protocol.0), Self::Echo))
            }
            (other, _) => Ok(Self::Other(other.0)),
        }
    }
}

/// Source and destination.
type Ends = (IpAddr, IpAddr);

/// The addresses, the protocol above IP, and its bytes.
fn ip(packet: &[u8]) -> Result<(Ends, IpNumber, &[u8]), Invalid> {
    let slice = IpSlice::from_slice(packet).map_err(|_| Invalid::Malformed)?;
    if let IpSlice::Ipv4(v4) = &slice {
        let header = v4.header();
        if header.header_checksum() != header.to_header().calc_header_checksum() {
            return Err(Invalid::Checksum);
        }
    }
    if slice.is_fragmenting_payload() {
        return Err(Invalid::Fragment);
    }
    let ends = (slice.source_addr(), slice.destination_addr());
    let payload = slice.payload();
    Ok((ends, payload.ip_number, payload.payload))
}

/// Whether the kernel accepts an answer from and to such an address: it is one of a single host, and not of loopback.
fn is_of_a_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || is_broadcast)
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed",
            Self::Checksum => "wrong checksum",
            Self::Fragment => "fragment",
        })
    }
}

impl std::error::Error for Invalid {}

impl fmt::Display for Uncomposable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too large for a packet, or of two address families")
    }
}

impl std::error::Error for Uncomposable {}
