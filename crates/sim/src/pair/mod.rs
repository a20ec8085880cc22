//! Two endpoints and any number of paths between them: the basis of most tests.

mod addresses;
mod builder;
mod chaos;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod toy;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use manyway_proto::Side;
use manyway_proto::{ByteCount, ConnectionError, Instant, LocalAddress, Rate};

use crate::checked::Checked;
use crate::ids::{HostId, InterfaceId, LinkId};
use crate::invariants::{BrokenLaw, PathFigures};
use crate::link::{Link, LinkState, RateModel};
use crate::network::Transit;
use crate::record::Series;
use crate::reference::Reference;
use crate::traffic::{Application, Delivery, Exchange, Service, Streams};
use crate::world::{Node, Step, World};

pub use addresses::{CLIENT_PORT, Family, SERVER_PORT};
pub use builder::PairBuilder;
pub use chaos::{Chaos, Operation};

/// A machine with at most one connection, and streams after the handshake.
pub trait Peer: Node {
    /// Starts the connection (at the client only).
    ///
    /// # Errors
    /// The error text of the machine.
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String>;

    /// Handles the events that have happened.
    fn absorb_events(&mut self, now: Instant);

    /// The streams, from the end of the handshake to the end of the connection.
    fn streams(&mut self) -> Option<&mut dyn Streams>;

    /// The error of the connection, if it has ended.
    fn ended(&self) -> Option<&ConnectionError>;

    /// Appends the figures of every open path.
    fn figures(&self, now: Instant, out: &mut Vec<PathFigures>);

    /// Sets the addresses of the host from now on.
    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]);
}

/// The two links of a path. A path is named by the index of its interface at the client, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathLinks {
    /// The interface at the client.
    pub interface: InterfaceId,
    /// Its current address.
    pub address: IpAddr,
    /// How often the address has changed.
    pub changes: u16,
    /// From client to server.
    pub up: LinkId,
    /// From server to client.
    pub down: LinkId,
}

/// Direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
    /// Both.
    Both,
}

/// Why a pair did not do what was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairError {
    /// A law is violated.
    Broken(BrokenLaw),
    /// The connection ended.
    Ended {
        /// The end that noticed it first.
        side: Side,
        /// The error.
        error: ConnectionError,
    },
    /// The machine refused to connect.
    Refused(String),
    /// The time was over.
    TimeUp {
        /// Virtual time since the start.
        at: Duration,
        /// The missing condition.
        missing: &'static str,
        /// Bytes that each end's application has read.
        received: [ByteCount; 2],
    },
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(broken) => broken.fmt(f),
            Self::Ended { side, error } => write!(f, "the connection ended at the {side:?}: {error}"),
            Self::Refused(reason) => write!(f, "refused to connect: {reason}"),
            Self::TimeUp { at, missing, received: [client, server] } => {
                write!(f, "after {at:?} not yet {missing}; read by client {client}, by server {server}")
            }
        }
    }
}

impl std::error::Error for PairError {}

impl From<BrokenLaw> for PairError {
    fn from(broken: BrokenLaw) -> Self {
        Self::Broken(broken)
    }
}

/// The figures of a transfer.
#[derive(Debug, Clone)]
pub struct TransferReport {
    /// From the call to the last byte at the receiving application.
    pub elapsed: Duration,
    /// From the first byte to the last at the receiving application.
    pub goodput: Rate,
    /// Longest time without bytes at the receiving application, after the first.
    pub longest_silence: Duration,
    /// Bytes over time at the receiving application.
    pub received: Series,
    /// UDP payload that each path has delivered in the direction of the transfer.
    pub path_bytes: Vec<ByteCount>,
}

/// A client with several interfaces, a server, and the links between them. Both ends run a service that reads every
/// stream to its end and answers it. Everything read is compared with what was written.
pub struct Pair<N> {
    world: World<N>,
    hosts: [HostId; 2],
    paths: Vec<PathLinks>,
    servers: Vec<LocalAddress>,
    known_servers: usize,
    family: Family,
    reference: Reference,
    received: [Series; 2],
    messages: [Vec<Delivery>; 2],
    services: [Service; 2],
    applications: [Vec<Box<dyn Application>>; 2],
    figures: Vec<PathFigures>,
}

impl<N: fmt::Debug> fmt::Debug for Pair<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("world", &self.world).field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<N: Peer> Pair<N> {
    /// The current time.
    pub fn now(&self) -> Instant {
        self.world.now()
    }

    /// The world, to read.
    pub fn world(&self) -> &World<N> {
        &self.world
    }

    /// The world, to change.
    pub fn world_mut(&mut self) -> &mut World<N> {
        &mut self.world
    }

    /// The host of an end.
    pub fn host(&self, side: Side) -> HostId {
        let [client, server] = self.hosts;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// The machine of an end.
    pub fn peer(&mut self, side: Side) -> Option<&mut N> {
        let host = self.host(side);
        self.world.node_mut(host)
    }

    /// The paths.
    pub fn paths(&self) -> &[PathLinks] {
        &self.paths
    }

    /// The model of what the applications must read.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The model, for operations of a test on streams beside the applications.
    pub fn reference_mut(&mut self) -> &mut Reference {
        &mut self.reference
    }

    /// The messages that the application of an end has received, in order. They are not checked: the sender knows what
    /// must arrive.
    pub fn messages(&self, side: Side) -> &[Delivery] {
        let [client, server] = &self.messages;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// Bytes that the application of an end has read, over time.
    pub fn received(&self, side: Side) -> &Series {
        let [client, server] = &self.received;
        match side {
            Side::Client => client,
            Side::Server => server,
        }
    }

    /// The server's addresses.
    pub fn servers(&self) -> &[LocalAddress] {
        &self.servers
    }

    /// Starts the connection and returns at once.
    ///
    /// # Errors
    /// If the machine refuses.
    pub fn begin(&mut self) -> Result<(), PairError> {
        let now = self.now();
        let locals = addresses::locals(&self.world.network().addresses(self.host(Side::Client)));
        let known = self.servers.iter().take(self.known_servers);
        let remotes: Vec<_> = known.map(|local| local.address).collect();
        match self.peer(Side::Client) {
            Some(client) => client.connect(now, &locals, &remotes).map_err(PairError::Refused),
            None => Ok(()),
        }
    }

    /// Starts the connection and runs until both ends have it; returns how long that took.
    ///
    /// # Errors
    /// If that takes longer than `within`, the connection ends, or a law is violated.
    pub fn connect(&mut self, within: Duration) -> Result<Duration, PairError> {
        let start = self.now();
        self.begin()?;
        let connected = |pair: &mut Self| {
            [Side::Client, Side::Server]
                .into_iter()
                .all(|side| pair.peer(side).is_some_and(|peer| peer.streams().is_some()))
        };
        self.run_until(within, "connected", connected)?;
        Ok(self.now() - start)
    }

    /// Adds an application to an end. It acts until it is done, then it is dropped.
    pub fn start(&mut self, side: Side, application: Box<dyn Application>) {
        let [client, server] = &mut self.applications;
        match side {
            Side::Client => client.push(application),
            Side::Server => server.push(application),
        }
    }

    /// Sends this many bytes from one end to the other on a new stream and runs until they have arrived and the answer
    /// was read.
    ///
    /// # Errors
    /// If that takes longer than `within`, the connection ends, or a law is violated.
    pub fn transfer(
        &mut self,
        from: Side,
        total: ByteCount,
        within: Duration,
    ) -> Result<TransferReport, PairError> {
        let start = self.now();
        let before = self.delivered(from);
        let to = from.other();
        self.set_received(to, Series::new(start, Duration::from_millis(10)));
        self.start(from, Box::new(Exchange::new(self.host(from), total)));
        self.run_until(within, "transferred", |pair| pair.is_quiet())?;
        let received = self.received(to).clone();
        let end = received.span().map_or(start, |(_, last)| last);
        let path_bytes = self.delivered(from).into_iter().zip(before).map(|(after, before)| after - before);
        Ok(TransferReport {
            elapsed: end - start,
            goodput: received.goodput(),
            longest_silence: received.longest_silence(),
            path_bytes: path_bytes.collect(),
            received,
        })
    }

    /// Runs for this long.
    ///
    /// # Errors
    /// If a law is violated. The end of the connection is no error here.
    pub fn run_for(&mut self, time: Duration) -> Result<(), PairError> {
        let until = self.now() + time;
        self.act()?;
        while self.step(until)? == Step::Acted {}
        Ok(())
    }

    /// Runs until `condition` holds; `missing` names it for the message.
    ///
    /// # Errors
    /// If it does not hold within the time, the connection ends, or a law is violated.
    pub fn run_until(
        &mut self,
        within: Duration,
        missing: &'static str,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), PairError> {
        let until = self.now() + within;
        self.act()?;
        loop {
            if condition(self) {
                return Ok(());
            }
            if let Some((side, error)) = self.ended() {
                return Err(PairError::Ended { side, error });
            }
            if self.step(until)? == Step::Waited {
                let received = [Side::Client, Side::Server].map(|side| self.received(side).total());
                return Err(PairError::TimeUp { at: self.world.clock().elapsed(), missing, received });
            }
        }
    }

    /// Cuts a path: a silent black hole.
    pub fn cut(&mut self, path: usize, direction: Direction) {
        self.with_links(path, direction, |now, link| link.set_state(now, LinkState::Down));
    }

    /// Restores a path that was cut.
    pub fn restore(&mut self, path: usize, direction: Direction) {
        self.with_links(path, direction, |now, link| link.set_state(now, LinkState::Up));
    }

    /// Changes the rate of a path.
    pub fn set_rate(&mut self, path: usize, direction: Direction, rate: Rate) {
        self.with_links(path, direction, |now, link| link.set_rate(now, RateModel::Fixed(rate)));
    }

    /// Changes anything about the links of a path.
    pub fn with_links(
        &mut self,
        path: usize,
        direction: Direction,
        mut change: impl FnMut(Instant, &mut Link<Transit>),
    ) {
        let Some(links) = self.paths.get(path).copied() else { return };
        let now = self.now();
        let chosen = match direction {
            Direction::Up => [Some(links.up), None],
            Direction::Down => [None, Some(links.down)],
            Direction::Both => [Some(links.up), Some(links.down)],
        };
        for id in chosen.into_iter().flatten() {
            if let Some(link) = self.world.network_mut().link_mut(id) {
                change(now, link);
            }
        }
    }

    /// Sets the client's interface of a path up or down; the client's system reports it.
    pub fn set_interface(&mut self, path: usize, state: LinkState) {
        let Some(links) = self.paths.get(path) else { return };
        let interface = links.interface;
        self.world.network_mut().set_interface_state(interface, state);
        self.tell_addresses();
    }

    /// Stops an end with its applications, as a suspend or a signal does: arriving packets wait for it.
    pub fn stop(&mut self, side: Side) {
        let host = self.host(side);
        self.world.stop(host);
    }

    /// Resumes an end that was stopped.
    pub fn resume(&mut self, side: Side) {
        let host = self.host(side);
        self.world.resume(host);
    }

    /// Changes the address of the client's interface of a path; the client's system reports it.
    pub fn change_address(&mut self, path: usize) {
        let family = self.family;
        let Some(links) = self.paths.get_mut(path) else { return };
        links.changes += 1;
        let (old, new) = (links.address, family.client(path, 2 + links.changes));
        links.address = new;
        let interface = links.interface;
        let network = self.world.network_mut();
        network.remove_address(interface, old);
        network.add_address(interface, new);
        self.tell_addresses();
    }

    /// Makes the NAT of a path silently drop its mappings.
    pub fn rebind(&mut self, path: usize) {
        let Some(links) = self.paths.get(path) else { return };
        let interface = links.interface;
        if let Some(nat) = self.world.network_mut().nat_mut(interface) {
            nat.rebind();
        }
    }

    /// UDP payload sent by `from` that each path has delivered so far.
    pub fn delivered(&self, from: Side) -> Vec<ByteCount> {
        let network = self.world.network();
        let link = |path: &PathLinks| match from {
            Side::Client => path.up,
            Side::Server => path.down,
        };
        self.paths
            .iter()
            .map(|path| {
                network.link(link(path)).map_or(ByteCount::ZERO, |link| link.counters().delivered.bytes)
            })
            .collect()
    }

    /// Executes one event, not after `until`, checks the laws, and runs the applications.
    ///
    /// # Errors
    /// If a law is violated.
    pub fn step(&mut self, until: Instant) -> Result<Step, PairError> {
        let now = self.now();
        let applications = self.applications.iter().flatten();
        // An application that could not act yet, without a connection, waits for an event.
        let wakes =
            applications.filter_map(|application| application.wakes_at()).filter(|wakes| *wakes > now).min();
        let limit = wakes.map_or(until, |wakes| wakes.min(until));
        let step = self.world.step(limit)?;
        for side in [Side::Client, Side::Server] {
            if self.is_awake(side) {
                self.check_paths(side)?;
                self.act_at(side)?;
            }
        }
        // Waiting for an application is not the end of the time.
        Ok(if self.now() < until { Step::Acted } else { step })
    }

    /// Whether no application has anything left to do.
    pub fn is_quiet(&self) -> bool {
        self.applications.iter().all(Vec::is_empty) && self.reference.is_settled()
    }

    /// The error of the connection, and the end that noticed it.
    pub fn ended(&mut self) -> Option<(Side, ConnectionError)> {
        [Side::Client, Side::Server].into_iter().find_map(|side| {
            let error = self.peer(side)?.ended()?.clone();
            Some((side, error))
        })
    }

    /// Whether there may be something to do for the applications of an end.
    fn is_awake(&mut self, side: Side) -> bool {
        let (now, host) = (self.now(), self.host(side));
        let [client, server] = &self.applications;
        let applications = match side {
            Side::Client => client,
            Side::Server => server,
        };
        let wakes = |application: &dyn Application| application.wakes_at().is_some_and(|at| at <= now);
        self.world.take_active(host) || applications.iter().any(|application| wakes(application.as_ref()))
    }

    fn act(&mut self) -> Result<(), PairError> {
        self.act_at(Side::Client)?;
        self.act_at(Side::Server)
    }

    fn act_at(&mut self, side: Side) -> Result<(), PairError> {
        let now = self.now();
        let (host, peer) = (self.host(side), self.host(side.other()));
        if self.world.is_stopped(host) {
            return Ok(());
        }
        let ([to_client, to_server], [client_service, server_service]) =
            (&mut self.received, &mut self.services);
        let [client_messages, server_messages] = &mut self.messages;
        let [client_applications, server_applications] = &mut self.applications;
        let (received, service, applications) = match side {
            Side::Client => (to_client, client_service, client_applications),
            Side::Server => (to_server, server_service, server_applications),
        };
        let messages = match side {
            Side::Client => client_messages,
            Side::Server => server_messages,
        };
        let Some(node) = self.world.node_at_rest(host) else { return Ok(()) };
        node.absorb_events(now);
        let Some(streams) = node.streams() else { return Ok(()) };
        let reference = &mut self.reference;
        let mut checked = Checked::new((now, host, peer), streams, reference, received, messages);
        service.act(now, &mut checked);
        for application in applications.iter_mut() {
            application.act(now, &mut checked);
        }
        applications.retain(|application| !application.is_done());
        let Checked { broken, changed, .. } = checked;
        if changed {
            // They may go on at the next event, whose it is.
            self.world.set_active(host);
        }
        match broken {
            Some(law) => Err(self.world.laws_mut().broken(now, law).into()),
            None => Ok(()),
        }
    }

    fn check_paths(&mut self, side: Side) -> Result<(), PairError> {
        let (now, host) = (self.now(), self.host(side));
        let mut figures = std::mem::take(&mut self.figures);
        figures.clear();
        if let Some(node) = self.world.node(host) {
            node.figures(now, &mut figures);
        }
        for path in &figures {
            self.world.laws_mut().on_path(now, host, *path)?;
        }
        self.figures = figures;
        Ok(())
    }

    fn tell_addresses(&mut self) {
        let now = self.now();
        let locals = addresses::locals(&self.world.network().addresses(self.host(Side::Client)));
        if let Some(client) = self.peer(Side::Client) {
            client.set_addresses(now, &locals);
        }
    }

    fn set_received(&mut self, side: Side, series: Series) {
        let [client, server] = &mut self.received;
        match side {
            Side::Client => *client = series,
            Side::Server => *server = series,
        }
    }
}
