//! The error types, by who is to blame: [`Violation`] the peer, [`Misuse`] the caller,
//! [`ConnectionError`] how a connection ended.

mod connection;
mod misuse;
mod violation;

pub use connection::{ClosedBy, ConnectionError, Undelivered};
pub use misuse::Misuse;
pub use violation::Violation;
