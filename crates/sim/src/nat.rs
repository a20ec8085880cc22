//! Network address translation: many inner addresses behind one outer address, with timeouts and rebinding.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::Instant;

/// The behaviour of a NAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatConfig {
    /// The outer address.
    pub outer: IpAddr,
    /// Lifetime of a mapping after the last packet from inside. Default 30 s, as in cheap home routers; RFC 4787 asks
    /// for two minutes.
    pub timeout: Duration,
    /// Which destinations share a mapping (RFC 4787, section 4.1). Default all.
    pub mapping: Dependence,
    /// The sources that are let in (RFC 4787, section 5). Default only addresses and ports that were sent to.
    pub filtering: Dependence,
}

/// Whether the other end matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependence {
    /// It does not.
    Independent,
    /// Its address and port do ("symmetric NAT" when it is the mapping).
    AddressAndPort,
}

impl NatConfig {
    /// Makes an ordinary home router with this outer address.
    pub const fn new(outer: IpAddr) -> Self {
        Self {
            outer,
            timeout: Duration::from_secs(30),
            mapping: Dependence::Independent,
            filtering: Dependence::AddressAndPort,
        }
    }

    /// Sets the lifetime of a silent mapping.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets which destinations share a mapping.
    #[must_use]
    pub const fn with_mapping(mut self, mapping: Dependence) -> Self {
        self.mapping = mapping;
        self
    }

    /// Sets which sources are let in.
    #[must_use]
    pub const fn with_filtering(mut self, filtering: Dependence) -> Self {
        self.filtering = filtering;
        self
    }
}

/// A NAT.
///
/// ```
/// use manyway_proto::Instant;
/// use manyway_sim::nat::{Nat, NatConfig};
/// let (inner, peer) = ("10.0.0.2:4000".parse().unwrap(), "192.0.2.1:443".parse().unwrap());
/// let mut nat = Nat::new(NatConfig::new("198.51.100.7".parse().unwrap()));
/// let now = Instant::from_nanos(0);
/// let outer = nat.outbound(now, inner, peer);
/// assert_eq!(nat.inbound(now, peer, outer), Some(inner));
/// nat.rebind();
/// assert_eq!(nat.inbound(now, peer, outer), None);
/// assert_ne!(nat.outbound(now, inner, peer), outer);
/// ```
#[derive(Debug)]
pub struct Nat {
    config: NatConfig,
    /// By inner address and, if the mapping depends on it, the other end.
    ports: BTreeMap<(SocketAddr, Option<SocketAddr>), u16>,
    /// By outer port.
    mappings: BTreeMap<u16, Mapping>,
    next_port: u16,
}

#[derive(Debug)]
struct Mapping {
    key: (SocketAddr, Option<SocketAddr>),
    used: Instant,
    /// Destinations, with the time of the last packet.
    peers: BTreeMap<SocketAddr, Instant>,
}

impl Nat {
    /// Makes a NAT without mappings.
    pub fn new(config: NatConfig) -> Self {
        Self { config, ports: BTreeMap::new(), mappings: BTreeMap::new(), next_port: FIRST_PORT }
    }

    /// The behaviour in force.
    pub fn config(&self) -> &NatConfig {
        &self.config
    }

    /// Changes the outer address, as a provider does overnight. Mappings stay.
    pub fn set_outer(&mut self, outer: IpAddr) {
        self.config.outer = outer;
    }

    /// Drops all mappings, as a router does that restarts: the next packet from inside gets another port.
    pub fn rebind(&mut self) {
        self.ports.clear();
        self.mappings.clear();
    }

    /// Translates a packet from inside; returns the outer source address.
    pub fn outbound(&mut self, now: Instant, inner: SocketAddr, peer: SocketAddr) -> SocketAddr {
        let key = match self.config.mapping {
            Dependence::Independent => (inner, None),
            Dependence::AddressAndPort => (inner, Some(peer)),
        };
        let known = self.ports.get(&key).copied().filter(|port| self.is_alive(now, *port));
        let port = match known {
            Some(port) => port,
            None => self.new_mapping(now, key),
        };
        if let Some(mapping) = self.mappings.get_mut(&port) {
            mapping.used = now;
            mapping.peers.insert(peer, now);
        }
        SocketAddr::new(self.config.outer, port)
    }

    /// Translates a packet from outside; returns the inner destination, `None` if it is not let in.
    pub fn inbound(&self, now: Instant, peer: SocketAddr, outer: SocketAddr) -> Option<SocketAddr> {
        if outer.ip() != self.config.outer || !self.is_alive(now, outer.port()) {
            return None;
        }
        let mapping = self.mappings.get(&outer.port())?;
        let is_let_in = match self.config.filtering {
            Dependence::Independent => true,
            Dependence::AddressAndPort => {
                mapping.peers.get(&peer).is_some_and(|last| now - *last < self.config.timeout)
            }
        };
        is_let_in.then_some(mapping.key.0)
    }

    fn is_alive(&self, now: Instant, port: u16) -> bool {
        self.mappings.get(&port).is_some_and(|mapping| now - mapping.used < self.config.timeout)
    }

    /// Assigns ascending ports, so that a rebound mapping gets another one; removes expired ones on the way.
    fn new_mapping(&mut self, now: Instant, key: (SocketAddr, Option<SocketAddr>)) -> u16 {
        let timeout = self.config.timeout;
        self.mappings.retain(|_, mapping| now - mapping.used < timeout);
        let alive = &self.mappings;
        self.ports.retain(|_, port| alive.contains_key(port));
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        // After a full round the oldest owner of the port loses it.
        if let Some(old) = self.mappings.remove(&port) {
            self.ports.remove(&old.key);
        }
        self.ports.insert(key, port);
        self.mappings.insert(port, Mapping { key, used: now, peers: BTreeMap::new() });
        port
    }
}

const FIRST_PORT: u16 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn second(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn router() -> NatConfig {
        NatConfig::new("198.51.100.7".parse().unwrap())
    }

    #[test]
    fn a_mapping_lives_as_long_as_packets_leave_and_no_longer() {
        let mut nat = Nat::new(router());
        let (inner, peer) = (address("10.0.0.2:1"), address("192.0.2.1:443"));
        let outer = nat.outbound(second(0), inner, peer);
        assert_eq!(nat.outbound(second(29), inner, peer), outer);
        assert_eq!(nat.inbound(second(58), peer, outer), Some(inner));
        assert_eq!(nat.inbound(second(59), peer, outer), None);
        assert_ne!(nat.outbound(second(60), inner, peer), outer);
    }

    #[test]
    fn unknown_sources_are_kept_out_unless_filtering_is_independent() {
        let (inner, peer, stranger) =
            (address("10.0.0.2:1"), address("192.0.2.1:443"), address("192.0.2.9:1"));
        for (filtering, result) in
            [(Dependence::AddressAndPort, None), (Dependence::Independent, Some(inner))]
        {
            let mut nat = Nat::new(router().with_filtering(filtering));
            let outer = nat.outbound(second(0), inner, peer);
            assert_eq!(nat.inbound(second(1), stranger, outer), result);
        }
    }

    #[test]
    fn a_symmetric_mapping_has_a_port_for_each_peer() {
        let (inner, a, b) = (address("10.0.0.2:1"), address("192.0.2.1:443"), address("192.0.2.2:443"));
        let mut plain = Nat::new(router());
        assert_eq!(plain.outbound(second(0), inner, a), plain.outbound(second(0), inner, b));
        let mut symmetric = Nat::new(router().with_mapping(Dependence::AddressAndPort));
        assert_ne!(symmetric.outbound(second(0), inner, a), symmetric.outbound(second(0), inner, b));
    }

    #[test]
    fn two_inner_addresses_never_share_a_port() {
        let mut nat = Nat::new(router());
        let peer = address("192.0.2.1:443");
        let mut seen = std::collections::BTreeSet::new();
        for port in 1..2_000 {
            let inner = SocketAddr::new("10.0.0.2".parse().unwrap(), port);
            let outer = nat.outbound(second(0), inner, peer);
            assert!(seen.insert(outer));
            assert_eq!(nat.inbound(second(0), peer, outer), Some(inner));
        }
    }
}
