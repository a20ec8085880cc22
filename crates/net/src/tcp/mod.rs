//! TCP connections as carriers of paths: streams of records (spec 4.24), and what the system knows of them.
//!
//! Everything here must be called within a tokio runtime with I/O enabled.

mod connect;
mod figures;
mod listener;
mod stream;
#[cfg(test)]
mod tests;
mod via;
mod window;

pub(crate) use connect::{Settings, connect};
pub(crate) use listener::Listener;
pub(crate) use stream::RecordStream;
pub use via::Proxy;
