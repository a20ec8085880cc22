//! The addresses of a pair.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manyway_proto::LocalAddress;

use crate::ids::InterfaceId;
use crate::link::LinkConfig;

/// The UDP port of the client's sockets.
pub const CLIENT_PORT: u16 = 40_000;
/// The UDP port of the server's sockets.
pub const SERVER_PORT: u16 = 4_433;

/// Kind of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv4: 28 bytes of headers on every datagram.
    #[default]
    V4,
    /// IPv6: 48 bytes of headers on every datagram.
    V6,
}

impl Family {
    pub(super) fn client(self, path: usize, host: u16) -> IpAddr {
        let path = u16::try_from(path).unwrap_or(u16::MAX);
        match self {
            Self::V4 => {
                let ([high, low], [_, host]) = (path.to_be_bytes(), host.to_be_bytes());
                Ipv4Addr::new(10, high, low, host).into()
            }
            Self::V6 => Ipv6Addr::new(0xFD00, 0, 0, path, 0, 0, 0, host).into(),
        }
    }

    pub(super) fn outer(self, path: usize) -> IpAddr {
        let path = u16::try_from(path).unwrap_or(u16::MAX);
        match self {
            Self::V4 => {
                let [high, low] = path.to_be_bytes();
                Ipv4Addr::new(100, 64 | high, low, 1).into()
            }
            Self::V6 => Ipv6Addr::new(0x2001, 0xDB8, 1, path, 0, 0, 0, 1).into(),
        }
    }

    pub(super) fn server(self, number: usize) -> IpAddr {
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        match self {
            Self::V4 => {
                let [high, low] = number.to_be_bytes();
                Ipv4Addr::new(172, 16, high, low.wrapping_add(1)).into()
            }
            Self::V6 => Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, number, 1).into(),
        }
    }

    pub(super) const fn overhead(self) -> u16 {
        match self {
            Self::V4 => LinkConfig::IPV4_UDP,
            Self::V6 => LinkConfig::IPV6_UDP,
        }
    }
}

/// The addresses of a client as its machine must know them.
pub(super) fn locals(addresses: &[(InterfaceId, IpAddr)]) -> Vec<LocalAddress> {
    addresses.iter().map(|(id, address)| address_of(*id, *address, CLIENT_PORT)).collect()
}

pub(super) fn address_of(interface: InterfaceId, address: IpAddr, port: u16) -> LocalAddress {
    LocalAddress { interface: interface.index, address: SocketAddr::new(address, port) }
}
