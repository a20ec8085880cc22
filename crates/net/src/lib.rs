//! Manyway.

mod clock;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod test_namespace;
mod ticket;

pub mod interfaces;
pub mod resolve;
pub mod udp;

pub use clock::Clock;
pub use ticket::{Host, HostName, HostPort, HostPortError, Ticket, TicketError};

/// The port of a server, for UDP and TCP, where none is named.
pub const DEFAULT_PORT: u16 = 4455;
