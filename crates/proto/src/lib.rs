//! The protocol machine of Manyway.
//!
//! No sockets, no clock, no threads: datagrams, moments and calls go in; datagrams, deadlines and events come out.
#![forbid(unsafe_code)]

mod collections;
mod config;
mod error;
mod io;
mod packet;
mod rng;
mod stream;
mod time;
mod units;

pub use config::{StreamConfig, StreamConfigError};
pub use error::{ClosedBy, ConnectionError, Misuse, Violation};
pub use io::{Ecn, FourTuple, LocalAddress, Transmit};
pub use manyway_wire::{ConnectionId, Initiator, PathId, StreamId};
pub use rng::Rng;
pub use stream::{ReadOutcome, StreamEvent, WriteError};
pub use time::Instant;
pub use units::{ByteCount, Rate};
