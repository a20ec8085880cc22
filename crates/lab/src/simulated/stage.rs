//! A scenario as a simulated network: hosts, links and routes in virtual time, and events.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use manyway_proto::scheduler::PathTerms;
use manyway_proto::{ByteCount, ConnectionConfig, Event, Instant, LocalAddress};
use manyway_sim::link::{Link as OneWay, LinkConfig, LinkState};
use manyway_sim::nat::Nat;
use manyway_sim::rule::{Action, Matching};
use manyway_sim::{
    CrossFlow, CrossHost, EndpointPeer, HostId, InterfaceId, LinkId, Network, Part, Peer as _, RouteId,
    Sizes, Stripe, TcpPeer, TcpPlan, Transit, World,
};

use super::setup::{Setup, Tcp};
use crate::contender::Wire;
use crate::outcome::{RouteTotals, SetUp};
use manyway_sim::{CLIENT_PORT, SERVER_PORT};

use crate::scenario::{
    self, Change, Direction, Ending, FirstTransmissions, Interface, Pattern, Scenario, Sent, Setting, Side,
    default_address,
};

/// Most addresses that a server advertises (spec 6.6).
const MOST_NAMED: usize = 8;

/// The two hosts and the network between them.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) world: World<CrossHost>,
    client: Host,
    server: Host,
    links: Vec<Ways<LinkId>>,
    routes: Vec<Route>,
    /// When set-up began, and what it has taken.
    set_up: (Instant, SetUp),
}

/// A value for each direction.
#[derive(Debug, Clone, Copy)]
struct Ways<T> {
    up: T,
    down: T,
}

#[derive(Debug)]
struct Host {
    id: HostId,
    interfaces: Vec<Attached>,
}

/// An interface with its present addresses.
#[derive(Debug)]
struct Attached {
    id: InterfaceId,
    addresses: Vec<IpAddr>,
    cost: u8,
    is_for_others: bool,
}

#[derive(Debug)]
struct Route {
    ids: Ways<RouteId>,
    links: Vec<LinkId>,
    totals: RouteTotals,
    /// Packets that its links had dropped before the traffic began.
    dropped_before: u64,
}

impl Stage {
    /// Builds the network of a scenario; everything random in it follows from the seed.
    pub(super) fn new(scenario: &Scenario, setup: &Setup, seed: u64) -> Self {
        let mut config = setup.config.clone();
        let mut world = World::new(seed);
        if let Ending::NoPath(patience) = scenario.ending {
            config.no_path_timeout = patience;
        }
        let (near, far) = (Arc::new(config.clone()), Arc::new(naming(config, &scenario.server)));
        let [client, server] = [world.fork_rng(), world.fork_rng()];
        let [client, server] = match setup.wire {
            Wire::Mmsp2 => [EndpointPeer::client(near, client), EndpointPeer::server(far, server)],
            Wire::Mmsp1 => {
                [EndpointPeer::mmsp1_client(near, client), EndpointPeer::mmsp1_server(far, server)]
            }
        };
        let congestion = setup.tcp.map(|tcp| tcp.congestion).unwrap_or_default();
        let packet = scenario.client.iter().chain(&scenario.server).filter_map(|one| one.tcp_packet).min();
        let [client, server] = [client, server].map(|peer| {
            let peer = TcpPeer::new(peer).with_congestion(congestion);
            let peer = if let Some(packet) = packet { peer.with_packets(packet) } else { peer };
            world.add_node(CrossHost::new(peer))
        });
        let now = world.now();
        let network = world.network_mut();
        // Scenarios count whole IP packets.
        network.set_sizes(Sizes::Whole);
        let client = Host::attach(network, (client, Side::Client), &scenario.client);
        let server = Host::attach(network, (server, Side::Server), &scenario.server);
        let links: Vec<_> = (0..scenario.links.len())
            .filter_map(|place| {
                let (up, down) = bounded(scenario, place)?;
                Some(Ways { up: network.add_link(now, up), down: network.add_link(now, down) })
            })
            .collect();
        let mut stage =
            Self { world, client, server, links, routes: Vec::new(), set_up: (now, SetUp::default()) };
        if let Some(damage) = scenario.damage {
            stage.damage(damage.pattern);
        }
        for route in scenario.all_routes() {
            let ends =
                stage.client.interfaces.get(route.client).zip(stage.server.interfaces.get(route.server));
            if let Some((from, to)) = ends.map(|(from, to)| (from.id, to.id)) {
                stage.add_route((from, to), route);
            }
        }
        if let Some(tcp) = setup.tcp {
            stage.plan(scenario, tcp);
        }
        stage
    }

    /// Lets the client use TCP alone: each of its interfaces a route of its own to an interface of the server that no other
    /// uses, if there is one. What is down at the start is left out.
    fn plan(&mut self, scenario: &Scenario, tcp: Tcp) {
        let mut taken = Vec::new();
        let mut pairs = Vec::new();
        let all: Vec<usize> = (0..scenario.routes.len()).collect();
        let at_start = scenario.at_start(&all);
        for interface in 0..scenario.client.len() {
            let mut routes: Vec<_> = at_start
                .iter()
                .copied()
                .filter(|route| scenario.routes.get(*route).is_some_and(|route| route.client == interface))
                .collect();
            routes
                .sort_by_key(|route| taken.contains(&scenario.routes.get(*route).map(|route| route.server)));
            let Some(route) = routes.first().copied() else { continue };
            taken.push(scenario.routes.get(route).map(|route| route.server));
            pairs.extend(self.ends(scenario, route).map(|[near, far]| (near, far.address)));
        }
        let plan = TcpPlan { pairs, connections: tcp.connections };
        if let Some(client) = self.peer(Side::Client) {
            client.set_plan(plan);
        }
    }

    /// Flips a bit in some of what the client sends for the first time.
    fn damage(&mut self, pattern: Pattern) {
        let following = Mutex::new(FirstTransmissions::new(pattern, self.world.fork_rng()));
        let is_meant = move |datagram: &[u8]| {
            // No thread panics while it holds the lock; if one did, its state would still be whole.
            let mut following = following.lock().unwrap_or_else(PoisonError::into_inner);
            following.damages(Sent::Datagram(datagram))
        };
        let matching = Matching::all().from(self.client.id).content(is_meant);
        self.world.network_mut().add_rule(matching, Action::Corrupt);
    }

    fn add_route(&mut self, (from, to): (InterfaceId, InterfaceId), route: &scenario::Route) {
        let ways: Vec<_> = route.links.iter().filter_map(|place| self.links.get(*place)).collect();
        let up: Vec<_> = ways.iter().map(|ways| ways.up).collect();
        let down: Vec<_> = ways.iter().rev().map(|ways| ways.down).collect();
        let links = up.iter().chain(&down).copied().collect();
        let network = self.world.network_mut();
        let ids = if route.shares.is_empty() {
            Ways { up: network.set_route(from, to, up), down: network.set_route(to, from, down) }
        } else {
            let (shares, back) = (route.shares.clone(), route.shares.iter().rev().copied().collect());
            Ways {
                up: network.set_stripe((from, to), up, Stripe::new(shares)),
                down: network.set_stripe((to, from), down, Stripe::new(back)),
            }
        };
        self.routes.push(Route { ids, links, totals: RouteTotals::default(), dropped_before: 0 });
    }

    pub(super) fn host(&self, side: Side) -> HostId {
        match side {
            Side::Client => self.client.id,
            Side::Server => self.server.id,
        }
    }

    pub(super) fn peer(&mut self, side: Side) -> Option<&mut TcpPeer> {
        let host = self.host(side);
        self.world.node_mut(host).map(CrossHost::peer)
    }

    /// Adds both ends of every flow of others; time 0 is `begin`.
    pub(super) fn add_cross_traffic(&mut self, scenario: &Scenario, begin: Instant) {
        for traffic in &scenario.cross_traffic {
            let flow = CrossFlow {
                kind: traffic.kind,
                packet: traffic.packet,
                start: begin + traffic.at,
                end: begin + traffic.end(scenario.limit()),
                bytes: None,
            };
            let route = (traffic.route, traffic.direction);
            (0..traffic.count).for_each(|_| self.add_flow(scenario, route, flow));
        }
    }

    /// Adds both ends of a flow over a route.
    pub(super) fn add_flow(
        &mut self,
        scenario: &Scenario,
        (route, direction): (usize, Direction),
        flow: CrossFlow,
    ) {
        let Some([near, far]) = self.ends(scenario, route) else { return };
        // The client connects; the server learns its address behind a NAT, too.
        let (up, down) = match direction {
            Direction::Up | Direction::Both => (Part::Send, Part::Receive),
            Direction::Down => (Part::Receive, Part::Send),
        };
        let ends = [(Side::Client, up, near, Some(far.address.ip())), (Side::Server, down, far, None)];
        for (side, part, local, peer) in ends {
            let host = self.host(side);
            if let Some(node) = self.world.node_mut(host) {
                node.add(flow, part, local, peer);
            }
        }
    }

    /// The first addresses of one family at the ends of a route.
    fn ends(&self, scenario: &Scenario, route: usize) -> Option<[LocalAddress; 2]> {
        let route = scenario.any_route(route)?;
        let near = self.client.interfaces.get(route.client)?;
        let far = self.server.interfaces.get(route.server)?;
        let local = |attached: &Attached, address: IpAddr| LocalAddress {
            interface: attached.id.index,
            address: SocketAddr::new(address, 0),
        };
        near.addresses.iter().find_map(|from| {
            let to = far.addresses.iter().find(|to| to.is_ipv4() == from.is_ipv4())?;
            Some([local(near, *from), local(far, *to)])
        })
    }

    /// Bytes that a flow of others has delivered, by its number.
    pub(super) fn cross_received(&self, flow: usize) -> u64 {
        let received = |host: &Host| self.world.node(host.id).map_or(0, |node| node.received(flow));
        received(&self.client) + received(&self.server)
    }

    /// Starts the connection; the client knows every address of the server.
    pub(super) fn connect(&mut self) -> Result<(), String> {
        let now = self.world.now();
        self.world.network_mut().take_passed();
        let locals = self.locals(Side::Client);
        let remotes: Vec<_> = self.locals(Side::Server).iter().map(|local| local.address).collect();
        self.peer(Side::Client).map_or(Ok(()), |client| client.connect(now, &locals, &remotes))?;
        for local in locals {
            let mut terms = PathTerms::default();
            terms.cost = self.cost(local.interface);
            if let Some(connection) = self.peer(Side::Client).and_then(TcpPeer::connection) {
                connection.set_terms(local, terms);
            }
        }
        Ok(())
    }

    /// The cost of an interface of the client.
    fn cost(&self, index: u32) -> u8 {
        let found = self.client.interfaces.iter().find(|interface| interface.id.index == index);
        found.map_or(0, |interface| interface.cost)
    }

    /// Number of paths that carry data, as the client sees it.
    pub(super) fn ready_paths(&mut self) -> usize {
        let connection = self.peer(Side::Client).and_then(TcpPeer::connection);
        connection.map_or(0, |connection| {
            connection.statistics().paths.iter().filter(|path| path.state.carries_data()).count()
        })
    }

    /// What set-up has taken so far.
    pub(super) fn set_up(&mut self) -> SetUp {
        for passed in self.world.network_mut().take_passed() {
            self.set_up.1.packets += 1;
            self.set_up.1.bytes += ByteCount::of(passed.bytes);
        }
        let (begin, mut set_up) = self.set_up;
        if let Some(peer) = self.peer(Side::Client) {
            let carries = |event: &Event| matches!(event, Event::Path(path) if path.state.carries_data());
            let events = peer.peer().events().iter().filter(|(_, event)| carries(event));
            set_up.took = events.map(|(at, _)| *at - begin).max().unwrap_or_default();
            set_up.memory = peer.connection().map(|connection| connection.pair_memory());
        }
        set_up
    }

    /// The addresses of a host's interfaces that are up.
    fn locals(&self, side: Side) -> Vec<LocalAddress> {
        let port = match side {
            Side::Client => CLIENT_PORT,
            Side::Server => SERVER_PORT,
        };
        let mut addresses = self.world.network().addresses(self.host(side));
        let interfaces = match side {
            Side::Client => &self.client.interfaces,
            Side::Server => &self.server.interfaces,
        };
        addresses.retain(|(id, _)| !interfaces.iter().any(|one| one.id == *id && one.is_for_others));
        let local = |(id, address): (InterfaceId, IpAddr)| LocalAddress {
            interface: id.index,
            address: SocketAddr::new(address, port),
        };
        addresses.into_iter().map(local).collect()
    }

    /// Starts counting the deliveries of routes.
    pub(super) fn count(&mut self) {
        self.world.network_mut().take_passed();
        let network = self.world.network();
        for route in &mut self.routes {
            route.dropped_before = dropped(network, &route.links);
        }
    }

    /// Records the deliveries of routes; time 0 is `begin`.
    pub(super) fn note(&mut self, begin: Instant) {
        for passed in self.world.network_mut().take_passed() {
            let bytes = u64::try_from(passed.bytes).unwrap_or(u64::MAX);
            for route in &mut self.routes {
                let arrivals = if passed.route == route.ids.up {
                    &mut route.totals.up
                } else if passed.route == route.ids.down {
                    &mut route.totals.down
                } else {
                    continue;
                };
                arrivals.record(passed.at - begin, bytes);
            }
        }
    }

    /// The deliveries of the routes, those of others last.
    pub(super) fn totals(self) -> Vec<RouteTotals> {
        let network = self.world.network();
        let total = |mut route: Route| {
            route.totals.dropped = dropped(network, &route.links).saturating_sub(route.dropped_before);
            route.totals
        };
        self.routes.into_iter().map(total).collect()
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Cut { link, direction } => {
                self.with_link((*link, *direction), |now, link| link.set_state(now, LinkState::Down));
            }
            Change::Restore { link, direction } => {
                self.with_link((*link, *direction), |now, link| link.set_state(now, LinkState::Up));
            }
            Change::Set { link, direction, setting } => {
                self.with_link((*link, *direction), |now, link| set(now, link, setting));
            }
            Change::InterfaceDown { side, interface } => {
                self.set_interface((*side, *interface), LinkState::Down);
            }
            Change::InterfaceUp { side, interface } => self.set_interface((*side, *interface), LinkState::Up),
            Change::Readdress { side, interface, address } => {
                self.readdress((*side, *interface), *address);
            }
            Change::Rebind { side, interface } => {
                let Some(id) = self.interface((*side, *interface)).map(|attached| attached.id) else {
                    return;
                };
                if let Some(nat) = self.world.network_mut().nat_mut(id) {
                    nat.rebind();
                }
            }
        }
    }

    fn with_link(
        &mut self,
        (place, direction): (usize, Direction),
        mut change: impl FnMut(Instant, &mut OneWay<Transit>),
    ) {
        let Some(ways) = self.links.get(place).copied() else { return };
        let now = self.world.now();
        let chosen = match direction {
            Direction::Up => [Some(ways.up), None],
            Direction::Down => [None, Some(ways.down)],
            Direction::Both => [Some(ways.up), Some(ways.down)],
        };
        for id in chosen.into_iter().flatten() {
            if let Some(link) = self.world.network_mut().link_mut(id) {
                change(now, link);
            }
        }
    }

    fn interface(&mut self, (side, place): (Side, usize)) -> Option<&mut Attached> {
        let host = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        host.interfaces.get_mut(place)
    }

    fn set_interface(&mut self, place: (Side, usize), state: LinkState) {
        let Some(id) = self.interface(place).map(|attached| attached.id) else { return };
        self.world.network_mut().set_interface_state(id, state);
        self.tell_addresses(place.0);
    }

    /// The new address replaces the first.
    fn readdress(&mut self, place: (Side, usize), address: IpAddr) {
        let Some(attached) = self.interface(place) else { return };
        let Some(first) = attached.addresses.first_mut() else { return };
        let (id, old) = (attached.id, std::mem::replace(first, address));
        let network = self.world.network_mut();
        network.remove_address(id, old);
        network.add_address(id, address);
        self.tell_addresses(place.0);
    }

    /// The system of a host notifies its programs.
    fn tell_addresses(&mut self, side: Side) {
        let (now, locals) = (self.world.now(), self.locals(side));
        let Some(peer) = self.peer(side) else { return };
        peer.set_addresses(now, &locals);
        // As a server on real sockets: the client learns its current addresses.
        if let (Side::Server, Some(connection)) = (side, peer.connection()) {
            let addresses: Vec<_> = locals.iter().map(|local| local.address).collect();
            connection.set_advertised_addresses(&addresses);
        }
    }
}

/// The settings of a server that advertises its addresses after the handshake, as one on real sockets does: the first
/// of each interface and family before its second ones, up to the limit.
fn naming(mut config: ConnectionConfig, interfaces: &[Interface]) -> ConnectionConfig {
    let of_interface = |(place, interface): (usize, &Interface)| {
        let all = addresses(Side::Server, place, interface);
        let turn = |(at, address): (usize, &IpAddr)| {
            let before = all.iter().take(at).filter(|other| other.is_ipv4() == address.is_ipv4());
            (before.count(), SocketAddr::new(*address, SERVER_PORT))
        };
        all.iter().enumerate().map(turn).collect::<Vec<_>>()
    };
    let is_meant = |interface: &Interface| !interface.is_for_others && !interface.starts_down;
    let of_contenders = interfaces.iter().enumerate().filter(|(_, interface)| is_meant(interface));
    let mut named: Vec<_> = of_contenders.flat_map(of_interface).collect();
    named.sort_by_key(|(turn, _)| *turn);
    config.advertised = named.into_iter().map(|(_, address)| address).take(MOST_NAMED).collect();
    config
}

/// The addresses of an interface at the start.
fn addresses(side: Side, place: usize, interface: &Interface) -> Vec<IpAddr> {
    if interface.addresses.is_empty() {
        vec![default_address(side, place)]
    } else {
        interface.addresses.clone()
    }
}

impl Host {
    fn attach(network: &mut Network, (id, side): (HostId, Side), interfaces: &[Interface]) -> Self {
        let attach = |(place, interface): (usize, &Interface)| {
            let addresses = addresses(side, place, interface);
            let mut rest = addresses.iter().copied();
            let attached = network.add_interface(id, rest.next()?);
            rest.for_each(|address| network.add_address(attached, address));
            if interface.starts_down {
                network.set_interface_state(attached, LinkState::Down);
            }
            if let Some(config) = interface.nat {
                network.set_nat(attached, Nat::new(config));
            }
            let Interface { cost, is_for_others, .. } = *interface;
            Some(Attached { id: attached, addresses, cost, is_for_others })
        };
        Self { id, interfaces: interfaces.iter().enumerate().filter_map(attach).collect() }
    }
}

/// Both directions of a link, limited to the MTU of the interfaces at its ends.
fn bounded(scenario: &Scenario, place: usize) -> Option<(LinkConfig, LinkConfig)> {
    let link = scenario.links.get(place)?;
    let routes = scenario.all_routes().filter(|route| route.links.contains(&place));
    let ends = routes.filter_map(|route| {
        Some(scenario.client.get(route.client)?.mtu.min(scenario.server.get(route.server)?.mtu))
    });
    let most = ends.max().unwrap_or(u16::MAX);
    let bound = |config: &LinkConfig| config.clone().with_mtu(config.mtu.min(most));
    Some((bound(&link.up), bound(&link.down)))
}

fn set(now: Instant, link: &mut OneWay<Transit>, setting: &Setting) {
    match setting {
        Setting::Rate(rate) => link.set_rate(now, rate.clone()),
        Setting::Delay(delay) => link.set_delay(now, *delay),
        Setting::Queue(queue) => link.set_queue(now, *queue),
        Setting::Loss(loss) => link.set_loss(now, loss.clone()),
        Setting::Corruption(share) => link.set_corruption(now, *share),
        Setting::Duplication(share) => link.set_duplication(now, *share),
        Setting::Mtu(mtu) => link.set_mtu(now, *mtu),
        Setting::Ecn(treatment) => link.set_ecn(now, *treatment),
        Setting::Drops(drops) => link.set_drops(now, *drops),
    }
}

fn dropped(network: &Network, links: &[LinkId]) -> u64 {
    let links = links.iter().filter_map(|link| network.link(*link));
    links.map(|link| link.counters().dropped().packets).sum()
}
