//! Makes the assignments of two agents from a scenario and a contender.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use manyway_sim::pair::{Direction, Side};

use super::peer::Route;
use super::through;
use crate::agent::document::{
    Assignment, CarrierSpec, Exchange, ExternalSpec, Load, ManywaySpec, Multipath, Pair, TcpSpec,
};
use crate::contender::{Chunks, Contender, ManywaySettings, RouteChoice};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::scenario::{Change, Ending, Interface, Scenario, Traffic};

/// The congestion control of the program of CMT, that of most systems.
const CUBIC: &str = "cubic";
/// Time for data in flight after the end.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A run as both agents need to know it.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    scenario: &'a Scenario,
    hosts: &'a Hosts,
    /// The routes in use, by their indices, the best first.
    routes: Vec<usize>,
    /// The ends of these.
    pairs: Vec<Pair>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        hosts: &'a Hosts,
        contender: &Contender,
    ) -> Result<Self, LabError> {
        let routes = routes(scenario, contender)?;
        let mut plan = Self { scenario, hosts, routes, pairs: Vec::new() };
        plan.pairs = plan.routes.iter().map(|route| plan.pair(*route)).collect::<Result<_, _>>()?;
        Ok(plan)
    }

    /// The ends of the best route.
    pub(crate) fn best(&self) -> Route {
        let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        self.pairs.first().map_or((unspecified, unspecified), |pair| (pair.client, pair.server))
    }

    /// The client's end of the first route that becomes a black hole.
    pub(crate) fn failing(&self) -> Option<IpAddr> {
        let cut = self.scenario.events.iter().find_map(|event| match event.change {
            Change::Cut { link, .. } => Some(link),
            Change::Restore { .. }
            | Change::Set { .. }
            | Change::InterfaceDown { .. }
            | Change::InterfaceUp { .. }
            | Change::Readdress { .. }
            | Change::Rebind { .. } => None,
        })?;
        let is_over =
            |route: &usize| self.scenario.routes.get(*route).is_some_and(|route| route.links.contains(&cut));
        let routes = self.routes.iter().zip(&self.pairs);
        routes.into_iter().find(|(route, _)| is_over(route)).map(|(_, pair)| pair.client)
    }

    /// Groups of routes, each of which should carry something: Manyway selects one of several.
    pub(crate) fn groups(&self, contender: &Contender) -> Vec<Vec<usize>> {
        match contender {
            Contender::Manyway(settings) => {
                self.scenario.groups(&self.routes, settings.pairs.unwrap_or_default())
            }
            Contender::Tcp { .. }
            | Contender::Possible { .. }
            | Contender::Mptcp { .. }
            | Contender::Through(_)
            | Contender::Chunks(_)
            | Contender::External(_) => self.routes.iter().map(|route| vec![*route]).collect(),
        }
    }

    pub(crate) fn scenario(&self) -> &Scenario {
        self.scenario
    }

    /// What is sent, in the order of the scenario.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.scenario.traffic.iter().map(exchange).collect()
    }

    /// Whether an interface goes down during the run.
    pub(crate) fn loses_an_interface(&self) -> bool {
        self.scenario.events.iter().any(|event| matches!(event.change, Change::InterfaceDown { .. }))
    }

    /// Whether traffic with a size may be cut off by the end of the run.
    pub(crate) fn may_stay_partial(&self) -> bool {
        self.scenario.ending == Ending::OnTime
    }

    /// Whether both ends have to give the connection up.
    pub(crate) fn ends_without_a_path(&self) -> bool {
        matches!(self.scenario.ending, Ending::NoPath(_))
    }

    /// Number of routes that contenders may use.
    pub(crate) fn routes(&self) -> usize {
        self.scenario.routes.len()
    }

    /// The name of a route.
    pub(crate) fn route_name(&self, route: usize) -> &str {
        self.scenario.routes.get(route).map_or("", |route| route.name.as_str())
    }

    /// The congestion control of the independent connections of `possible`.
    pub(crate) fn possible(&self) -> &'static str {
        if self.scenario.has_loss() { "bbr" } else { "cubic" }
    }

    /// The assignment of an agent.
    pub(crate) fn assignment(&self, contender: &Contender, side: Side, seed: u64) -> Assignment {
        let limit = self.scenario.limit();
        // Others are not asked to give up.
        let giving_up = self.scenario.giving_up().filter(|_| matches!(contender, Contender::Manyway(_)));
        Assignment {
            end: side.into(),
            carrier: self.carrier(contender, side),
            exchanges: self.exchanges(),
            dealing: if let Contender::Chunks(chunks) = contender {
                chunks.dealing(self.scenario)
            } else {
                None
            },
            duration: self.scenario.duration,
            end_at: limit + giving_up.unwrap_or(GRACE),
            seed,
        }
    }

    fn carrier(&self, contender: &Contender, side: Side) -> CarrierSpec {
        match contender {
            Contender::Manyway(settings) => CarrierSpec::Manyway(self.manyway(settings)),
            Contender::Tcp { congestion, .. } => self.tcp(congestion, None),
            Contender::Possible { congestion } => {
                self.tcp(congestion.as_deref().unwrap_or_else(|| self.possible()), None)
            }
            Contender::Mptcp { congestion } => self.tcp(congestion, Some(self.multipath(side))),
            Contender::Chunks(chunks) => self.chunks(chunks),
            Contender::Through(through) => CarrierSpec::Sockets(through::sockets(through, self.best())),
            Contender::External(program) => CarrierSpec::External(ExternalSpec {
                sender: program.sender.clone(),
                receiver: program.receiver.clone(),
                routes: self.pairs.clone(),
            }),
        }
    }

    fn manyway(&self, settings: &ManywaySettings) -> ManywaySpec {
        let at_start = self.scenario.at_start(&self.routes);
        let paths = self.scenario.groups(&at_start, settings.pairs.unwrap_or_default()).len();
        let is_whole = settings.routes == RouteChoice::All;
        let is_plain = |interface: &Interface| interface.cost == 0 && !interface.is_for_others;
        let is_free = self.scenario.client.iter().all(is_plain);
        let has_others = self.scenario.server.iter().any(|interface| interface.is_for_others);
        let rules = self.routes.iter().filter_map(|route| {
            let route = self.scenario.routes.get(*route)?;
            let interface = self.scenario.client.get(route.client)?;
            Some(format!("{},cost={}", interface.name, interface.cost))
        });
        let mut remotes: Vec<IpAddr> = Vec::new();
        for (_, pair) in self.routes.iter().zip(&self.pairs).filter(|(route, _)| at_start.contains(route)) {
            if !remotes.contains(&pair.server) {
                remotes.push(pair.server);
            }
        }
        ManywaySpec {
            wire: settings.wire,
            detection: settings.detection,
            no_path: match self.scenario.ending {
                Ending::NoPath(patience) => Some(patience),
                Ending::Complete | Ending::OnTime => None,
            },
            carrier: settings.carrier,
            connections: settings.connections,
            target: settings.target,
            scheduler: settings.scheduler.clone(),
            congestion: settings.congestion.clone(),
            pairs: settings.pairs.map(|mode| mode.to_string()),
            interfaces: if is_whole && is_free { Vec::new() } else { rules.collect() },
            remotes,
            discover: is_whole && !has_others,
            paths,
            primary: self.first_pair().filter(|_| settings.has_primary()),
        }
    }

    fn tcp(&self, congestion: &str, multipath: Option<Multipath>) -> CarrierSpec {
        // A multipath connection begins over the best route and finds the others itself.
        let count = if multipath.is_some() { 1 } else { self.pairs.len() };
        let pairs = self.pairs.iter().take(count).copied().collect();
        CarrierSpec::Tcp(TcpSpec { congestion: congestion.to_owned(), pairs, multipath })
    }

    /// Several connections of each route, one route after the other.
    fn chunks(&self, chunks: &Chunks) -> CarrierSpec {
        let pairs = self.pairs.iter().flat_map(|pair| std::iter::repeat_n(*pair, chunks.connections.into()));
        CarrierSpec::Tcp(TcpSpec { congestion: CUBIC.to_owned(), pairs: pairs.collect(), multipath: None })
    }

    fn multipath(&self, side: Side) -> Multipath {
        let interfaces = match side {
            Side::Client => &self.scenario.client,
            Side::Server => &self.scenario.server,
        };
        let own = interfaces.iter().enumerate().filter(|(_, interface)| !interface.is_for_others);
        let locals = own.flat_map(|(place, interface)| {
            self.hosts.addresses(side, place).iter().map(|address| (*address, interface.name.clone()))
        });
        Multipath {
            locals: locals.collect(),
            is_meshed: self.scenario.server.iter().filter(|interface| !interface.is_for_others).count() > 1,
            subflows: self.routes.len(),
        }
    }

    /// The addresses of the route that comes first in the scenario, which need not be the best one.
    fn first_pair(&self) -> Option<Pair> {
        let pairs = self.routes.iter().zip(&self.pairs);
        pairs.min_by_key(|(route, _)| **route).map(|(_, pair)| *pair)
    }

    fn pair(&self, route: usize) -> Result<Pair, LabError> {
        pair(self.scenario, self.hosts, route)
    }
}

/// The first addresses of one family at either end of a route, by its index among all.
pub(super) fn pair(scenario: &Scenario, hosts: &Hosts, route: usize) -> Result<Pair, LabError> {
    let route = scenario.any_route(route);
    let found = route.and_then(|route| {
        let servers = hosts.addresses(Side::Server, route.server);
        let clients = hosts.addresses(Side::Client, route.client);
        clients.iter().find_map(|client| {
            let server = servers.iter().find(|server| server.is_ipv4() == client.is_ipv4())?;
            Some(Pair { client: *client, server: *server })
        })
    });
    found.ok_or_else(|| {
        let name = route.map_or("", |route| route.name.as_str());
        LabError::Scenario(format!(
            "{}: the ends of the route {name:?} have no addresses of one family",
            scenario.name
        ))
    })
}

/// The routes that a contender uses, the best first.
fn routes(scenario: &Scenario, contender: &Contender) -> Result<Vec<usize>, LabError> {
    let best = scenario.best_route();
    let choice = match contender {
        Contender::Manyway(settings) => settings.routes,
        Contender::Tcp { route: RouteChoice::All, .. } => RouteChoice::Best,
        Contender::Tcp { route, .. } => *route,
        Contender::Possible { .. } | Contender::Mptcp { .. } | Contender::External(_) => RouteChoice::All,
        Contender::Through(through) if through.verb.is_peer() => RouteChoice::Best,
        Contender::Through(_) => RouteChoice::All,
        // Its shares are those of the routes in the order of the scenario.
        Contender::Chunks(chunks) => {
            let all = chunks.dealing(scenario).map(|_| (0..scenario.routes.len()).collect());
            return all.ok_or_else(|| LabError::Unsupported(Chunks::UNFIT.to_owned()));
        }
    };
    let count = scenario.routes.len();
    match choice {
        RouteChoice::All => {
            let mut routes: Vec<usize> =
                std::iter::once(best).chain((0..count).filter(|route| *route != best)).collect();
            // A connection that begins over the first can not begin over one that comes later.
            let at_start = scenario.at_start(&routes);
            routes.sort_by_key(|route| !at_start.contains(route));
            Ok(routes)
        }
        RouteChoice::Best => Ok(vec![best]),
        RouteChoice::Only(place) if place < count => Ok(vec![place]),
        RouteChoice::Only(place) => Err(LabError::Unsupported(format!(
            "{contender} is skipped: {} has {count} routes, not {}",
            scenario.name,
            place + 1
        ))),
    }
}

fn exchange(traffic: &Traffic) -> Exchange {
    let (direction, load) = match *traffic {
        Traffic::Bulk { direction, size, rate, chunk } => {
            let (size, rate) = (size.map(|size| size.get()), rate.map(|rate| rate.bits_per_second()));
            (direction, Load::Bulk { size, rate, chunk: chunk.map(|chunk| chunk.get()) })
        }
        Traffic::Messages { direction, size, interval, lifetime } => {
            let size = usize::try_from(size.get()).unwrap_or(usize::MAX);
            (direction, Load::Messages { size, interval, lifetime })
        }
    };
    let (up, down) = match direction {
        Direction::Up => (true, false),
        Direction::Down => (false, true),
        Direction::Both => (true, true),
    };
    Exchange { up, down, load }
}
