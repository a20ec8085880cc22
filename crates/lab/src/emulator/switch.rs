//! The links and routes of a scenario as a state machine without sockets and clocks: packets and times in, packets out.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rng};
use manyway_sim::Stripe;
use manyway_sim::link::{self, Link, LinkState, Parcel as _};

use super::agenda::Agenda;
use super::header::Header;
use super::lateness::Histogram;
use super::packet::IpPacket;
use super::pool::Pool;
use super::report::{Count, InterfaceReport, LinkCounters, LinkReport, Snapshot};
use super::translate::Translator;
use crate::LabError;
use crate::outcome::{Arrivals, RouteTotals};
use crate::scenario::{Change, Checksum, Direction, FirstTransmissions, Interface, Scenario, Setting, Side};

/// Accepts packets at the interfaces of one host, passes them through links, and delivers them to the other.
///
/// Interfaces are numbered consecutively, those of the client first. When a packet leaves a link, the next link of its
/// route gets it at the computed time, not at that of the call; so late calls do not accumulate.
#[derive(Debug)]
pub(super) struct Switch {
    /// Both directions of each link: up at `2 × link`, down after it.
    lanes: Vec<Lane>,
    /// Both directions of each route, likewise.
    ways: Vec<Way>,
    ports: Vec<Port>,
    clients: usize,
    agenda: Agenda,
    pool: Rc<Pool>,
    lateness: Histogram,
    begun: Option<Instant>,
    sabotage: Option<Sabotage>,
}

/// Damage to what the client sends for the first time.
#[derive(Debug)]
struct Sabotage {
    following: FirstTransmissions,
    checksum: Checksum,
    rng: Rng,
}

impl Sabotage {
    fn treat(&mut self, packet: &mut IpPacket) {
        let bytes = packet.buffer.bytes();
        let sent = Header::read(bytes).and_then(|header| header.sent(bytes));
        if sent.is_some_and(|sent| self.following.damages(sent)) {
            packet.checksum = self.checksum;
            packet.flip_bit(self.rng.next_u64());
        }
    }
}

/// One direction of a link.
#[derive(Debug)]
struct Lane {
    name: String,
    link: Link<IpPacket>,
    checksum: Checksum,
}

/// One direction of a route.
#[derive(Debug)]
struct Way {
    lanes: Vec<usize>,
    /// Each packet takes one of the lanes; `None`: all of them in order.
    stripe: Option<Stripe>,
    entrance: usize,
    exit: usize,
    arrivals: Arrivals,
    lost: Rc<Cell<u64>>,
}

/// An interface.
#[derive(Debug)]
struct Port {
    /// The addresses by which the other host knows it.
    visible: Vec<IpAddr>,
    /// Ways by destination.
    reach: BTreeMap<IpAddr, usize>,
    nat: Option<Translator>,
    figures: InterfaceReport,
}

impl Switch {
    /// Makes the links of a scenario, empty. `addresses` are those of the interfaces, the client's first.
    ///
    /// # Errors
    /// [`LabError::Scenario`] if a route names a link or an interface that does not exist.
    pub(super) fn new(
        now: Instant,
        scenario: &Scenario,
        addresses: &[Vec<IpAddr>],
        seed: u64,
    ) -> Result<Self, LabError> {
        let mut rng = Rng::from_seed(wide(seed));
        let lanes: Vec<Lane> = (scenario.links.iter())
            .flat_map(|link| [(link, &link.up), (link, &link.down)])
            .map(|(link, config)| Lane {
                name: link.name.clone(),
                link: Link::new(now, config.clone().with_overhead(0), rng.fork()),
                checksum: link.checksum,
            })
            .collect();
        let interfaces = (scenario.client.iter().map(|interface| (Side::Client, interface)))
            .chain(scenario.server.iter().map(|interface| (Side::Server, interface)));
        let none: &[IpAddr] = &[];
        let ports = interfaces
            .enumerate()
            .map(|(place, (side, interface))| {
                Port::new(side, interface, addresses.get(place).map_or(none, Vec::as_slice))
            })
            .collect();
        let mut switch = Self {
            agenda: Agenda::new(lanes.len()),
            lanes,
            ways: ways(scenario)?,
            ports,
            clients: scenario.client.len(),
            pool: Rc::new(Pool::default()),
            lateness: Histogram::new(),
            begun: None,
            sabotage: scenario.damage.map(|damage| Sabotage {
                following: FirstTransmissions::new(damage.pattern, rng.fork()),
                checksum: damage.checksum,
                rng: rng.fork(),
            }),
        };
        switch.learn();
        Ok(switch)
    }

    /// Starts the series.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = Some(now);
        self.ways.iter().for_each(|way| way.lost.set(0));
    }

    /// When [`Self::advance`] is due.
    pub(super) fn next(&mut self) -> Option<Instant> {
        self.agenda.next()
    }

    /// Accepts a packet from the host at an interface.
    pub(super) fn enter(&mut self, now: Instant, interface: usize, packet: &[u8], exit: &mut impl Exit) {
        let Some(port) = self.ports.get_mut(interface) else { return };
        count(&mut port.figures.sent, packet.len());
        let way = Header::destination(packet).and_then(|to| port.reach.get(&to).copied());
        let Some((way, lost)) = way.and_then(|way| self.ways.get(way).map(|found| (way, &found.lost))) else {
            return count(&mut port.figures.unrouted, packet.len());
        };
        let mut buffer = self.pool.fill(packet);
        if let Some(nat) = &mut port.nat
            && nat.outbound(now, buffer.bytes_mut()).is_none()
        {
            return count(&mut port.figures.untranslated, packet.len());
        }
        let mut packet = IpPacket::new(buffer, way, lost);
        if interface < self.clients
            && let Some(sabotage) = &mut self.sabotage
        {
            sabotage.treat(&mut packet);
        }
        self.forward(now, packet, exit);
    }

    /// Moves everything that is due by `now`.
    pub(super) fn advance(&mut self, now: Instant, exit: &mut impl Exit) {
        while let Some((at, place)) = self.agenda.pop(now) {
            while let Some(packet) = self.lanes.get_mut(place).and_then(|lane| lane.link.poll(at)) {
                self.lateness.record(now - at);
                self.forward(at, packet, exit);
            }
            self.plan(place);
        }
    }

    /// Records the delay of something else.
    pub(super) fn record_late(&mut self, late: Duration) {
        self.lateness.record(late);
    }

    /// Changes a link or a NAT.
    ///
    /// # Errors
    /// [`LabError::Scenario`] if there is none of that number; the hosts change interfaces and addresses.
    pub(super) fn apply(&mut self, now: Instant, change: &Change) -> Result<(), LabError> {
        match change {
            Change::Cut { link, direction } => {
                self.on_lanes(*link, *direction, |lane| lane.link.set_state(now, LinkState::Down))
            }
            Change::Restore { link, direction } => {
                self.on_lanes(*link, *direction, |lane| lane.link.set_state(now, LinkState::Up))
            }
            Change::Set { link, direction, setting } => {
                self.on_lanes(*link, *direction, |lane| set(now, &mut lane.link, setting))
            }
            Change::Rebind { side, interface } => {
                let place = self.port(*side, *interface)?;
                if let Some(nat) = self.ports.get_mut(place).and_then(|port| port.nat.as_mut()) {
                    nat.rebind();
                    return Ok(());
                }
                Err(LabError::Scenario(format!("interface {interface} has no address translator")))
            }
            Change::InterfaceDown { .. } | Change::InterfaceUp { .. } | Change::Readdress { .. } => {
                Err(LabError::Scenario("interfaces are changed at the hosts".into()))
            }
        }
    }

    /// Updates the addresses of an interface; behind a NAT nothing changes for the other host.
    ///
    /// # Errors
    /// [`LabError::Scenario`] if there is no such interface.
    pub(super) fn readdress(&mut self, side: Side, interface: usize, to: &[IpAddr]) -> Result<(), LabError> {
        let place = self.port(side, interface)?;
        if let Some(port) = self.ports.get_mut(place).filter(|port| port.nat.is_none()) {
            port.visible = to.to_vec();
        }
        self.learn();
        Ok(())
    }

    /// Data delivered by each route, those of others last.
    pub(super) fn routes(&self) -> Vec<RouteTotals> {
        let pairs = self.ways.chunks_exact(2).filter_map(|pair| <&[Way; 2]>::try_from(pair).ok());
        pairs
            .map(|[up, down]| RouteTotals {
                up: up.arrivals.clone(),
                down: down.arrivals.clone(),
                dropped: up.lost.get() + down.lost.get(),
            })
            .collect()
    }

    /// All other figures.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let pairs = self.lanes.chunks_exact(2).filter_map(|pair| <&[Lane; 2]>::try_from(pair).ok());
        Snapshot {
            at: self.begun.map(|begun| now - begun),
            links: pairs
                .map(|[up, down]| LinkReport {
                    name: up.name.clone(),
                    up: up.link.counters().into(),
                    down: down.link.counters().into(),
                })
                .collect(),
            interfaces: self.ports.iter().map(|port| port.figures.clone()).collect(),
            lateness: self.lateness.figures(),
            busy: Duration::ZERO,
        }
    }

    /// Passes a packet to the next link of its way, or to the host at the end.
    fn forward(&mut self, now: Instant, mut packet: IpPacket, exit: &mut impl Exit) {
        let Some(way) = self.ways.get_mut(packet.journey.way) else { return };
        let Some(place) = way.lane(packet.journey.links) else {
            return self.leave(now, packet, exit);
        };
        if let Some(lane) = self.lanes.get_mut(place) {
            packet.journey.links += 1;
            packet.checksum = lane.checksum;
            lane.link.send(now, packet.buffer.bytes().len(), packet);
            self.plan(place);
        }
    }

    fn leave(&mut self, now: Instant, mut packet: IpPacket, exit: &mut impl Exit) {
        packet.arrive();
        let Some(way) = self.ways.get_mut(packet.journey.way) else { return };
        let Some(port) = self.ports.get_mut(way.exit) else { return };
        let size = packet.buffer.bytes().len();
        if let Some(nat) = &mut port.nat
            && nat.inbound(now, packet.buffer.bytes_mut()).is_none()
        {
            return count(&mut port.figures.untranslated, size);
        }
        if !exit.give(way.exit, packet.buffer.bytes()) {
            return count(&mut port.figures.refused, size);
        }
        count(&mut port.figures.received, size);
        if let Some(begun) = self.begun.filter(|begun| *begun <= now) {
            way.arrivals.record(now - begun, size as u64);
        }
    }

    fn plan(&mut self, place: usize) {
        let at = self.lanes.get(place).and_then(|lane| lane.link.next_departure());
        self.agenda.plan(place, at);
    }

    fn on_lanes(
        &mut self,
        link: usize,
        direction: Direction,
        mut act: impl FnMut(&mut Lane),
    ) -> Result<(), LabError> {
        let places = match direction {
            Direction::Up => 2 * link..2 * link + 1,
            Direction::Down => 2 * link + 1..2 * link + 2,
            Direction::Both => 2 * link..2 * link + 2,
        };
        for place in places {
            let lane = self.lanes.get_mut(place);
            act(lane.ok_or_else(|| LabError::Scenario(format!("there is no link {link}")))?);
            self.plan(place);
        }
        Ok(())
    }

    fn port(&self, side: Side, interface: usize) -> Result<usize, LabError> {
        let (first, end) = match side {
            Side::Client => (0, self.clients),
            Side::Server => (self.clients, self.ports.len()),
        };
        Some(first + interface)
            .filter(|place| *place < end)
            .ok_or_else(|| LabError::Scenario(format!("there is no interface {interface}")))
    }

    /// Fills the tables of destinations.
    fn learn(&mut self) {
        self.ports.iter_mut().for_each(|port| port.reach.clear());
        for (place, way) in self.ways.iter().enumerate() {
            let visible = self.ports.get(way.exit).map(|port| port.visible.clone()).unwrap_or_default();
            if let Some(entrance) = self.ports.get_mut(way.entrance) {
                entrance.reach.extend(visible.into_iter().map(|address| (address, place)));
            }
        }
    }
}

/// The destination of packets that have arrived.
pub(super) trait Exit {
    /// Delivers a packet to the host at an interface; `false` if the host refuses it.
    fn give(&mut self, interface: usize, packet: &[u8]) -> bool;
}

impl Port {
    fn new(side: Side, interface: &Interface, addresses: &[IpAddr]) -> Self {
        let visible = interface.nat.map_or_else(|| addresses.to_vec(), |nat| vec![nat.outer]);
        let side = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        Self {
            visible,
            reach: BTreeMap::new(),
            nat: interface.nat.map(Translator::new),
            figures: InterfaceReport {
                side: side.into(),
                name: interface.name.clone(),
                ..InterfaceReport::default()
            },
        }
    }
}

/// Both directions of all routes.
fn ways(scenario: &Scenario) -> Result<Vec<Way>, LabError> {
    let mut ways = Vec::new();
    for route in scenario.all_routes() {
        let exists = route.client < scenario.client.len()
            && route.server < scenario.server.len()
            && route.links.iter().all(|link| *link < scenario.links.len());
        if !exists {
            let text = format!("route {} names a link or an interface that does not exist", route.name);
            return Err(LabError::Scenario(text));
        }
        let (client, server) = (route.client, scenario.client.len() + route.server);
        let up = route.links.iter().map(|link| 2 * link).collect();
        let down = route.links.iter().rev().map(|link| 2 * link + 1).collect();
        let (shares, back) = (route.shares.clone(), route.shares.iter().rev().copied().collect());
        ways.push(Way::new((up, shares), client, server));
        ways.push(Way::new((down, back), server, client));
    }
    Ok(ways)
}

impl Way {
    fn new((lanes, shares): (Vec<usize>, Vec<u32>), entrance: usize, exit: usize) -> Self {
        let stripe = (!shares.is_empty()).then(|| Stripe::new(shares));
        Self { lanes, stripe, entrance, exit, arrivals: Arrivals::default(), lost: Rc::default() }
    }

    /// The lane for a packet that has passed this many; `None` at the end.
    fn lane(&mut self, behind: usize) -> Option<usize> {
        let place = match &mut self.stripe {
            None => behind,
            Some(stripe) if behind == 0 => stripe.deal(),
            Some(_) => return None,
        };
        self.lanes.get(place).copied()
    }
}

fn set(now: Instant, link: &mut Link<IpPacket>, setting: &Setting) {
    match setting {
        Setting::Rate(rate) => link.set_rate(now, rate.clone()),
        Setting::Delay(delay) => link.set_delay(now, *delay),
        Setting::Queue(queue) => link.set_queue(now, *queue),
        Setting::Loss(loss) => link.set_loss(now, loss.clone()),
        Setting::Corruption(probability) => link.set_corruption(now, *probability),
        Setting::Duplication(probability) => link.set_duplication(now, *probability),
        Setting::Mtu(mtu) => link.set_mtu(now, *mtu),
        Setting::Ecn(treatment) => link.set_ecn(now, *treatment),
        Setting::Drops(drops) => link.set_drops(now, *drops),
    }
}

fn count(count: &mut Count, bytes: usize) {
    count.packets += 1;
    count.bytes += bytes as u64;
}

/// A seed of full width that differs in every byte for adjacent numbers.
fn wide(seed: u64) -> [u8; 32] {
    let mut wide = [0; 32];
    for (number, part) in (1_u64..).zip(wide.chunks_exact_mut(8)) {
        part.copy_from_slice(&seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number).to_le_bytes());
    }
    wide
}

impl From<link::Count> for Count {
    fn from(count: link::Count) -> Self {
        let ByteCount(bytes) = count.bytes;
        Self { packets: count.packets, bytes }
    }
}

impl From<&link::LinkCounters> for LinkCounters {
    fn from(counters: &link::LinkCounters) -> Self {
        Self {
            offered: counters.offered.into(),
            delivered: counters.delivered.into(),
            queue_full: counters.queue_full.into(),
            queue_law: counters.queue_law.into(),
            lost: counters.lost.into(),
            outage: counters.outage.into(),
            too_large: counters.too_large.into(),
            black_hole: counters.black_hole.into(),
            filtered: counters.filtered.into(),
            duplicated: counters.duplicated.into(),
            corrupted: counters.corrupted.into(),
            marked: counters.marked.into(),
            held: counters.held.into(),
        }
    }
}
