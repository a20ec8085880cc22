//! From a snapshot and a policy to the addresses that a connection uses.
//!
//! The rules, for each interface:
//! 1. The policy may forbid it, or not ask for it.
//! 2. It must be up, and not a part of a bridge or bond: then that one has the addresses.
//! 3. A tunnel of somebody else must be named: its packets ride on other interfaces, which are used already.
//! 4. A peer on this very host is reached over loopback, any other peer never.
//! 5. For each peer there must be a usable address of its family and a route. The address that fits the peer best is
//!    taken, and all others that last and reach as far as the peer's: up to 8 of an interface. What they are used for, the
//!    pair mode of the connection decides; by default they only stand in for each other.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use manyway_proto::{ByteCount, Date, LocalAddress, Role, text};

use super::policy::{InterfacePolicy, Verdict};
use crate::ledger::Allowance;

use super::snapshot::{
    AddressState, Interface, InterfaceAddress, InterfaceKind, LinkState, Snapshot, common_bits,
};

/// An own address that a connection may use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Address and interface, with port 0. The interface is 0 for a peer on this host.
    pub local: LocalAddress,
    /// What it is to be used for.
    pub role: Role,
    /// Name of the interface.
    pub name: String,
    /// The largest IP packet of the interface in bytes, if known.
    pub mtu: Option<u32>,
}

/// An interface that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excluded {
    /// Its name.
    pub interface: String,
    /// Why not.
    pub reason: Exclusion,
}

/// Why an interface is not used; the later in this list, the closer it came to being used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// It was asked for but does not exist.
    NotThere,
    /// The user said no.
    ByUser,
    /// The user named others.
    NotNamed,
    /// The user wants addresses of the other family only.
    FamilyNotWanted,
    /// This program itself carries it.
    OwnTunnel,
    /// What may go over it is used up.
    CapReached {
        /// How much that was.
        cap: ByteCount,
        /// When there is more.
        renewal: Option<Date>,
    },
    /// Switched off.
    Down,
    /// No cable, or no radio network.
    NoCarrier,
    /// A bridge or bond has it.
    PartOf {
        /// Its name.
        whole: String,
    },
    /// It rides on other interfaces and was not named.
    Tunnel {
        /// The system's word for it.
        kind: String,
    },
    /// The peer is not on this host.
    Loopback,
    /// The peer is on this host.
    PeerIsLocal,
    /// It has no address at all.
    NoAddress,
    /// It has no address of a family that the peer has.
    NoAddressOfFamily,
    /// The system still checks whether its address is free, or no longer wants it used.
    AddressNotReady,
    /// The address is good for the link alone, and the peer is not on it.
    LinkLocal,
    /// Another address of the interface fits better.
    OtherAddress,
    /// No route leads through it to the peer.
    NoRoute,
}

impl Exclusion {
    /// Whether the interface stays out as long as the wishes of the user, the peer and the period of a cap are the same.
    /// Any other interface may come back at any moment.
    pub(crate) fn lasts(&self) -> bool {
        match self {
            Self::ByUser
            | Self::NotNamed
            | Self::FamilyNotWanted
            | Self::OwnTunnel
            | Self::CapReached { .. }
            | Self::Tunnel { .. }
            | Self::Loopback
            | Self::PeerIsLocal => true,
            Self::NotThere
            | Self::Down
            | Self::NoCarrier
            | Self::PartOf { .. }
            | Self::NoAddress
            | Self::NoAddressOfFamily
            | Self::AddressNotReady
            | Self::LinkLocal
            | Self::OtherAddress
            | Self::NoRoute => false,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => write!(f, "there is no such interface"),
            Self::ByUser => write!(f, "excluded by the user"),
            Self::NotNamed => write!(f, "other interfaces were named; add --interface for this one"),
            Self::FamilyNotWanted => write!(f, "the other address family was asked for"),
            Self::OwnTunnel => write!(f, "it is our own tunnel"),
            Self::CapReached { cap, renewal } => f.write_str(&text::cap_reached(Some(*cap), *renewal)),
            Self::Down => write!(f, "it is switched off; `ip link set dev NAME up`"),
            Self::NoCarrier => write!(f, "no carrier: no cable or no radio network"),
            Self::PartOf { whole } => write!(f, "it is a part of {whole}, which is used instead"),
            Self::Tunnel { kind } => {
                write!(f, "it is a {kind} tunnel over other interfaces; name it with --interface to use it")
            }
            Self::Loopback => write!(f, "loopback does not lead to another host"),
            Self::PeerIsLocal => write!(f, "the peer is on this host and reached over loopback"),
            Self::NoAddress => write!(f, "it has no address"),
            Self::NoAddressOfFamily => write!(f, "it has no address of the peer's family (IPv4 or IPv6)"),
            Self::AddressNotReady => write!(f, "its address is not ready yet or is being given up"),
            Self::LinkLocal => write!(f, "link-local: it leads no farther than the link"),
            Self::OtherAddress => write!(f, "another address of the interface is used"),
            Self::NoRoute => write!(f, "no route leads through it to the peer"),
        }
    }
}

/// Most addresses of an interface that are taken.
const MOST_OF_AN_INTERFACE: usize = 8;

/// What a connection uses, and what not and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Selection {
    /// By interface; of each the one that fits each peer best, in the order of the peers, then the next ones.
    pub candidates: Vec<Candidate>,
    /// Every interface that gave no candidate.
    pub excluded: Vec<Excluded>,
}

impl Snapshot {
    /// Picks the addresses from which at least one of the peers can be reached.
    ///
    /// Without peers, every address by which another host may reach this one.
    pub fn usable(&self, policy: &InterfacePolicy, peers: &[SocketAddr]) -> Selection {
        let mut selection = Selection::default();
        for interface in &self.interfaces {
            match self.candidates_of(interface, policy, peers) {
                Ok(mut candidates) => selection.candidates.append(&mut candidates),
                Err(reason) => {
                    selection.excluded.push(Excluded { interface: interface.name.clone(), reason });
                }
            }
        }
        let missing = policy.wanted().filter(|pattern| {
            pattern.is_literal() && !self.interfaces.iter().any(|i| pattern.matches(&i.name))
        });
        selection.excluded.extend(
            missing.map(|pattern| Excluded { interface: pattern.to_string(), reason: Exclusion::NotThere }),
        );
        selection
    }

    /// The candidates of one interface, at least one, or why there is none.
    fn candidates_of(
        &self,
        interface: &Interface,
        policy: &InterfacePolicy,
        peers: &[SocketAddr],
    ) -> Result<Vec<Candidate>, Exclusion> {
        let role = permission(interface, policy)?;
        let mut rankings: Vec<Vec<LocalAddress>> = Vec::new();
        let mut closest: Option<Exclusion> = None;
        let mut collect = |result: Result<Vec<LocalAddress>, Exclusion>| match result {
            Ok(ranking) => rankings.push(ranking),
            Err(reason) => closest = closest.take().max(Some(reason)),
        };
        if peers.is_empty() {
            let families = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
            families
                .into_iter()
                .filter(|like| policy.allows(*like))
                .for_each(|like| collect(any_addresses(interface, like)));
        }
        for peer in peers {
            if policy.allows(peer.ip()) {
                collect(self.addresses_towards(interface, *peer));
            } else {
                collect(Err(Exclusion::FamilyNotWanted));
            }
        }
        let locals = by_turns(&rankings);
        if locals.is_empty() {
            return Err(closest.unwrap_or(Exclusion::NoAddress));
        }
        let candidate = |local| Candidate { local, role, name: interface.name.clone(), mtu: interface.mtu };
        Ok(locals.into_iter().map(candidate).collect())
    }

    /// The addresses of an interface from which a peer can be reached, the fittest first; at least one.
    fn addresses_towards(
        &self,
        interface: &Interface,
        peer: SocketAddr,
    ) -> Result<Vec<LocalAddress>, Exclusion> {
        let peer_ip = peer.ip().to_canonical();
        match (self.is_own(peer_ip), &interface.kind) {
            (true, InterfaceKind::Loopback) => return Ok(vec![on_this_host(peer_ip)]),
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

/// How well an own address fits a peer; the order of the fields is the policy.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "a ranking: each question is answered by yes or no")]
struct Fitness {
    /// The administrator chose it.
    preferred_by_route: bool,
    /// No router between.
    on_link: bool,
    /// Both lead equally far.
    same_reach: bool,
    /// A connection should outlive a temporary address.
    lasting: bool,
    /// RFC 6724, section 5, rule 8.
    common_bits: Option<u32>,
}

/// How far an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    World,
    /// Unique local addresses (RFC 4193) do not leave a site.
    Site,
    /// Those that IPv4 hosts give themselves (RFC 3927) do not leave the link.
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

/// The first of each ranking, then the second ones, and so on, each address once and not too many.
fn by_turns(rankings: &[Vec<LocalAddress>]) -> Vec<LocalAddress> {
    let mut locals: Vec<LocalAddress> = Vec::new();
    for turn in 0..rankings.iter().map(Vec::len).max().unwrap_or(0) {
        for local in rankings.iter().filter_map(|ranking| ranking.get(turn)) {
            if !locals.contains(local) {
                locals.push(*local);
            }
        }
    }
    locals.truncate(MOST_OF_AN_INTERFACE);
    locals
}

/// Rules 1 to 3: whether the interface may be used at all, and what for.
fn permission(interface: &Interface, policy: &InterfacePolicy) -> Result<Role, Exclusion> {
    let (role, named) = match policy.verdict(&interface.name) {
        Verdict::Named(role) => (role, true),
        Verdict::Open => (Role::default(), false),
        Verdict::NotNamed => return Err(Exclusion::NotNamed),
        Verdict::Excluded => return Err(Exclusion::ByUser),
        Verdict::OwnTunnel => return Err(Exclusion::OwnTunnel),
        Verdict::Spent(Allowance { cap, renewal, .. }) => return Err(Exclusion::CapReached { cap, renewal }),
    };
    match interface.state {
        LinkState::Down => return Err(Exclusion::Down),
        LinkState::NoCarrier => return Err(Exclusion::NoCarrier),
        LinkState::Up => {}
    }
    if let Some(whole) = &interface.part_of {
        return Err(Exclusion::PartOf { whole: whole.clone() });
    }
    match &interface.kind {
        InterfaceKind::Tunnel { kind } if !named => Err(Exclusion::Tunnel { kind: kind.clone() }),
        InterfaceKind::Tunnel { .. }
        | InterfaceKind::Loopback
        | InterfaceKind::Ordinary
        | InterfaceKind::Tun => Ok(role),
    }
}

/// Packets to an own address never leave the host; the system finds the way.
fn on_this_host(peer: IpAddr) -> LocalAddress {
    let own = match peer {
        IpAddr::V4(v4) if v4.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(_) | IpAddr::V6(_) => peer,
    };
    LocalAddress { interface: 0, address: SocketAddr::new(own, 0) }
}

/// A link-local peer is reached through the interface that its scope names, from a link-local address.
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

/// The addresses of the family of `like` by which others may reach this host, those that last and lead far first; at
/// least one.
fn any_addresses(interface: &Interface, like: IpAddr) -> Result<Vec<LocalAddress>, Exclusion> {
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
