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
mod ip;
mod segment;
mod unreachable;

use std::net::IpAddr;

use etherparse::IpNumber;

pub(crate) use self::checksum::over as checksum;
pub use self::datagram::Datagram;
pub use self::echo::Echo;
pub(crate) use self::ip::{HOP_LIMIT, is_of_a_host};
pub use self::ip::{Invalid, Uncomposable, dscp};
pub use self::segment::clamp_segment_size;
pub use self::unreachable::Unreachable;

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

impl<'a> Packet<'a> {
    /// Parses an IPv4 or IPv6 packet; extension headers of IPv6 are skipped.
    ///
    /// # Errors
    /// It is to be dropped.
    pub fn parse(packet: &'a [u8]) -> Result<Self, Invalid> {
        let (ends, protocol, payload) = ip::parse(packet)?;
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
