//! The protocol machine of Manyway.
//!
//! No sockets, no clock, no threads: datagrams, moments and calls go in; datagrams, deadlines and events come out.
#![forbid(unsafe_code)]

mod collections;
mod config;
pub mod congestion;
mod connection;
mod endpoint;
mod error;
mod event;
mod handshake;
pub mod identity;
mod io;
pub mod observe;
mod packet;
mod path;
mod protection;
mod recovery;
mod rng;
pub mod scheduler;
mod stream;
mod time;
mod units;

pub use config::{ConfigError, ConnectionConfig, StreamConfig, StreamConfigError};
pub use connection::{Connection, ConnectionStatistics, PathStatistics};
pub use endpoint::{ClientConfig, ConnectError, ConnectionHandle, Endpoint, EndpointConfig, ServerConfig};
pub use error::{ClosedBy, ConnectionError, Misuse, Violation};
pub use event::{Event, PathEvent};
pub use handshake::{ALPN, HandshakeError, is_authentication_alert};
pub use io::{Ecn, FourTuple, LocalAddress, Transmit};
pub use manyway_wire::{ConnectionId, Initiator, PathId, StreamId};
pub use path::{LocalCandidate, PathReason, PathState, Role};
pub use protection::{KeyLimits, Level};
pub use recovery::RecoveryConfig;
pub use rng::Rng;
pub use stream::{ReadOutcome, StreamEvent, WriteError};
pub use time::Instant;
pub use units::{ByteCount, Rate};
