//! Which links below a server's paths are lost, and which are back.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use manyway_proto::{FourTuple, Instant, LinkNews, LocalAddress, LocalCandidate, Role};

use super::Driver;
use crate::endpoint::reachable_addresses;
use crate::interfaces::{Interface, LinkState, Snapshot};

/// The interfaces that can carry packets, and the addresses of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Links {
    up: BTreeSet<u32>,
    own: BTreeSet<IpAddr>,
}

impl Links {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let interfaces = &snapshot.interfaces;
        let is_up = |it: &&Interface| it.state == LinkState::Up;
        Self {
            up: interfaces.iter().filter(is_up).map(|it| it.index).collect(),
            own: interfaces.iter().flat_map(|it| &it.addresses).map(|own| own.prefix.address).collect(),
        }
    }

    /// What became of the link of what goes over an interface from an own address since `self`. Packets for an address may
    /// come in at another interface than its own, and what was never seen may be routed here all the same: so only what
    /// was there is lost.
    fn news(&self, now: &Self, interface: u32, own: IpAddr) -> Option<LinkNews> {
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

impl Driver {
    /// Tells every server connection which of its paths lost their link or have it again, and where the server is now.
    pub(super) fn tell_links(&mut self, now: Instant) {
        let links = Links::new(self.watcher.snapshot());
        if links == self.links {
            return;
        }
        let before = std::mem::replace(&mut self.links, links);
        let homes = self.homes();
        let (links, sockets) = (&self.links, &self.sockets);
        let news_of = |tuple: &FourTuple| {
            before.news(links, sockets.interface(tuple), tuple.local.address.ip().to_canonical())
        };
        for handle in self.connections.servers() {
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.on_links_changed(now, news_of);
                connection.set_local_addresses(now, &homes);
            }
        }
    }

    /// Where this server can be spoken to, first the addresses that lead elsewhere; the others only tell which are its own.
    fn homes(&self) -> Vec<LocalCandidate> {
        let (listening, snapshot) = (self.sockets.listening(), self.watcher.snapshot());
        let mut homes = reachable_addresses(&listening, snapshot);
        homes.retain(|address| !address.ip().is_loopback());
        let own = snapshot.interfaces.iter().flat_map(|it| &it.addresses).map(|own| own.prefix.address);
        for ip in own.filter(|ip| !ip.is_loopback()) {
            let fits = |local: &&LocalAddress| local.address.is_ipv4() == ip.is_ipv4();
            let all = listening.iter().filter(|local| local.address.ip().is_unspecified()).filter(fits);
            homes.extend(all.map(|local| SocketAddr::new(ip, local.address.port())));
        }
        let mut known = BTreeSet::new();
        homes.retain(|address| known.insert(*address));
        let candidate =
            |address| LocalCandidate { address: LocalAddress { interface: 0, address }, role: Role::Primary };
        homes.into_iter().map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::InterfaceAddress;

    #[test]
    fn only_what_was_there_is_lost_and_comes_back() {
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
        // Over another interface, or none that is known, it goes on.
        assert_eq!((up.news(&down, 4, ip(1)), up.news(&down, 0, ip(1))), (None, None));
        assert_eq!(up.news(&fewer, 3, ip(2)), Some(LinkNews::Lost));
        assert_eq!((up.news(&fewer, 3, ip(1)), up.news(&fewer, 3, ip(9))), (None, None));
        assert_eq!(fewer.news(&up, 3, ip(2)), Some(LinkNews::Back));
    }
}
