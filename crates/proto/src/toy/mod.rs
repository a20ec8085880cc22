//! A minimal wire, which shows that the engine needs no more of one, and that the boundary holds.
//!
//! Packets are not sealed, and their numbers are in the clear; there is no handshake, no connection ID and no credit.
//! One sequence of bytes goes in each direction, and the wire keeps only counters of it: each byte is computed from
//! its offset. The peer learns of a path only from packets on it, and never learns of its death.

mod connection;
mod row;
mod wire;

pub use connection::ToyConnection;
pub(crate) use wire::Toy;
