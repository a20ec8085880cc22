//! A host that does not list its interfaces: sandboxes, Android and service managers may forbid netlink, which
//! `getifaddrs` needs too.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::task::{Context, Poll};

use manyway_proto::LocalAddress;

use super::exclusion::{Excluded, Exclusion};
use super::policy::{InterfacePattern, InterfacePolicy};
use super::select::{Candidate, Selection};
use super::snapshot::Snapshot;
use super::source::{Hint, InterfaceSource};

/// Knows only the source address that the system's own routes choose.
#[derive(Debug, Default)]
pub(super) struct UnlistedSource;

impl InterfaceSource for UnlistedSource {
    fn snapshot(&mut self) -> io::Result<Snapshot> {
        // Reserved for documentation, so the default route leads there if there is one.
        let far =
            [IpAddr::from([192, 0, 2, 1]), IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];
        Ok(Snapshot {
            unlisted: Some(far.into_iter().filter_map(source_towards).collect()),
            ..Snapshot::default()
        })
    }

    fn poll_hint(&mut self, _: &mut Context<'_>) -> Poll<Hint> {
        Poll::Pending
    }
}

impl Snapshot {
    /// As [`usable`](Self::usable), where only `sources` are known: sockets without a bound address, so that the system
    /// routes each packet.
    pub(super) fn unbound(policy: &InterfacePolicy, peers: &[SocketAddr], sources: &[IpAddr]) -> Selection {
        let excluded = |pattern: &InterfacePattern| Excluded {
            interface: pattern.to_string(),
            reason: Exclusion::NotListed,
        };
        let mut selection =
            Selection { excluded: policy.named().map(excluded).collect(), ..Selection::default() };
        if !selection.excluded.is_empty() {
            return selection;
        }
        let mut add = |ip: IpAddr| {
            let local = LocalAddress { interface: 0, address: SocketAddr::new(ip, 0) };
            let is_new = selection.candidates.iter().all(|known: &Candidate| known.local != local);
            if is_new && policy.allows(ip) {
                let (role, name) = (manyway_proto::Role::default(), NAME.to_owned());
                selection.candidates.push(Candidate { local, role, name, mtu: None });
            }
        };
        if peers.is_empty() {
            sources.iter().for_each(|ip| add(*ip));
        }
        for peer in peers {
            if source_towards(peer.ip().to_canonical()).is_some() {
                add(if peer.ip().to_canonical().is_ipv4() {
                    Ipv4Addr::UNSPECIFIED.into()
                } else {
                    Ipv6Addr::UNSPECIFIED.into()
                });
            }
        }
        if selection.candidates.is_empty() {
            selection.excluded.push(Excluded { interface: NAME.to_owned(), reason: Exclusion::NoRoute });
        }
        selection
    }
}

/// Replaces the name of an interface.
const NAME: &str = "the system's route";

/// The source address of the system's route to another address; nothing is sent.
fn source_towards(ip: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((ip, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unlisted() -> Snapshot {
        Snapshot { unlisted: Some(vec![[192, 0, 2, 7].into()]), ..Snapshot::default() }
    }

    #[test]
    fn a_host_that_lists_no_interfaces_has_one_unbound_address_towards_a_peer() {
        let peers: [SocketAddr; 2] = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()];
        let selection = unlisted().usable(&InterfacePolicy::new(), &peers);
        let locals: Vec<_> = selection.candidates.iter().map(|candidate| candidate.local).collect();
        let unbound = LocalAddress { interface: 0, address: ([0, 0, 0, 0], 0).into() };
        assert_eq!((locals, selection.excluded), (vec![unbound], vec![]));
        let for_others = unlisted().usable(&InterfacePolicy::new(), &[]);
        assert_eq!(for_others.candidates[0].local.address, ([192, 0, 2, 7], 0).into());
        assert!(unlisted().is_own([192, 0, 2, 7].into()));
    }

    #[test]
    fn a_named_interface_cannot_be_selected_where_none_is_listed() {
        let peers = [([127, 0, 0, 1], 1).into()];
        let named = InterfacePolicy::new().with("eth0".parse().unwrap());
        let left_out = InterfacePolicy::new().without("wwan0".parse().unwrap());
        for (policy, name) in [(named, "eth0"), (left_out, "wwan0")] {
            let selection = unlisted().usable(&policy, &peers);
            assert!(selection.candidates.is_empty());
            let expected = Excluded { interface: name.to_owned(), reason: Exclusion::NotListed };
            assert_eq!(selection.excluded, [expected]);
        }
    }
}
