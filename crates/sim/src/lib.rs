//! A deterministic network in virtual time, and a driver of protocol machines on it.
//!
//! From small to large, each usable alone:
//!
//! * [`link`]: one direction of a link, for this network as well as for an emulator on real sockets;
//! * [`Network`]: hosts with interfaces and addresses, links between them, [address translators](nat), and
//!   [faults as rules](rule);
//! * [`World`]: hosts with a protocol machine each, one virtual time, [laws](Law) checked after each event;
//! * [`Pair`]: a client with several interfaces and a server, with [traffic] and the [model](Reference) of what the
//!   applications must see.
//!
//! Everything random follows from one seed. A broken law names the seed and the moment.
#![forbid(unsafe_code)]

pub mod link;
pub mod nat;
pub mod pair;
pub mod rule;
pub mod traffic;

mod clock;
mod endpoint;
mod invariants;
mod network;
mod packet;
mod record;
mod reference;
mod world;

pub use clock::Clock;
pub use endpoint::{EndpointPair, EndpointPeer, endpoint_pair};
pub use invariants::{BrokenLaw, Law, Laws, Limits, PathFigures};
pub use network::{Arrival, HostId, InterfaceId, LinkId, Network, NetworkCounters, SendError, Transit};
pub use packet::Packet;
pub use pair::{Pair, PairBuilder, Peer, Side};
pub use record::{Entry, Record, Series, What};
pub use reference::{Half, Pattern, ReaderState, Reference, WriterState};
pub use world::{Node, Step, World};
