//! Counts the traffic of a socket as networks do: with IP and UDP headers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use manyway_proto::FourTuple;

const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// Above this number of address pairs with a known arrival interface, unused ones are dropped; or above twice those in
/// use, if that is more.
const MOST_PAIRS: usize = 16_384;

/// The key under which traffic is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    /// Index of the interface; 0 if only the addresses identify it.
    pub(super) interface: u32,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
}

/// Bytes in both directions since the last call of `take`, if counting is on; and the interfaces on which datagrams
/// arrived.
///
/// A server's socket serves all interfaces. Its packets are assumed to leave where the peer's datagrams arrive.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    is_wanted: bool,
    bytes: BTreeMap<Way, u64>,
    /// The latest arrival interface of each address pair whose local address belongs to no known interface.
    arrivals: BTreeMap<FourTuple, u32>,
    last_arrival: Option<(FourTuple, u32)>,
    /// Number of pairs in use, over all sockets, at the last clean-up.
    used: usize,
}

impl Traffic {
    pub(super) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, ..Self::default() }
    }

    /// Counts a payload that arrived in datagrams of `segment` bytes, and its arrival interface if the system reports
    /// it.
    pub(super) fn on_received(
        &mut self,
        tuple: &FourTuple,
        (payload, segment): (usize, usize),
        interface: Option<u32>,
    ) {
        if let Some(interface) = interface.filter(|_| tuple.local.interface == 0) {
            self.note_arrival(tuple, interface);
        }
        if self.is_wanted {
            self.add(tuple, payload, segment);
        }
    }

    fn note_arrival(&mut self, tuple: &FourTuple, interface: u32) {
        // Most datagrams resemble the one before, and need no search.
        if self.last_arrival == Some((*tuple, interface)) {
            return;
        }
        self.last_arrival = Some((*tuple, interface));
        self.arrivals.insert(*tuple, interface);
    }

    /// Whether so many pairs are known that unused ones have to be dropped: anyone can send from any address.
    pub(super) fn is_crowded(&self) -> bool {
        self.arrivals.len() >= MOST_PAIRS.max(self.used * 2)
    }

    /// Drops the arrival interfaces of all other pairs than these.
    pub(super) fn keep(&mut self, used: &BTreeSet<FourTuple>) {
        self.arrivals.retain(|tuple, _| used.contains(tuple));
        self.last_arrival = None;
        self.used = used.len();
    }

    /// Counts a payload that was sent in datagrams of `segment` bytes.
    pub(super) fn on_sent(&mut self, tuple: &FourTuple, payload: usize, segment: usize) {
        if self.is_wanted && payload > 0 {
            self.add(tuple, payload, segment);
        }
    }

    /// Index of the interface that carries packets of this address pair; 0 if unknown.
    pub(super) fn interface(&self, tuple: &FourTuple) -> u32 {
        match tuple.local.interface {
            0 => self.arrivals.get(tuple).copied().unwrap_or(0),
            bound => bound,
        }
    }

    /// Whether one of these interfaces carries packets of this address pair.
    pub(super) fn is_over(&self, tuple: &FourTuple, interfaces: &[u32]) -> bool {
        !interfaces.is_empty() && interfaces.contains(&self.interface(tuple))
    }

    pub(super) fn take(&mut self) -> BTreeMap<Way, u64> {
        std::mem::take(&mut self.bytes)
    }

    fn add(&mut self, tuple: &FourTuple, payload: usize, segment: usize) {
        let (local, remote) = (tuple.local.address.ip().to_canonical(), tuple.remote.ip().to_canonical());
        let header = UDP_HEADER + if remote.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        let size = payload + payload.div_ceil(segment.max(1)) * header;
        let way = Way { interface: self.interface(tuple), local, remote };
        *self.bytes.entry(way).or_default() += size as u64;
    }
}

#[cfg(test)]
mod tests {
    use manyway_proto::LocalAddress;

    use super::*;

    fn tuple(interface: u32, local: &str, remote: &str) -> FourTuple {
        FourTuple::udp(LocalAddress { interface, address: local.parse().unwrap() }, remote.parse().unwrap())
    }

    fn taken(traffic: &mut Traffic) -> Vec<(u32, u64)> {
        traffic.take().into_iter().map(|(way, bytes)| (way.interface, bytes)).collect()
    }

    #[test]
    fn each_datagram_counts_with_the_headers_of_its_family() {
        let (v4, v6) = (tuple(3, "10.0.0.1:1", "10.0.0.2:2"), tuple(4, "[fd00::1]:1", "[fd00::2]:2"));
        let mut traffic = Traffic::new(true);
        traffic.on_sent(&v4, 2500, 1000);
        traffic.on_sent(&v4, 0, 1000);
        traffic.on_received(&v6, (100, 100), None);
        assert_eq!(taken(&mut traffic), [(3, 2500 + 3 * 28), (4, 100 + 48)]);
        assert_eq!(taken(&mut traffic), []);
        let mut unwanted = Traffic::default();
        unwanted.on_sent(&v4, 100, 100);
        unwanted.on_received(&v4, (100, 100), Some(7));
        assert!(taken(&mut unwanted).is_empty() && unwanted.arrivals.is_empty());
    }

    #[test]
    fn a_server_answers_over_the_interface_of_the_request() {
        let (requester, other) = (tuple(0, "10.0.0.1:1", "10.0.0.2:2"), tuple(0, "10.0.0.1:1", "10.0.0.3:2"));
        let mut traffic = Traffic::new(true);
        traffic.on_received(&requester, (100, 100), Some(7));
        traffic.on_sent(&requester, 100, 100);
        traffic.on_sent(&other, 100, 100);
        assert_eq!((traffic.interface(&requester), traffic.interface(&other)), (7, 0));
        assert_eq!(taken(&mut traffic), [(0, 128), (7, 256)]);
    }

    #[test]
    fn unknown_senders_do_not_displace_the_pairs_in_use() {
        let from = |port: usize| tuple(0, "10.0.0.1:1", &format!("10.0.0.2:{port}"));
        let mut traffic = Traffic::default();
        let mut used = BTreeSet::from([from(9)]);
        for (count, crowd) in [(1, MOST_PAIRS), (10_000, MOST_PAIRS), (10_000, 20_000)] {
            used.extend((1..=count).map(from));
            for port in 1..=crowd {
                assert!(!traffic.is_crowded(), "{port}");
                traffic.on_received(&from(port), (1, 1), Some(7));
            }
            assert!(traffic.is_crowded(), "{crowd}");
            traffic.keep(&used);
            assert_eq!((traffic.interface(&from(9)), traffic.interface(&from(16_000))), (7, 0));
        }
    }
}
