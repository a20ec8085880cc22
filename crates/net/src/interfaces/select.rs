//! Selects the addresses that a connection uses, from a snapshot and a policy.
//!
//! The rules, for each interface:
//! 1. The policy may forbid it, or not ask for it.
//! 2. It must be up, carry packets as large as every path must, and not be a port of a bridge or bond, which then has
//!    the addresses.
//! 3. A tunnel of another program must be named: its packets travel over other interfaces, which are used already.
//! 4. A peer on this very host is reached over loopback, any other peer never.
//! 5. For each peer there must be a usable address of its family and a route. The address that fits the peer best is
//!    selected, and all others that last and reach as far as the peer's: up to 8 of an interface. The pair mode of the
//!    connection decides about their use; by default they only stand in for each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manyway_proto::{LocalAddress, Role};

use super::addresses::any_addresses;
use super::exclusion::{Excluded, Exclusion, LEAST_MTU};
use super::policy::{InterfacePolicy, Verdict};
use super::snapshot::{Interface, InterfaceKind, LinkState, Snapshot};
use crate::ledger::Allowance;

/// A local address that a connection may use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Address and interface, with port 0. The interface is 0 for a peer on this host.
    pub local: LocalAddress,
    /// Its role.
    pub role: Role,
    /// Name of the interface.
    pub name: String,
    /// The largest IP packet of the interface in bytes, if known.
    pub mtu: Option<u32>,
}

/// Most addresses of one interface that are selected.
const MOST_OF_AN_INTERFACE: usize = 8;

/// The selected addresses, and the reasons for the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Selection {
    /// By interface; of each the address that fits each peer best, in the order of the peers, then the next ones.
    pub candidates: Vec<Candidate>,
    /// Every interface that gave no candidate.
    pub excluded: Vec<Excluded>,
}

impl Snapshot {
    /// Selects the addresses from which at least one of the peers can be reached.
    ///
    /// Without peers, every address by which another host may reach this one.
    pub fn usable(&self, policy: &InterfacePolicy, peers: &[SocketAddr]) -> Selection {
        if let Some(sources) = &self.unlisted {
            return Self::unbound(policy, peers, sources);
        }
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
}

/// The first of each ranking, then the second ones, and so on, each address once, up to the limit.
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

/// Rules 1 to 3: whether the interface may be used, and in which role.
fn permission(interface: &Interface, policy: &InterfacePolicy) -> Result<Role, Exclusion> {
    let (role, named) = match policy.verdict(&interface.name) {
        Verdict::Named(role) => (role, true),
        Verdict::Open => (Role::default(), false),
        Verdict::NotNamed => return Err(Exclusion::NotNamed),
        Verdict::Excluded => return Err(Exclusion::ByUser),
        Verdict::OwnTunnel => return Err(Exclusion::OwnTunnel),
        Verdict::CapReached(Allowance { cap, renewal, .. }) => {
            return Err(Exclusion::CapReached { cap, renewal });
        }
    };
    match interface.state {
        LinkState::Down => return Err(Exclusion::Down),
        LinkState::NoCarrier => return Err(Exclusion::NoCarrier),
        LinkState::Up => {}
    }
    if let Some(mtu) = interface.mtu.filter(|mtu| *mtu < LEAST_MTU) {
        return Err(Exclusion::MtuTooSmall { mtu });
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
