//! Packets: building them, recording their content, and acknowledging them.

pub(crate) mod ack_policy;
pub(crate) mod builder;
pub(crate) mod built;
pub(crate) mod content;
pub(crate) mod received;
