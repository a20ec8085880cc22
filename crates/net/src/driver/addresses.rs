//! Selects the addresses of this host that connections use, and follows interfaces that come and go.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use manyway_proto::{ConnectionHandle, FourTuple, Instant, LocalAddress, LocalCandidate, Role};
use tokio::time::Instant as TokioInstant;

use super::links::Links;
use super::{BIND_RETRY, Driver};
use crate::interfaces::reachable::reachable_addresses;
use crate::interfaces::{Excluded, Exclusion, Snapshot, capped};
use crate::ledger::Allowance;
use crate::options::Locals;

impl Driver {
    /// Handles a change of interfaces: gives every client connection its usable addresses, and every server connection
    /// the state of its links and the server's addresses.
    pub(super) fn follow_interfaces(&mut self, now: Instant) {
        self.follow_accounts();
        for handle in self.connections.clients() {
            self.follow_addresses(now, handle);
        }
        self.connections.tell_all_clients();
        let mtus = self.watcher.snapshot().mtus();
        if mtus != self.mtus {
            self.endpoint.set_interface_mtus(now, &mtus);
            self.mtus = mtus;
        }
        self.tell_links(now);
        if self.advertises {
            let mut addresses = reachable_addresses(&self.sockets.listening(), self.watcher.snapshot());
            // Without any interface the server would name loopback, which leads no client here.
            let listening = self.sockets.listening();
            let is_named = |address| listening.iter().any(|local| local.address == address);
            addresses.retain(|address| !address.ip().is_loopback() || is_named(*address));
            // An address without carrier will get it back; withdrawing it would close paths for good.
            let before = self.connections.advertised.iter().flatten();
            for kept in before.filter(|address| self.watcher.snapshot().is_own(address.ip())) {
                if !addresses.contains(kept) {
                    addresses.push(*kept);
                }
            }
            let silent = self.silent_addresses();
            addresses.retain(|address| !silent.contains(&address.ip().to_canonical()));
            addresses.truncate(8);
            for handle in self.connections.servers() {
                if let Some(connection) = self.endpoint.connection(handle) {
                    connection.set_advertised_addresses(&addresses);
                }
            }
            self.endpoint.set_mmsp1_addresses(&addresses);
            self.connections.advertised = Some(addresses);
        }
        self.sockets.drop_gone(self.watcher.snapshot());
    }

    /// Tells every server connection which of its paths lost or regained their link, and the server's current
    /// addresses.
    fn tell_links(&mut self, now: Instant) {
        let links = Links::new(self.watcher.snapshot()).after(&self.links);
        if links == self.links {
            return;
        }
        let before = std::mem::replace(&mut self.links, links);
        let usable_addresses = self.usable_addresses();
        let (links, sockets) = (&self.links, &self.sockets);
        let own = |tuple: &FourTuple| tuple.local.address.ip().to_canonical();
        let news_of = |tuple: &FourTuple| before.news(links, sockets.interface(tuple), own(tuple));
        let is_gone = |tuple: &FourTuple| links.has_lost(own(tuple));
        for handle in self.connections.servers() {
            if let Some(connection) = self.endpoint.connection(handle) {
                connection.on_links_changed(now, news_of);
                connection.relocate(now, &usable_addresses, is_gone);
            }
        }
    }

    /// The local addresses from which this server can send now.
    fn usable_addresses(&self) -> Vec<LocalAddress> {
        let addresses = reachable_addresses(&self.sockets.listening(), self.watcher.snapshot());
        let silent = self.silent_addresses();
        let is_open = |address: &SocketAddr| {
            let ip = address.ip().to_canonical();
            !ip.is_loopback() && !silent.contains(&ip) && !self.links.has_lost(ip)
        };
        let local = |address| LocalAddress { interface: 0, address };
        addresses.into_iter().filter(is_open).map(local).collect()
    }

    /// Gives a client connection the local addresses that lead to its peer now.
    pub(super) fn follow_addresses(&mut self, now: Instant, handle: ConnectionHandle) {
        let (locals, excluded) = self.locals_of(handle);
        if let Some(peer) = self.connections.peer(handle) {
            peer.cap_reached = capped(&excluded).filter(|_| locals.is_empty());
        }
        self.tell_terms(handle, &locals);
        let uses_udp = self.tcp.dialler.uses_udp();
        if let Some(connection) = self.endpoint.connection(handle)
            && (uses_udp || connection.is_mmsp1())
        {
            connection.set_local_addresses(now, &locals);
        }
    }

    /// The local addresses that lead to the peer of a client connection now, and why the others do not.
    pub(super) fn locals_of(&mut self, handle: ConnectionHandle) -> (Vec<LocalCandidate>, Vec<Excluded>) {
        let Some(mut remotes) = self.connections.peer(handle).map(|peer| peer.remotes.clone()) else {
            return Default::default();
        };
        let Some(connection) = self.endpoint.connection(handle) else { return Default::default() };
        remotes.extend(connection.remote_addresses());
        // An interface that leads to a rendezvous server only counts too: it leads to the peer once the rendezvous
        // names it.
        let snapshot = self.watcher.snapshot();
        let is_here = |ip: IpAddr| ip.is_loopback() || snapshot.is_own(ip);
        remotes.extend(connection.rendezvous_servers().iter().filter(|server| !is_here(server.ip())));
        remotes.sort_unstable();
        remotes.dedup();
        self.local_candidates(&remotes)
    }

    /// The local addresses that lead to `remotes`, each with a socket; and why the others do not.
    pub(super) fn local_candidates(
        &mut self,
        remotes: &[SocketAddr],
    ) -> (Vec<LocalCandidate>, Vec<Excluded>) {
        let (wanted, excluded) = self.wanted_locals(remotes);
        (self.bind(wanted), excluded)
    }

    /// The local addresses that lead to `remotes`, and why the others do not.
    pub(super) fn wanted_locals(&self, remotes: &[SocketAddr]) -> (Vec<(LocalAddress, Role)>, Vec<Excluded>) {
        match &self.locals {
            Locals::Fixed(fixed) => not_exhausted(fixed, self.watcher.snapshot(), &self.usage.exhausted()),
            Locals::Interfaces(policy) => {
                let selection = self.watcher.usable(policy, remotes);
                (selection.candidates.iter().map(|c| (c.local, c.role)).collect(), selection.excluded)
            }
        }
    }

    /// Finds or binds a socket for each of these addresses, as far as that is possible.
    pub(super) fn bind(&mut self, wanted: Vec<(LocalAddress, Role)>) -> Vec<LocalCandidate> {
        let found = self.sockets.candidates(wanted);
        self.note_granted();
        if self.sockets.has_failure() {
            self.bind_retry = Some(TokioInstant::now() + BIND_RETRY);
        }
        found
    }

    pub(super) fn interface_name(&self, index: u32) -> Option<String> {
        let interface = self.watcher.snapshot().interface(index)?;
        Some(interface.name.clone())
    }
}

/// The fixed addresses whose interface has quota left, and the interfaces of the others.
fn not_exhausted(
    fixed: &[(LocalAddress, Role)],
    snapshot: &Snapshot,
    exhausted: &BTreeMap<String, Allowance>,
) -> (Vec<(LocalAddress, Role)>, Vec<Excluded>) {
    let (mut kept, mut excluded) = (Vec::new(), Vec::new());
    for (local, role) in fixed {
        let ip = local.address.ip().to_canonical();
        let interface = snapshot.interface(local.interface).or_else(|| snapshot.owner(ip));
        match interface.and_then(|it| exhausted.get_key_value(&it.name)) {
            Some((name, Allowance { cap, renewal, .. })) => {
                let reason = Exclusion::CapReached { cap: *cap, renewal: *renewal };
                excluded.push(Excluded { interface: name.clone(), reason });
            }
            None => kept.push((*local, *role)),
        }
    }
    (kept, excluded)
}

#[cfg(test)]
mod tests {
    use manyway_proto::ByteCount;

    use super::*;
    use crate::interfaces::{Interface, InterfaceAddress};

    #[test]
    fn a_fixed_address_is_left_out_once_the_quota_of_its_interface_is_used_up() {
        let interface = |index, name: &str, host| Interface {
            addresses: vec![InterfaceAddress::new([192, 0, 2, host].into(), 24)],
            ..Interface::new(index, name)
        };
        let snapshot = Snapshot::new(vec![interface(2, "eth0", 2), interface(3, "wwan0", 3)], None);
        let local = |interface, host| {
            let address = ([192, 0, 2, host], 0).into();
            (LocalAddress { interface, address }, Role::Primary)
        };
        let fixed = [local(2, 2), local(3, 3), local(0, 3), local(0, 2), local(0, 9)];
        assert_eq!(not_exhausted(&fixed, &snapshot, &BTreeMap::new()), (fixed.to_vec(), vec![]));
        let cap = ByteCount(5_000_000_000);
        let exhausted =
            [("wwan0".to_owned(), Allowance { cap, left: ByteCount::ZERO, renewal: None })].into();
        let (kept, excluded) = not_exhausted(&fixed, &snapshot, &exhausted);
        assert_eq!(kept, [local(2, 2), local(0, 2), local(0, 9)]);
        let reason = Exclusion::CapReached { cap, renewal: None };
        let wwan0 = Excluded { interface: "wwan0".to_owned(), reason };
        assert_eq!(excluded, [wwan0.clone(), wwan0]);
    }
}
