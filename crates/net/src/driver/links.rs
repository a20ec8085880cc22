//! Tracks which links below a server's paths are lost, and which are back.

use std::collections::BTreeSet;
use std::net::IpAddr;

use manyway_proto::LinkNews;

use crate::interfaces::{Interface, LinkState, Snapshot};

/// The interfaces that can carry packets, and the addresses of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links {
    up: BTreeSet<u32>,
    own: BTreeSet<IpAddr>,
    /// Addresses that this host had and has lost.
    gone: BTreeSet<IpAddr>,
}

/// Most lost addresses that are remembered.
const MOST_GONE: usize = 1024;

impl Links {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let interfaces = &snapshot.interfaces;
        let is_up = |it: &&Interface| it.state == LinkState::Up;
        Self {
            up: interfaces.iter().filter(is_up).map(|it| it.index).collect(),
            own: interfaces.iter().flat_map(|it| &it.addresses).map(|own| own.prefix.address).collect(),
            gone: BTreeSet::new(),
        }
    }

    /// Adds the addresses lost since `before`.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.gone = before.own.union(&before.gone).filter(|ip| !self.own.contains(ip)).copied().collect();
        while self.gone.len() > MOST_GONE {
            self.gone.pop_first();
        }
        self
    }

    /// Whether this host had that address and has lost it.
    pub(super) fn has_lost(&self, own: IpAddr) -> bool {
        self.gone.contains(&own)
    }

    /// The change since `self` of the link that carries packets over an interface from a local address. Packets for an
    /// address may arrive on another interface than its own, and packets of an unknown address may be routed here. So
    /// only a link that was present can be lost.
    pub(super) fn news(&self, now: &Self, interface: u32, own: IpAddr) -> Option<LinkNews> {
        let was_and_is = [
            (self.up.contains(&interface), now.up.contains(&interface)),
            (self.own.contains(&own), now.own.contains(&own)),
        ];
        if was_and_is.contains(&(true, false)) {
            Some(LinkNews::Lost)
        } else {
            was_and_is.contains(&(false, true)).then_some(LinkNews::Back)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::InterfaceAddress;

    #[test]
    fn only_a_link_that_was_present_is_lost_and_returns() {
        let interface = |state, hosts: &[u8]| Interface {
            state,
            addresses: hosts
                .iter()
                .map(|host| InterfaceAddress::new([192, 0, 2, *host].into(), 24))
                .collect(),
            ..Interface::new(3, "eth0")
        };
        let links = |state, hosts| Links::new(&Snapshot::new(vec![interface(state, hosts)], None));
        let (up, down) = (links(LinkState::Up, &[1, 2]), links(LinkState::NoCarrier, &[1, 2]));
        let fewer = links(LinkState::Up, &[1]);
        let ip = |host| IpAddr::from([192, 0, 2, host]);
        assert_eq!(up.news(&down, 3, ip(1)), Some(LinkNews::Lost));
        assert_eq!(down.news(&up, 3, ip(1)), Some(LinkNews::Back));
        // Over another interface, or an unknown one, it goes on.
        assert_eq!((up.news(&down, 4, ip(1)), up.news(&down, 0, ip(1))), (None, None));
        assert_eq!(up.news(&fewer, 3, ip(2)), Some(LinkNews::Lost));
        assert_eq!((up.news(&fewer, 3, ip(1)), up.news(&fewer, 3, ip(9))), (None, None));
        assert_eq!(fewer.news(&up, 3, ip(2)), Some(LinkNews::Back));
        // An address that was never seen is not lost, and neither is one that returned.
        let fewer = fewer.after(&up);
        assert_eq!(fewer.gone, BTreeSet::from([ip(2)]));
        assert_eq!(down.after(&fewer).gone, BTreeSet::new());
    }
}
