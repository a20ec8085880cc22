//! The addresses of one interface from which a peer can be reached, ranked.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use manyway_proto::LocalAddress;

use super::exclusion::Exclusion;
use super::snapshot::{
    AddressState, Interface, InterfaceAddress, InterfaceKind, LinkState, Snapshot, common_bits,
};

impl Snapshot {
    /// The addresses of an interface from which a peer can be reached, the best first; at least one.
    pub(super) fn addresses_towards(
        &self,
        interface: &Interface,
        peer: SocketAddr,
    ) -> Result<Vec<LocalAddress>, Exclusion> {
        let peer_ip = peer.ip().to_canonical();
        match (self.is_own(peer_ip), &interface.kind) {
            (true, InterfaceKind::Loopback) => return Ok(vec![on_this_host(peer)]),
            (true, _) => return Err(Exclusion::PeerIsLocal),
            (false, InterfaceKind::Loopback) => return Err(Exclusion::Loopback),
            (false, InterfaceKind::Ordinary | InterfaceKind::Tun | InterfaceKind::Tunnel { .. }) => {}
        }
        if let SocketAddr::V6(v6) = peer
            && v6.ip().is_unicast_link_local()
        {
            return link_local_address(interface, v6).map(|local| vec![local]);
        }
        let mut usable = usable_addresses(interface, peer_ip)?;
        let mut preferred_source = None;
        if let Some(routes) = &self.routes {
            let best = routes
                .iter()
                .filter(|r| r.interface == interface.index && r.destination.contains(peer_ip))
                .max_by_key(|route| route.destination.length)
                .ok_or(Exclusion::NoRoute)?;
            preferred_source = best.source;
        }
        let same_reach = |own: &InterfaceAddress| reach(own.prefix.address) == reach(peer_ip);
        let fitness = |own: &InterfaceAddress| Fitness {
            preferred_by_route: preferred_source == Some(own.prefix.address),
            on_link: own.prefix.contains(peer_ip),
            same_reach: same_reach(own),
            lasting: !own.temporary,
            common_bits: common_bits(own.prefix.address, peer_ip),
        };
        // Of equals the system's first address is its main one.
        usable.sort_by_key(|own| Reverse(fitness(own)));
        Ok(first_and(interface, usable, same_reach))
    }
}

/// How well a local address fits a peer; the order of the fields is the policy.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a ranking: each question is answered by yes or no")]
struct Fitness {
    /// The route of the administrator names it as source.
    preferred_by_route: bool,
    /// No router lies between.
    on_link: bool,
    /// Both have the same scope.
    same_reach: bool,
    /// A connection should outlive a temporary address.
    lasting: bool,
    /// RFC 6724, section 5, rule 8.
    common_bits: Option<u32>,
}

/// The scope of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    World,
    /// Unique local addresses (RFC 4193) do not leave a site.
    Site,
    /// IPv4 link-local addresses (RFC 3927) do not leave the link.
    Link,
}

fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Reach::Link,
        IpAddr::V6(v6) if v6.is_unique_local() => Reach::Site,
        IpAddr::V4(_) | IpAddr::V6(_) => Reach::World,
    }
}

/// The first of `ranked`, and those of the others that fit and last.
fn first_and(
    interface: &Interface,
    ranked: Vec<&InterfaceAddress>,
    fits: impl Fn(&InterfaceAddress) -> bool,
) -> Vec<LocalAddress> {
    let taken =
        ranked.into_iter().enumerate().filter(|(place, own)| *place == 0 || (!own.temporary && fits(own)));
    let local = |own: &InterfaceAddress| LocalAddress {
        interface: interface.index,
        address: SocketAddr::new(own.prefix.address, 0),
    };
    taken.map(|(_, own)| local(own)).collect()
}

/// Packets to a local address never leave the host; the system chooses the route.
fn on_this_host(peer: SocketAddr) -> LocalAddress {
    let mut address = match peer.ip().to_canonical() {
        IpAddr::V4(v4) if v4.is_loopback() => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), 0),
        // A link-local address needs its zone.
        IpAddr::V6(_) => peer,
    };
    address.set_port(0);
    LocalAddress { interface: 0, address }
}

impl Snapshot {
    /// Replaces each link-local peer without a zone by one address for each interface that may lead to it; the others
    /// stay as they are.
    pub fn with_scopes(&self, peers: &[SocketAddr]) -> Vec<SocketAddr> {
        let links = || self.interfaces.iter().filter(|interface| !link_locals(interface).is_empty());
        let scoped = |peer: &SocketAddr| match *peer {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
                let behind = |link: &Interface| SocketAddrV6::new(*v6.ip(), v6.port(), 0, link.index).into();
                links().map(behind).collect()
            }
            SocketAddr::V4(_) | SocketAddr::V6(_) => vec![*peer],
        };
        peers.iter().flat_map(scoped).collect()
    }

    /// The link-local addresses of this host (IPv6), by which hosts on its links reach it.
    pub(crate) fn link_locals(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.interfaces.iter().flat_map(link_locals)
    }
}

/// The link-local addresses of an interface that carries packets to other hosts.
fn link_locals(interface: &Interface) -> Vec<Ipv6Addr> {
    let carries = interface.state == LinkState::Up
        && interface.part_of.is_none()
        && matches!(interface.kind, InterfaceKind::Ordinary | InterfaceKind::Tun);
    let ready = |own: &InterfaceAddress| match own.prefix.address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() && own.state == AddressState::Ready => Some(v6),
        IpAddr::V6(_) | IpAddr::V4(_) => None,
    };
    let addresses = interface.addresses.iter().filter(|_| carries);
    addresses.filter_map(ready).collect()
}

/// A link-local peer is reached through the interface of its zone, from a link-local address.
fn link_local_address(interface: &Interface, peer: SocketAddrV6) -> Result<LocalAddress, Exclusion> {
    if peer.scope_id() != 0 && peer.scope_id() != interface.index {
        return Err(Exclusion::NoRoute);
    }
    let own = interface.addresses.iter().find_map(|own| match own.prefix.address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() && own.state == AddressState::Ready => Some(v6),
        IpAddr::V6(_) | IpAddr::V4(_) => None,
    });
    let own = own.ok_or(Exclusion::NoAddressOfFamily)?;
    let address = SocketAddr::V6(SocketAddrV6::new(own, 0, 0, interface.index));
    Ok(LocalAddress { interface: interface.index, address })
}

/// The addresses of the family of `like` by which others may reach this host, lasting ones with a wide scope first; at
/// least one.
pub(super) fn any_addresses(interface: &Interface, like: IpAddr) -> Result<Vec<LocalAddress>, Exclusion> {
    if interface.kind == InterfaceKind::Loopback {
        return Err(Exclusion::Loopback);
    }
    let mut usable = usable_addresses(interface, like)?;
    usable.sort_by_key(|own| (own.temporary, reach(own.prefix.address)));
    Ok(first_and(interface, usable, |own| reach(own.prefix.address) != Reach::Link))
}

/// The addresses of the family of `like` that may be used beyond the link, at least one.
fn usable_addresses(interface: &Interface, like: IpAddr) -> Result<Vec<&InterfaceAddress>, Exclusion> {
    if interface.addresses.is_empty() {
        return Err(Exclusion::NoAddress);
    }
    let of_family = |own: &&InterfaceAddress| match own.prefix.address {
        IpAddr::V4(_) => like.is_ipv4(),
        IpAddr::V6(v6) => like.is_ipv6() && !v6.is_unicast_link_local(),
    };
    let all: Vec<_> = interface.addresses.iter().filter(of_family).collect();
    if all.is_empty() {
        return Err(Exclusion::NoAddressOfFamily);
    }
    let ready: Vec<_> = all.into_iter().filter(|own| own.state == AddressState::Ready).collect();
    if ready.is_empty() { Err(Exclusion::AddressNotReady) } else { Ok(ready) }
}
