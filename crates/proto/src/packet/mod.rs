//! Packets: building them, remembering what they carried, acknowledging them.

pub(crate) mod ack_policy;
pub(crate) mod builder;
pub(crate) mod content;
pub(crate) mod received;
