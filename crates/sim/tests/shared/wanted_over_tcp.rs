//! A server that sends without end over TCP, to a client that wants a rate.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use manyway_proto::{
    ConnectionConfig, LocalAddress, PathState, PathStatistics, Rate, Rng, StreamId, TargetRate,
};
use manyway_sim::link::LinkConfig;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPeer, Pair, PairBuilder, Side, TcpPeer, TcpPlan};

pub(crate) type TcpPair = Pair<TcpPeer>;

pub(crate) const WANTED: Rate = Rate::from_bits_per_second(800_000);

fn peer(rng: Rng, make: fn(Arc<ConnectionConfig>, Rng) -> EndpointPeer) -> TcpPeer {
    let mut config = ConnectionConfig::default();
    config.path_limit = 31;
    TcpPeer::new(make(Arc::new(config), rng))
}

/// Begins with so many TCP connections.
pub(crate) fn streaming(down: LinkConfig, connections: u8, target: TargetRate) -> TcpPair {
    let up = LinkConfig::new(mbit(6), 40 * MS);
    let builder = PairBuilder::new().seed(5).bins(60 * MINUTE).path_with(up, down);
    let mut pair =
        builder.build(|rng| peer(rng, EndpointPeer::client), |rng| peer(rng, EndpointPeer::server));
    let (links, remote) = (pair.paths()[0], pair.servers()[0].address);
    let local = LocalAddress { interface: links.interface.index, address: (links.address, 0).into() };
    pair.peer(Side::Client)
        .unwrap()
        .set_plan(TcpPlan { pairs: vec![(local, remote)], connections: connections.into() });
    pair.connect(5 * SECOND).unwrap();
    pair.run_for(SECOND).unwrap();
    let host = pair.host(Side::Server);
    pair.start(Side::Server, Box::new(Exchange::new(host, megabytes(1 << 20))));
    pair.run_for(200 * MS).unwrap();
    let now = pair.now();
    let client = pair.peer(Side::Client).unwrap();
    let stream = StreamId::new(Side::Server, 0);
    client.connection().unwrap().set_target_rate(now, stream, Some(target)).unwrap();
    client.set_windows(now);
    pair.run_for(15 * SECOND).unwrap();
    pair
}

/// The paths that carry data.
pub(crate) fn paths(pair: &mut TcpPair) -> Vec<PathStatistics> {
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    let mut paths = connection.statistics().paths;
    paths.retain(|path| path.state == PathState::Active);
    paths
}
