//! The error types, by origin: [`Violation`] for the peer, [`Misuse`] for the caller, [`ConnectionError`] for the end
//! of a connection.

mod connection;
mod misuse;
mod violation;

pub(crate) use connection::text_of_peer;
pub use connection::{ClosedBy, ConnectionError, Undelivered};
pub use misuse::Misuse;
pub use violation::Violation;
