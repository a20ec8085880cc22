//! A competing connection over the links of a pair.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use manyway_proto::{ByteCount, ConnectionConfig, LocalAddress, Rng, StreamId};

use crate::endpoint::{EndpointPair, EndpointPeer};
use crate::ids::{HostId, InterfaceId, LinkId};
use crate::pair::{CLIENT_PORT, Peer, SERVER_PORT};
use crate::traffic::{Read, Streams};

/// A connection over one path between hosts of its own, whose client sends without end.
#[derive(Debug)]
pub struct Rival {
    client: HostId,
    server: HostId,
    stream: Option<StreamId>,
    received: ByteCount,
}

impl Rival {
    /// Joins a pair: to the server through `up`, back through `down`. `number` distinguishes rivals of one pair.
    ///
    /// # Errors
    /// If the client refuses to connect, with its error text.
    pub fn join(
        pair: &mut EndpointPair,
        number: u8,
        config: &ConnectionConfig,
        up: &[LinkId],
        down: &[LinkId],
    ) -> Result<Self, String> {
        let config = Arc::new(config.clone());
        let world = pair.world_mut();
        let seed = |end| Rng::from_seed([number.wrapping_mul(2).wrapping_add(end); 32]);
        let client = world.add_node(EndpointPeer::client(config.clone(), seed(7)));
        let server = world.add_node(EndpointPeer::server(config, seed(8)));
        let (here, there): (IpAddr, IpAddr) = ([10, 9, number, 1].into(), [10, 9, number, 2].into());
        let network = world.network_mut();
        let near = network.add_interface(client, here);
        let far = network.add_interface(server, there);
        network.set_route(near, far, up.to_vec());
        network.set_route(far, near, down.to_vec());
        let local = |interface: InterfaceId, address: IpAddr, port| LocalAddress {
            interface: interface.index,
            address: (address, port).into(),
        };
        let (from, to) = (local(near, here, CLIENT_PORT), local(far, there, SERVER_PORT));
        let now = world.now();
        if let Some(node) = world.node_mut(client) {
            node.connect(now, &[from], &[to.address])?;
        }
        Ok(Self { client, server, stream: None, received: ByteCount::ZERO })
    }

    /// Writes and reads as much as possible; to be called about every millisecond.
    pub fn act(&mut self, pair: &mut EndpointPair) {
        let now = pair.now();
        let world = pair.world_mut();
        let Some(client) = world.node_mut(self.client) else { return };
        client.absorb_events(now);
        if self.stream.is_none() && client.streams().is_some() {
            self.stream = client.open();
        }
        let Some(stream) = self.stream else { return };
        while client.write(stream, Bytes::from_static(&[0; 16_384])) == 16_384 {}
        let Some(server) = world.node_mut(self.server) else { return };
        server.absorb_events(now);
        let _ = server.accept();
        while let Read::Data(data) = server.read(stream, usize::MAX) {
            self.received += ByteCount::of(data.len());
        }
    }

    /// The bytes that have arrived.
    pub fn received(&self) -> ByteCount {
        self.received
    }
}
