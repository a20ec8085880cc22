//! Which address pairs to open, keep and close.
//!
//! 1. Only the client opens paths; the server names its addresses by ADD-ADDRESS.
//! 2. One path for each interface (*local-disjoint*): its addresses of both families are tried against all addresses
//!    of the peer at once, and the pair that answers first is the path.
//! 3. An address that is gone closes its path at once; an interface that appears is tried at once.
//! 4. A path that an application closed stays closed until its interface has been gone.
//! 5. Addresses that the peer names are limited in number and in kind, so that nobody can make this host probe a third.

use std::net::{IpAddr, SocketAddr};

use super::state::Role;
use crate::{FourTuple, LocalAddress};

/// Most addresses kept of a peer (spec 6.6).
pub(crate) const MAX_REMOTES: usize = 8;

/// An address of this host that may be used, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalCandidate {
    /// The socket's address and interface.
    pub address: LocalAddress,
    /// What the interface is meant for.
    pub role: Role,
}

/// An address of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Remote {
    address: SocketAddr,
    /// The peer's number for it; `None` if the peer has not named it.
    id: Option<u64>,
    sequence: u64,
    /// The application named it, and keeps it whatever the peer says of it.
    lasting: bool,
}

/// A path to open: all pairs to try for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenPath {
    pub(crate) targets: Vec<FourTuple>,
    pub(crate) role: Role,
}

/// Keeps the addresses of both ends.
#[derive(Debug, Default)]
pub(crate) struct PathManager {
    locals: Vec<LocalCandidate>,
    remotes: Vec<Remote>,
    /// Addresses whose path an application closed: not tried again before they have been gone.
    set_aside: Vec<LocalAddress>,
}

impl PathManager {
    pub(crate) fn new(locals: &[LocalCandidate], remotes: &[SocketAddr]) -> Self {
        let mut manager = Self { locals: locals.to_vec(), ..Self::default() };
        for address in remotes {
            manager.add_remote(*address);
        }
        manager
    }

    pub(crate) fn set_locals(&mut self, locals: &[LocalCandidate]) {
        self.locals = locals.to_vec();
        self.set_aside.retain(|aside| locals.iter().any(|candidate| candidate.address == *aside));
    }

    /// Opens no path from this interface before its address has been gone.
    pub(crate) fn set_aside(&mut self, local: LocalAddress) {
        if !self.set_aside.contains(&local) && self.locals.iter().any(|candidate| candidate.address == local)
        {
            self.set_aside.push(local);
        }
    }

    /// Takes an address that the application or the ticket names; false if it is known or there are too many.
    pub(crate) fn add_remote(&mut self, address: SocketAddr) -> bool {
        if self.remotes.len() >= MAX_REMOTES || self.remotes.iter().any(|remote| remote.address == address) {
            return false;
        }
        self.remotes.push(Remote { address, id: None, sequence: 0, lasting: true });
        true
    }

    /// Takes a new answer to the question for the peer's name. Its addresses come first; when there are too many, those
    /// go that it does not contain and that are not `used`, the oldest word of the application first.
    pub(crate) fn refresh_remotes(&mut self, fresh: &[SocketAddr], used: &[SocketAddr]) {
        for address in fresh.iter().take(MAX_REMOTES).rev() {
            if self.remotes.iter().any(|remote| remote.address == *address) {
                continue;
            }
            if self.remotes.len() >= MAX_REMOTES {
                let stale =
                    |remote: &Remote| !fresh.contains(&remote.address) && !used.contains(&remote.address);
                let named = self.remotes.iter().rposition(|remote| remote.id.is_none() && stale(remote));
                let Some(at) = named.or_else(|| self.remotes.iter().rposition(stale)) else { return };
                self.remotes.remove(at);
            }
            self.remotes.insert(0, Remote { address: *address, id: None, sequence: 0, lasting: true });
        }
    }

    /// Takes an address that the peer names; false if it is refused or old.
    pub(crate) fn on_add_address(
        &mut self,
        id: u64,
        sequence: u64,
        address: SocketAddr,
        peer: IpAddr,
    ) -> bool {
        if !may_be_probed(address, peer) {
            return false;
        }
        if let Some(known) = self.remotes.iter_mut().find(|remote| remote.id == Some(id)) {
            let newer = sequence > known.sequence;
            if newer {
                known.address = address;
                known.sequence = sequence;
            }
            return newer;
        }
        if let Some(known) = self.remotes.iter_mut().find(|remote| remote.address == address) {
            known.id = Some(id);
            known.sequence = sequence;
            return false;
        }
        if self.remotes.len() >= MAX_REMOTES {
            return false;
        }
        self.remotes.push(Remote { address, id: Some(id), sequence, lasting: false });
        true
    }

    /// Every address of the peer that is known.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = SocketAddr> {
        self.remotes.iter().map(|remote| remote.address)
    }

    /// Forgets an address that the peer takes back, and returns it. One that the application named stays: it is how the
    /// peer was found, and may be the only way back to it.
    pub(crate) fn on_remove_address(&mut self, id: u64, sequence: u64) -> Option<SocketAddr> {
        let at =
            self.remotes.iter().position(|remote| remote.id == Some(id) && sequence > remote.sequence)?;
        if let Some(remote) = self.remotes.get_mut(at).filter(|remote| remote.lasting) {
            remote.id = None;
            return None;
        }
        Some(self.remotes.remove(at).address)
    }

    /// All pairs of `local`'s interface with the peer's addresses, `local` itself first.
    pub(crate) fn targets(&self, local: LocalAddress) -> Vec<FourTuple> {
        let siblings =
            self.locals.iter().map(|candidate| candidate.address).filter(|address| *address != local);
        std::iter::once(local)
            .chain(siblings.filter(|address| same_interface(address, &local)))
            .flat_map(|local| {
                self.remotes
                    .iter()
                    .map(move |remote| FourTuple { local, remote: remote.address })
                    .filter(|tuple| tuple.local.address.is_ipv4() == tuple.remote.is_ipv4())
            })
            .take(super::probe::MAX_TARGETS)
            .collect()
    }

    /// The paths that should be opened beside those that use or try `busy`.
    pub(crate) fn missing(&self, busy: &[LocalAddress]) -> Vec<OpenPath> {
        let mut open: Vec<OpenPath> = Vec::new();
        for candidate in self.locals.iter().filter(|candidate| candidate.role != Role::Never) {
            let taken =
                busy.iter().chain(&self.set_aside).any(|address| same_interface(address, &candidate.address));
            let planned = open.iter().flat_map(|path| path.targets.first());
            if taken || planned.clone().any(|tuple| same_interface(&tuple.local, &candidate.address)) {
                continue;
            }
            let targets = self.targets(candidate.address);
            if !targets.is_empty() {
                open.push(OpenPath { targets, role: candidate.role });
            }
        }
        open
    }

    pub(crate) fn has_local(&self, address: &LocalAddress) -> bool {
        self.locals.iter().any(|candidate| candidate.address == *address && candidate.role != Role::Never)
    }

    pub(crate) fn role_of(&self, address: &LocalAddress) -> Role {
        self.locals
            .iter()
            .find(|candidate| candidate.address == *address)
            .map_or(Role::Primary, |candidate| candidate.role)
    }
}

/// Addresses without an interface are told apart by themselves.
fn same_interface(a: &LocalAddress, b: &LocalAddress) -> bool {
    if a.interface == 0 || b.interface == 0 { a == b } else { a.interface == b.interface }
}

/// Refuses addresses that no honest peer names (spec 6.7): a peer must not aim this host at others.
fn may_be_probed(address: SocketAddr, peer: IpAddr) -> bool {
    let ip = address.ip().to_canonical();
    let peer = peer.to_canonical();
    if address.port() == 0 || ip.is_unspecified() || ip.is_multicast() {
        return false;
    }
    if ip.is_loopback() {
        return peer.is_loopback();
    }
    match (ip, peer) {
        (IpAddr::V4(ip), _) if ip.is_broadcast() || ip.is_link_local() => false,
        (IpAddr::V4(ip), IpAddr::V4(peer)) if ip.is_private() => peer.is_private() || peer.is_loopback(),
        (IpAddr::V4(ip), IpAddr::V6(_)) if ip.is_private() => false,
        (IpAddr::V6(ip), IpAddr::V6(peer)) if ip.is_unique_local() => {
            peer.is_unique_local() || peer.is_loopback()
        }
        (IpAddr::V6(ip), IpAddr::V4(_)) if ip.is_unique_local() => false,
        (IpAddr::V6(ip), _) if ip.is_unicast_link_local() => false,
        (IpAddr::V4(_) | IpAddr::V6(_), _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalCandidate, MAX_REMOTES, PathManager, may_be_probed};
    use crate::LocalAddress;
    use crate::path::Role;

    fn local(interface: u32, address: &str) -> LocalCandidate {
        let address = LocalAddress { interface, address: address.parse().unwrap() };
        LocalCandidate { address, role: Role::Primary }
    }

    #[test]
    fn one_path_for_each_interface_tries_both_families() {
        let locals = [local(1, "10.0.0.1:1"), local(1, "[fd00::1]:1"), local(2, "10.1.0.1:1")];
        let remotes = ["192.0.2.1:4455".parse().unwrap(), "[2001:db8::1]:4455".parse().unwrap()];
        let manager = PathManager::new(&locals, &remotes);
        let missing = manager.missing(&[]);
        assert_eq!(missing.len(), 2);
        assert_eq!(missing[0].targets.len(), 2);
        assert_eq!(missing[1].targets.len(), 1);
        assert_eq!(manager.missing(&[locals[1].address]).len(), 1);
    }

    #[test]
    fn addresses_without_interface_are_interfaces_of_their_own() {
        let manager = PathManager::new(
            &[local(0, "127.0.1.1:1"), local(0, "127.0.2.1:1")],
            &["127.0.1.2:1".parse().unwrap()],
        );
        assert_eq!(manager.missing(&[]).len(), 2);
    }

    #[test]
    fn a_peer_can_not_aim_this_host_at_others() {
        for (address, peer, allowed) in [
            ("192.0.2.7:4455", "192.0.2.1", true),
            ("192.0.2.7:0", "192.0.2.1", false),
            ("127.0.0.1:4455", "192.0.2.1", false),
            ("127.0.0.1:4455", "127.0.0.1", true),
            ("224.0.0.1:4455", "192.0.2.1", false),
            ("10.0.0.1:4455", "192.0.2.1", false),
            ("10.0.0.1:4455", "10.9.9.9", true),
            ("[fe80::1]:4455", "2001:db8::1", false),
            ("[::ffff:127.0.0.1]:4455", "192.0.2.1", false),
            ("[fd00::5]:4455", "2001:db8::1", false),
        ] {
            assert_eq!(
                may_be_probed(address.parse().unwrap(), peer.parse().unwrap()),
                allowed,
                "{address} {peer}"
            );
        }
    }

    #[test]
    fn an_address_that_the_application_named_outlives_what_the_peer_says() {
        let named = "192.0.2.1:4455".parse().unwrap();
        let mut manager = PathManager::new(&[], &[named]);
        let peer = "192.0.2.1".parse().unwrap();
        assert!(!manager.on_add_address(0, 1, named, peer));
        assert_eq!(manager.on_remove_address(0, 2), None);
        assert_eq!(manager.remotes().collect::<Vec<_>>(), [named]);
    }

    #[test]
    fn a_name_that_moves_for_ever_always_finds_room_and_working_addresses_stay() {
        let address = |host: usize| format!("192.0.2.{}:4455", host + 1).parse().unwrap();
        let mut manager = PathManager::new(&[], &[address(0)]);
        for host in 1..100 {
            manager.refresh_remotes(&[address(host), address(host + 100)], &[address(0)]);
            let known: Vec<_> = manager.remotes().collect();
            assert_eq!(known[..2], [address(host), address(host + 100)]);
            assert!(known.contains(&address(0)) && known.len() <= MAX_REMOTES);
        }
    }

    #[test]
    fn the_addresses_of_a_peer_are_bounded_and_never_go_back() {
        let mut manager = PathManager::new(&[], &[]);
        let peer = "192.0.2.1".parse().unwrap();
        for id in 0..100 {
            let address = format!("192.0.2.{}:4455", id + 1).parse().unwrap();
            assert_eq!(manager.on_add_address(id, 5, address, peer), id < MAX_REMOTES as u64);
        }
        assert!(!manager.on_add_address(0, 4, "192.0.2.99:1".parse().unwrap(), peer));
        assert!(manager.on_add_address(0, 6, "192.0.2.99:1".parse().unwrap(), peer));
        assert_eq!(manager.on_remove_address(0, 6), None);
        assert_eq!(manager.on_remove_address(0, 7), Some("192.0.2.99:1".parse().unwrap()));
    }
}
