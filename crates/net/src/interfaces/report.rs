//! Every address of this host, and why it is used or not.

use std::net::{IpAddr, SocketAddr};

use manyway_proto::Role;

use super::exclusion::{Excluded, Exclusion};
use super::policy::InterfacePolicy;
use super::snapshot::{
    AddressState, Interface, InterfaceAddress, InterfaceKind, LinkState, Prefix, Snapshot,
};

/// An address of an interface, or an interface without any.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressReport {
    /// Name of the interface.
    pub interface: String,
    /// What the interface is; `None` if it does not exist.
    pub kind: Option<InterfaceKind>,
    /// Whether the interface can carry packets; `None` if it does not exist.
    pub state: Option<LinkState>,
    /// The largest IP packet in bytes, if known.
    pub mtu: Option<u32>,
    /// The address; `None` if the interface has none.
    pub address: Option<Prefix>,
    /// Its role; `None` if it is not used.
    pub role: Option<Role>,
    /// Why it is not used.
    pub excluded: Option<Exclusion>,
}

impl Snapshot {
    /// Reports for every address, and every interface without one, whether a connection to `peers` uses it: the
    /// selection of [`usable`](Self::usable), and the reason for each that it leaves out.
    pub fn addresses(&self, policy: &InterfacePolicy, peers: &[SocketAddr]) -> Vec<AddressReport> {
        let selection = self.usable(policy, peers);
        let mut report = Vec::new();
        for interface in &self.interfaces {
            if interface.addresses.is_empty() {
                let reason = excluded_for(&selection.excluded, &interface.name);
                report.push(row(interface, None, Err(reason.unwrap_or(Exclusion::NoAddress))));
            }
            for own in &interface.addresses {
                let ip = own.prefix.address;
                let is_local = interface.kind == InterfaceKind::Loopback;
                let chosen = selection.candidates.iter().find(|candidate| {
                    let here = candidate.local.interface == interface.index
                        || candidate.local.interface == 0 && is_local && candidate.name == interface.name;
                    here && candidate.local.address.ip() == ip
                });
                let verdict = chosen.map(|candidate| candidate.role).ok_or_else(|| {
                    let whole = excluded_for(&selection.excluded, &interface.name);
                    whole.unwrap_or_else(|| not_chosen(own, policy, peers))
                });
                report.push(row(interface, Some(own.prefix), verdict));
            }
        }
        let missing =
            selection.excluded.into_iter().filter(|excluded| excluded.reason == Exclusion::NotThere);
        report.extend(missing.map(|excluded| AddressReport {
            interface: excluded.interface,
            kind: None,
            state: None,
            mtu: None,
            address: None,
            role: None,
            excluded: Some(Exclusion::NotThere),
        }));
        report
    }
}

fn row(interface: &Interface, address: Option<Prefix>, verdict: Result<Role, Exclusion>) -> AddressReport {
    AddressReport {
        interface: interface.name.clone(),
        kind: Some(interface.kind.clone()),
        state: Some(interface.state),
        mtu: interface.mtu,
        address,
        role: verdict.as_ref().ok().copied(),
        excluded: verdict.err(),
    }
}

fn excluded_for(excluded: &[Excluded], name: &str) -> Option<Exclusion> {
    excluded.iter().find(|excluded| excluded.interface == name).map(|excluded| excluded.reason.clone())
}

/// Why an address is not used although another one of its interface is.
fn not_chosen(own: &InterfaceAddress, policy: &InterfacePolicy, peers: &[SocketAddr]) -> Exclusion {
    let ip = own.prefix.address;
    if !policy.allows(ip) {
        return Exclusion::FamilyNotWanted;
    }
    if own.state != AddressState::Ready {
        return Exclusion::AddressNotReady;
    }
    if matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
        return Exclusion::LinkLocal;
    }
    let of_family = |peer: &SocketAddr| peer.ip().to_canonical().is_ipv4() == ip.is_ipv4();
    if !peers.is_empty() && !peers.iter().any(of_family) {
        return Exclusion::NoAddressOfFamily;
    }
    Exclusion::OtherAddress
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::{AddressFamily, Route};

    fn host() -> Snapshot {
        let address = |text: &str, length| InterfaceAddress::new(text.parse().unwrap(), length);
        let mut lo = Interface::new(1, "lo");
        lo.kind = InterfaceKind::Loopback;
        lo.addresses = vec![address("127.0.0.1", 8), address("::1", 128)];
        let mut eth = Interface::new(2, "eth0");
        eth.addresses = vec![
            address("192.0.2.7", 24),
            address("192.0.2.8", 24),
            address("2001:db8::7", 64),
            InterfaceAddress { temporary: true, ..address("2001:db8::8", 64) },
            address("fe80::7", 64),
        ];
        let mut down = Interface::new(3, "wlan0");
        down.state = LinkState::Down;
        let everywhere = |text: &str| Prefix { address: text.parse().unwrap(), length: 0 };
        let routes = vec![Route::new(2, everywhere("0.0.0.0")), Route::new(2, everywhere("::"))];
        Snapshot::new(vec![lo, eth, down], Some(routes))
    }

    fn told(policy: &InterfacePolicy, peers: &[&str]) -> String {
        let peers: Vec<SocketAddr> = peers.iter().map(|peer| peer.parse().unwrap()).collect();
        let rows = host().addresses(policy, &peers).into_iter().map(|row| {
            let address = row.address.map_or_else(|| "-".to_owned(), |prefix| prefix.to_string());
            let verdict = row
                .excluded
                .map_or_else(|| format!("used as {}", row.role.unwrap()), |reason| reason.to_string());
            format!("{} {address}: {verdict}", row.interface)
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_address_is_reported_once_with_its_reason() {
        insta::assert_snapshot!(told(&InterfacePolicy::new().with("wwan0".parse().unwrap()).with("*".parse().unwrap()), &[]), @r"
        lo 127.0.0.1/8: loopback
        lo ::1/128: loopback
        eth0 192.0.2.7/24: used as primary
        eth0 192.0.2.8/24: used as primary
        eth0 2001:db8::7/64: used as primary
        eth0 2001:db8::8/64: another address of the interface is used
        eth0 fe80::7/64: link-local, not routable
        wlan0 -: it is switched off
        wwan0 -: no such interface
        ");
    }

    #[test]
    fn towards_a_peer_the_route_and_the_family_count() {
        insta::assert_snapshot!(told(&InterfacePolicy::new(), &["198.51.100.1:4455"]), @r"
        lo 127.0.0.1/8: loopback
        lo ::1/128: loopback
        eth0 192.0.2.7/24: used as primary
        eth0 192.0.2.8/24: used as primary
        eth0 2001:db8::7/64: it has no address of the peer's family (IPv4 or IPv6)
        eth0 2001:db8::8/64: it has no address of the peer's family (IPv4 or IPv6)
        eth0 fe80::7/64: link-local, not routable
        wlan0 -: it is switched off
        ");
    }

    #[test]
    fn the_selected_family_excludes_the_other() {
        let policy = InterfacePolicy::new().only(AddressFamily::V6);
        insta::assert_snapshot!(told(&policy, &["198.51.100.1:4455", "[2001:db8::1]:4455"]), @r"
        lo 127.0.0.1/8: loopback
        lo ::1/128: loopback
        eth0 192.0.2.7/24: the other address family was asked for
        eth0 192.0.2.8/24: the other address family was asked for
        eth0 2001:db8::7/64: used as primary
        eth0 2001:db8::8/64: another address of the interface is used
        eth0 fe80::7/64: link-local, not routable
        wlan0 -: it is switched off
        ");
        let selection = host().usable(&policy, &["198.51.100.1:4455".parse().unwrap()]);
        assert!(selection.candidates.is_empty());
        assert_eq!(selection.excluded[1].reason, Exclusion::FamilyNotWanted);
    }
}
