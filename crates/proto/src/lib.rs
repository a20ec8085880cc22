//! The protocol machine of Manyway.
//!
//! No sockets, no clock, no threads: datagrams, moments and calls go in; datagrams, deadlines and events come out.
#![forbid(unsafe_code)]

#[cfg_attr(not(test), expect(dead_code, reason = "the connection that uses it comes later"))]
mod collections;
pub mod congestion;
mod error;
mod io;
mod packet;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the connection that uses it comes later"))]
mod recovery;
mod rng;
mod time;
mod units;

pub use error::{ClosedBy, ConnectionError, Misuse, Violation};
pub use io::{Ecn, FourTuple, LocalAddress, Transmit};
pub use manyway_wire::{ConnectionId, Initiator, PathId, StreamId};
pub use recovery::RecoveryConfig;
pub use rng::Rng;
pub use time::Instant;
pub use units::{ByteCount, Rate};
