//! The addresses, rules and routes of the two hosts, as lines for `ip`.
//!
//! Each interface has a routing table of its own with a default route over it, and a rule for each of its addresses
//! that selects this table: packets of a socket bound to an address leave by the address's interface. The main table
//! leads to each address of the other host over every interface from which a route goes there; the best route has the
//! least metric, so when its interface goes down the next one takes over, as on an ordinary host.

use std::cmp::Reverse;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use manyway_sim::pair::Side;

use crate::LabError;
use crate::scenario::{Interface, Route, Scenario};

/// The current configuration of the two hosts.
#[derive(Debug)]
pub(super) struct Plan {
    client: Vec<Wired>,
    server: Vec<Wired>,
    /// Interfaces of client and server that are joined by a route, the best first.
    routes: Vec<(usize, usize)>,
}

/// An interface.
#[derive(Debug)]
struct Wired {
    name: String,
    mtu: u16,
    addresses: Vec<IpAddr>,
    /// Its address for the other host, if it differs from its own.
    outer: Option<IpAddr>,
    /// The largest packet of TCP that its peers are to send.
    tcp_packet: Option<u16>,
    is_up: bool,
}

/// Packets that a device holds for the emulator. The emulator empties it at once, so this is no queue but room for one
/// burst of a host.
const DEVICE_QUEUE: u32 = 1_000;

impl Plan {
    /// Assigns addresses to every interface of a scenario.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let wire = |side, interfaces: &[Interface]| {
            interfaces
                .iter()
                .enumerate()
                .map(|(place, interface)| Wired::new(side, place, interface))
                .collect()
        };
        let ranked = |routes: &'_ [Route]| {
            let mut ranked = routes.to_vec();
            ranked.sort_by_key(|route| rank(scenario, route));
            ranked
        };
        // A program that chooses no address takes no route of others.
        let ranked = [ranked(&scenario.routes), ranked(&scenario.cross_routes)].concat();
        Self {
            client: wire(Side::Client, &scenario.client),
            server: wire(Side::Server, &scenario.server),
            routes: ranked.iter().map(|route| (route.client, route.server)).collect(),
        }
    }

    /// The names of a host's interfaces.
    pub(super) fn names(&self, side: Side) -> Vec<String> {
        self.host(side).iter().map(|wired| wired.name.clone()).collect()
    }

    /// The addresses of each interface of a host.
    pub(super) fn addresses(&self, side: Side) -> Vec<Vec<IpAddr>> {
        self.host(side).iter().map(|wired| wired.addresses.clone()).collect()
    }

    /// Lines that configure an existing interface.
    pub(super) fn set_up(&self, side: Side, interface: usize) -> Result<String, LabError> {
        let wired = self.wired(side, interface)?;
        let Wired { name, mtu, .. } = wired;
        let mut lines = format!("link set dev {name} mtu {mtu} txqueuelen {DEVICE_QUEUE}\n");
        for address in &wired.addresses {
            lines += &enter(address, name, interface);
        }
        if wired.is_up {
            lines += &format!("link set dev {name} up\n");
        }
        lines += &self.routes(side, interface)?;
        Ok(lines)
    }

    /// Records whether an interface is up, and returns the lines that make it so.
    pub(super) fn set_state(
        &mut self,
        side: Side,
        interface: usize,
        is_up: bool,
    ) -> Result<String, LabError> {
        let wired = self.wired_mut(side, interface)?;
        wired.is_up = is_up;
        let name = wired.name.clone();
        if !is_up {
            return Ok(format!("link set dev {name} down\n"));
        }
        // The system has removed the routes, but neither addresses nor rules.
        Ok(format!("link set dev {name} up\n{}", self.routes(side, interface)?))
    }

    /// Replaces the first address, and returns the lines for this host and, optional and required, for the other one.
    pub(super) fn readdress(
        &mut self,
        side: Side,
        interface: usize,
        address: IpAddr,
    ) -> Result<Readdressing, LabError> {
        let wired = self.wired_mut(side, interface)?;
        let old = wired.addresses.first().copied();
        let outer = wired.outer;
        if let Some(first) = wired.addresses.first_mut() {
            *first = address;
        } else {
            wired.addresses.push(address);
        }
        let name = wired.name.clone();
        let mut here = old.map_or_else(String::new, |old| leave(&old, &name, interface));
        here += &enter(&address, &name, interface);
        here += &self.routes(side, interface)?;
        let mut there = Readdressing { here, there_old: String::new(), there_new: String::new() };
        if outer.is_some() {
            return Ok(there);
        }
        if let Some(old) = old {
            // All its routes, whatever their device.
            for _ in self.host(side.other()) {
                there.there_old += &format!("route del {old}\n");
            }
        }
        for place in 0..self.host(side.other()).len() {
            there.there_new += &self.routes(side.other(), place)?;
        }
        Ok(there)
    }

    /// Lines for the routes by an interface: none while it is down.
    fn routes(&self, side: Side, interface: usize) -> Result<String, LabError> {
        let wired = self.wired(side, interface)?;
        let name = &wired.name;
        let mut lines = String::new();
        if !wired.is_up {
            return Ok(lines);
        }
        for (family, all) in [(true, "0.0.0.0/0"), (false, "::/0")] {
            let Some(source) = wired.addresses.iter().find(|address| address.is_ipv4() == family) else {
                continue;
            };
            let size = wired.advertised(family);
            line(&mut lines, format_args!("route replace {all} dev {name} table {}{size}", table(interface)));
            for (metric, peer) in self.peers(side, interface).filter(|(_, peer)| peer.is_ipv4() == family) {
                line(
                    &mut lines,
                    format_args!("route replace {peer} dev {name} src {source} metric {metric}{size}"),
                );
            }
        }
        Ok(lines)
    }

    /// The addresses that an interface reaches, with the metrics of the routes there.
    fn peers(&self, side: Side, interface: usize) -> impl Iterator<Item = (usize, IpAddr)> + '_ {
        let ends = self.routes.iter().map(move |(client, server)| match side {
            Side::Client => (*client, *server),
            Side::Server => (*server, *client),
        });
        let there = self.host(side.other());
        ends.enumerate()
            .filter(move |(_, (own, _))| *own == interface)
            .filter_map(|(rank, (_, peer))| there.get(peer).map(|wired| (rank, wired)))
            .flat_map(|(rank, wired)| wired.visible().map(move |address| (FIRST_METRIC + rank, address)))
    }

    fn host(&self, side: Side) -> &[Wired] {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    fn wired(&self, side: Side, interface: usize) -> Result<&Wired, LabError> {
        self.host(side).get(interface).ok_or_else(|| unknown(interface))
    }

    fn wired_mut(&mut self, side: Side, interface: usize) -> Result<&mut Wired, LabError> {
        let host = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        host.get_mut(interface).ok_or_else(|| unknown(interface))
    }
}

/// The changes for another address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Readdressing {
    /// For its host.
    pub(super) here: String,
    /// For the other host, as far as they apply.
    pub(super) there_old: String,
    /// For the other host, after those.
    pub(super) there_new: String,
}

impl Wired {
    fn new(side: Side, place: usize, interface: &Interface) -> Self {
        let addresses = if interface.addresses.is_empty() {
            vec![default_address(side, place)]
        } else {
            interface.addresses.clone()
        };
        Self {
            name: interface.name.clone(),
            mtu: interface.mtu,
            addresses,
            outer: interface.nat.map(|nat| nat.outer),
            tcp_packet: interface.tcp_packet,
            is_up: !interface.starts_down,
        }
    }

    /// The option of a route that tells peers the size of TCP's segments, which is without the headers.
    fn advertised(&self, is_ipv4: bool) -> String {
        let headers = if is_ipv4 { 40 } else { 60 };
        self.tcp_packet
            .map_or_else(String::new, |packet| format!(" advmss {}", packet.saturating_sub(headers)))
    }

    fn visible(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let own: &[IpAddr] = if self.outer.is_some() { &[] } else { &self.addresses };
        self.outer.into_iter().chain(own.iter().copied())
    }
}

/// The default address of an interface: `10.77.<n>.1` at the client and `10.78.<n>.1` at the server, where the first
/// interface has n = 1.
pub fn default_address(side: Side, place: usize) -> IpAddr {
    let network = match side {
        Side::Client => 77,
        Side::Server => 78,
    };
    let number = u8::try_from(place.saturating_add(1)).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, network, number, 1).into()
}

/// Small for good routes: first a high rate at the narrowest link, then a low delay.
fn rank(scenario: &Scenario, route: &Route) -> (Reverse<manyway_proto::Rate>, std::time::Duration) {
    let links = || route.links.iter().filter_map(|link| scenario.links.get(*link));
    let narrowest = links().map(|link| link.up.rate.nominal().min(link.down.rate.nominal())).min();
    let delay = links().map(|link| link.up.delay.base + link.down.delay.base).sum();
    (Reverse(narrowest.unwrap_or(manyway_proto::Rate::MAX)), delay)
}

fn enter(address: &IpAddr, device: &str, interface: usize) -> String {
    let table = table(interface);
    match address {
        IpAddr::V4(_) => {
            format!("address add {address}/32 dev {device}\nrule add from {address} lookup {table}\n")
        }
        IpAddr::V6(_) => {
            format!(
                "address add {address}/128 dev {device} nodad\n-6 rule add from {address} lookup {table}\n"
            )
        }
    }
}

fn leave(address: &IpAddr, device: &str, interface: usize) -> String {
    let table = table(interface);
    match address {
        IpAddr::V4(_) => {
            format!("rule del from {address} lookup {table}\naddress del {address}/32 dev {device}\n")
        }
        IpAddr::V6(_) => {
            format!("-6 rule del from {address} lookup {table}\naddress del {address}/128 dev {device}\n")
        }
    }
}

fn line(lines: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(lines, "{line}");
}

/// The number of an interface's routing table.
fn table(interface: usize) -> usize {
    100 + interface
}

const FIRST_METRIC: usize = 10;

fn unknown(interface: usize) -> LabError {
    LabError::Scenario(format!("there is no interface {interface}"))
}
