//! The peer's addresses, the path that each PROBE of the peer belongs to, and the echoes that answer them (spec 3.38,
//! 3.39, 3.81).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use manyway_wire::PathId;
use manyway_wire::mmsp1::ProbeData;
use ring::hmac;

use crate::{FourTuple, Instant, Rng};

/// PROBEs of the peer that wait for their answers: one for each pair of addresses that a path tries, and for each path.
const MOST_ECHOES: usize = 64;
/// Address pairs of PROBEs whose path numbers are remembered.
const MOST_SEEN: usize = 64;
/// Addresses of the peer that are kept: as many as SYN can name in one packet.
const MOST_ADDRESSES: usize = 256;

/// What a connection knows of addresses beside its paths.
pub(crate) struct PeerAddresses {
    /// The addresses of the peer. They do not change.
    peer: Vec<IpAddr>,
    /// This end's path for each number that the peer gave to one.
    paths: BTreeMap<u16, PathId>,
    /// The path number in the last PROBE between these addresses.
    seen: VecDeque<(FourTuple, u16)>,
    echoes: VecDeque<ProbeData>,
    /// Makes the MACs of this end's PROBEs.
    key: hmac::Key,
}

impl PeerAddresses {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut key = [0; 32];
        rng.fill(&mut key);
        Self {
            peer: Vec::new(),
            paths: BTreeMap::new(),
            seen: VecDeque::new(),
            echoes: VecDeque::new(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        }
    }

    /// Sets the addresses of the peer: that from which its packet came, and those that it names. Addresses that no host
    /// has are left out (spec 3.109).
    pub(crate) fn set_peer(&mut self, source: IpAddr, named: impl Iterator<Item = IpAddr>) {
        self.peer = vec![source.to_canonical()];
        for address in named.map(|address| address.to_canonical()).take(MOST_ADDRESSES) {
            if is_of_a_host(address, source) && !self.peer.contains(&address) {
                self.peer.push(address);
            }
        }
    }

    /// The addresses of the peer beside the one of the handshake.
    pub(crate) fn further_addresses(&self) -> impl Iterator<Item = IpAddr> + use<'_> {
        self.peer.iter().skip(1).copied()
    }

    /// Whether an address belongs to the peer.
    pub(crate) fn is_peer(&self, address: IpAddr) -> bool {
        self.peer.contains(&address.to_canonical())
    }

    /// The path of the number that the peer gave to its path.
    pub(crate) fn path_of(&self, number: u16) -> Option<PathId> {
        self.paths.get(&number).copied()
    }

    /// The path that the last PROBE between these addresses named.
    pub(crate) fn seen_between(&self, tuple: &FourTuple) -> Option<PathId> {
        let (_, number) = self.seen.iter().find(|(seen, _)| seen == tuple)?;
        self.path_of(*number)
    }

    /// The peer's number for a path is known; a path has one.
    pub(crate) fn set_path(&mut self, number: u16, path: PathId) {
        self.forget(path);
        self.paths.insert(number, path);
    }

    /// A path is closed.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.paths.retain(|_, known| *known != path);
    }

    /// Remembers a PROBE of the peer until it is answered.
    pub(crate) fn on_probe(&mut self, tuple: FourTuple, probe: ProbeData) {
        self.seen.retain(|(seen, _)| *seen != tuple);
        push_bounded(&mut self.seen, (tuple, probe.path), MOST_SEEN);
        push_bounded(&mut self.echoes, probe, MOST_ECHOES);
    }

    /// The PROBE with this nonce, which is answered now.
    pub(crate) fn take_echo(&mut self, nonce: u64) -> Option<ProbeData> {
        let at = self.echoes.iter().rposition(|probe| probe.nonce == nonce)?;
        self.echoes.remove(at)
    }

    /// What this end says in a PROBE to `address`, or for itself at `address` in a PROBE-ACK.
    pub(crate) fn probe_data(&self, now: Instant, path: PathId, address: IpAddr, nonce: u64) -> ProbeData {
        let path = u16::try_from(path.0).unwrap_or(u16::MAX);
        let data = ProbeData { sent_micros: now.as_nanos() / 1000, path, address, nonce, mac: 0 };
        ProbeData { mac: self.mac_of(&data), ..data }
    }

    /// Whether an echo is that of a PROBE of this end.
    pub(crate) fn is_own(&self, echo: &ProbeData) -> bool {
        self.mac_of(echo) == echo.mac
    }

    fn mac_of(&self, data: &ProbeData) -> u64 {
        let bytes = data.to_bytes();
        let tag = hmac::sign(&self.key, bytes.get(..ProbeData::COVERED).unwrap_or_default());
        tag.as_ref().first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    /// Frees unused memory.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.echoes.clear();
        self.echoes.shrink_to_fit();
        self.seen.shrink_to_fit();
    }
}

impl fmt::Debug for PeerAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerAddresses")
            .field("peer", &self.peer)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Whether a host may have an address that a packet from `source` names.
fn is_of_a_host(address: IpAddr, source: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_own = address.is_loopback() && !source.to_canonical().is_loopback();
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast && !is_own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalAddress;

    fn peer_addresses() -> PeerAddresses {
        PeerAddresses::new(&mut Rng::from_seed([3; 32]))
    }

    fn tuple(port: u16) -> FourTuple {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:7".parse().unwrap() };
        FourTuple::udp(local, ([10, 0, 0, 2], port).into())
    }

    #[test]
    fn addresses_that_no_host_has_are_not_the_peers() {
        let mut peer_addresses = peer_addresses();
        let named = ["0.0.0.0", "224.0.0.1", "255.255.255.255", "127.0.0.1", "::1", "10.0.1.2", "fe80::2"];
        let named = named.iter().map(|address| address.parse().unwrap());
        peer_addresses.set_peer("10.0.0.2".parse().unwrap(), named);
        let further: Vec<_> = peer_addresses.further_addresses().map(|address| address.to_string()).collect();
        assert_eq!(further, ["10.0.1.2", "fe80::2"]);
        assert!(peer_addresses.is_peer("::ffff:10.0.0.2".parse().unwrap()));
        assert!(!peer_addresses.is_peer("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn an_echo_is_taken_for_its_own_only_if_every_bit_is() {
        let peer_addresses = peer_addresses();
        let now = Instant::from_nanos(5_000_000);
        let data = peer_addresses.probe_data(now, PathId(3), "10.0.0.2".parse().unwrap(), 99);
        assert_eq!((data.sent_micros, data.path), (5_000, 3));
        assert!(peer_addresses.is_own(&data));
        for wrong in [
            ProbeData { nonce: 98, ..data },
            ProbeData { path: 4, ..data },
            ProbeData { sent_micros: 5_001, ..data },
            ProbeData { mac: data.mac ^ 1, ..data },
            ProbeData { address: "10.0.0.3".parse().unwrap(), ..data },
        ] {
            assert!(!peer_addresses.is_own(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn probes_that_wait_for_answers_are_bounded_and_answered_once() {
        let mut peer_addresses = peer_addresses();
        let probe = |nonce| ProbeData {
            sent_micros: 0,
            path: 2,
            address: "10.0.0.1".parse().unwrap(),
            nonce,
            mac: 0,
        };
        for nonce in 0..1000_u16 {
            peer_addresses.on_probe(tuple(nonce), probe(nonce.into()));
        }
        assert_eq!((peer_addresses.echoes.len(), peer_addresses.seen.len()), (MOST_ECHOES, MOST_SEEN));
        assert_eq!((peer_addresses.take_echo(0), peer_addresses.take_echo(999).is_some()), (None, true));
        assert_eq!(peer_addresses.take_echo(999), None);
        assert_eq!(peer_addresses.seen_between(&tuple(999)), None, "the number belongs to no path");
        peer_addresses.set_path(2, PathId(5));
        assert_eq!(peer_addresses.seen_between(&tuple(999)), Some(PathId(5)));
        peer_addresses.forget(PathId(5));
        assert_eq!(peer_addresses.path_of(2), None);
    }
}
