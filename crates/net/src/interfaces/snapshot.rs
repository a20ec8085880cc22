//! The state of the interfaces at one moment.

use std::fmt;
use std::net::IpAddr;

/// All interfaces and routes of this host at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// In the order of their indices.
    pub interfaces: Vec<Interface>,
    /// Where unicast packets may go; `None` if unknown, then each interface with an address is taken to lead
    /// everywhere.
    pub routes: Option<Vec<Route>>,
    /// Where the system does not list its interfaces: the source addresses that its routes choose for other hosts.
    pub unlisted: Option<Vec<IpAddr>>,
}

impl Snapshot {
    /// Makes a snapshot and sorts the interfaces.
    pub fn new(mut interfaces: Vec<Interface>, routes: Option<Vec<Route>>) -> Self {
        interfaces.sort_by_key(|interface| interface.index);
        Self { interfaces, routes, unlisted: None }
    }

    /// The largest IP packet in bytes for each address of this host, where it is known.
    pub fn mtus(&self) -> Vec<(IpAddr, u32)> {
        let of_interface = |interface: &Interface| {
            let mtu = interface.mtu;
            let addresses = interface.addresses.iter().map(|own| own.prefix.address);
            addresses.filter_map(move |address| Some((address, mtu?))).collect::<Vec<_>>()
        };
        self.interfaces.iter().flat_map(of_interface).collect()
    }

    /// The interface of that index.
    pub fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|interface| interface.index == index)
    }

    /// The interface that has an address.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<&Interface> {
        let has = |it: &&Interface| it.addresses.iter().any(|own| own.prefix.address == address);
        self.interfaces.iter().find(has)
    }

    /// The default router behind an interface.
    pub fn gateway(&self, interface: u32, like: IpAddr) -> Option<IpAddr> {
        let routes = self.routes.iter().flatten();
        let mut defaults =
            routes.filter(|route| route.interface == interface && route.destination.length == 0);
        defaults.find_map(|route| route.gateway.filter(|gateway| gateway.is_ipv4() == like.is_ipv4()))
    }

    /// The neighbour that packets to an address go to over an interface: the host itself, or a router; `None` if routes of
    /// the same length lead to different ones.
    pub(crate) fn next_hop(&self, interface: u32, remote: IpAddr) -> Option<IpAddr> {
        let leads_there = |route: &&Route| route.interface == interface && route.destination.contains(remote);
        let routes: Vec<_> = self.routes.iter().flatten().filter(leads_there).collect();
        let longest = routes.iter().map(|route| route.destination.length).max();
        let mut best = routes.iter().filter(|route| Some(route.destination.length) == longest);
        // A packet of a socket that is bound to the interface needs no route.
        let hop = best.next().map_or(remote, |route| route.gateway.unwrap_or(remote));
        best.all(|route| route.gateway.unwrap_or(remote) == hop).then_some(hop)
    }

    /// Whether the address is one of this host.
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback()
            || self.unlisted.iter().flatten().any(|own| *own == address)
            || self.interfaces.iter().any(|i| i.addresses.iter().any(|own| own.prefix.address == address))
    }
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// The system's index, never 0. An index is not reused soon.
    pub index: u32,
    /// Its name, which may change.
    pub name: String,
    /// Whether it can carry packets.
    pub state: LinkState,
    /// What it is, as far as the system tells.
    pub kind: InterfaceKind,
    /// The bridge or bond that owns it; packets go through that one.
    pub part_of: Option<String>,
    /// The largest IP packet in bytes, if known.
    pub mtu: Option<u32>,
    /// Its addresses in the system's order.
    pub addresses: Vec<InterfaceAddress>,
}

impl Interface {
    /// An ordinary interface that is up and has no address yet.
    pub fn new(index: u32, name: impl Into<String>) -> Self {
        Self {
            index,
            name: name.into(),
            state: LinkState::Up,
            kind: InterfaceKind::Ordinary,
            part_of: None,
            mtu: None,
            addresses: Vec::new(),
        }
    }
}

/// Whether an interface can carry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Set down.
    Down,
    /// Up, but without cable or radio network.
    NoCarrier,
    /// It can carry packets.
    Up,
}

/// The kind of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterfaceKind {
    /// Packets come back to this host.
    Loopback,
    /// Ethernet, Wi-Fi, a modem, a veth: used without being named.
    Ordinary,
    /// TUN or TAP: a program carries the packets, often the only way out of a container.
    Tun,
    /// Its packets travel inside packets of other interfaces: using it beside them would use those twice.
    Tunnel {
        /// The system's name for its kind, for example `wireguard`.
        kind: String,
    },
}

/// Guesses the kind from the name: well-known VPN programs use such names.
pub(super) fn kind_by_name(name: &str) -> Option<InterfaceKind> {
    const FOREIGN: [&str; 10] = [
        "tailscale",
        "zt",
        "wg",
        "utun",
        "nordlynx",
        "nebula",
        "proton",
        "mullvad",
        "CloudflareWARP",
        "ipsec",
    ];
    if let Some(program) = FOREIGN.iter().find(|start| name.starts_with(**start)) {
        return Some(InterfaceKind::Tunnel { kind: (*program).into() });
    }
    (name.starts_with("tun") || name.starts_with("tap")).then_some(InterfaceKind::Tun)
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceAddress {
    /// The address, and the length of the prefix that all hosts on the link share.
    pub prefix: Prefix,
    /// Whether it may be used.
    pub state: AddressState,
    /// The system replaces it after hours or days, for privacy (RFC 8981).
    pub temporary: bool,
}

impl InterfaceAddress {
    /// A permanent address that may be used.
    pub fn new(address: IpAddr, length: u8) -> Self {
        Self { prefix: Prefix { address, length }, state: AddressState::Ready, temporary: false }
    }
}

/// Whether an address may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressState {
    /// May be used.
    Ready,
    /// Duplicate address detection runs, or has failed (RFC 4862, section 5.4).
    Tentative,
    /// Only for existing connections, not for new ones (RFC 4862, section 5.5.4).
    Deprecated,
}

/// An address and a number of leading bits, printed as `192.0.2.7/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address; bits beyond the length are kept but ignored.
    pub address: IpAddr,
    /// How many leading bits count.
    pub length: u8,
}

impl Prefix {
    /// Whether the leading bits of `other` are the same.
    pub fn contains(&self, other: IpAddr) -> bool {
        common_bits(self.address, other).is_some_and(|bits| bits >= u32::from(self.length))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Number of leading bits that two addresses share; `None` if they are of different families.
pub(super) fn common_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        (IpAddr::V6(one), IpAddr::V6(other)) => Some((one.to_bits() ^ other.to_bits()).leading_zeros()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

/// A route: unicast packets to `destination` may leave through `interface`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// Index of the interface.
    pub interface: u32,
    /// Destination; length 0 means everywhere.
    pub destination: Prefix,
    /// The preferred source address, if the route names one.
    pub source: Option<IpAddr>,
    /// The router, if there is one.
    pub gateway: Option<IpAddr>,
}

impl Route {
    /// A route without a preferred source address.
    pub fn new(interface: u32, destination: Prefix) -> Self {
        Self { interface, destination, source: None, gateway: None }
    }
}

/// A host or router of a local network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(manyway_portable))),
    expect(dead_code, reason = "elsewhere none is reported")
)]
pub(crate) struct Neighbour {
    /// The interface to its network.
    pub(crate) interface: u32,
    /// Its address.
    pub(crate) address: IpAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_contains_what_shares_its_bits() {
        let prefix = |address: &str, length| Prefix { address: address.parse().unwrap(), length };
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(prefix("192.0.2.7", 24).contains(ip("192.0.2.200")));
        assert!(!prefix("192.0.2.7", 24).contains(ip("192.0.3.7")));
        assert!(prefix("0.0.0.0", 0).contains(ip("255.1.2.3")));
        assert!(!prefix("0.0.0.0", 0).contains(ip("::1")));
        assert!(prefix("2001:db8::1", 64).contains(ip("2001:db8::ffff")));
        assert!(prefix("192.0.2.7", 32).contains(ip("192.0.2.7")));
        assert!(!prefix("192.0.2.7", 33).contains(ip("192.0.2.7")), "an impossible length matches nothing");
    }

    #[test]
    fn the_next_hop_is_a_router_or_the_host_itself_and_unknown_where_routes_differ() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let route = |interface, address: &str, length, gateway: Option<&str>| Route {
            gateway: gateway.map(ip),
            ..Route::new(interface, Prefix { address: ip(address), length })
        };
        let routes = vec![
            route(2, "0.0.0.0", 0, Some("10.7.1.254")),
            route(2, "10.7.1.0", 24, None),
            route(2, "192.0.2.0", 24, Some("10.7.1.7")),
            route(3, "0.0.0.0", 0, Some("10.7.2.253")),
            route(3, "0.0.0.0", 0, Some("10.7.2.254")),
        ];
        let snapshot = Snapshot::new(Vec::new(), Some(routes));
        let hop = |interface, remote: &str| snapshot.next_hop(interface, ip(remote));
        assert_eq!(hop(2, "203.0.113.5"), Some(ip("10.7.1.254")));
        assert_eq!(hop(2, "10.7.1.9"), Some(ip("10.7.1.9")));
        assert_eq!(hop(2, "192.0.2.9"), Some(ip("10.7.1.7")));
        assert_eq!(hop(3, "203.0.113.5"), None);
        assert_eq!(hop(4, "203.0.113.5"), Some(ip("203.0.113.5")), "without a route");
    }
}
