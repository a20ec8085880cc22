//! Tracks which links below a server's paths are lost, and which are back.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use manyway_proto::{FourTuple, Instant, LinkNews, LocalAddress};

use super::Driver;
use crate::endpoint::reachable_addresses;
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
    fn after(mut self, before: &Self) -> Self {
        self.gone = before.own.union(&before.gone).filter(|ip| !self.own.contains(ip)).copied().collect();
        while self.gone.len() > MOST_GONE {
            self.gone.pop_first();
        }
        self
    }

    /// The change since `self` of the link that carries packets over an interface from a local address. Packets for an
    /// address may arrive on another interface than its own, and packets of an unknown address may be routed here. So
    /// only a link that was present can be lost.
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
    /// Tells every server connection which of its paths lost or regained their link, and the server's current
    /// addresses.
    pub(super) fn tell_links(&mut self, now: Instant) {
        let links = Links::new(self.watcher.snapshot()).after(&self.links);
        if links == self.links {
            return;
        }
        let before = std::mem::replace(&mut self.links, links);
        let homes = self.homes();
        let (links, sockets) = (&self.links, &self.sockets);
        let own = |tuple: &FourTuple| tuple.local.address.ip().to_canonical();
        let news_of = |tuple: &FourTuple| before.news(links, sockets.interface(tuple), own(tuple));
        let is_gone = |tuple: &FourTuple| links.gone.contains(&own(tuple));
        for handle in self.connections.servers() {
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.on_links_changed(now, news_of);
                connection.relocate(now, &homes, is_gone);
            }
        }
    }

    /// The local addresses from which this server can send now.
    fn homes(&self) -> Vec<LocalAddress> {
        let addresses = reachable_addresses(&self.sockets.listening(), self.watcher.snapshot());
        let spent = self.spent_addresses();
        let is_open = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            !ip.is_loopback() && !spent.contains(&ip) && !self.links.gone.contains(&ip)
        };
        let local = |address| LocalAddress { interface: 0, address };
        addresses.into_iter().filter(is_open).map(local).collect()
    }

    /// Keeps the arrival interfaces of the pairs that connections use, and drops those of unknown senders.
    pub(super) fn sort_out_arrivals(&mut self) {
        if !self.sockets.split().1.any(|socket| socket.traffic.is_crowded()) {
            return;
        }
        let mut used = BTreeSet::new();
        for handle in self.connections.servers() {
            if let Some(connection) = self.endpoint.connection(handle) {
                used.extend(connection.statistics().paths.iter().map(|path| path.tuple));
            }
        }
        let (_, sockets) = self.sockets.split();
        sockets.filter(|socket| socket.traffic.is_crowded()).for_each(|socket| socket.traffic.keep(&used));
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
