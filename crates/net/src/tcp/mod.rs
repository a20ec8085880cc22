//! TCP connections as carriers of paths: streams of records (spec 4.24), and what the system knows of them.
//!
//! Everything here must be called within a tokio runtime with I/O enabled.

mod connect;
mod figures;
mod listener;
mod pipe;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod via;
mod window;

pub use connect::connect_tcp;
pub(crate) use connect::{CONNECT_TIMEOUT, Settings, connect};
pub(crate) use listener::{Accepted, Listener};
pub(crate) use stream::RecordStream;
pub(crate) use tls::{Camouflage, handshake};
pub use via::Proxy;
