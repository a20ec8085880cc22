//! The error types, by origin: [`Violation`] for the peer, [`Misuse`] for the caller, [`ConnectionError`] for the end
//! of a connection.

mod connection;
mod misuse;
mod violation;

pub use connection::{ClosedBy, ConnectionError, Undelivered};
pub use misuse::Misuse;
pub use violation::Violation;
