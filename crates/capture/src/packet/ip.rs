//! IP itself, and what all packets have in common.

use std::fmt;
use std::net::IpAddr;

use etherparse::{IpNumber, IpSlice};

/// The hop limit of packets that are composed here.
pub(crate) const HOP_LIMIT: u8 = 64;

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

/// Source and destination.
pub(crate) type Ends = (IpAddr, IpAddr);

/// The addresses, the protocol above IP, and its bytes.
pub(super) fn parse(packet: &[u8]) -> Result<(Ends, IpNumber, &[u8]), Invalid> {
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

/// The differentiated services code point of an IP packet (RFC 2474), by which programs ask for a treatment.
pub fn dscp(packet: &[u8]) -> Option<u8> {
    Some(match IpSlice::from_slice(packet).ok()? {
        IpSlice::Ipv4(v4) => v4.header().dcp().value(),
        // After the version, 4 bits; 2 of ECN follow.
        IpSlice::Ipv6(v6) => v6.header().traffic_class() >> 2,
    })
}

/// Whether the kernel accepts an answer from and to such an address: it is one of a single host, and not of loopback.
pub(crate) fn is_of_a_host(address: IpAddr) -> bool {
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
