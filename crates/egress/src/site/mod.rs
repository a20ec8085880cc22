//! Whole IP packets between sites: each client joins a network of the server with an address of its own, and both ends may
//! announce networks behind them.
//!
//! The server's end is a [`Hub`], the client's [`join`]s. Neither knows where packets come from: a [`Port`] takes those
//! that arrive.
// egress 11

mod assignment;
mod config;
mod filter;
mod header;
mod hub;
mod join;
mod joining;
mod networks;
mod pool;
mod stream;
mod table;

pub use assignment::Assignment;
pub use config::{HubConfig, HubError};
pub use filter::{Filter, Tally, Verdict};
pub use header::Header;
pub use hub::{Hub, Member, SiteLog};
pub use join::{Joined, join};
pub use joining::Joining;
#[cfg(test)]
pub(crate) use joining::tests::joining as any_joining;
pub use stream::{PacketReceiver, PacketSender};

/// Takes the packets that arrive from the other end.
pub trait Port: Send + Sync {
    /// Takes a packet; returns whether there was room for it. It must not wait; what is not taken is lost, as on any
    /// network.
    fn put(&self, packet: &[u8]) -> bool;
}
