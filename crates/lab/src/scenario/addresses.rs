//! Addresses chosen by the lab.

use std::net::{IpAddr, Ipv4Addr};

use super::Side;

/// The default address of an interface, by its index.
pub fn default_address(side: Side, place: usize) -> IpAddr {
    let place = u8::try_from(place).unwrap_or(u8::MAX);
    let net = match side {
        Side::Client => 101,
        Side::Server => 102,
    };
    Ipv4Addr::new(10, net, place, 2).into()
}

/// The outer address of the NAT of a client's interface, by its index.
pub(super) fn default_outer(place: usize) -> IpAddr {
    Ipv4Addr::new(100, 64, u8::try_from(place).unwrap_or(u8::MAX), 1).into()
}
