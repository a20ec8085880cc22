//! A deterministic network in virtual time, and a driver of protocol machines on it.
//!
//! From small to large, each usable alone:
//!
//! * [`link`]: one direction of a link, for this network as well as for an emulator on real sockets;
//! * [`Network`]: hosts with interfaces and addresses, links between them, [address translators](nat), and
//!   [faults as rules](rule);
//! * [`World`]: hosts with a protocol machine each, one virtual time, [laws](Law) checked after each event;
//! * [`TcpPeer`]: a machine whose paths go over TCP connections too, by a model of TCP over these links;
//! * [`CrossHost`]: a machine on a host with cross traffic of that TCP or of UDP beside it;
//! * [`Pair`]: a client with several interfaces and a server, with [traffic] and the [model](Reference) of what the
//!   applications must see.
//!
//! The first simulation:
//!
//! ```
//! use manyway_proto::{ByteCount, ConnectionConfig, Rate};
//! use manyway_sim::pair::Direction;
//! use manyway_sim::traffic::Exchange;
//! use manyway_sim::{PairBuilder, PairError, Side, endpoint_pair};
//! use std::time::Duration;
//!
//! let rate = Rate::from_bits_per_second(20_000_000);
//! let paths = PairBuilder::new().seed(7).path(rate, Duration::from_millis(10)).path(rate, Duration::from_millis(30));
//! let mut pair = endpoint_pair(paths, &ConnectionConfig::default());
//! pair.connect(Duration::from_secs(1))?;
//! let client = pair.host(Side::Client);
//! pair.start(Side::Client, Box::new(Exchange::new(client, ByteCount(5_000_000))));
//! pair.run_for(Duration::from_millis(500))?;
//! pair.cut(0, Direction::Both);
//! pair.run_until(Duration::from_secs(20), "transferred", |pair| pair.is_quiet())?;
//! assert_eq!(pair.received(Side::Server).total(), ByteCount(5_000_000));
//! println!("longest silence {:?}", pair.received(Side::Server).longest_silence());
//! # Ok::<(), PairError>(())
//! ```
//!
//! Everything random follows from one seed. A violated law names the seed and the time.
#![forbid(unsafe_code)]

pub mod forger;
pub mod link;
pub mod nat;
pub mod nightly;
pub mod pair;
pub mod rule;
pub mod scenario;
pub mod skipped;
pub mod traffic;

mod checked;
mod clock;
mod cross;
mod crowd;
mod delivery;
mod endpoint;
mod ids;
mod invariants;
mod network;
mod packet;
mod record;
mod reference;
mod rival;
mod stripe;
mod tcp;
mod world;

pub use clock::Clock;
pub use cross::{CrossFlow, CrossHost, CrossKind, Part};
pub use crowd::Crowd;
pub use delivery::DeliveryWatch;
pub use endpoint::{
    EndpointPair, EndpointPeer, client_identity, endpoint_pair, endpoint_pair_with, mmsp1_pair,
    server_identity,
};
pub use ids::{HostId, InterfaceId, LinkId, RouteId};
pub use invariants::{BrokenLaw, Law, Laws, Limits, PathFigures};
pub use network::{Arrival, Network, NetworkCounters, Passed, SendError, Sizes, Transit};
pub use packet::Packet;
pub use pair::{CLIENT_PORT, Pair, PairBuilder, PairError, Peer, SERVER_PORT, Side};
pub use record::{Entry, Record, Series, What};
pub use reference::{Half, Pattern, ReaderState, Reference, WriterState};
pub use rival::Rival;
pub use stripe::Stripe;
pub use tcp::{TCP_SERVER_PORT, TcpCongestion, TcpPeer, TcpPlan};
pub use world::{Node, Step, World};
