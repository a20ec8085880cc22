//! The addresses of this host at which others may reach it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manyway_proto::LocalAddress;

use super::policy::InterfacePolicy;
use super::select::Candidate;
use super::snapshot::Snapshot;

/// The addresses at which others may reach `listening`, for a ticket. Wildcards stand for the addresses of `snapshot`
/// that last and lead beyond their link, at most 8 of an interface; if there is none, for link-local ones (IPv6); if
/// there are none of these either, for loopback.
///
/// One of each family and interface comes first, then the second ones, and so on: a caller with room for some of them
/// takes the first.
pub fn reachable_addresses(listening: &[LocalAddress], snapshot: &Snapshot) -> Vec<SocketAddr> {
    let mut counts: BTreeMap<(u32, bool), usize> = BTreeMap::new();
    let turn = |candidate: Candidate| {
        let LocalAddress { interface, address } = candidate.local;
        let turn = counts.entry((interface, address.is_ipv4())).or_default();
        *turn += 1;
        (*turn, address.ip())
    };
    let selection = snapshot.usable(&InterfacePolicy::default(), &[]);
    let own: Vec<(usize, IpAddr)> = selection.candidates.into_iter().map(turn).collect();
    let mut found = BTreeSet::new();
    for local in listening {
        if local.address.ip().is_unspecified() {
            let fitting = own.iter().filter(|(_, ip)| ip.is_ipv4() == local.address.is_ipv4());
            found.extend(fitting.map(|(turn, ip)| (*turn, SocketAddr::new(*ip, local.address.port()))));
        } else {
            found.insert((0, local.address));
        }
    }
    if found.is_empty() {
        // Two hosts and a cable have no other addresses.
        let wildcards = listening.iter().filter(|local| local.address.ip() == Ipv6Addr::UNSPECIFIED);
        let on_links = wildcards.flat_map(|local| {
            snapshot.link_locals().map(|own| (0, SocketAddr::from((own, local.address.port()))))
        });
        found.extend(on_links);
    }
    if found.is_empty() {
        found.extend(listening.iter().map(|local| match local.address {
            SocketAddr::V4(v4) => (0, SocketAddr::from((Ipv4Addr::LOCALHOST, v4.port()))),
            SocketAddr::V6(v6) => (0, SocketAddr::from((Ipv6Addr::LOCALHOST, v6.port()))),
        }));
    }
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for (_, address) in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}
