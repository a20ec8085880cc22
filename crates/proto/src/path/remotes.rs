//! Addresses of the peer, from four sources: the application, the peer itself, a rendezvous server, and off-path
//! packets. Each source has a limit of its own, so that none crowds out the others.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most addresses kept from the application, and as many from the peer (spec 6.6).
pub(crate) const MAX_REMOTES: usize = 8;

/// An address that the peer advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    address: SocketAddr,
    id: u64,
    sequence: u64,
    /// Whether a response came from it.
    is_validated: bool,
}

/// An address from a rendezvous server, or the source of an off-path packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Met {
    address: SocketAddr,
    /// Whether a response came from it.
    is_validated: bool,
}

/// The known addresses of the peer.
#[derive(Debug, Default)]
pub(crate) struct Remotes {
    /// Addresses from the application stay, whatever the peer says: they are how the peer was found.
    lasting: Vec<SocketAddr>,
    named: Vec<Named>,
    /// Addresses of the application that the peer withdrew, or that lead to a relay: left out while there are others.
    withdrawn: Vec<SocketAddr>,
    /// The newest list from a rendezvous server.
    met: Vec<Met>,
    /// Sources of off-path packets: the last one, and the last validated one.
    strays: Vec<Met>,
    /// The last statements about removed addresses, so that a late copy does not restore them (spec 2.14).
    gone: VecDeque<(u64, u64)>,
}

impl Remotes {
    /// Adds an address from the application or the ticket; false if it is known or there are too many.
    pub(crate) fn add_lasting(&mut self, address: SocketAddr) -> bool {
        if self.lasting.len() >= MAX_REMOTES || self.lasting.contains(&address) {
            return false;
        }
        self.lasting.push(address);
        true
    }

    /// Takes a new result of the peer's name look-up. Its addresses come first; if there are too many, addresses that
    /// are neither in it nor `used` are dropped, the last first.
    pub(crate) fn refresh_lasting(&mut self, fresh: &[SocketAddr], used: &[SocketAddr]) {
        self.withdrawn.retain(|withdrawn| !fresh.contains(withdrawn));
        for address in fresh.iter().take(MAX_REMOTES).rev() {
            if self.lasting.contains(address) {
                continue;
            }
            if self.lasting.len() >= MAX_REMOTES {
                let is_stale = |known: &SocketAddr| !fresh.contains(known) && !used.contains(known);
                let Some(at) = self.lasting.iter().rposition(is_stale) else { return };
                self.lasting.remove(at);
            }
            self.lasting.insert(0, *address);
        }
    }

    /// Forgets the addresses of the application that do not pass.
    pub(crate) fn keep_lasting(&mut self, passes: impl Fn(SocketAddr) -> bool) {
        self.lasting.retain(|address| passes(*address));
    }

    /// Adds an address that the peer advertises; false if it is refused, old, or already known.
    pub(crate) fn on_add(&mut self, id: u64, sequence: u64, address: SocketAddr, peer: IpAddr) -> bool {
        if !may_be_challenged(address, peer) || self.is_outdated(id, sequence) {
            return false;
        }
        let known_before = self.contains(address);
        self.withdrawn.retain(|withdrawn| *withdrawn != address);
        if let Some(known) = self.named.iter_mut().find(|named| named.id == id) {
            let moved = known.address != address;
            *known = Named { address, id, sequence, is_validated: known.is_validated && !moved };
            return moved && !known_before;
        }
        if self.named.len() >= MAX_REMOTES {
            return false;
        }
        self.named.push(Named { address, id, sequence, is_validated: false });
        !known_before
    }

    /// Replaces the list from a rendezvous server by the newest one; false if nothing in it is new.
    pub(crate) fn on_met(&mut self, addresses: &[SocketAddr], peer: IpAddr) -> bool {
        let fit = addresses.iter().filter(|address| may_be_challenged(**address, peer)).take(MAX_REMOTES);
        let is_validated = |address| self.met.iter().any(|met| met.address == address && met.is_validated);
        let list: Vec<_> =
            fit.map(|address| Met { address: *address, is_validated: is_validated(*address) }).collect();
        let news = list.iter().any(|met| !self.contains(met.address));
        self.withdrawn.retain(|withdrawn| list.iter().all(|met| met.address != *withdrawn));
        self.met = list;
        news
    }

    /// Adds the source of an off-path packet; false if it is refused, or known.
    pub(crate) fn on_off_path_packet(&mut self, address: SocketAddr, peer: IpAddr) -> bool {
        if !may_be_challenged(address, peer) || self.contains(address) {
            return false;
        }
        // Any host can send a copy from elsewhere: a copy must not displace the peer's validated address.
        self.strays.retain(|stray| stray.is_validated);
        if self.strays.len() >= 2 {
            self.strays.remove(0);
        }
        self.strays.push(Met { address, is_validated: false });
        true
    }

    /// Removes an address that the peer withdraws; returns it if it is of no further use.
    pub(crate) fn on_remove(&mut self, id: u64, sequence: u64) -> Option<SocketAddr> {
        if self.is_outdated(id, sequence) {
            return None;
        }
        if self.gone.len() >= MAX_REMOTES {
            self.gone.pop_front();
        }
        self.gone.retain(|(other, _)| *other != id);
        self.gone.push_back((id, sequence));
        let at = self.named.iter().position(|named| named.id == id)?;
        let address = self.named.remove(at).address;
        if self.lasting.contains(&address) && self.iter().any(|other| other != address) {
            self.withdrawn.push(address);
        }
        self.met.retain(|met| met.address != address);
        self.strays.retain(|stray| stray.address != address);
        (!self.contains(address)).then_some(address)
    }

    /// Leaves an address of the application out while others are known; false if no other one is.
    pub(crate) fn set_aside(&mut self, address: SocketAddr) -> bool {
        if self.withdrawn.contains(&address) {
            return true;
        }
        let may_go = self.lasting.contains(&address) && self.iter().any(|other| other != address);
        if may_go {
            self.withdrawn.push(address);
        }
        may_go
    }

    /// No path works: restores the withdrawn addresses of the application, because the peer may be there after all.
    pub(crate) fn forgive(&mut self) {
        self.withdrawn.clear();
    }

    fn is_outdated(&self, id: u64, sequence: u64) -> bool {
        let named = self.named.iter().map(|named| (named.id, named.sequence));
        named.chain(self.gone.iter().copied()).any(|(other, newest)| other == id && sequence <= newest)
    }

    fn contains(&self, address: SocketAddr) -> bool {
        (self.lasting.contains(&address) && !self.withdrawn.contains(&address))
            || self.named.iter().any(|named| named.address == address)
            || self.unnamed().any(|met| met.address == address)
    }

    /// A response came from an address.
    pub(crate) fn on_answered(&mut self, address: SocketAddr) {
        for named in self.named.iter_mut().filter(|named| named.address == address) {
            named.is_validated = true;
        }
        for met in self.met.iter_mut().chain(&mut self.strays).filter(|met| met.address == address) {
            met.is_validated = true;
        }
    }

    /// Whether the address is unverified: only the peer advertised it, and no response came from it.
    pub(crate) fn is_unverified(&self, address: SocketAddr) -> bool {
        let named = self.named.iter().map(|named| (named.address, named.is_validated));
        let met = self.unnamed().map(|met| (met.address, met.is_validated));
        let mut told = named.chain(met).filter(|(told, _)| *told == address).peekable();
        told.peek().is_some()
            && !self.lasting.contains(&address)
            && !told.any(|(_, is_validated)| is_validated)
    }

    fn unnamed(&self) -> impl Iterator<Item = &Met> + Clone {
        self.met.iter().chain(&self.strays)
    }

    /// Every address once, alternating between the sources.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SocketAddr> + Clone {
        (0..MAX_REMOTES)
            .flat_map(|turn| {
                let named = self.named.get(turn).map(|named| named.address);
                let met = self.met.get(turn).map(|met| met.address);
                let told = |address: &SocketAddr| self.named.iter().any(|named| named.address == *address);
                let stray = self.strays.get(turn).map(|stray| stray.address);
                let is_met = |address: &SocketAddr| self.met.iter().any(|met| met.address == *address);
                [
                    stray.filter(|at| !self.lasting.contains(at) && !told(at) && !is_met(at)),
                    self.lasting.get(turn).copied(),
                    met.filter(|address| !self.lasting.contains(address) && !told(address)),
                    named.filter(|address| !self.lasting.contains(address)),
                ]
            })
            .flatten()
            .filter(|address| !self.withdrawn.contains(address))
    }
}

/// Refuses addresses that no honest peer advertises (spec 6.7): a peer must not aim this host at third parties.
pub fn may_be_challenged(address: SocketAddr, peer: IpAddr) -> bool {
    if address.port() == 0 {
        return false;
    }
    let peer = peer.to_canonical();
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => is_fit_v4(ip, peer),
        IpAddr::V6(ip) => is_fit_v6(ip, peer),
    }
}

fn is_fit_v4(ip: Ipv4Addr, peer: IpAddr) -> bool {
    let [a, b, ..] = ip.octets();
    // This network, multicast and reserved, link-local.
    if a == 0 || a >= 224 || ip.is_link_local() {
        return false;
    }
    if ip.is_loopback() {
        return peer.is_loopback();
    }
    // The shared address space of carrier-grade NAT (RFC 6598) is as private as the others.
    let shared = a == 100 && b & 0xc0 == 64;
    !(ip.is_private() || shared) || is_local(peer)
}

fn is_fit_v6(ip: Ipv6Addr, peer: IpAddr) -> bool {
    if ip.is_loopback() {
        return peer.is_loopback();
    }
    if ip.is_multicast() || ip.is_unicast_link_local() {
        return false;
    }
    match ip.segments() {
        // Unspecified and IPv4-compatible addresses, which are out of use.
        [0, 0, 0, 0, 0, 0, _, _] => false,
        // Addresses that are translated to IPv4 on the way (RFC 6052, RFC 3056): judged as the IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_fit_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)), peer)
        }
        // Site-local, deprecated, and translated within one network (RFC 8215).
        [first, ..] if first & 0xffc0 == 0xfec0 => is_local(peer),
        [0x64, 0xff9b, 1, ..] => is_local(peer),
        _ => !ip.is_unique_local() || is_local(peer),
    }
}

/// Whether the peer is already in a private network.
fn is_local(peer: IpAddr) -> bool {
    match peer {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            ip.is_private() || ip.is_loopback() || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{MAX_REMOTES, Remotes, may_be_challenged};

    const PEER: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn address(number: u64) -> SocketAddr {
        format!("192.0.2.{}:4455", number + 1).parse().unwrap()
    }

    // spec 6.7
    #[test]
    fn a_peer_cannot_aim_this_host_at_third_parties() {
        for (address, peer, allowed) in [
            ("192.0.2.7:4455", "192.0.2.1", true),
            ("192.0.2.7:0", "192.0.2.1", false),
            ("127.0.0.1:4455", "192.0.2.1", false),
            ("127.0.0.1:4455", "127.0.0.1", true),
            ("127.0.0.1:4455", "10.0.0.1", false),
            ("224.0.0.1:4455", "192.0.2.1", false),
            ("255.255.255.255:4455", "10.0.0.1", false),
            ("240.0.0.1:4455", "10.0.0.1", false),
            ("0.0.0.0:4455", "10.0.0.1", false),
            ("0.1.2.3:4455", "10.0.0.1", false),
            ("169.254.1.1:4455", "10.0.0.1", false),
            ("10.0.0.1:4455", "192.0.2.1", false),
            ("172.16.0.1:4455", "192.0.2.1", false),
            ("192.168.0.1:4455", "2001:db8::1", false),
            ("100.64.0.1:4455", "192.0.2.1", false),
            ("100.64.0.1:4455", "100.100.0.1", true),
            ("100.128.0.1:4455", "192.0.2.1", true),
            ("10.0.0.1:4455", "10.9.9.9", true),
            ("10.0.0.1:4455", "fd00::1", true),
            ("[fe80::1]:4455", "2001:db8::1", false),
            ("[fe80::1]:4455", "fe80::2", false),
            ("[ff02::1]:4455", "fd00::1", false),
            ("[::]:4455", "fd00::1", false),
            ("[::10.0.0.1]:4455", "10.0.0.2", false),
            ("[::1]:4455", "::1", true),
            ("[::1]:4455", "2001:db8::1", false),
            ("[::ffff:127.0.0.1]:4455", "192.0.2.1", false),
            ("[64:ff9b::10.0.0.1]:4455", "2001:db8::1", false),
            ("[64:ff9b::192.0.2.9]:4455", "2001:db8::1", true),
            ("[64:ff9b:1::1]:4455", "2001:db8::1", false),
            ("[2002:a00:1::1]:4455", "2001:db8::1", false),
            ("[fec0::1]:4455", "2001:db8::1", false),
            ("[fd00::5]:4455", "2001:db8::1", false),
            ("[fd00::5]:4455", "fd00::1", true),
            ("[2001:db8::5]:4455", "192.0.2.1", true),
        ] {
            let challenged = may_be_challenged(address.parse().unwrap(), peer.parse().unwrap());
            assert_eq!(challenged, allowed, "{address} {peer}");
        }
    }

    #[test]
    fn an_address_from_the_application_outlives_statements_of_the_peer() {
        let mut remotes = Remotes::default();
        assert!(remotes.add_lasting(address(1)));
        assert!(!remotes.on_add(0, 1, address(1), PEER));
        assert!(!remotes.is_unverified(address(1)));
        // The peer may reuse its id for another address; the address stays.
        assert!(remotes.on_add(0, 2, address(2), PEER));
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(1), address(2)]);
        assert_eq!(remotes.on_remove(0, 3), Some(address(2)));
        assert!(!remotes.on_add(1, 1, address(1), PEER));
        assert_eq!(remotes.on_remove(1, 2), None);
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(1)]);
    }

    // spec 6.8
    #[test]
    fn an_address_that_the_peer_withdrew_is_left_out_while_there_is_another() {
        let mut remotes = Remotes::default();
        remotes.add_lasting(address(1));
        remotes.on_add(0, 1, address(1), PEER);
        remotes.on_add(1, 1, address(2), PEER);
        assert_eq!(remotes.on_remove(0, 2), Some(address(1)));
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(2)]);
        // The address returns if it is advertised again, if the name resolves to it again, or if no other works.
        assert!(remotes.on_add(0, 3, address(1), PEER));
        assert_eq!(remotes.iter().count(), 2);
        remotes.on_remove(0, 4);
        remotes.refresh_lasting(&[address(1)], &[]);
        assert_eq!(remotes.iter().count(), 2);
        remotes.on_add(0, 5, address(1), PEER);
        remotes.on_remove(0, 6);
        assert_eq!(remotes.iter().count(), 1);
        remotes.forgive();
        assert_eq!(remotes.iter().count(), 2);
    }

    // spec 6.6
    #[test]
    fn neither_the_peer_nor_the_application_crowds_out_the_other() {
        let mut remotes = Remotes::default();
        for id in 0..100 {
            assert_eq!(remotes.on_add(id, 5, address(id), PEER), id < MAX_REMOTES as u64);
        }
        for number in 0..100 {
            assert_eq!(remotes.add_lasting(address(100 + number)), number < MAX_REMOTES as u64);
        }
        let first: Vec<_> = remotes.iter().take(4).collect();
        assert_eq!(first, [address(100), address(0), address(101), address(1)]);
        assert_eq!(remotes.iter().count(), 2 * MAX_REMOTES);
    }

    // spec 10.8
    #[test]
    fn the_newest_list_of_a_rendezvous_server_replaces_the_previous_one() {
        let mut remotes = Remotes::default();
        remotes.add_lasting(address(0));
        remotes.on_add(1, 1, address(1), PEER);
        assert!(!remotes.on_met(&[address(0), address(1)], PEER), "they are known");
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(0), address(1)]);
        assert!(remotes.on_met(&[address(2), address(3)], PEER));
        assert!(remotes.is_unverified(address(2)));
        remotes.on_answered(address(2));
        assert!(remotes.on_met(&[address(2), address(4)], PEER));
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(0), address(2), address(1), address(4)]);
        assert!(!remotes.is_unverified(address(2)) && remotes.is_unverified(address(4)));
        // A withdrawn address is gone from every source.
        remotes.on_add(2, 1, address(4), PEER);
        assert_eq!(remotes.on_remove(2, 2), Some(address(4)));
        assert_eq!(remotes.iter().collect::<Vec<_>>(), [address(0), address(2), address(1)]);
        let many: Vec<_> = (10..30).map(address).collect();
        assert!(remotes.on_met(&many, PEER));
        assert_eq!(remotes.iter().count(), 2 + MAX_REMOTES);
        assert!(!remotes.on_met(&["127.0.0.1:4455".parse().unwrap()], PEER), "spec 6.7");
    }

    #[test]
    fn a_name_whose_address_keeps_changing_always_finds_room_and_working_addresses_stay() {
        let mut remotes = Remotes::default();
        remotes.add_lasting(address(0));
        for host in 1..100 {
            remotes.refresh_lasting(&[address(host), address(host + 100)], &[address(0)]);
            let known: Vec<_> = remotes.iter().collect();
            assert_eq!(known[..2], [address(host), address(host + 100)]);
            assert!(known.contains(&address(0)) && known.len() <= MAX_REMOTES);
        }
    }

    // spec 2.14
    #[test]
    fn an_old_statement_changes_nothing_even_after_the_address_is_gone() {
        let mut remotes = Remotes::default();
        assert!(remotes.on_add(0, 5, address(0), PEER));
        assert!(!remotes.on_add(0, 5, address(9), PEER) && !remotes.on_add(0, 4, address(9), PEER));
        assert!(remotes.on_add(0, 6, address(9), PEER));
        assert_eq!(remotes.on_remove(0, 6), None);
        assert_eq!(remotes.on_remove(0, 7), Some(address(9)));
        assert!(!remotes.on_add(0, 7, address(9), PEER), "a late copy");
        assert!(remotes.on_add(0, 8, address(9), PEER));
    }

    #[test]
    fn an_address_is_unverified_until_a_response_comes_from_it() {
        let mut remotes = Remotes::default();
        remotes.on_add(0, 1, address(0), PEER);
        assert!(remotes.is_unverified(address(0)) && !remotes.is_unverified(address(1)));
        remotes.on_answered(address(0));
        assert!(!remotes.is_unverified(address(0)));
        remotes.on_add(0, 2, address(1), PEER);
        assert!(remotes.is_unverified(address(1)), "the proof was for the address before");
    }

    #[test]
    fn a_verified_address_stays_verified_when_it_is_advertised_again() {
        let mut remotes = Remotes::default();
        assert!(remotes.on_add(1, 1, address(1), PEER) && remotes.is_unverified(address(1)));
        remotes.on_answered(address(1));
        remotes.on_add(2, 1, address(1), PEER);
        assert!(!remotes.is_unverified(address(1)));
        assert!(!remotes.is_unverified(address(2)), "it was not advertised");
    }
}
