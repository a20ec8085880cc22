//! A wire of the simplest kind, which shows that the engine needs no more of one, and that the border stays.
//!
//! Packets are not sealed and their numbers stand in the open; there is no handshake, no id and no credit. One row of
//! bytes goes in each direction, and only counters of it are kept: each byte follows from its offset. A path is told to
//! the peer by nothing but packets on it, and its death by nothing at all.

mod connection;
mod row;
mod wire;

pub use connection::ToyConnection;
pub(crate) use wire::Toy;
