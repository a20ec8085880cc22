//! The protocol machine of Manyway.
//!
//! No sockets, no clock, no threads: datagrams, moments and calls go in; datagrams, deadlines and events come out.
#![forbid(unsafe_code)]

mod endpoint;
mod error;
mod handshake;
mod io;
mod packet;
mod protection;
mod rng;
mod time;
mod units;

pub use error::{ClosedBy, ConnectionError, Misuse, Violation};
pub use handshake::{ALPN, HandshakeError, is_authentication_alert};
pub use io::{Ecn, FourTuple, LocalAddress, Transmit};
pub use manyway_wire::{ConnectionId, Initiator, PathId, StreamId};
pub use protection::{KeyLimits, Level};
pub use rng::Rng;
pub use time::Instant;
pub use units::{ByteCount, Rate};
