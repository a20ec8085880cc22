//! The possible attacks, each with its bound in bytes and packets.
//!
//! * [`strangers`]: a sender without keys, perhaps with a forged address;
//! * [`network`]: an attacker on the path, or one that copies packets;
//! * [`replay`]: an attacker that recorded a connection;
//! * [`unreachable`]: an attacker that forges ICMP errors;
//! * the others: a peer with all keys that violates the protocol.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

mod addresses;
mod close;
mod exhaustion;
mod liars;
mod network;
mod replay;
mod set_up;
mod strangers;
mod unreachable;
