//! Packets, of every wire: recording their content, and acknowledging them.

pub(crate) mod ack_policy;
pub(crate) mod built;
pub(crate) mod content;
pub(crate) mod encryption_level;
pub(crate) mod received;
pub(crate) mod replay;
