//! What attackers can do, each with its bound in bytes and packets.
//!
//! * [`strangers`]: who has no keys, and perhaps a false address;
//! * [`network`]: who sits between the ends, or copies what passes;
//! * [`replay`]: who recorded a connection;
//! * [`unreachable`]: who says that packets are not delivered;
//! * the others: a peer with all keys that keeps to no rule.
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
