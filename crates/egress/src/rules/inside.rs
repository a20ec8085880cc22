//! IPv4 addresses inside IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr};

/// The IPv4 addresses that packets to an address may reach by a translator or a tunnel. Where a mechanism has the
/// address in one of several places, all of them.
pub(super) fn inside(address: IpAddr) -> Vec<Ipv4Addr> {
    let IpAddr::V6(v6) = address.to_canonical() else { return Vec::new() };
    let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|at| v6.octets().get(at).copied().unwrap_or(0)));
    let last = at([12, 13, 14, 15]);
    match v6.segments() {
        // Unspecified and loopback addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // NAT64 (RFC 6052, section 2.2): the well-known prefix, and network-specific ones of 48, 56, 64 and 96 bits.
        [0x64, 0xff9b, 1, ..] => vec![at([6, 7, 9, 10]), at([7, 9, 10, 11]), at([9, 10, 11, 12]), last],
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![last],
        // 6to4 (RFC 3056).
        [0x2002, ..] => vec![at([2, 3, 4, 5])],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at([4, 5, 6, 7]), !last],
        // IPv4-compatible addresses, and ISATAP (RFC 5214) in any prefix.
        [0, 0, 0, 0, 0, 0, ..] | [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![last],
        _ => Vec::new(),
    }
}
