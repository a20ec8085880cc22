//! The interfaces of the hosts.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use manyway_sim::nat::{Dependence, NatConfig};

use super::properties::mtu;
use super::source::{Table, Value, listed};
use crate::LabError;
use crate::scenario::addresses::{default_address, default_outer};
use crate::scenario::{Interface, Side};

/// Default MTU of an interface.
pub(super) const MTU: u16 = 1500;
/// The server's interface, if the file names none.
const SERVER: &str = "server";
/// Smallest largest packet of TCP; Linux takes no smaller one.
const SMALLEST_TCP: u16 = 576;
const MOST_INTERFACES: usize = 32;
const MOST_ADDRESSES: usize = 8;

/// The interfaces of one side, as they are found.
#[derive(Debug)]
pub(super) struct Host<'a> {
    side: Side,
    /// Whether the file lists them, so that fields may name no others.
    is_listed: bool,
    interfaces: Vec<(Interface, Option<Value<'a>>)>,
}

impl<'a> Host<'a> {
    pub(super) fn read(top: &Table<'a>, side: Side) -> Result<Self, LabError> {
        let section = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let sections = top.read(section, Value::named)?.unwrap_or_default();
        let mut host = Self { side, is_listed: !sections.is_empty(), interfaces: Vec::new() };
        for (name, value) in sections {
            let place = host.add(name, &value)?;
            if let Some((interface, from)) = host.interfaces.get_mut(place) {
                describe(interface, (side, place), &value)?;
                *from = Some(value);
            }
        }
        Ok(host)
    }

    /// The interface of a field.
    pub(super) fn named(&mut self, value: &Value<'a>) -> Result<usize, LabError> {
        let name = value.text()?;
        match self.place(name) {
            Some(place) => Ok(place),
            None if self.is_listed => {
                Err(value.error(format_args!("{name:?} is none of the interfaces: {}", self.names())))
            }
            None => self.add(name, value),
        }
    }

    /// The interface with the name of its link.
    pub(super) fn own(&mut self, name: &str, link: &Value<'a>) -> Result<usize, LabError> {
        self.place(name).map_or_else(|| self.add(name, link), Ok)
    }

    /// The only interface, where a link or route names none.
    pub(super) fn only(&mut self, place: &Value<'a>) -> Result<usize, LabError> {
        match (self.is_listed, self.interfaces.len()) {
            (true, 1) => Ok(0),
            (true, _) => Err(place.error(format_args!("say which server it leads to: {}", self.names()))),
            (false, _) => self.own(SERVER, place),
        }
    }

    /// Checks that every interface of the file has a route.
    pub(super) fn check(&self, has_route: impl Fn(usize) -> bool) -> Result<(), LabError> {
        for (place, (_, value)) in self.interfaces.iter().enumerate() {
            if let Some(value) = value.as_ref().filter(|_| !has_route(place)) {
                return Err(value.error("no link and no route leads to this interface"));
            }
        }
        Ok(())
    }

    pub(super) fn into_interfaces(self) -> Vec<Interface> {
        self.interfaces.into_iter().map(|(interface, _)| interface).collect()
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.interfaces.iter().position(|(interface, _)| interface.name == name)
    }

    fn names(&self) -> String {
        listed(self.interfaces.iter().map(|(interface, _)| interface.name.as_str()))
    }

    fn add(&mut self, name: &str, value: &Value<'_>) -> Result<usize, LabError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 12 || name == "lo" || !name.chars().all(fits) {
            let rule = "at most 12 lower-case letters, digits and hyphens, and not \"lo\"";
            return Err(value.error(format_args!("{name:?} is no name of an interface: {rule}")));
        }
        let place = self.interfaces.len();
        if place >= MOST_INTERFACES {
            return Err(value.error(format_args!("a host has at most {MOST_INTERFACES} interfaces")));
        }
        let addresses = vec![default_address(self.side, place)];
        let interface = Interface {
            name: name.to_owned(),
            addresses,
            mtu: MTU,
            nat: None,
            cost: 0,
            is_for_others: false,
            tcp_packet: None,
            starts_down: false,
        };
        self.interfaces.push((interface, None));
        Ok(place)
    }
}

/// Applies a section about an interface.
fn describe(
    interface: &mut Interface,
    (side, place): (Side, usize),
    value: &Value<'_>,
) -> Result<(), LabError> {
    let table = value.table(&["addresses", "mtu", "nat", "cost", "others", "down", "tcp-packet"])?;
    if let Some(list) = table.get("addresses") {
        let addresses = list.list()?;
        if addresses.is_empty() || addresses.len() > MOST_ADDRESSES {
            return Err(list.error(format_args!("{} addresses; from 1 to {MOST_ADDRESSES}", addresses.len())));
        }
        interface.addresses = addresses.iter().map(address).collect::<Result<_, _>>()?;
    }
    interface.mtu = table.read("mtu", mtu)?.unwrap_or(MTU);
    interface.tcp_packet = table.read("tcp-packet", |value| value.integer(SMALLEST_TCP..=interface.mtu))?;
    interface.is_for_others = table.read("others", Value::boolean)?.unwrap_or(false);
    interface.starts_down = table.read("down", Value::boolean)?.unwrap_or(false);
    if let Some(value) = table.get("cost") {
        if side == Side::Server {
            return Err(value.error("what an interface costs is known at the client alone"));
        }
        interface.cost = value.integer(0..=u8::MAX)?;
    }
    if let Some(value) = table.get("nat") {
        if side == Side::Server {
            return Err(value.error("a server behind a translator could not be reached"));
        }
        interface.nat = Some(nat(&value, place)?);
        if interface.addresses.iter().any(IpAddr::is_ipv6) {
            return Err(value.error("the translator knows IPv4 only"));
        }
    }
    Ok(())
}

/// An address that a host can have.
pub(super) fn address(value: &Value<'_>) -> Result<IpAddr, LabError> {
    let address: IpAddr = value.parsed("an address; write it like 10.1.0.2")?;
    if address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        return Err(value.error(format_args!("{address} cannot be the address of an interface")));
    }
    Ok(address)
}

fn nat(value: &Value<'_>, place: usize) -> Result<NatConfig, LabError> {
    let table = value.table(&["outer", "timeout", "mapping", "filtering"])?;
    let words = [("independent", Dependence::Independent), ("address-and-port", Dependence::AddressAndPort)];
    let mut config = NatConfig::new(table.read("outer", address)?.unwrap_or_else(|| default_outer(place)));
    if config.outer.is_ipv6() {
        return Err(table.error("the translator knows IPv4 only"));
    }
    let times = Duration::from_millis(100)..=Duration::from_secs(86_400);
    config.timeout = table.read("timeout", |value| value.time(times))?.unwrap_or(config.timeout);
    config.mapping = table.read("mapping", |value| value.word(&words))?.unwrap_or(config.mapping);
    config.filtering = table.read("filtering", |value| value.word(&words))?.unwrap_or(config.filtering);
    Ok(config)
}

/// Checks that no address is used twice.
pub(super) fn check_addresses(client: &Host<'_>, server: &Host<'_>) -> Result<(), LabError> {
    let mut seen = BTreeSet::new();
    // Addresses chosen by the lab differ from one another, so one of a section is wrong.
    let (given, chosen): (Vec<_>, Vec<_>) =
        client.interfaces.iter().chain(&server.interfaces).partition(|(_, value)| value.is_some());
    for (interface, value) in chosen.into_iter().chain(given) {
        let outer = interface.nat.map(|nat| nat.outer);
        for address in interface.addresses.iter().copied().chain(outer) {
            if let Some(value) = value.as_ref().filter(|_| !seen.insert(address)) {
                return Err(value.error(format_args!("the address {address} is given twice")));
            }
        }
    }
    Ok(())
}

/// Whether packets can pass between two interfaces by their address families.
pub(super) fn has_common_family(one: &Interface, other: &Interface) -> bool {
    one.addresses.iter().any(|address| other.addresses.iter().any(|peer| peer.is_ipv4() == address.is_ipv4()))
}
