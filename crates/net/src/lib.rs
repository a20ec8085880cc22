//! One connection over all your networks.
//!
//! [`Endpoint`] connects to a server over every interface that leads to it and adds up what they carry; when one of
//! them fails, the connection goes on over the others, and takes it back when it returns. Everything is encrypted.
//! A [`Connection`] has any number of streams, each an [`AsyncWrite`](tokio::io::AsyncWrite) and an
//! [`AsyncRead`](tokio::io::AsyncRead).

mod clock;
mod connection;
mod driver;
mod endpoint;
mod error;
mod stream;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod test_namespace;
mod ticket;

pub mod interfaces;
pub mod resolve;
pub mod udp;

pub use clock::Clock;
pub use connection::{Connection, ConnectionInfo, PathInfo};
pub use endpoint::{Endpoint, EndpointOptions, Locals, ServerOptions, reachable_addresses};
pub use error::{BindFailure, ConnectError, ReadError, WriteError};
pub use manyway_proto::identity::{AuthorisedKeys, Authoriser, Identity, PublicKey};
pub use manyway_proto::{
    ByteCount, ClosedBy, ConfigError, ConnectionConfig, ConnectionError, ConnectionStatistics, Event,
    FourTuple, LocalAddress, PathEvent, PathId, PathReason, PathState, PathStatistics, Rate, Role,
    StreamConfig, StreamId, congestion, scheduler,
};
pub use stream::{ReceiveStream, SendStream};
pub use ticket::{Host, HostName, HostPort, HostPortError, Ticket, TicketError};

/// The port of a server, for UDP and TCP, where none is named.
pub const DEFAULT_PORT: u16 = 4455;
