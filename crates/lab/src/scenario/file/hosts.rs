//! Links and routes between the interfaces of both hosts.

use std::collections::BTreeSet;

use super::Files;
use super::interfaces::{Host, MTU, check_addresses, has_common_family};
use super::links::{self, Written};
use super::source::{Table, Value, listed};
use crate::LabError;
use crate::scenario::{Interface, Link, Route, Side};

/// The static part of a scenario.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) client: Vec<Interface>,
    pub(super) server: Vec<Interface>,
    pub(super) links: Vec<Link>,
    pub(super) routes: Vec<Route>,
    /// Those with an interface for others at an end.
    pub(super) cross_routes: Vec<Route>,
}

/// Reads hosts, links and routes.
pub(super) fn read(top: &Table<'_>, files: Files<'_>) -> Result<Hosts, LabError> {
    let mut written = links::read(top, files)?;
    let mut client = Host::read(top, Side::Client)?;
    let mut server = Host::read(top, Side::Server)?;
    let longhand = top.read("routes", Value::list)?.unwrap_or_default();
    let longhand =
        longhand.iter().map(|value| Longhand::read(value, &written)).collect::<Result<Vec<_>, _>>()?;
    let mut routes = Vec::new();
    for (place, link) in written.iter().enumerate() {
        if longhand.iter().any(|route| route.links.contains(&place)) {
            if let Some(end) = link.client.as_ref().or(link.server.as_ref()) {
                return Err(end.error("a link that a route names has its ends there"));
            }
            continue;
        }
        let from = match &link.client {
            Some(named) => client.named(named)?,
            None => client.own(link.name, &link.value)?,
        };
        let to = match &link.server {
            Some(named) => server.named(named)?,
            None => server.only(&link.value)?,
        };
        routes.push(((vec![place], Vec::new()), from, to, link.value.clone()));
    }
    for route in longhand {
        let from = client.named(&route.client)?;
        let to = match &route.server {
            Some(named) => server.named(named)?,
            None => server.only(&route.value)?,
        };
        routes.push(((route.links, route.shares), from, to, route.value));
    }
    let mut ends = BTreeSet::new();
    for (_, from, to, value) in &routes {
        if !ends.insert((*from, *to)) {
            return Err(value.error("there is a route between these two interfaces already"));
        }
    }
    client.check(|place| ends.iter().any(|(from, _)| *from == place))?;
    server.check(|place| ends.iter().any(|(_, to)| *to == place))?;
    check_addresses(&client, &server)?;
    let (client, server) = (client.into_interfaces(), server.into_interfaces());
    for (_, from, to, value) in &routes {
        if !client.get(*from).zip(server.get(*to)).is_some_and(|(one, other)| has_common_family(one, other)) {
            return Err(value.error("the interfaces at the ends have no kind of address in common"));
        }
    }
    let routes = routes.into_iter().map(|((links, shares), from, to, _)| Route {
        name: route_name(&client, &server, (from, to)),
        client: from,
        server: to,
        links,
        shares,
    });
    let routes: Vec<_> = routes.collect();
    for (place, written) in written.iter_mut().enumerate() {
        let mtu = widest(&client, &server, routes.iter().filter(|route| route.links.contains(&place)));
        for config in [&mut written.link.up, &mut written.link.down] {
            if config.mtu == 0 {
                config.mtu = mtu;
            }
        }
    }
    let links = written.into_iter().map(|written| written.link).collect();
    let is_for_others =
        |interfaces: &[Interface], place: usize| interfaces.get(place).is_some_and(|one| one.is_for_others);
    let (cross_routes, routes): (Vec<_>, Vec<_>) = routes
        .into_iter()
        .partition(|route| is_for_others(&client, route.client) || is_for_others(&server, route.server));
    if routes.is_empty() {
        return Err(top.need("links")?.error("others have every route: contenders need one, too"));
    }
    Ok(Hosts { client, server, links, routes, cross_routes })
}

fn route_name(client: &[Interface], server: &[Interface], (from, to): (usize, usize)) -> String {
    let name = |interfaces: &[Interface], place| {
        interfaces.get(place).map(|interface: &Interface| interface.name.clone()).unwrap_or_default()
    };
    let from = name(client, from);
    if server.len() == 1 { from } else { format!("{from}-{}", name(server, to)) }
}

/// The largest packet that interfaces can send over a link.
fn widest<'a>(client: &[Interface], server: &[Interface], routes: impl Iterator<Item = &'a Route>) -> u16 {
    let ends =
        routes.filter_map(|route| Some((client.get(route.client)?.mtu, server.get(route.server)?.mtu)));
    ends.map(|(one, other)| one.min(other)).max().unwrap_or(MTU)
}

/// A route with its links by name.
struct Longhand<'a> {
    links: Vec<usize>,
    shares: Vec<u32>,
    client: Value<'a>,
    server: Option<Value<'a>>,
    value: Value<'a>,
}

impl<'a> Longhand<'a> {
    fn read(value: &Value<'a>, written: &[Written<'_>]) -> Result<Self, LabError> {
        let table = value.table(&["client", "server", "links", "shares"])?;
        let list = table.need("links")?;
        let mut links = Vec::new();
        for name in list.list()? {
            let text = name.text()?;
            let Some(place) = written.iter().position(|link| link.name == text) else {
                let there = listed(written.iter().map(|link| link.name));
                return Err(name.error(format_args!("{text:?} is none of the links: {there}")));
            };
            if links.contains(&place) {
                return Err(name.error(format_args!("the route passes {text:?} already")));
            }
            links.push(place);
        }
        if links.is_empty() {
            return Err(list.error("a route has at least one link"));
        }
        let shares = table.read("shares", |value| shares(value, links.len()))?.unwrap_or_default();
        Ok(Self {
            links,
            shares,
            client: table.need("client")?,
            server: table.get("server"),
            value: value.clone(),
        })
    }
}

/// How many packets each link gets in turn.
fn shares(value: &Value<'_>, links: usize) -> Result<Vec<u32>, LabError> {
    let shares: Vec<u32> =
        value.list()?.iter().map(|share| share.integer(1..=1000)).collect::<Result<_, _>>()?;
    if shares.len() == links {
        return Ok(shares);
    }
    Err(value.error(format_args!("{} shares for {links} links", shares.len())))
}
