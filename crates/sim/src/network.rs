//! Hosts, their interfaces and addresses, and which links a packet takes from one to the other.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use manyway_proto::{Ecn, FourTuple, Instant, LocalAddress, Rng};

use crate::ids::{HostId, InterfaceId, LinkId, RouteId};
use crate::link::{Link, LinkConfig, LinkState, Parcel};
use crate::nat::Nat;
use crate::packet::Packet;
use crate::rule::{Action, Facts, Matching, RuleId, Rules};
use crate::stripe::Stripe;

/// A packet that has passed the last link of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The route.
    pub route: RouteId,
    /// When.
    pub at: Instant,
    /// Bytes of the whole IP packet.
    pub bytes: usize,
}

/// Which size of a packet links count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sizes {
    /// The UDP payload; headers are the [overhead](LinkConfig::overhead) of the link.
    #[default]
    Payload,
    /// The whole IP packet; the overhead of links should be 0.
    Whole,
}

/// A datagram that has reached a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The host.
    pub host: HostId,
    /// From the host's point of view.
    pub tuple: FourTuple,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The UDP payload.
    pub data: Vec<u8>,
}

/// The error of a host's system for a datagram that it cannot send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The host has no such address, or no longer.
    AddressNotAvailable {
        /// The requested address.
        local: LocalAddress,
    },
    /// The interface is down.
    InterfaceDown {
        /// The interface.
        interface: InterfaceId,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressNotAvailable { local } => write!(f, "the host has no address {local}"),
            Self::InterfaceDown { interface } => write!(f, "interface {} is down", interface.index),
        }
    }
}

impl std::error::Error for SendError {}

/// The counters of a network, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NetworkCounters {
    /// Sent by hosts.
    pub sent: u64,
    /// Copies that rules made.
    pub copied: u64,
    /// Delivered to hosts.
    pub arrived: u64,
    /// Dropped by rules.
    pub ruled_out: u64,
    /// Sent without a route, or to an address that no host has (any more).
    pub stray: u64,
    /// Not let in by a NAT.
    pub kept_out: u64,
    /// Arrived at an interface that is down.
    pub interface_down: u64,
}

/// A packet on a link of a network.
#[derive(Debug, Clone)]
pub struct Transit {
    packet: Packet,
    /// Index in the list of routes.
    route: usize,
    /// Links of the route that it has passed.
    hop: usize,
}

impl Parcel for Transit {
    fn flip_bit(&mut self, random: u64) {
        self.packet.flip_bit(random);
    }

    fn is_ecn_capable(&self) -> bool {
        self.packet.is_ecn_capable()
    }

    fn mark_congestion(&mut self) {
        self.packet.mark_congestion();
    }

    fn set_ecn(&mut self, mark: Ecn) {
        self.packet.set_ecn(mark);
    }
}

/// How a route leads over its links.
#[derive(Debug, Clone)]
struct Course {
    links: Vec<LinkId>,
    /// Each packet takes one of the links; `None`: all of them in order.
    stripe: Option<Stripe>,
}

impl Course {
    /// The link for a packet that has passed this many; `None` at the end.
    fn link(&mut self, hop: usize) -> Option<LinkId> {
        let place = match &mut self.stripe {
            None => hop,
            Some(stripe) if hop == 0 => stripe.deal(),
            Some(_) => return None,
        };
        self.links.get(place).copied()
    }
}

/// Hosts and the links between them.
///
/// Routes lead from interface to interface, over any number of links; several routes may share a link (a common
/// bottleneck). A packet finds the interface at the other end by its destination address. A packet without a route is
/// lost silently, as on the Internet; what the host's own system would refuse is a [`SendError`].
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Host>,
    owners: BTreeMap<IpAddr, InterfaceId>,
    links: Vec<Link<Transit>>,
    routes: Vec<Course>,
    by_ends: BTreeMap<(InterfaceId, InterfaceId), usize>,
    rules: Rules,
    /// Packets that rules delay, by time and order of entry.
    held: BTreeMap<(Instant, u64), Transit>,
    held_so_far: u64,
    arrived: VecDeque<Arrival>,
    counters: NetworkCounters,
    sizes: Sizes,
    /// Packets that have passed, once they are recorded.
    passed: Option<Vec<Passed>>,
    rng: Rng,
}

#[derive(Debug, Default)]
struct Host {
    interfaces: Vec<Interface>,
}

#[derive(Debug)]
struct Interface {
    /// As the host knows them.
    addresses: Vec<IpAddr>,
    state: LinkState,
    nat: Option<Nat>,
}

impl Network {
    /// Makes an empty network.
    pub fn new(rng: Rng) -> Self {
        Self {
            hosts: Vec::new(),
            owners: BTreeMap::new(),
            links: Vec::new(),
            routes: Vec::new(),
            by_ends: BTreeMap::new(),
            rules: Rules::default(),
            held: BTreeMap::new(),
            held_so_far: 0,
            arrived: VecDeque::new(),
            counters: NetworkCounters::default(),
            sizes: Sizes::default(),
            passed: None,
            rng,
        }
    }

    /// Adds a host without interfaces.
    pub fn add_host(&mut self) -> HostId {
        self.hosts.push(Host::default());
        HostId(self.hosts.len() - 1)
    }

    /// Adds an interface with one address to a host. With an unknown host it has no effect, and nothing can be sent by
    /// it.
    pub fn add_interface(&mut self, host: HostId, address: IpAddr) -> InterfaceId {
        let Some(owner) = self.hosts.get_mut(host.0) else {
            return InterfaceId { host, index: 0 };
        };
        owner.interfaces.push(Interface { addresses: vec![address], state: LinkState::Up, nat: None });
        let index = u32::try_from(owner.interfaces.len()).unwrap_or(u32::MAX);
        let interface = InterfaceId { host, index };
        self.owners.insert(address, interface);
        interface
    }

    /// Gives an interface an additional address.
    pub fn add_address(&mut self, id: InterfaceId, address: IpAddr) {
        let Some(interface) = self.interface_mut(id) else { return };
        interface.addresses.push(address);
        if interface.nat.is_none() {
            self.owners.insert(address, id);
        }
    }

    /// Removes an address from an interface. Packets in flight to it are lost.
    pub fn remove_address(&mut self, id: InterfaceId, address: IpAddr) {
        let Some(interface) = self.interface_mut(id) else { return };
        interface.addresses.retain(|own| *own != address);
        if self.owners.get(&address) == Some(&id) {
            self.owners.remove(&address);
        }
    }

    /// Adds a NAT before an interface: from outside only the outer address is visible.
    pub fn set_nat(&mut self, id: InterfaceId, nat: Nat) {
        let Some(interface) = self.interface_mut(id) else { return };
        let outer = nat.config().outer;
        interface.nat = Some(nat);
        self.owners.retain(|_, owner| *owner != id);
        self.owners.insert(outer, id);
    }

    /// Changes the outer address of the NAT of an interface.
    pub fn set_outer_address(&mut self, id: InterfaceId, outer: IpAddr) {
        let Some(nat) = self.nat_mut(id) else { return };
        nat.set_outer(outer);
        self.owners.retain(|_, owner| *owner != id);
        self.owners.insert(outer, id);
    }

    /// The NAT before an interface, for instance to [rebind](Nat::rebind) it.
    pub fn nat_mut(&mut self, id: InterfaceId) -> Option<&mut Nat> {
        self.interface_mut(id)?.nat.as_mut()
    }

    /// Sets an interface up or down. The system of the host knows: sending by it is an error.
    pub fn set_interface_state(&mut self, id: InterfaceId, state: LinkState) {
        if let Some(interface) = self.interface_mut(id) {
            interface.state = state;
        }
    }

    /// The addresses of the interfaces of a host that are up.
    pub fn addresses(&self, host: HostId) -> Vec<(InterfaceId, IpAddr)> {
        let Some(owner) = self.hosts.get(host.0) else { return Vec::new() };
        let up = owner.interfaces.iter().zip(1..).filter(|(interface, _)| interface.state == LinkState::Up);
        up.flat_map(|(interface, index)| {
            interface.addresses.iter().map(move |address| (InterfaceId { host, index }, *address))
        })
        .collect()
    }

    /// Adds a link that no route uses yet.
    pub fn add_link(&mut self, now: Instant, config: LinkConfig) -> LinkId {
        self.links.push(Link::new(now, config, self.rng.fork()));
        LinkId(self.links.len() - 1)
    }

    /// Sets the links from one interface to another, in order. Packets in flight stay on their route. Without links
    /// they arrive at once.
    pub fn set_route(&mut self, from: InterfaceId, to: InterfaceId, links: Vec<LinkId>) -> RouteId {
        self.add_route((from, to), Course { links, stripe: None })
    }

    /// Sets parallel links from one interface to another, among which packets are distributed one by one.
    pub fn set_stripe(
        &mut self,
        ends: (InterfaceId, InterfaceId),
        links: Vec<LinkId>,
        stripe: Stripe,
    ) -> RouteId {
        self.add_route(ends, Course { links, stripe: Some(stripe) })
    }

    fn add_route(&mut self, ends: (InterfaceId, InterfaceId), course: Course) -> RouteId {
        self.routes.push(course);
        let route = self.routes.len() - 1;
        self.by_ends.insert(ends, route);
        RouteId(route)
    }

    /// Sets which size of packets links count from now on.
    pub fn set_sizes(&mut self, sizes: Sizes) {
        self.sizes = sizes;
    }

    /// Packets that have passed the last link of a route since the last call; the first call starts the recording.
    pub fn take_passed(&mut self) -> Vec<Passed> {
        self.passed.replace(Vec::new()).unwrap_or_default()
    }

    /// Connects two interfaces by two new links, there and back.
    pub fn connect(
        &mut self,
        now: Instant,
        (from, to): (InterfaceId, InterfaceId),
        there: LinkConfig,
        back: LinkConfig,
    ) -> (LinkId, LinkId) {
        let links = (self.add_link(now, there), self.add_link(now, back));
        self.set_route(from, to, vec![links.0]);
        self.set_route(to, from, vec![links.1]);
        links
    }

    /// A link, for its counters.
    pub fn link(&self, id: LinkId) -> Option<&Link<Transit>> {
        self.links.get(id.0)
    }

    /// A link, to change it.
    pub fn link_mut(&mut self, id: LinkId) -> Option<&mut Link<Transit>> {
        self.links.get_mut(id.0)
    }

    /// All links in the order of creation.
    pub fn links(&self) -> &[Link<Transit>] {
        &self.links
    }

    /// Adds a rule for packets that are sent from now on.
    pub fn add_rule(&mut self, matching: Matching, action: Action) -> RuleId {
        self.rules.add(matching, action)
    }

    /// Removes a rule; returns how many packets it met, `None` if it was removed before.
    pub fn remove_rule(&mut self, id: RuleId) -> Option<u64> {
        self.rules.remove(id)
    }

    /// How many packets a rule has met.
    pub fn rule_hits(&self, id: RuleId) -> Option<u64> {
        self.rules.hits(id)
    }

    /// The counters.
    pub fn counters(&self) -> NetworkCounters {
        self.counters
    }

    /// Whether every packet is accounted for, in the network and on every link.
    pub fn balances(&self) -> bool {
        let books = &self.counters;
        let mut sources = books.sent + books.copied;
        let mut sinks = books.arrived + books.ruled_out + books.stray + books.kept_out + books.interface_down;
        sinks += self.held.len() as u64 + self.arrived.len() as u64;
        for link in &self.links {
            let link = link.counters();
            sources += link.duplicated.packets;
            sinks += link.dropped().packets + link.held.packets;
        }
        sources == sinks && self.links.iter().all(|link| link.counters().balance())
    }

    /// Sends a datagram from a host.
    ///
    /// # Errors
    /// If the host's own system would refuse it. Later losses are silent.
    pub fn send(
        &mut self,
        now: Instant,
        (host, tuple): (HostId, FourTuple),
        ecn: Ecn,
        data: Vec<u8>,
    ) -> Result<(), SendError> {
        let leaves = self.own_interface(host, tuple.local)?;
        self.counters.sent += 1;
        let (local, remote) = (tuple.local.address, tuple.remote);
        let source = match self.nat_mut(leaves) {
            Some(nat) => nat.outbound(now, local, remote),
            None => local,
        };
        let packet = Packet { source, destination: remote, ecn, data };
        let enters = self.owners.get(&remote.ip()).copied();
        let route = enters.and_then(|enters| self.by_ends.get(&(leaves, enters)).copied());
        let (Some(enters), Some(route)) = (enters, route) else {
            self.counters.stray += 1;
            return Ok(());
        };
        let addresses = [source.ip(), remote.ip()];
        let facts = Facts { from: host, leaves, enters, addresses, data: &packet.data };
        let action = self.rules.decide(facts);
        self.apply(now, action, Transit { packet, route, hop: 0 });
        Ok(())
    }

    /// When to call [`poll`](Self::poll) next.
    pub fn next_event(&self) -> Option<Instant> {
        if !self.arrived.is_empty() {
            return Some(Instant::from_nanos(0));
        }
        let held = self.held.keys().next().map(|(moment, _)| *moment);
        self.links.iter().filter_map(Link::next_departure).chain(held).min()
    }

    /// Takes the next datagram that has arrived by `now`. Call it until it returns nothing, and at every time that
    /// [`next_event`](Self::next_event) returns: a packet enters its next link at `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Arrival> {
        loop {
            if let Some(arrival) = self.arrived.pop_front() {
                self.counters.arrived += 1;
                return Some(arrival);
            }
            if !self.advance(now) {
                return None;
            }
        }
    }

    fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        let place = usize::try_from(id.index.checked_sub(1)?).ok()?;
        self.hosts.get(id.host.0)?.interfaces.get(place)
    }

    fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut Interface> {
        let place = usize::try_from(id.index.checked_sub(1)?).ok()?;
        self.hosts.get_mut(id.host.0)?.interfaces.get_mut(place)
    }

    /// The interface by which a host sends from `local`.
    fn own_interface(&self, host: HostId, local: LocalAddress) -> Result<InterfaceId, SendError> {
        let missing = SendError::AddressNotAvailable { local };
        let owner = self.hosts.get(host.0).ok_or(missing)?;
        let (interface, index) = owner
            .interfaces
            .iter()
            .zip(1..)
            .filter(|(_, index)| local.interface == 0 || local.interface == *index)
            .find(|(interface, _)| interface.addresses.contains(&local.address.ip()))
            .ok_or(missing)?;
        let id = InterfaceId { host, index };
        match interface.state {
            LinkState::Up => Ok(id),
            LinkState::Down => Err(SendError::InterfaceDown { interface: id }),
        }
    }

    fn apply(&mut self, now: Instant, action: Option<Action>, mut transit: Transit) {
        match action {
            None => self.forward(now, transit),
            Some(Action::Drop) => self.counters.ruled_out += 1,
            Some(Action::Delay(time)) => self.hold(now + time, transit),
            Some(Action::Corrupt) => {
                transit.flip_bit(self.rng.next_u64());
                self.forward(now, transit);
            }
            Some(Action::Copy(after)) => {
                self.counters.copied += 1;
                self.hold(now + after, transit.clone());
                self.forward(now, transit);
            }
        }
    }

    fn hold(&mut self, until: Instant, transit: Transit) {
        self.held.insert((until, self.held_so_far), transit);
        self.held_so_far += 1;
    }

    /// Moves everything that is due; returns whether anything moved.
    fn advance(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(entry) = self.held.first_entry().filter(|entry| entry.key().0 <= now) {
            let transit = entry.remove();
            self.forward(now, transit);
            moved = true;
        }
        for place in 0..self.links.len() {
            while let Some(mut transit) = self.links.get_mut(place).and_then(|link| link.poll(now)) {
                transit.hop += 1;
                self.forward(now, transit);
                moved = true;
            }
        }
        moved
    }

    /// Passes a packet to the next link of its route, or to the host at its end.
    fn forward(&mut self, now: Instant, transit: Transit) {
        let next = self.routes.get_mut(transit.route).and_then(|course| course.link(transit.hop));
        match next.and_then(|link| self.links.get_mut(link.0)) {
            Some(link) => {
                let size = match self.sizes {
                    Sizes::Payload => transit.packet.data.len(),
                    Sizes::Whole => transit.packet.whole(),
                };
                link.send(now, size, transit);
            }
            None => {
                let bytes = transit.packet.whole();
                if let Some(passed) = &mut self.passed {
                    passed.push(Passed { route: RouteId(transit.route), at: now, bytes });
                }
                self.arrive(now, transit.packet);
            }
        }
    }

    fn arrive(&mut self, now: Instant, packet: Packet) {
        let Packet { source, destination, ecn, data } = packet;
        let Some(id) = self.owners.get(&destination.ip()).copied() else {
            self.counters.stray += 1;
            return;
        };
        let Some(interface) = self.interface(id).filter(|interface| interface.state == LinkState::Up) else {
            self.counters.interface_down += 1;
            return;
        };
        let inner = match &interface.nat {
            Some(nat) => nat.inbound(now, source, destination),
            None => Some(destination),
        };
        let Some(address) = inner.filter(|inner| interface.addresses.contains(&inner.ip())) else {
            self.counters.kept_out += 1;
            return;
        };
        let local = LocalAddress { interface: id.index, address };
        self.arrived.push_back(Arrival { host: id.host, tuple: FourTuple::udp(local, source), ecn, data });
    }

    /// Sends a packet with a forged source: an attacker on the path between two interfaces.
    pub fn inject(&mut self, now: Instant, (from, to): (InterfaceId, InterfaceId), packet: Packet) {
        self.counters.sent += 1;
        match self.by_ends.get(&(from, to)).copied() {
            Some(route) => self.forward(now, Transit { packet, route, hop: 0 }),
            None => self.counters.stray += 1,
        }
    }
}

#[cfg(test)]
mod tests;
