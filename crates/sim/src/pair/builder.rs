//! Configures the paths of a pair.

use std::time::Duration;

use manyway_proto::{ByteCount, Rate, Rng};

use super::addresses::{Family, SERVER_PORT, address_of};
use super::{Pair, PathLinks, Peer};
use crate::link::LinkConfig;
use crate::nat::{Nat, NatConfig};
use crate::record::Series;
use crate::reference::Reference;
use crate::traffic::Service;
use crate::world::World;

/// Settings of a [`Pair`].
#[derive(Debug, Clone)]
pub struct PairBuilder {
    seed: u64,
    family: Family,
    paths: Vec<PathSetting>,
    server_interfaces: usize,
    known_servers: usize,
    answer: ByteCount,
    bin: Duration,
}

#[derive(Debug, Clone)]
struct PathSetting {
    up: LinkConfig,
    down: LinkConfig,
    nat_timeout: Option<Duration>,
}

impl Default for PairBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl PairBuilder {
    /// Begins with no path, seed 0, IPv4, one interface at the server, and empty answers.
    pub fn new() -> Self {
        Self {
            seed: 0,
            family: Family::V4,
            paths: Vec::new(),
            server_interfaces: 1,
            known_servers: usize::MAX,
            answer: ByteCount::ZERO,
            bin: Duration::from_millis(10),
        }
    }

    /// Sets the seed of everything random.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the address family.
    #[must_use]
    pub fn family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// Adds an interface at the client with a faultless link of this rate and one-way delay to the server.
    #[must_use]
    pub fn path(self, rate: Rate, delay: Duration) -> Self {
        let config = LinkConfig::new(rate, delay);
        self.path_with(config.clone(), config)
    }

    /// Adds an interface at the client with links to and from the server. Their overhead is set by the family.
    #[must_use]
    pub fn path_with(mut self, up: LinkConfig, down: LinkConfig) -> Self {
        self.paths.push(PathSetting { up, down, nat_timeout: None });
        self
    }

    /// Adds a NAT before the interface added last; mappings live for `timeout`.
    #[must_use]
    pub fn behind_nat(mut self, timeout: Duration) -> Self {
        if let Some(path) = self.paths.last_mut() {
            path.nat_timeout = Some(timeout);
        }
        self
    }

    /// Sets the number of interfaces of the server, at least one; path `i` leads to interface `i` modulo their number.
    #[must_use]
    pub fn server_interfaces(mut self, number: usize) -> Self {
        self.server_interfaces = number.max(1);
        self
    }

    /// Sets how many of the server's addresses the client knows from the start. Default all.
    #[must_use]
    pub fn known_servers(mut self, number: usize) -> Self {
        self.known_servers = number;
        self
    }

    /// Sets the size of both services' answers to each stream.
    #[must_use]
    pub fn answer(mut self, answer: ByteCount) -> Self {
        self.answer = answer;
        self
    }

    /// Sets the resolution of [`Pair::received`]. Default 10 ms.
    #[must_use]
    pub fn bins(mut self, bin: Duration) -> Self {
        self.bin = bin;
        self
    }

    /// Makes the pair; the machines get a generator each.
    pub fn build<N: Peer>(self, client: impl FnOnce(Rng) -> N, server: impl FnOnce(Rng) -> N) -> Pair<N> {
        let mut world = World::new(self.seed);
        let rng = world.fork_rng();
        let client = world.add_node(client(rng));
        let rng = world.fork_rng();
        let server = world.add_node(server(rng));
        let (start, network) = (world.now(), world.network_mut());
        let servers: Vec<_> = (0..self.server_interfaces)
            .map(|number| {
                let address = self.family.server(number);
                (network.add_interface(server, address), address)
            })
            .collect();
        let mut paths = Vec::new();
        for (number, (setting, far)) in self.paths.iter().zip(servers.iter().cycle()).enumerate() {
            let address = self.family.client(number, 2);
            let interface = network.add_interface(client, address);
            if let Some(timeout) = setting.nat_timeout {
                let config = NatConfig::new(self.family.outer(number)).with_timeout(timeout);
                network.set_nat(interface, Nat::new(config));
            }
            let overhead = self.family.overhead();
            let up = setting.up.clone().with_overhead(overhead);
            let down = setting.down.clone().with_overhead(overhead);
            let (up, down) = network.connect(start, (interface, far.0), up, down);
            paths.push(PathLinks { interface, address, changes: 0, up, down });
        }
        Pair {
            world,
            hosts: [client, server],
            paths,
            servers: servers.iter().map(|(id, address)| address_of(*id, *address, SERVER_PORT)).collect(),
            known_servers: self.known_servers,
            family: self.family,
            reference: Reference::default(),
            received: [client, server].map(|_| Series::new(start, self.bin)),
            messages: [Vec::new(), Vec::new()],
            services: [client, server].map(|host| Service::new(host, self.answer)),
            applications: [Vec::new(), Vec::new()],
            figures: Vec::new(),
        }
    }
}
