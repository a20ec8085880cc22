//! What is kept of packets: the content of sent ones, the numbers of received ones with the replay window, when to
//! acknowledge, and the encryption level that observers are told.

pub(crate) mod ack_policy;
pub(crate) mod built;
pub(crate) mod content;
pub(crate) mod encryption_level;
pub(crate) mod received;
pub(crate) mod replay;
