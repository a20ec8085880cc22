//! A deterministic network in virtual time.
//!
//! [`link`] is one direction of a link, usable alone; [`Network`] joins links to hosts with addresses, with
//! [address translators](nat) and [faults](rule).
#![forbid(unsafe_code)]

pub mod link;
pub mod nat;
pub mod rule;

mod clock;
mod network;
mod packet;

pub use clock::Clock;
pub use network::{Arrival, HostId, InterfaceId, LinkId, Network, NetworkCounters, SendError, Transit};
pub use packet::Packet;
