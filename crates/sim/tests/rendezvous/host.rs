//! A network with two ends and a rendezvous server.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use manyway_proto::{
    ConnectionConfig, ConnectionError, Ecn, FourTuple, Instant, LocalAddress, Relay, RelayLimits, Transmit,
};
use manyway_sim::link::LinkConfig;
use manyway_sim::scenario::{MS, SECOND, mbit};
use manyway_sim::traffic::Streams;
use manyway_sim::{
    EndpointPeer, HostId, InterfaceId, Node, Pair, PairBuilder, PathFigures, Peer, SERVER_PORT, Side,
};

/// The address of the rendezvous server.
pub(crate) const RELAY: &str = "198.51.100.1:4455";

/// The address of the server, until it moves.
pub(crate) const SERVER: &str = "172.16.0.1:4433";

/// The machine of a host.
#[derive(Debug)]
pub(crate) enum Host {
    End(Box<EndpointPeer>),
    Relay { relay: Box<Relay>, answers: VecDeque<(FourTuple, Vec<u8>)> },
}

impl Host {
    pub(crate) fn end(&mut self) -> Option<&mut EndpointPeer> {
        match self {
            Self::End(end) => Some(end),
            Self::Relay { .. } => None,
        }
    }
}

impl Node for Host {
    fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        match self {
            Self::End(end) => end.handle_datagram(now, tuple, ecn, datagram),
            Self::Relay { relay, answers } => {
                let mut answer = Vec::new();
                if relay.handle_datagram(now, tuple, datagram, &mut answer) {
                    answers.push_back((tuple, answer));
                }
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        match self {
            Self::End(end) => end.poll_transmit(now, buffer),
            Self::Relay { answers, .. } => {
                let (tuple, answer) = answers.pop_front()?;
                buffer.extend_from_slice(&answer);
                Some(Transmit { tuple, length: answer.len(), segment: answer.len(), ecn: Ecn::NotEct })
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.end()?.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(end) = self.end() {
            end.handle_timeout(now);
        }
    }

    fn handle_send_error(&mut self, now: Instant, local: LocalAddress) {
        if let Some(end) = self.end() {
            end.handle_send_error(now, local);
        }
    }
}

impl Peer for Host {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        self.end().ok_or("a relay does not connect")?.connect(now, locals, remotes)
    }

    fn absorb_events(&mut self, now: Instant) {
        if let Some(end) = self.end() {
            end.absorb_events(now);
        }
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        self.end()?.streams()
    }

    fn ended(&self) -> Option<&ConnectionError> {
        match self {
            Self::End(end) => end.ended(),
            Self::Relay { .. } => None,
        }
    }

    fn figures(&self, now: Instant, out: &mut Vec<PathFigures>) {
        if let Self::End(end) = self {
            end.figures(now, out);
        }
    }

    fn set_addresses(&mut self, now: Instant, locals: &[LocalAddress]) {
        if let Some(end) = self.end() {
            end.set_addresses(now, locals);
        }
    }
}

/// The two ends, and the rendezvous server.
pub(crate) struct Scene {
    pub(crate) pair: Pair<Host>,
    pub(crate) relay: HostId,
    /// Of the client and of the server.
    pub(crate) interfaces: [InterfaceId; 2],
    moves: u8,
}

impl Scene {
    /// A connection of 20 Mbit/s and 20 ms; the server announces the rendezvous servers to its client.
    pub(crate) fn connected(rendezvous: &[&str]) -> Self {
        let mut client = ConnectionConfig::default();
        // So that it survives minutes without data.
        client.keep_alive = Some(10 * SECOND);
        let mut server = ConnectionConfig::default();
        server.rendezvous = rendezvous.iter().map(|address| address.parse().unwrap()).collect();
        let builder = PairBuilder::new().seed(11).path(mbit(20), 10 * MS);
        let mut pair = builder.build(
            |rng| Host::End(Box::new(EndpointPeer::client(Arc::new(client), rng))),
            |rng| Host::End(Box::new(EndpointPeer::server(Arc::new(server), rng))),
        );
        let mut rng = pair.world_mut().fork_rng();
        let relay = Box::new(Relay::new(RelayLimits::default(), &mut rng));
        let relay = pair.world_mut().add_node(Host::Relay { relay, answers: VecDeque::new() });
        let (now, hosts) = (pair.now(), [pair.host(Side::Client), pair.host(Side::Server)]);
        let network = pair.world_mut().network_mut();
        let address: SocketAddr = RELAY.parse().unwrap();
        let far = network.add_interface(relay, address.ip());
        let interfaces = hosts.map(|host| network.addresses(host)[0].0);
        for near in interfaces {
            let link = LinkConfig::new(mbit(20), 15 * MS).with_overhead(LinkConfig::IPV4_UDP);
            network.connect(now, (near, far), link.clone(), link);
        }
        pair.connect(SECOND).unwrap();
        Self { pair, relay, interfaces, moves: 0 }
    }

    /// The relay itself.
    pub(crate) fn relay(&mut self) -> &mut Relay {
        match self.pair.world_mut().node_mut(self.relay) {
            Some(Host::Relay { relay, .. }) => relay,
            Some(Host::End(_)) | None => panic!("the third host is the relay"),
        }
    }

    /// Changes the server's address; its system reports it.
    pub(crate) fn move_server(&mut self) {
        self.moves += 1;
        let (host, id, now) = (self.pair.host(Side::Server), self.interfaces[1], self.pair.now());
        let network = self.pair.world_mut().network_mut();
        let old = network.addresses(host)[0].1;
        let new: IpAddr = [172, 16, 1, self.moves].into();
        network.remove_address(id, old);
        network.add_address(id, new);
        let address = SocketAddr::new(new, SERVER_PORT);
        let Some(server) = self.pair.peer(Side::Server).and_then(Host::end) else { return };
        server.set_addresses(now, &[LocalAddress { interface: id.index, address }]);
        if let Some(connection) = server.connection() {
            connection.set_advertised_addresses(&[address]);
        }
    }

    /// Gives the server one more address, which it advertises.
    pub(crate) fn add_server_address(&mut self, address: SocketAddr) {
        let (id, now) = (self.interfaces[1], self.pair.now());
        let known: SocketAddr = SERVER.parse().unwrap();
        self.pair.world_mut().network_mut().add_address(id, address.ip());
        let locals = [known, address].map(|address| LocalAddress { interface: id.index, address });
        let Some(server) = self.pair.peer(Side::Server).and_then(Host::end) else { return };
        server.set_addresses(now, &locals);
        if let Some(connection) = server.connection() {
            connection.set_advertised_addresses(&[address]);
        }
    }

    /// Gives both ends new addresses at the same moment.
    pub(crate) fn move_both(&mut self) {
        self.move_server();
        self.pair.change_address(0);
    }
}
