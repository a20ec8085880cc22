//! Streams of a Manyway connection, one an exchange.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use manyway::interfaces::InterfacePolicy;
use manyway::{
    AddressFilter, CarrierChoice, ConfigError, Connection, ConnectionConfig, ConnectionError, DEFAULT_PORT,
    Endpoint, EndpointOptions, Event, HostPort, Identity, Locals, Mmsp1Options, PathInfo, RateAlgorithm,
    ReceiveStream, SendStream, ServerOptions, TargetRate, TargetReport, Ticket,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep, timeout};

use super::namespace;
use super::places::{Place, Places};
use crate::agent::document::{Assignment, Load, ManywaySpec, Pair};
use crate::agent::lane::Lane;
use crate::agent::shared::Shared;
use crate::contender::{Carrier, RENO_2002, Wire, thesis};
use crate::outcome::Control;

/// A Manyway connection.
pub(in crate::agent) struct Streams {
    endpoint: Endpoint,
    connection: Option<Connection>,
    spec: ManywaySpec,
    target: Option<TargetRate>,
    reports: Reports,
}

/// What a receiver has done to hold its target rates, and when.
type Reports = Shared<Vec<(Instant, TargetReport)>>;

impl Streams {
    pub(super) fn listen(
        assignment: &Assignment,
        spec: &ManywaySpec,
        config: &ConnectionConfig,
    ) -> Result<(Self, u16), String> {
        let mut options = EndpointOptions::default();
        options.connection = config.clone();
        if spec.wire == Wire::Mmsp1 {
            thesis(&mut options.connection, spec.detection).map_err(|error| error.to_string())?;
        }
        if let Some(patience) = spec.no_path {
            options.connection.no_path_timeout = patience;
        }
        options.carriers.choice = match spec.carrier {
            Carrier::Udp => CarrierChoice::Udp,
            Carrier::Tcp => CarrierChoice::Tcp,
            Carrier::Auto => CarrierChoice::Auto,
        };
        let target = spec.target.map(|target| target.setting(spec.connections)).transpose();
        let target = target.map_err(|error| error.to_string())?;
        options.carriers.connections = match &target {
            // It begins with one by itself.
            Some(target) if target.algorithm == RateAlgorithm::Advanced => 1,
            Some(target) => target.connections,
            None => spec.connections.unwrap_or(1),
        };
        if target.is_some() || spec.connections.is_some() {
            options.connection.path_limit = MOST_PATHS;
        }
        let of_tcp = spec.carrier == Carrier::Tcp;
        let own_congestion = spec.congestion.clone().filter(|_| !of_tcp);
        let named = spec.congestion.clone().filter(|_| of_tcp);
        // As in virtual time, and whatever the default of this host is.
        options.carriers.congestion = Some(named.unwrap_or_else(|| "cubic".to_owned()));
        if let Some(name) = options.carriers.congestion.as_mut().filter(|name| *name == RENO_2002) {
            namespace::set_tcp_of_2002()?;
            "reno".clone_into(name);
        }
        let config = &mut options.connection;
        type Set = fn(&mut ConnectionConfig, &str) -> Result<(), ConfigError>;
        let settings: [(&Option<String>, Set); 3] = [
            (&spec.scheduler, ConnectionConfig::set_scheduler),
            (&own_congestion, ConnectionConfig::set_congestion),
            (&spec.pairs, ConnectionConfig::set_pairs),
        ];
        for (name, set) in settings {
            if let Some(name) = name {
                set(config, name).map_err(|error| error.to_string())?;
            }
        }
        let is_client = assignment.end.is_client();
        if is_client {
            options.locals = Locals::Interfaces(policy(&spec.interfaces)?);
        } else if spec.wire == Wire::Mmsp1 {
            let mut server = Mmsp1Options::new(AddressFilter::all());
            server.listen = listening_addresses(spec);
            server.connection.clone_from(&options.connection);
            options.mmsp1 = Some(server);
        } else {
            let mut server = ServerOptions::new(identity(assignment.seed), &secret(assignment.seed));
            server.listen = listening_addresses(spec);
            options.server = Some(server);
        }
        let endpoint = Endpoint::bind(options).map_err(|error| error.to_string())?;
        let port = endpoint.local_addresses().first().map_or(0, |local| local.address.port());
        let reports = Reports::default();
        Ok((Self { endpoint, connection: None, spec: spec.clone(), target, reports }, port))
    }

    pub(super) async fn connect(
        &mut self,
        assignment: &Assignment,
        port: u16,
    ) -> Result<Vec<Vec<Lane>>, String> {
        let places = Place::all(assignment, |_| 1);
        let mut lanes = Places::default();
        let connection = if assignment.end.is_client() {
            let hosts = self.spec.remotes.iter().map(|remote| HostPort::from(SocketAddr::new(*remote, port)));
            let connection = self.dial(assignment, hosts.collect()).await?;
            for place in places {
                let mut halves = connection.open().await.map_err(|error| error.to_string())?;
                self.hold(assignment, place, &mut halves.1)?;
                lanes.introduce(place, lane(assignment, place, halves)).await?;
            }
            connection
        } else {
            let connection = self.endpoint.accept().await.ok_or("the endpoint ended")?;
            // Accepted in the order in which the client opens them.
            for place in places {
                let mut halves = connection.accept().await.map_err(|error| error.to_string())?;
                self.hold(assignment, place, &mut halves.1)?;
                lanes.welcome(lane(assignment, place, halves)).await?;
            }
            connection
        };
        if self.target.is_some() {
            tokio::spawn(keep_reports(connection.events(), self.reports.clone()));
        }
        self.connection = Some(connection);
        Ok(lanes.into_lanes(assignment))
    }

    /// Sets the target of bulk that this end receives.
    fn hold(&self, assignment: &Assignment, place: Place, receive: &mut ReceiveStream) -> Result<(), String> {
        let exchange = assignment.exchanges.get(usize::from(place.exchange));
        let is_bulk = exchange.is_some_and(|exchange| matches!(exchange.load, Load::Bulk { .. }));
        if is_bulk && exchange.is_some_and(|exchange| exchange.receives(assignment.end)) {
            receive.set_target_rate(self.target).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn dial(&self, assignment: &Assignment, hosts: Vec<HostPort>) -> Result<Connection, String> {
        let connected = if self.spec.wire == Wire::Mmsp1 {
            self.endpoint.connect_mmsp1(&hosts).await
        } else {
            let key = identity(assignment.seed).public_key().hash();
            let ticket = Ticket::new(key, secret(assignment.seed), hosts).map_err(|e| e.to_string())?;
            self.endpoint.connect(&ticket).await
        };
        connected.map_err(|error| error.to_string())
    }

    /// Waits until every path carries data.
    pub(super) async fn settle(&self) -> Vec<String> {
        let deadline = Instant::now() + SETTLE;
        let Some(connection) = &self.connection else { return Vec::new() };
        loop {
            let Ok(info) = connection.info().await else { return Vec::new() };
            let ready = info.paths.iter().filter(|path| path.statistics.state.carries_data()).count();
            if ready >= self.spec.paths {
                self.choose_primary(connection, &info.paths);
                return Vec::new();
            }
            if Instant::now() >= deadline {
                return vec![format!("only {ready} of {} paths were there at the begin", self.spec.paths)];
            }
            sleep(LOOK).await;
        }
    }

    fn choose_primary(&self, connection: &Connection, paths: &[PathInfo]) {
        let Some(Pair { client, server }) = self.spec.primary else { return };
        let ends = |path: &&PathInfo| {
            let tuple = &path.statistics.tuple;
            let [local, remote] = [tuple.local.address.ip(), tuple.remote.ip()].map(|ip| ip.to_canonical());
            [local, remote] == [client, server] || [local, remote] == [server, client]
        };
        if let Some(path) = paths.iter().find(ends) {
            connection.path(path.statistics.id).make_primary();
        }
    }

    /// What this end has done to hold its target rates since a time.
    pub(super) fn control(&self, begin: Instant) -> Vec<Control> {
        let reports = self.reports.lock();
        let since = reports.iter().filter(|(at, _)| *at >= begin);
        since.map(|(at, report)| Control::new(*at - begin, report)).collect()
    }

    /// Whether the connection has ended, or ends soon, since no path worked for as long as the lab named.
    pub(super) async fn has_given_up(&self) -> bool {
        let (Some(connection), Some(_)) = (&self.connection, self.spec.no_path) else { return false };
        matches!(timeout(CLOSE_TIME, connection.closed()).await, Ok(ConnectionError::NoPath))
    }

    pub(super) async fn close(self) {
        if let Some(connection) = self.connection {
            // The other end may be gone already.
            drop(timeout(CLOSE_TIME, connection.close(0, "done")).await);
        }
        drop(timeout(CLOSE_TIME, self.endpoint.close(0, "done")).await);
    }
}

/// Keeps what a connection tells about target rates.
async fn keep_reports(mut events: Receiver<Event>, reports: Reports) {
    loop {
        match events.recv().await {
            Ok(Event::TargetRate(report)) => reports.lock().push((Instant::now(), report)),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// A stream for messages, or for bytes.
fn lane(assignment: &Assignment, place: Place, (send, receive): (SendStream, ReceiveStream)) -> Lane {
    match assignment.exchanges.get(usize::from(place.exchange)).map(|exchange| &exchange.load) {
        Some(Load::Messages { lifetime, .. }) => Lane::of_messages(receive, send, *lifetime),
        Some(Load::Bulk { .. }) | None => Lane::of_bytes(receive, send),
    }
}

/// All interfaces, or those that have a rule.
fn policy(rules: &[String]) -> Result<InterfacePolicy, String> {
    rules.iter().try_fold(InterfacePolicy::new(), |policy, rule| {
        Ok(policy.with(rule.parse().map_err(|error| format!("{rule:?}: {error}"))?))
    })
}

/// Every address as a server does by default, or only the one that the client is to use.
fn listening_addresses(spec: &ManywaySpec) -> Vec<SocketAddr> {
    if !spec.discover {
        // Several addresses need the same port, so a fixed one.
        let port = if spec.remotes.len() > 1 { DEFAULT_PORT } else { 0 };
        return spec.remotes.iter().map(|remote| SocketAddr::new(*remote, port)).collect();
    }
    let has_v4 = spec.remotes.iter().any(IpAddr::is_ipv4);
    let has_v6 = spec.remotes.iter().any(IpAddr::is_ipv6);
    let mut addresses: Vec<IpAddr> = Vec::new();
    if has_v4 {
        addresses.push(Ipv4Addr::UNSPECIFIED.into());
    }
    if has_v6 {
        addresses.push(Ipv6Addr::UNSPECIFIED.into());
    }
    // Two families need the same port, so a fixed one.
    let port = if has_v4 && has_v6 { DEFAULT_PORT } else { 0 };
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// The server's key, which both ends derive from the seed of the run.
fn identity(seed: u64) -> Identity {
    Identity::from_seed(blake3::hash(&seed.to_be_bytes()).as_bytes())
}

fn secret(seed: u64) -> [u8; 16] {
    let hash = blake3::hash(&[seed.to_be_bytes(), *b"a ticket"].concat());
    let mut secret = [0; 16];
    secret.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    secret
}

/// The highest path ID where several TCP connections are wanted.
const MOST_PATHS: u32 = 31;
/// Time for paths to come up.
const SETTLE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);
/// Time for a connection to close.
const CLOSE_TIME: Duration = Duration::from_millis(500);
