//! Cross traffic: what other programs send over the same links as a connection under test.
//!
//! A flow has an end on each of two hosts. Bulk over TCP sends all that the congestion control allows, by the same
//! model that carries paths over TCP, with Linux's CUBIC or Reno; UDP sends at a constant rate and heeds nothing.

mod flow;

use manyway_proto::{Ecn, FourTuple, Instant, LocalAddress, Transmit};

pub use flow::{CrossFlow, CrossKind, Part};

use crate::tcp::TcpPeer;
use crate::world::Node;
use flow::End;

/// The port of the first flow, at both ends; each further flow has the next.
const FIRST_PORT: u16 = 20_000;

/// A protocol machine, with TCP below it, on a host that has ends of cross traffic beside it.
///
/// ```
/// use manyway_proto::{Ecn, FourTuple, Instant, LocalAddress, Rate, Rng};
/// use manyway_sim::{CrossFlow, CrossHost, CrossKind, EndpointPeer, Part, TcpPeer, World};
/// use manyway_sim::link::LinkConfig;
/// use std::net::IpAddr;
/// use std::time::Duration;
///
/// let mut world = World::new(1);
/// let peer = || TcpPeer::new(EndpointPeer::client(Default::default(), Rng::from_seed([1; 32])));
/// let hosts = [peer(), peer()].map(|peer| world.add_node(CrossHost::new(peer)));
/// let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
/// let now = world.now();
/// let network = world.network_mut();
/// let near = network.add_interface(hosts[0], addresses[0]);
/// let far = network.add_interface(hosts[1], addresses[1]);
/// let link = LinkConfig::new(Rate::from_bits_per_second(10_000_000), Duration::from_millis(10));
/// network.connect(now, (near, far), link.clone(), link);
///
/// let flow = CrossFlow {
///     kind: CrossKind::Cubic,
///     packet: 1500,
///     start: now,
///     end: now + Duration::from_secs(10),
///     bytes: None,
/// };
/// for (place, part) in [(0, Part::Send), (1, Part::Receive)] {
///     let interface = [near, far][place].index;
///     let local = LocalAddress { interface, address: (addresses[place], 0).into() };
///     let node = world.node_mut(hosts[place]).unwrap();
///     // The first host is the one that connects.
///     node.add(flow, part, local, (place == 0).then_some(addresses[1]));
/// }
/// world.run_until(flow.end)?;
/// let received = world.node(hosts[1]).unwrap().received(0);
/// assert!(received * 8 > 90_000_000, "{received} bytes of 10 Mbit/s");
/// # Ok::<(), manyway_sim::BrokenLaw>(())
/// ```
#[derive(Debug)]
pub struct CrossHost {
    peer: TcpPeer,
    ends: Vec<End>,
}

impl CrossHost {
    /// A host without cross traffic yet.
    pub fn new(peer: TcpPeer) -> Self {
        Self { peer, ends: Vec::new() }
    }

    /// The machine.
    pub fn peer(&mut self) -> &mut TcpPeer {
        &mut self.peer
    }

    /// Adds this host's end of a flow. The numbers of a flow at both hosts must be equal: it follows from the order of
    /// the calls. `peer` is the address of the other host for the end that connects; the other end learns it, as the
    /// server of a client behind a NAT does.
    pub fn add(&mut self, flow: CrossFlow, part: Part, local: LocalAddress, peer: Option<std::net::IpAddr>) {
        let number = u16::try_from(self.ends.len()).unwrap_or(u16::MAX);
        let port = FIRST_PORT.saturating_add(number);
        let address = (local.address.ip(), port).into();
        let remote = peer.map(|peer| (peer, port).into());
        self.ends.push(End::new(flow, part, LocalAddress { address, ..local }, remote));
    }

    /// Bytes of payload that a flow has delivered to this host, in order over TCP; 0 for an unknown flow.
    pub fn received(&self, flow: usize) -> u64 {
        self.ends.get(flow).map_or(0, End::received)
    }

    fn end_at(&mut self, port: u16) -> Option<&mut End> {
        let place = port.checked_sub(FIRST_PORT)?;
        self.ends.get_mut(usize::from(place))
    }
}

impl Node for CrossHost {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        match self.end_at(tuple.local.address.port()) {
            Some(end) => end.on_datagram(now, tuple.remote, datagram),
            None => self.peer.handle_datagram(now, tuple, ecn, datagram),
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        for end in &mut self.ends {
            if let Some(tuple) = end.poll(now, buffer) {
                let length = buffer.len();
                return Some(Transmit { tuple, length, segment: length, ecn: Ecn::NotEct });
            }
        }
        self.peer.poll_transmit(now, buffer)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let ends = self.ends.iter().filter_map(End::deadline).min();
        ends.into_iter().chain(self.peer.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.ends.iter_mut().for_each(|end| end.on_timeout(now));
        self.peer.handle_timeout(now);
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        // For a flow of others a packet that the system refuses is a lost one.
        if self.end_at(local.address.port()).is_none() {
            self.peer.handle_send_error(now, local);
        }
    }
}
